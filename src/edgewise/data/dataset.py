"""What labelled images are, wherever they come from."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError

Image = NDArray[np.uint8]  # height, width, 3: red, green, blue


class Dataset(Protocol):
    """`labels` are class numbers, `classes` their names: () where nobody named them. Images are read when asked for."""

    @property
    def label(self) -> str: ...

    @property
    def digest(self) -> str: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def labels(self) -> NDArray[np.int64]: ...

    def image(self, index: int) -> Image: ...


def class_names(path: str) -> tuple[str, ...]:
    """One name per line; the line number, from 0, is the class. Two may share a name: ImageNet has two cranes."""
    names = tuple(line.strip() for line in read_text(path).rstrip().split("\n"))
    if names == ("",):
        raise InputError(f"{path} names no class", "write one name per line, in the order of the model's outputs")
    if "" in names:
        raise InputError(
            f"line {names.index('') + 1} of {path} is blank, and every line is a class",
            "remove it, or name the class that the model has there",
        )
    return names


def read_text(path: str | Path) -> str:
    """Lines end in a bare newline, and the mark that some editors put at the beginning is gone."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8", "save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{short(path)} cannot be read: {error.strerror}") from None


def is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 10


def found_classes(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The classes of a list that comes without their names: sorted, or () where they are numbers already."""
    if all(map(is_number, names)):
        return ()
    if all(map(_is_float, names)):
        wrong = next(name for name in names if not is_number(name))
        # As names they would be sorted as text, 10.0 before 2.0, which nobody means.
        raise InputError(f"{where} has the class {short(wrong)!r}, expected a name, or a whole number from 0 on")
    return tuple(sorted(set(names)))


def numbered(names: Sequence[str], classes: Sequence[str], where: str) -> NDArray[np.int64]:
    """The class number of each name. Where not all are known and all are numbers, they are the class numbers."""
    known = {name: number for number, name in enumerate(classes)}
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        _refuse_twice(set(names), classes, where)
        return np.array([known[name] for name in names], np.int64)
    if not all(map(is_number, names)):
        shown = ", ".join(list(classes)[:5]) + (", …" if len(classes) > 5 else "")
        raise InputError(
            f"{where} has the class {short(unknown)!r}, which is not among the {len(classes)} known: {shown}",
            "--labels FILE with one class name per line, in the order of the model's outputs",
        )
    numbers = np.array([int(name) for name in names], np.int64)
    check_range(numbers, classes, where)
    return numbers


def check_range(numbers: NDArray[np.int64], classes: Sequence[str], where: object) -> None:
    if classes and int(numbers.max()) >= len(classes):
        raise InputError(f"{where} has the class number {numbers.max()}, and only 0 to {len(classes) - 1} have a name")


def _refuse_twice(names: set[str], classes: Sequence[str], where: str) -> None:
    twice = next((name for name, count in Counter(classes).items() if count > 1 and name in names), None)
    if twice is not None:
        raise InputError(
            f"{where} has the class {twice!r}, and {twice!r} is named twice, so its number is not known",
            "give the two classes different names, or use class numbers",
        )


def _is_float(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def short(name: object) -> str:
    """For messages: what should have been a name may be a whole file."""
    text = str(name)
    return text if len(text) <= 120 else text[:120] + "…"


def digest(*parts: object) -> str:
    """Of the parts one by one, each with its kind and length, so that none can be taken for a piece of another."""
    made = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            made.update(f"array {part.dtype.str} {part.shape}:".encode())
            made.update(np.ascontiguousarray(part).data)
        else:
            text = repr(part).encode()
            made.update(f"text {len(text)}:".encode() + text)
    return made.hexdigest()[:16]
