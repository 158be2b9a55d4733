"""Labelled images: a folder of pictures, a list of files, arrays in an .npz, the built-in scenes.

Everything becomes a `Dataset`; how an image becomes a model's input is `preprocess`.
"""

from __future__ import annotations

from pathlib import Path

from ..core.errors import InputError
from .dataset import Dataset

SUFFIXES = {".npz": "arrays", ".csv": "listing", ".tsv": "listing"}


def open_dataset(path: str, labels: str | None = None, *, labelled: bool = True) -> Dataset:
    """The dataset at `path`. `labels`: a file of class names, one per line, in the order of the model's outputs; or of
    `FILE LABEL` lines for a folder without class folders. Not `labelled`: images without labels will do, and get 0."""
    from . import arrays, folder, listing

    place = Path(path)
    if place.is_dir():
        return folder.read(place, labels, labelled)
    kind = SUFFIXES.get(place.suffix.lower())
    if not place.exists():
        raise InputError(f"there is no data at {path}", "--data FOLDER, LIST.csv or ARRAYS.npz")
    if kind is None:
        raise InputError(f"{path} is no data: expected a folder, or a file that ends in {', '.join(SUFFIXES)}")
    return arrays.read(place, labels, labelled) if kind == "arrays" else listing.read(place, labels)
