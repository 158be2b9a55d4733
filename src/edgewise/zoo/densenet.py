"""DenseNet (Huang et al., 2017): every layer sees the outputs of all before it in its block."""

from __future__ import annotations

from typing import Any

from .layers import Net


def _densenet(name: str, depths: tuple[int, ...], growth: int, classes: int, size: int, seed: int) -> Any:
    net = Net(name, size, seed)
    x = net.relu(net.conv(net.input, 2 * growth, 7, 2))
    x = net.max_pool(x, pad=1)
    for block, depth in enumerate(depths):
        if block:
            x = net.conv(net.relu(net.norm(x)), x.channels // 2, then="nothing")
            x = net.average_pool(x, 2, 2, pad=0)
        for _ in range(depth):
            y = net.relu(net.conv(net.relu(net.norm(x)), 4 * growth))
            x = net.concat(x, net.conv(y, growth, 3, then="nothing"))
    return net.model(net.linear(net.global_pool(net.relu(net.norm(x))), classes))


def densenet121(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _densenet("densenet121", (6, 12, 24, 16), 32, classes, size, seed)


def densenet161(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _densenet("densenet161", (6, 12, 36, 24), 48, classes, size, seed)


def densenet169(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _densenet("densenet169", (6, 12, 32, 32), 32, classes, size, seed)


def densenet201(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _densenet("densenet201", (6, 12, 48, 32), 32, classes, size, seed)
