"""SqueezeNet (Iandola et al., 2016): a squeeze to few channels, then 1x1 and 3x3 convolutions side by side."""

from __future__ import annotations

from typing import Any

from .layers import Net, Value

# Squeezed channels of the fire modules; each expands to four times as many, twice. "pool" halves.
_V1_0 = ("pool", 16, 16, 32, "pool", 32, 48, 48, 64, "pool", 64)
_V1_1 = ("pool", 16, 16, "pool", 32, 32, "pool", 48, 48, 64, 64)


def _conv(net: Net, x: Value, out: int, kernel: int = 1) -> Value:
    return net.relu(net.conv(x, out, kernel, then="bias"))


def _squeezenet(net: Net, x: Value, modules: tuple[int | str, ...], classes: int) -> Any:
    for squeezed in modules:
        if isinstance(squeezed, str):
            x = net.max_pool(x, ceil=True)
            continue
        x = _conv(net, x, squeezed)
        x = net.concat(_conv(net, x, 4 * squeezed), _conv(net, x, 4 * squeezed, 3))
    return net.model(net.global_pool(_conv(net, x, classes)))


def squeezenet1_0(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    net = Net("squeezenet1_0", size, seed)
    x = net.relu(net.conv(net.input, 96, 7, 2, pad=0, then="bias"))
    return _squeezenet(net, x, _V1_0, classes)


def squeezenet1_1(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    net = Net("squeezenet1_1", size, seed)
    x = net.relu(net.conv(net.input, 64, 3, 2, pad=0, then="bias"))
    return _squeezenet(net, x, _V1_1, classes)
