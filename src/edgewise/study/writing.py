"""The file a model is written to: never one that the original lies in, and told before anything long begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.types import Model
from ..measure import isolate
from ..model.files import DATA
from .prepare import Limits

_ANOTHER = "-o ANOTHER.onnx"


def writable(path: str, model: Model, limits: Limits) -> None:
    """Refuses a place where nothing can be written, or where it would be written over `model`, by whatever name."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder, and a model is written to a file", f"-o {Path(path) / 'MODEL.onnx'}")
    if not os.path.isdir(folder):
        raise InputError(f"{path} cannot be written: there is no folder {folder}", f"mkdir -p {folder}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: permission denied in {folder}", _ANOTHER)
    there = [each for each in (path, f"{path}{DATA}") if os.path.exists(each)]
    for each in there and _call("files", limits, path=model.path):
        for found in there:
            if os.path.samefile(found, each):
                raise InputError(f"{found} is where {model.label} lies itself, and it is never written over", _ANOTHER)


def write(model: Model, path: str, limits: Limits) -> str:
    """A copy of the model's file, with the weights that lie beside it."""
    _call("copy", limits, source=model.path, path=os.path.abspath(path))
    return path


def _call(function: str, limits: Limits, **arguments: str) -> Any:
    return isolate.call(
        f"edgewise.model.files:{function}",
        timeout_s=limits.timeout_s,
        memory_bytes=limits.memory_bytes,
        **arguments,
    )
