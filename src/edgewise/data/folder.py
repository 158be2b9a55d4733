"""A folder of pictures: one folder per class, or a flat one with a file that says what each picture is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.errors import InputError
from .dataset import class_names, found_classes, is_number, numbered, read_text, short
from .files import SUFFIXES, Files, named

# What systems leave behind: .ipynb_checkpoints, __MACOSX, ._picture.jpg.
_NOT_MEANT = (".", "__")
_SPACES = "put a tab between a file and its class where the class has several words"


def read(folder: Path, labels: str | None, labelled: bool) -> Files:
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith(_NOT_MEANT))
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from None
    kinds = [entry for entry in entries if entry.is_dir()]
    if kinds:
        return _by_class(folder, kinds, labels)
    if labels is None and not labelled:
        files = tuple(entry for entry in entries if _picture(entry))
        if not files:
            raise InputError(f"{folder} has no picture in it ({', '.join(SUFFIXES)})", "--data FOLDER")
        return Files(_label(folder), folder, files, np.zeros(len(files), np.int64), ())
    if labels is None:
        raise InputError(
            f"{folder} has no folder per class, so nothing says what its pictures show",
            "--labels FILE with lines such as: picture.jpg 7",
        )
    return _flat(folder, labels)


def _by_class(folder: Path, kinds: list[Path], labels: str | None) -> Files:
    """Classes are the folders in order of their names, unless `labels` names them in another. Where all names are
    numbers, they are the class numbers: 2 comes before 10, while torchvision's ImageFolder sorts 10 before 2."""
    found = [(picture, kind.name) for kind in kinds for picture in sorted(kind.rglob("*")) if _in_class(picture, kind)]
    if not found:
        raise InputError(
            f"{folder} has {len(kinds)} folders and no picture in them ({', '.join(SUFFIXES)})", "--data FOLDER"
        )
    classes = class_names(labels) if labels else _classes([kind.name for kind in kinds])
    files, names = zip(*found, strict=True)
    return Files(_label(folder), folder, files, numbered(names, classes, str(folder)), classes)


def _classes(kinds: list[str]) -> tuple[str, ...]:
    """A folder without pictures is a class too: leaving it out would number those after it differently."""
    if not all(map(is_number, kinds)):
        return tuple(kinds)
    by_value = sorted(kinds, key=int)
    whole = [int(kind) for kind in by_value] == list(range(len(kinds)))
    return tuple(by_value) if whole else ()


def _flat(folder: Path, labels: str) -> Files:
    """A line is a file and its class, with a tab between them, or else divided at its last space."""
    lines = [line.strip() for line in read_text(labels).split("\n")]
    files, names = [], []
    for number, line in enumerate(lines, 1):
        cells = line.rsplit("\t", 1) if "\t" in line else line.rsplit(None, 1)
        if len(cells) == 1:
            raise InputError(
                f"line {number} of {labels} is {short(line)!r}, expected a file and its class",
                "--labels FILE with lines such as: picture.jpg 7",
            )
        if cells:
            files.append(named(cells[0].strip(), folder, f"line {number} of {labels}", _SPACES))
            names.append(cells[1].strip())
    if not files:
        raise InputError(f"{labels} is empty", "--labels FILE with lines such as: picture.jpg 7")
    classes = found_classes(names, labels)
    return Files(_label(folder), folder, tuple(files), numbered(names, classes, labels), classes)


def _label(folder: Path) -> str:
    return folder.name or folder.resolve().name


def _in_class(path: Path, kind: Path) -> bool:
    return _picture(path) and not any(part.startswith(_NOT_MEANT) for part in path.relative_to(kind).parts)


def _picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file()
