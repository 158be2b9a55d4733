"""Built-in networks: one file per family, each a function that returns an ONNX model, made without a framework."""

from __future__ import annotations

import importlib
import inspect
import os
from functools import cache
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from .catalog import CATALOG

# The side of an image whose preprocessing can still be told, with what it is resized to before a crop; and more than
# any batch has images, or any list classes.
_LARGEST = {"size": 1 << 13, "batch": (1 << 31) - 1, "classes": (1 << 31) - 1}


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(CATALOG))


def build(name: str, *, batch: int | None = None, **options: int | None) -> Any:
    """The network `name` as an ONNX model; `size`, `classes` and `seed` where it has them, its own where None."""
    if name not in CATALOG:
        raise InputError(f"there is no built-in network {name!r}; built in: {', '.join(names())}", "edgewise zoo")
    network = getattr(importlib.import_module(f"{__name__}.{CATALOG[name].family}"), name)
    given = {key: value for key, value in options.items() if value is not None}
    takes = inspect.signature(network).parameters
    for key in given:
        if key not in takes:
            raise InputError(f"{name} has no {key}; it has {', '.join(takes)}")
    for key, value in (("batch", batch), *given.items()):
        least = 0 if key == "seed" else 1
        if value is not None and value < least:
            raise InputError(f"{key} must be at least {least}, found {value}")
        if value is not None and value > _LARGEST.get(key, value):
            raise InputError(f"{key} must be at most {_LARGEST[key]}, found {value}")
    asked = " with " + ", ".join(f"{key} {value}" for key, value in given.items()) if given else ""
    try:
        model = network(**given)
    except ValueError as error:
        raise InputError(f"{name}{asked} cannot be built: {error}") from None
    except MemoryError:
        raise InputError(f"{name}{asked} cannot be built: there is not enough memory for its weights") from None
    if batch is not None:
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = batch
    return model


def export(
    name: str,
    path: str,
    batch: int | None = None,
    size: int | None = None,
    classes: int | None = None,
    seed: int | None = None,
) -> str:
    """Build the network `name` and write it to `path`, which comes back."""
    import onnx

    model = build(name, batch=batch, size=size, classes=classes, seed=seed)
    target = Path(path)
    # Written beside and renamed, so that a half-written file is never taken for a model.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        onnx.save(model, str(part))
        part.replace(target)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    return str(target)
