"""A folder of pictures: one folder per class, or a flat one with a file that says what each picture is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.errors import InputError
from .dataset import class_names, numbered, read_text
from .files import SUFFIXES, Files


def read(folder: Path, labels: str | None, labelled: bool) -> Files:
    kinds = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if kinds:
        return _by_class(folder, kinds, labels)
    if labels is None and not labelled:
        files = tuple(entry for entry in sorted(folder.iterdir()) if _picture(entry))
        if not files:
            raise InputError(f"{folder} has no picture in it ({', '.join(SUFFIXES)})")
        return Files(folder.name, files, np.zeros(len(files), np.int64), ())
    if labels is None:
        raise InputError(
            f"{folder} has no folder per class, so nothing says what its pictures show",
            "--labels FILE with lines such as: picture.jpg 7",
        )
    return _flat(folder, labels)


def _by_class(folder: Path, kinds: list[Path], labels: str | None) -> Files:
    """Classes are the folders in order of their names, unless `labels` names them in another."""
    classes = class_names(labels) if labels else tuple(kind.name for kind in kinds)
    found = [(picture, kind.name) for kind in kinds for picture in sorted(kind.rglob("*")) if _picture(picture)]
    if not found:
        raise InputError(f"{folder} has {len(kinds)} folders and no picture in them ({', '.join(SUFFIXES)})")
    files, names = zip(*found, strict=True)
    return Files(folder.name, files, numbered(names, classes, str(folder)), classes)


def _flat(folder: Path, labels: str) -> Files:
    lines = [line.split() for line in read_text(labels).splitlines() if line.strip()]
    wrong = next((line for line in lines if len(line) != 2), None)
    if wrong is not None or not lines:
        found = "nothing" if wrong is None else repr(" ".join(wrong))
        raise InputError(f"{labels} has {found}, expected lines of a file and its class: picture.jpg 7")
    files = tuple(folder / name for name, _ in lines)
    for file in files:
        if not file.is_file():
            raise InputError(f"{labels} names {file.name}, which is not in {folder}")
    names = [name for _, name in lines]
    classes = () if all(name.isdigit() for name in names) else tuple(sorted(set(names)))
    return Files(folder.name, files, numbered(names, classes, labels), classes)


def _picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file()
