"""PNASNet-5 (Liu et al., 2018): one cell, searched progressively, with and without a stride."""

from __future__ import annotations

from typing import Any

from .layers import Net, Value, same
from .nasnet import fitted, separable

# Channels and strides of the cells after the stem.
_CELLS = (*[(216, 1)] * 4, (432, 2), *[(432, 1)] * 3, (864, 2), *[(864, 1)] * 3)


def _cell(net: Net, left: Value, right: Value, out: int, stride: int) -> Value:
    lit, bright = net.relu(left), net.relu(right)
    pooled = net.max_pool(left, 3, stride, same(left, 3, stride))
    if left.channels != out:
        pooled = net.conv(pooled, out)
    largest = net.max_pool(right, 3, stride, same(right, 3, stride))
    both = net.add(separable(net, bright, out, 5, stride), separable(net, bright, out, 3, stride))
    parts = (
        net.add(separable(net, lit, out, 5, stride), pooled),
        net.add(separable(net, bright, out, 7, stride), largest),
        both,
        net.add(separable(net, net.relu(both), out, 3), largest),
        net.add(separable(net, lit, out, 3, stride), net.conv(bright, out, 1, stride) if stride > 1 else right),
    )
    return net.concat(*parts)


def pnasnet5large(classes: int = 1000, size: int = 331, seed: int = 0) -> Any:
    net = Net("pnasnet5large", size, seed)
    start = net.conv(net.input, 96, 3, 2, pad=0)
    before, x = start, _cell(net, start, net.conv(net.relu(start), 54), 54, 2)
    for out, stride in ((108, 2), *_CELLS):
        left = fitted(net, before, x, out)
        before, x = x, _cell(net, left, net.conv(net.relu(x), out), out, stride)
    return net.model(net.linear(net.global_pool(net.relu(x)), classes), preprocess="inception")
