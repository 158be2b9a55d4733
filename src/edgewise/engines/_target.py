"""What every engine asks of a target before loading: does the device exist, does it have the precision, are the
options known."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..core.errors import InputError, Unavailable, Unsupported
from ..core.protocols import Array
from ..core.types import Device, Model, Target, Tensor

# What a switch may be.
ON_OFF = {"on": True, "off": False}


def pick(engine: str, devices: Sequence[Device], target: Target) -> Device:
    """The device a target names; a cluster (`cpu.big`) is its processor, on which the worker is already pinned."""
    name = target.device or devices[0].name
    by_name = {device.name: device for device in devices}
    if name.startswith("cpu.") and "cpu" in by_name:
        name = "cpu"
    if name not in by_name:
        raise Unavailable(
            f"{engine} has no device {name!r} here; it has {', '.join(sorted(by_name))}", "edgewise devices"
        )
    device = by_name[name]
    if target.precision is not None and target.precision not in device.precisions:
        raise Unsupported(
            f"{engine} does not run {target.precision} on {name} here; it runs {', '.join(device.precisions)}"
        )
    return device


def refuse_conversion(engine: str, model: Model, target: Target) -> None:
    """An engine never quantizes: int8 is a property of the model it is given."""
    if target.precision == "int8" and model.precision != "int8":
        raise Unsupported(f"{engine} runs int8 only on a quantized model, and {model.label} is {model.precision}")
    if model.precision == "int8" and target.precision not in (None, "int8"):
        raise Unsupported(f"{model.label} is quantized, so {engine} cannot run it in {target.precision}")


def check_options(engine: str, target: Target, known: Collection[str], prefixes: tuple[str, ...] = ()) -> None:
    for key, _ in target.options:
        if key not in known and not key.startswith(prefixes or ("\0",)):
            more = "".join(f", {prefix}*" for prefix in prefixes)
            raise InputError(f"{engine} has no option {key!r}; it has {', '.join(sorted(known))}{more}")


def choose(target: Target, key: str, choices: Mapping[str, object], default: str) -> object:
    value = target.option(key) or default
    if value not in choices:
        raise InputError(f"{key}={value} is not an option of {target.engine}; choose from {', '.join(choices)}")
    return choices[value]


def check_feeds(inputs: Sequence[Tensor], feeds: Mapping[str, Array]) -> None:
    """Names, types and ranks of the feeds, or an error that names the input."""
    names = [tensor.name for tensor in inputs]
    for name in feeds:
        if name not in names:
            raise InputError(f"there is no input {name!r}; the model has {', '.join(names)}")
    for tensor in inputs:
        if tensor.name not in feeds:
            raise InputError(f"input {tensor.name!r} is missing; the model has {', '.join(names)}")
        array = feeds[tensor.name]
        if array.dtype.name != tensor.dtype:
            raise InputError(f"input {tensor.name!r} is {tensor.dtype}, found {array.dtype.name}")
        if tensor.shape is not None:
            fits = array.ndim == len(tensor.shape) and all(
                not isinstance(dim, int) or dim == size for dim, size in zip(tensor.shape, array.shape, strict=True)
            )
            if not fits:
                raise InputError(f"input {tensor.name!r} has shape {tensor.shape}, found {array.shape}")
