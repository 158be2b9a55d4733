"""A list of pictures: a .csv (or .tsv) of files and classes, the files relative to it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from ..core.errors import InputError
from .dataset import class_names, found_classes, numbered, read_text, short
from .files import Files, named

_FILE_HEADINGS = ("file", "path", "image", "filename")
_LABEL_HEADINGS = ("label", "class", "target")
_FORM = "--data LIST.csv with lines such as: picture.jpg,7"


def read(path: Path, labels: str | None) -> Files:
    rows = _rows(path)
    if not rows:
        raise InputError(f"{path} is empty; expected lines of a file and its class", _FORM)
    head = [cell.lower() for cell in rows[0][1]]
    file_at = next((i for i, cell in enumerate(head) if cell in _FILE_HEADINGS), None)
    label_at = next((i for i, cell in enumerate(head) if cell in _LABEL_HEADINGS), None)
    first = 1
    if file_at is None and label_at is None:
        file_at, label_at, first = 0, 1, 0
    if file_at is None or label_at is None:
        raise InputError(
            f"{path} has the headings {short(', '.join(head))}; expected one of {', '.join(_FILE_HEADINGS)} and one of "
            f"{', '.join(_LABEL_HEADINGS)}"
        )
    files, names = [], []
    for number, row in rows[first:]:
        if len(row) <= max(file_at, label_at) or not row[file_at] or not row[label_at]:
            raise InputError(f"line {number} of {path} is {short(row)}, expected a file and its class", _FORM)
        files.append(named(row[file_at], path.parent, f"line {number} of {path}", "files are relative to the list"))
        names.append(row[label_at])
    if not files:
        raise InputError(f"{path} has headings and no pictures", _FORM)
    classes = class_names(labels) if labels else found_classes(names, str(path))
    return Files(path.name, path.parent, tuple(files), numbered(names, classes, str(path)), classes)


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Line numbers and cells, without blank lines."""
    lines = csv.reader(
        io.StringIO(read_text(path), newline=""), delimiter="\t" if path.suffix.lower() == ".tsv" else ","
    )
    try:
        rows = [(lines.line_num, [cell.strip() for cell in row]) for row in lines]
    except csv.Error as error:
        raise InputError(f"line {lines.line_num} of {path} cannot be read: {error}", _FORM) from None
    return [(number, row) for number, row in rows if any(row)]
