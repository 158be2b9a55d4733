"""ResNet (He et al., 2015). In a bottleneck the 3x3 convolution has the stride, as frameworks ship it ("v1.5")."""

from __future__ import annotations

from typing import Any

from .layers import Net, Value


def _block(net: Net, x: Value, channels: int, stride: int, bottleneck: bool, gain: float) -> Value:
    out = channels * 4 if bottleneck else channels
    if bottleneck:
        y = net.relu(net.conv(x, channels))
        y = net.relu(net.conv(y, channels, 3, stride))
        y = net.conv(y, out, gain=gain)
    else:
        y = net.relu(net.conv(x, channels, 3, stride))
        y = net.conv(y, out, 3, gain=gain)
    if stride > 1 or x.channels != out:
        x = net.conv(x, out, 1, stride)
    return net.relu(net.add(y, x))


def _resnet(name: str, depths: tuple[int, ...], bottleneck: bool, classes: int, size: int, seed: int) -> Any:
    net = Net(name, size, seed)
    x = net.relu(net.conv(net.input, 64, 7, 2))
    x = net.max_pool(x, pad=1)
    for stage, depth in enumerate(depths):
        for index in range(depth):
            stride = 2 if stage and index == 0 else 1
            x = _block(net, x, 64 << stage, stride, bottleneck, depth**-0.5)
    return net.model(net.linear(net.global_pool(x), classes))


def resnet18(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _resnet("resnet18", (2, 2, 2, 2), False, classes, size, seed)


def resnet34(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _resnet("resnet34", (3, 4, 6, 3), False, classes, size, seed)


def resnet50(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _resnet("resnet50", (3, 4, 6, 3), True, classes, size, seed)


def resnet101(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _resnet("resnet101", (3, 4, 23, 3), True, classes, size, seed)


def resnet152(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _resnet("resnet152", (3, 8, 36, 3), True, classes, size, seed)
