"""Labelled images: a folder of pictures, a list of files, arrays in an .npz, the built-in scenes.

Everything becomes a `Dataset`; how an image becomes a model's input is `preprocess`.
"""

from __future__ import annotations

from pathlib import Path

from ..core.errors import InputError
from .dataset import Dataset, short

SUFFIXES = {".npz": "arrays", ".csv": "listing", ".tsv": "listing"}
_FORM = "--data FOLDER, LIST.csv or ARRAYS.npz"


def open_dataset(path: str, labels: str | None = None, *, labelled: bool = True) -> Dataset:
    """The dataset at `path`. `labels`: a file of class names, one per line, in the order of the model's outputs; or of
    `FILE LABEL` lines for a folder without class folders. Not `labelled`: images without labels will do, and get 0."""
    from . import arrays, folder, listing

    place = Path(path)
    try:
        is_folder, is_file = place.is_dir(), place.is_file()
    except OSError as error:
        raise InputError(f"the data {short(path)} cannot be opened: {error.strerror}", _FORM) from None
    if is_folder:
        return folder.read(place, labels, labelled)
    if not is_file:
        raise InputError(f"there is no data at {path}", _FORM)
    kind = SUFFIXES.get(place.suffix.lower())
    if kind is None:
        raise InputError(f"{path} is no data: expected a folder, or a file that ends in {', '.join(SUFFIXES)}", _FORM)
    return arrays.read(place, labels, labelled) if kind == "arrays" else listing.read(place, labels)
