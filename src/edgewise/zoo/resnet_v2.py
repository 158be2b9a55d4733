"""ResNet v2 (He et al., 2016): normalization and ReLU before a convolution, and nothing on the way past it.

As TensorFlow released it: the last block of a stage has the stride. Its published accuracy is that of 299x299 images.
"""

from __future__ import annotations

from typing import Any

from .layers import Net, Value, same


def _block(net: Net, x: Value, channels: int, stride: int, gain: float) -> Value:
    out = channels * 4
    lit = net.relu(net.norm(x))
    if x.channels != out:
        kept = net.conv(lit, out, 1, stride, then="bias")
    else:
        kept = net.max_pool(x, 1, stride) if stride > 1 else x  # every second place
    y = net.relu(net.conv(lit, channels))
    y = net.relu(net.conv(y, channels, 3, stride))
    return net.add(kept, net.conv(y, out, then="bias", gain=gain))


def _resnet(name: str, depths: tuple[int, ...], classes: int, size: int, seed: int) -> Any:
    net = Net(name, size, seed)
    x = net.conv(net.input, 64, 7, 2, then="bias")
    x = net.max_pool(x, pad=same(x, 3, 2))
    for stage, depth in enumerate(depths):
        for index in range(depth):
            stride = 2 if stage < 3 and index == depth - 1 else 1
            x = _block(net, x, 64 << stage, stride, depth**-0.5)
    x = net.relu(net.norm(x))
    return net.model(net.linear(net.global_pool(x), classes), preprocess="inception")


def resnet_v2_50(classes: int = 1000, size: int = 299, seed: int = 0) -> Any:
    return _resnet("resnet_v2_50", (3, 4, 6, 3), classes, size, seed)


def resnet_v2_101(classes: int = 1000, size: int = 299, seed: int = 0) -> Any:
    return _resnet("resnet_v2_101", (3, 4, 23, 3), classes, size, seed)


def resnet_v2_152(classes: int = 1000, size: int = 299, seed: int = 0) -> Any:
    return _resnet("resnet_v2_152", (3, 8, 36, 3), classes, size, seed)
