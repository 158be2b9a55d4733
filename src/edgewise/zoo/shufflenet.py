"""ShuffleNetV2 (Ma et al., 2018): half of the channels pass untouched, then the halves are shuffled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .layers import Net, Value


def _shuffle(net: Net, x: Value) -> Value:
    """One channel of each half in turn: the pair of halves turned over."""
    half = x.channels // 2
    apart = net.constant(f"reshape_{net.label()}.shape", np.array([0, 2, half, x.height, x.width]))
    name = net.node("Reshape", [x.name, apart])[0]
    name = net.node("Transpose", [name], perm=[0, 2, 1, 3, 4])[0]
    together = net.constant(f"reshape_{net.label()}.shape", np.array([0, x.channels, x.height, x.width]))
    name = net.node("Reshape", [name, together])[0]
    return replace(x, name=name, moments=x.moments.take(np.arange(x.channels).reshape(2, half).T.ravel()))


def _unit(net: Net, x: Value, out: int, stride: int) -> Value:
    half = out // 2
    if stride == 1:
        kept, x = net.halves(x)
    else:
        kept = net.relu(net.conv(net.conv(x, x.channels, 3, stride, groups=x.channels), half))
    y = net.relu(net.conv(x, half))
    y = net.conv(y, half, 3, stride, groups=half)
    y = net.relu(net.conv(y, half))
    return _shuffle(net, net.concat(kept, y))


def _shufflenet(name: str, channels: tuple[int, ...], classes: int, size: int, seed: int) -> Any:
    net = Net(name, size, seed)
    x = net.relu(net.conv(net.input, 24, 3, 2))
    x = net.max_pool(x, pad=1)
    for out, repeats in zip(channels, (4, 8, 4), strict=True):
        for index in range(repeats):
            x = _unit(net, x, out, 1 if index else 2)
    x = net.relu(net.conv(x, 1024))
    return net.model(net.linear(net.global_pool(x), classes))


def shufflenet_v2_x0_5(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _shufflenet("shufflenet_v2_x0_5", (48, 96, 192), classes, size, seed)


def shufflenet_v2_x1_0(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _shufflenet("shufflenet_v2_x1_0", (116, 232, 464), classes, size, seed)
