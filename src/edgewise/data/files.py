"""Pictures in files: decoded when asked for, by Pillow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .dataset import Image, digest, short

# What Pillow decodes without plug-ins, and people keep pictures in.
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp", ".gif", ".tif", ".tiff")
# The same as Pillow calls them. It goes by what is in a file, not by its name, and for some formats starts a program.
_FORMATS = ("JPEG", "PNG", "BMP", "PPM", "WEBP", "GIF", "TIFF")
_EDGE_BYTES = 4096
# Tags of a TIFF: its bits per sample, and whether 0 is black (1) or white (0).
_BITS, _BLACK = 258, 262


@dataclass(frozen=True)
class Files:
    """Files with their class numbers; `root` is the folder that their names are relative to."""

    label: str
    root: Path
    files: tuple[Path, ...]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Of each file's name under `root`, size, time of change, first and last 4 KiB; and of the labels.

        Not of all bytes: reading 50,000 photos just to name the set would take minutes. So a copy whose files have
        other times of change is another set, and a file changed only in its middle, its time put back, is the same."""
        made = sha256()
        for file in self.files:
            name = file.relative_to(self.root) if file.is_relative_to(self.root) else file
            made.update(digest(name.as_posix(), *_traces(file)).encode())
        return digest("files", made.hexdigest(), self.labels)

    def image(self, index: int) -> Image:
        return decode(self.files[index])


def named(name: str, root: Path, where: str, hint: str) -> Path:
    """The file called `name` under `root`, which `where` speaks of."""
    try:
        there = (root / name).is_file()
    except OSError as error:
        raise InputError(f"{where} names {short(name)!r}, which cannot be opened: {error.strerror}", hint) from None
    if not there:
        raise InputError(f"{where} names {short(name)!r}, which is not in {root}", hint)
    return root / name


def decode(path: Path) -> Image:
    """Red, green and blue of 8 bits. Opacity is dropped: nothing is put behind what can be seen through. Of a picture
    that moves, the first frame. 16 bits of grey are scaled to 8; deeper values have no white, and are refused."""
    from PIL import Image as pictures

    try:
        with pictures.open(path, formats=_FORMATS) as picture:
            if picture.mode == "F" or picture.mode.startswith("I"):
                return _from_16_bits(picture, path)
            # By way of RGBA, as Pillow asks for where a palette has opacities.
            return np.asarray((picture.convert("RGBA") if picture.mode == "P" else picture).convert("RGB"))
    except FileNotFoundError:
        raise InputError(f"there is no picture {path}") from None
    except (OSError, ValueError, SyntaxError, EOFError, pictures.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as a picture: {error}", "remove it, or convert it to PNG") from None


def _from_16_bits(picture: Any, path: Path) -> Image:
    """Pillow cuts such values off at 255, and so makes nearly everything white."""
    if picture.format == "TIFF":
        known = (
            picture.mode.startswith("I;16") and picture.tag_v2.get(_BITS) == (16,) and picture.tag_v2.get(_BLACK) == 1
        )
    else:
        # Of PNG and PPM, "I" is 16 bits too: PPM is always opened so, and PNG by older Pillows.
        known = picture.mode != "F"
    if not known:
        raise InputError(
            f"{path} has values that are neither of 8 nor of 16 bits (Pillow's mode {picture.mode})",
            "convert it to 8 bits",
        )
    grey = ((np.asarray(picture).astype(np.uint32) + 128) // 257).astype(np.uint8)
    return np.repeat(grey[:, :, np.newaxis], 3, axis=2)


def _traces(file: Path) -> tuple[object, ...]:
    try:
        about = file.stat()
        with file.open("rb") as stream:
            first = stream.read(_EDGE_BYTES)
            stream.seek(max(_EDGE_BYTES, about.st_size - _EDGE_BYTES))
            return about.st_size, about.st_mtime_ns, first, stream.read(_EDGE_BYTES)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None
