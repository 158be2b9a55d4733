"""Images as arrays: an .npz with `images` (8 bits; number, height, width, 3), `labels`, and `classes` where named.

What a file says of itself is read before its data: a few bytes can claim to be more than any memory holds.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..core.errors import InputError
from .dataset import Image, check_range, class_names, digest

FORM = "numpy.savez(path, images=uint8[n, height, width, 3], labels=int[n])"
LARGEST_BYTES = 64 << 30
# Of labels and the names of classes: a hundred million, at 8 bytes each.
_LARGEST_LABELS_BYTES = 1 << 30
# What zipfile, zlib and numpy raise over a broken file; RuntimeError is a file with a password.
BROKEN = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    SyntaxError,
    tokenize.TokenError,
)


@dataclass(frozen=True)
class Arrays:
    label: str
    path: Path
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    @cached_property
    def images(self) -> NDArray[np.uint8]:
        """Read when the first image is asked for: who only wants the labels need not wait for them."""
        return member(self.path, "images")

    @cached_property
    def digest(self) -> str:
        return digest("arrays", self.images, self.labels)

    def image(self, index: int) -> Image:
        image: Image = self.images[index]
        return image


def read(path: Path, labels: str | None, labelled: bool) -> Arrays:
    shape, dtype = header(path, "images")
    if dtype != np.uint8 or len(shape) != 4 or shape[-1] != 3 or not math.prod(shape):
        found = " x ".join(map(str, shape)) or "a single value"
        raise InputError(f"images of {path} are {dtype} {found}, expected uint8 n x h x w x 3", FORM)
    there = names(path)
    if not labelled and "labels" not in there:
        return Arrays(path.name, path, np.zeros(shape[0], np.int64), ())
    numbers = _numbers(path)
    if len(numbers) != shape[0]:
        raise InputError(f"{path} has {shape[0]} images and {len(numbers)} labels", FORM)
    own = _classes(path) if "classes" in there and not labels else ()
    classes = class_names(labels) if labels else own
    check_range(numbers, classes, path)
    return Arrays(path.name, path, numbers, classes)


def names(path: str | Path, hint: str = FORM) -> tuple[str, ...]:
    """The arrays in an .npz."""
    with _reading(path, hint), zipfile.ZipFile(path) as file:
        return tuple(name.removesuffix(".npy") for name in file.namelist() if name.endswith(".npy"))


def header(path: str | Path, name: str, hint: str = FORM) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array of an .npz, without its data."""
    with _reading(path, hint), zipfile.ZipFile(path) as file:
        return _header(file, _entry(file, path, name, hint), LARGEST_BYTES)


def member(path: str | Path, name: str, hint: str = FORM, largest_bytes: int = LARGEST_BYTES) -> NDArray[Any]:
    """An array of an .npz, once its header has been found to be true of the file; `hint` is for one that is not."""
    with _reading(path, hint), zipfile.ZipFile(path) as file:
        entry = _entry(file, path, name, hint)
        _header(file, entry, largest_bytes)
        with file.open(entry) as stream:
            found: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
            return found


def _numbers(path: Path) -> NDArray[np.int64]:
    found = member(path, "labels", largest_bytes=_LARGEST_LABELS_BYTES)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found.ravel()
    whole = found.ndim == 1 and found.size and found.dtype.kind in "iu"
    if not whole or int(found.min()) < 0 or int(found.max()) >= 1 << 31:
        raise InputError(f"labels of {path} must be class numbers, one per image", FORM)
    return found.astype(np.int64)


def _classes(path: Path) -> tuple[str, ...]:
    found = member(path, "classes", largest_bytes=_LARGEST_LABELS_BYTES)
    if found.dtype.kind not in "Uiu":
        raise InputError(
            f"classes of {path} are {found.dtype}, expected texts: the names", "classes=numpy.array(NAMES)"
        )
    return tuple(str(name) for name in found.ravel())


@contextmanager
def _reading(path: str | Path, hint: str) -> Iterator[None]:
    try:
        yield
    except BROKEN as error:
        why = "it does not fit into memory" if isinstance(error, MemoryError) else error
        raise InputError(f"{path} cannot be read as arrays: {why}", hint) from None


def _entry(file: zipfile.ZipFile, path: str | Path, name: str, hint: str) -> zipfile.ZipInfo:
    try:
        return file.getinfo(f"{name}.npy")
    except KeyError:
        there = ", ".join(sorted(entry.removesuffix(".npy") for entry in file.namelist()))
        raise InputError(f"{path} has {there or 'no arrays'}, and lacks {name!r}", hint) from None


def _header(file: zipfile.ZipFile, entry: zipfile.ZipInfo, largest_bytes: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename} is packed in a way that numpy does not write")
    with file.open(entry) as stream:
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{entry.filename} is of version {version}, expected 1.0 or 2.0")
        reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = reader(stream)
        held = entry.file_size - stream.tell()
    if dtype.hasobject:
        raise ValueError(f"{entry.filename} holds Python objects, and nothing is unpickled")
    # An element of no bytes counts as one: a million million of them are still too many.
    claimed = math.prod(shape) * max(dtype.itemsize, 1)
    if min(shape, default=0) < 0 or claimed > held:
        raise ValueError(f"{entry.filename} claims the shape {shape} of {dtype}, and holds {held} bytes")
    if claimed > largest_bytes:
        raise ValueError(f"{entry.filename} has {claimed} bytes, and {largest_bytes} are the most that is read")
    return shape, dtype
