"""Fast style transfer (Johnson et al., 2016), with instance normalization (Ulyanov et al., 2016): an image in, one out.

Edges are padded with zeros, not by reflection; what is small is made large by repeating values before a convolution.
"""

from __future__ import annotations

from typing import Any

from .layers import Net, Value

_RESIDUALS = 5


def _conv(net: Net, x: Value, out: int, kernel: int = 3, stride: int = 1) -> Value:
    return net.relu(net.instance_norm(net.conv(x, out, kernel, stride, then="bias")))


def fast_style_transfer(size: int = 256, seed: int = 0) -> Any:
    net = Net("fast_style_transfer", size, seed)
    net.needs_multiple_of(4)
    x = _conv(net, net.input, 32, 9)
    x = _conv(net, x, 64, stride=2)
    x = _conv(net, x, 128, stride=2)
    for _ in range(_RESIDUALS):
        y = net.instance_norm(net.conv(_conv(net, x, 128), 128, 3, then="bias"))
        x = net.add(y, x)
    x = _conv(net, net.twice(x), 64)
    x = _conv(net, net.twice(x), 32)
    return net.model(image=net.conv(x, 3, 9, then="bias"), preprocess="unit")
