"""Where edgewise keeps its own files: derived models and references in a cache, results in the user's data folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from ..core.errors import InputError, StoreError

# A study of a dozen networks on every engine makes twice this: each batch size is a conversion of its own.
_LIMIT_GB = 10.0
# What was used within this time may belong to a command that is running, and stays whatever the limit says.
_IN_USE_S = 3600.0


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


def used(path: Path) -> Path:
    """`path`, marked as wanted now: what was not wanted for longest is what `trim` removes."""
    with contextlib.suppress(OSError):
        os.utime(path)
    return path


def trim() -> None:
    """Keep the cache under EDGEWISE_CACHE_GB (10 unless set), apart from what the last hour used."""
    limit = _limit()
    found = []
    with os.scandir(cache()) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another command may be trimming too
                found.append((entry.stat(follow_symlinks=False).st_mtime, _size(Path(entry.path)), Path(entry.path)))
    held = sum(size for _, size, _ in found)
    for last, size, path in sorted(found):
        if held <= limit or last > time.time() - _IN_USE_S:
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        held -= size


def _limit() -> float:
    text = os.environ.get("EDGEWISE_CACHE_GB", "")
    try:
        limit = float(text or _LIMIT_GB)
    except ValueError:
        limit = -1.0
    if not limit >= 0:
        raise InputError(f"EDGEWISE_CACHE_GB is {text}; a number of gigabytes was expected", "unset EDGEWISE_CACHE_GB")
    return limit * 1e9


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(each.lstat().st_size for each in path.rglob("*"))
    return path.lstat().st_size


def default_store() -> Path:
    return _folder("XDG_DATA_HOME", ".local/share") / "lab.db"
