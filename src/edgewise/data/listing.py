"""A list of pictures: a .csv (or .tsv) of files and classes, the files relative to it."""

from __future__ import annotations

import csv
from pathlib import Path

from ..core.errors import InputError
from .dataset import class_names, numbered, read_text
from .files import Files

_FILE_HEADINGS = ("file", "path", "image", "filename")
_LABEL_HEADINGS = ("label", "class", "target")


def read(path: Path, labels: str | None) -> Files:
    rows = [
        row
        for row in csv.reader(read_text(path).splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")
        if any(cell.strip() for cell in row)
    ]
    if not rows:
        raise InputError(f"{path} is empty; expected lines of a file and its class: picture.jpg,7")
    head = [cell.strip().lower() for cell in rows[0]]
    file_at = next((i for i, cell in enumerate(head) if cell in _FILE_HEADINGS), None)
    label_at = next((i for i, cell in enumerate(head) if cell in _LABEL_HEADINGS), None)
    first = 1
    if file_at is None and label_at is None:
        file_at, label_at, first = 0, 1, 0
    if file_at is None or label_at is None:
        raise InputError(
            f"{path} has the headings {', '.join(head)}; expected one of {', '.join(_FILE_HEADINGS)} and one of "
            f"{', '.join(_LABEL_HEADINGS)}"
        )
    files, names = [], []
    for number, row in enumerate(rows[first:], first + 1):
        if len(row) <= max(file_at, label_at):
            raise InputError(f"line {number} of {path} has {len(row)} cell(s), expected a file and its class")
        file = path.parent / row[file_at].strip()
        if not file.is_file():
            raise InputError(f"line {number} of {path} names {row[file_at].strip()!r}, which is not there")
        files.append(file)
        names.append(row[label_at].strip())
    if not files:
        raise InputError(f"{path} has headings and no pictures")
    if labels:
        classes = class_names(labels)
    else:
        classes = () if all(name.isdigit() for name in names) else tuple(sorted(set(names)))
    return Files(path.name, tuple(files), numbered(names, classes, str(path)), classes)
