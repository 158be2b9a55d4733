"""Built-in networks: one file per family, each a function that returns an ONNX model, made without a framework."""

from __future__ import annotations

import importlib
import os
from functools import cache
from pathlib import Path

# Name -> the module that builds it. Written out, so that knowing the names imports nothing.
NETWORKS = {"mobilenet_v2": "mobilenet", "tiny": "tiny"}


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(NETWORKS))


def export(name: str, path: str) -> str:
    """Build the network `name` and write it to `path`, which comes back."""
    import onnx

    module = importlib.import_module(f"{__name__}.{NETWORKS[name]}")
    model = getattr(module, name)()
    target = Path(path)
    # Written beside and renamed, so that a half-written file is never taken for a model.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    onnx.save(model, str(part))
    part.replace(target)
    return str(target)
