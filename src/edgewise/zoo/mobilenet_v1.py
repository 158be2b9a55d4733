"""MobileNet v1 (Howard et al., 2017): depthwise and pointwise convolutions in turn, four widths, padded as released."""

from __future__ import annotations

from typing import Any

from .layers import Net, same

# channels, stride: Table 1 of the paper.
_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


def _mobilenet(name: str, percent: int, classes: int, size: int, seed: int) -> Any:
    net = Net(name, size, seed)
    x = net.relu6(net.conv(net.input, 32 * percent // 100, 3, 2, pad=same(net.input, 3, 2)))
    for channels, stride in _BLOCKS:
        x = net.relu6(net.conv(x, x.channels, 3, stride, groups=x.channels, pad=same(x, 3, stride)))
        x = net.relu6(net.conv(x, channels * percent // 100))
    return net.model(net.linear(net.global_pool(x), classes), preprocess="inception")


def mobilenet_v1_025(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _mobilenet("mobilenet_v1_025", 25, classes, size, seed)


def mobilenet_v1_050(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _mobilenet("mobilenet_v1_050", 50, classes, size, seed)


def mobilenet_v1_075(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _mobilenet("mobilenet_v1_075", 75, classes, size, seed)


def mobilenet_v1_100(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _mobilenet("mobilenet_v1_100", 100, classes, size, seed)
