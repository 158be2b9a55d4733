"""Pictures in files: decoded when asked for, by Pillow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .dataset import Image, digest

# What Pillow decodes without plug-ins, and people keep pictures in.
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp", ".gif", ".tif", ".tiff")


@dataclass(frozen=True)
class Files:
    """Files with their class numbers."""

    label: str
    files: tuple[Path, ...]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Of names, sizes and labels: reading every picture just to name the set would take longer than using it."""
        root = self.files[0].parent
        sizes = [(str(f.relative_to(root)) if f.is_relative_to(root) else f.name, f.stat().st_size) for f in self.files]
        return digest("files", sizes, self.labels)

    def image(self, index: int) -> Image:
        return decode(self.files[index])


def decode(path: Path) -> Image:
    from PIL import Image as pictures

    try:
        with pictures.open(path) as picture:
            return np.asarray(picture.convert("RGB"))
    except FileNotFoundError:
        raise InputError(f"there is no picture {path}") from None
    except (OSError, ValueError, SyntaxError, pictures.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as a picture: {error}", "remove it, or convert it to PNG") from None
