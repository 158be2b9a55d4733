"""Inputs made up for a model: the same everywhere, so that results can be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.types import Model, Tensor

Shapes = Mapping[str, tuple[int, ...]]
Arrays = dict[str, NDArray[Any]]

# More than any network's input; a claim above it is a broken or hostile file, not a picture.
LARGEST_INPUT_BYTES = 1 << 31
# Changes whenever `feeds` makes other values of the same shapes and seed.
_MAKING = 1


def shapes(model: Model, batch: int = 1, given: Shapes | None = None) -> dict[str, tuple[int, ...]]:
    """A concrete shape per input. The batch takes the place of a symbolic first dimension; `given` wins."""
    given = given or {}
    unknown = set(given) - {tensor.name for tensor in model.inputs}
    if unknown:
        names = ", ".join(tensor.name for tensor in model.inputs)
        raise InputError(f"{model.label} has no input {sorted(unknown)[0]!r}; it has {names}")
    return {tensor.name: _shape(model, tensor, batch, given.get(tensor.name)) for tensor in model.inputs}


def _shape(model: Model, tensor: Tensor, batch: int, given: tuple[int, ...] | None) -> tuple[int, ...]:
    hint = f"--shape {tensor.name}=1x3x224x224"
    if given is not None:
        fits = tensor.shape is None or (
            len(given) == len(tensor.shape)
            and all(not isinstance(dim, int) or dim == size for dim, size in zip(tensor.shape, given, strict=True))
        )
        if not fits or any(size < 1 for size in given):
            raise InputError(
                f"the shape {'x'.join(map(str, given))} does not fit input {tensor.name!r} of {model.label}, "
                f"which is {_shown(tensor)}"
            )
        shape = given if tensor.shape is None or isinstance(tensor.shape[0], int) or batch == 1 else (batch, *given[1:])
        return _bounded(model, tensor, shape)
    if tensor.shape is None:
        raise InputError(f"input {tensor.name!r} of {model.label} has no declared shape; name one", hint)
    if not tensor.shape:
        return ()
    first, *rest = tensor.shape
    loose = [str(dim) for dim in rest if not isinstance(dim, int)]
    if loose:
        raise InputError(
            f"input {tensor.name!r} of {model.label} is {_shown(tensor)}: give its symbolic dimensions a size",
            hint,
        )
    if isinstance(first, int) and batch not in (1, first):
        raise InputError(
            f"the batch of {model.label} is fixed at {first} (input {tensor.name!r} is {_shown(tensor)}), "
            f"so it cannot run with {batch}",
            "export the model with a dynamic first dimension",
        )
    size = first if isinstance(first, int) else batch
    return _bounded(model, tensor, (size, *(dim for dim in rest if isinstance(dim, int))))


def _shown(tensor: Tensor) -> str:
    return "unknown" if tensor.shape is None else "x".join("?" if d is None else str(d) for d in tensor.shape)


def _bounded(model: Model, tensor: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    size = 1
    for dim in shape:
        size *= dim
    if size * _dtype(model, tensor).itemsize > LARGEST_INPUT_BYTES:
        raise InputError(f"input {tensor.name!r} of {model.label} would take {size:,} elements: too large to feed")
    return shape


def _dtype(model: Model, tensor: Tensor) -> np.dtype[Any]:
    try:
        return np.dtype(tensor.dtype)
    except TypeError:
        raise InputError(
            f"input {tensor.name!r} of {model.label} is {tensor.dtype}, which edgewise cannot make up"
        ) from None


def feeds(model: Model, sizes: Shapes, seed: int = 0, fill: str = "noise") -> Arrays:
    """Normal noise for floats; zeros and ones for whole numbers, valid as token, mask and index alike. A white image
    where `fill` says so."""
    random = np.random.default_rng(seed)
    made: Arrays = {}
    for tensor in model.inputs:
        dtype, shape = _dtype(model, tensor), sizes[tensor.name]
        if fill == "white" and dtype.kind in "fiub":
            made[tensor.name] = _white(model, dtype, shape)
        elif dtype.kind == "f":
            made[tensor.name] = random.standard_normal(shape, dtype=np.float32).astype(dtype)
        elif dtype.kind in "iub":
            made[tensor.name] = random.integers(0, 2, shape).astype(dtype)
        else:
            raise InputError(f"input {tensor.name!r} of {model.label} is {tensor.dtype}, which edgewise cannot make up")
    return made


def _white(model: Model, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Pixels of 255, as the model's own preprocessing hands them on; 1 where it has none, and where the input is no
    image of three channels."""
    if dtype == np.uint8:
        return np.full(shape, 255, dtype)
    how = model.preprocess
    channels = None if how is None or len(shape) != 4 else 1 if how.layout == "nchw" else 3
    if how is None or channels is None or dtype.kind != "f" or shape[channels] != 3:
        return np.ones(shape, dtype)
    values = (255.0 / how.divide - np.array(how.mean)) / np.array(how.std)
    return np.broadcast_to(values.reshape([3 if axis == channels else 1 for axis in range(4)]), shape).astype(
        dtype, order="C"
    )


def digest(model: Model, sizes: Shapes, seed: int, runs: str, fill: str = "noise") -> str:
    """Names what a result was measured with: the inputs, by how they are made, and the model that ran."""
    made = [(t.name, t.dtype, sizes[t.name]) for t in model.inputs]
    # Noise goes unnamed, as it did before there was anything else.
    named = (fill,) if fill != "noise" else ()
    return hashlib.sha256(repr((_MAKING, made, seed, runs, *named)).encode()).hexdigest()[:16]
