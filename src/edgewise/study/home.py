"""Where edgewise keeps its own files: derived models and references in a cache, results in the user's data folder."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.errors import StoreError


def _folder(variable: str, default: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / default) / "edgewise"


def cache() -> Path:
    """Everything in here can be deleted at any time."""
    folder = _folder("XDG_CACHE_HOME", ".cache")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the cache folder {folder} cannot be made: {error.strerror}",
            "set XDG_CACHE_HOME to a writable folder",
        ) from None
    return folder


def default_store() -> Path:
    return _folder("XDG_DATA_HOME", ".local/share") / "lab.db"
