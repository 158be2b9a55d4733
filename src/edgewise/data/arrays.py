"""Images as arrays: an .npz with `images` (8 bits; number, height, width, 3), `labels`, and `classes` where named."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .dataset import Image, class_names, digest

_FORM = "numpy.savez(path, images=uint8[n, height, width, 3], labels=int[n])"


@dataclass(frozen=True)
class Arrays:
    label: str
    path: Path
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    @cached_property
    def images(self) -> NDArray[np.uint8]:
        """Read when the first image is asked for: who only wants the labels need not wait for them."""
        found: NDArray[np.uint8] = _member(self.path, "images")
        if found.dtype != np.uint8 or found.ndim != 4 or found.shape[-1] != 3:
            shape = "x".join(map(str, found.shape))
            raise InputError(f"images of {self.path} are {found.dtype} {shape}, expected uint8 n x h x w x 3", _FORM)
        if len(found) != len(self.labels):
            raise InputError(f"{self.path} has {len(found)} images and {len(self.labels)} labels")
        return found

    @cached_property
    def digest(self) -> str:
        return digest("arrays", self.images, self.labels)

    def image(self, index: int) -> Image:
        image: Image = self.images[index]
        return image


def read(path: Path, labels: str | None, labelled: bool) -> Arrays:
    numbers = _member(path, "labels", needed=labelled)
    if numbers is None:
        return Arrays(path.name, path, np.zeros(len(_member(path, "images")), np.int64), ())
    if numbers.ndim != 1 or not len(numbers) or numbers.dtype.kind not in "iu" or int(numbers.min()) < 0:
        raise InputError(f"labels of {path} must be class numbers, one per image", _FORM)
    if labels:
        classes = class_names(labels)
    else:
        named = _member(path, "classes", needed=False)
        classes = () if named is None else tuple(str(name) for name in named.ravel())
    numbers = numbers.astype(np.int64)
    if classes and int(numbers.max()) >= len(classes):
        raise InputError(f"{path} has the label {int(numbers.max())}, and names only {len(classes)} classes")
    return Arrays(path.name, path, numbers, classes)


def _member(path: Path, name: str, needed: bool = True) -> Any:
    try:
        with np.load(path, allow_pickle=False) as file:
            if name not in file.files and not needed:
                return None
            if name not in file.files:
                raise InputError(
                    f"{path} has {', '.join(sorted(file.files)) or 'no arrays'}, and lacks {name!r}", _FORM
                )
            return file[name]
    # A single array (.npy) is no context manager.
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise InputError(f"{path} cannot be read as arrays: {error}", _FORM) from None
