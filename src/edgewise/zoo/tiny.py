"""A few small convolutions: enough of a network to try things out on in milliseconds."""

from __future__ import annotations

from typing import Any

from .layers import Net


def tiny(classes: int = 10, size: int = 32, seed: int = 0) -> Any:
    net = Net("tiny", 3, size, seed)
    x = net.same("Relu", net.conv("input", 16, 3, stride=2))
    x = net.same("Relu", net.conv(x, 16, 3, groups=16))
    y = net.same("Relu", net.conv(x, 32))
    y = net.conv(y, 16, 3)
    x = net.same("Add", x, y)
    return net.classifier(net.same("Relu", net.conv(x, 32, 3, stride=2)), classes)
