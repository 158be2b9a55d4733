"""What labelled images are, wherever they come from."""

from __future__ import annotations

import hashlib
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
    """One name per line; the line number is the class."""
    names = tuple(line.strip() for line in read_text(path).splitlines() if line.strip())
    if not names:
        raise InputError(f"{path} names no class: expected one per line")
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise InputError(f"{path} names {twice!r} twice, so a class of that name is not one")
    return names


def read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def numbered(names: Sequence[str], classes: Sequence[str], where: str) -> NDArray[np.int64]:
    """The class number of each name; a name may be the number itself."""
    known = {name: number for number, name in enumerate(classes)}
    numbers = []
    for name in names:
        number = known.get(name)
        if number is None and not known and name.isascii() and name.isdigit() and len(name) < 10:
            number = int(name)
        if number is None:
            shown = ", ".join(list(classes)[:5]) + (", …" if len(classes) > 5 else "")
            raise InputError(f"{where} has the class {name!r}, which is not among the {len(classes)} known: {shown}")
        numbers.append(number)
    return np.array(numbers, np.int64)


def digest(*parts: object) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(np.ascontiguousarray(part).data if isinstance(part, np.ndarray) else repr(part).encode())
    return made.hexdigest()[:16]
