"""NASNet-A (Zoph et al., 2018): two searched cells, stacked; stem and padding are the released ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .layers import Net, Value, same


def separable(net: Net, x: Value, out: int, kernel: int, stride: int = 1) -> Value:
    """A separable convolution twice; `x` comes with its ReLU, which several branches share."""
    for index in range(2):
        step = 1 if index else stride
        y = net.conv(x, x.channels, kernel, step, groups=x.channels, pad=same(x, kernel, step), then="nothing")
        y = net.conv(y, out)
        x = y if index else net.relu(y)
    return x


def halved(net: Net, x: Value, out: int) -> Value:
    """Every second place, twice, the second time one place further: 1x1 convolutions side by side."""
    x = net.relu(x)
    label = f"slice_{net.label()}"
    bounds = {"starts": [1, 1], "ends": [x.height, x.width], "axes": [2, 3]}
    names = [net.constant(f"{label}.{part}", np.array(value)) for part, value in bounds.items()]
    further = net.node("Slice", [x.name, *names])[0]
    moved = replace(x, name=further, height=x.height - 1, width=x.width - 1)
    # The place past the edge is a zero, so the padding of the second convolution makes up for the slice.
    return net.concat(net.conv(x, out // 2, 1, 2), net.conv(moved, out // 2, 1, 2, pad=(0, 0, 1, 1)))


def fitted(net: Net, x: Value, like: Value, out: int) -> Value:
    """The earlier input of a cell, brought to the size of the later one and to `out` channels."""
    return halved(net, x, out) if x.height != like.height else net.conv(net.relu(x), out)


def _normal(net: Net, x: Value, before: Value, out: int) -> Value:
    left = fitted(net, before, x, out)
    right = net.conv(net.relu(x), out)
    lit, bright = net.relu(left), net.relu(right)
    pooled = net.average_pool(left)
    twice = replace(
        net.add(pooled, net.average_pool(left)), moments=pooled.moments.doubled()
    )  # equal, so not independent
    parts = (
        left,
        net.add(separable(net, bright, out, 5), separable(net, lit, out, 3)),
        net.add(separable(net, lit, out, 5), separable(net, lit, out, 3)),
        net.add(net.average_pool(right), left),
        twice,
        net.add(separable(net, bright, out, 3), right),
    )
    return net.concat(*parts)


def _reduction(net: Net, left: Value, right: Value, out: int) -> Value:
    """Half the size: four of the five sums go on."""
    lit, bright = net.relu(left), net.relu(right)
    pad = same(right, 3, 2)
    largest = net.max_pool(right, pad=pad)
    first = net.add(separable(net, bright, out, 5, 2), separable(net, lit, out, 7, 2))
    second = net.add(largest, separable(net, lit, out, 7, 2))
    third = net.add(net.average_pool(right, 3, 2, pad), separable(net, lit, out, 5, 2))
    fourth = net.add(net.average_pool(first), second)
    fifth = net.add(separable(net, net.relu(first), out, 3), largest)
    return net.concat(second, third, fourth, fifth)


def _nasnet(net: Net, stem: int, filters: int, repeats: int, skip: bool, classes: int) -> Any:
    """`skip`: after a reduction the earlier input is not what the reduction saw last, but the one before."""
    start = net.conv(net.input, stem, 3, 2, pad=0)
    before = _reduction(net, start, net.conv(net.relu(start), filters // 4), filters // 4)
    x = _reduction(net, halved(net, start, filters // 2), net.conv(net.relu(before), filters // 2), filters // 2)
    for stage in range(3):
        out = filters << stage
        if stage:
            left, right = net.conv(net.relu(before), out), net.conv(net.relu(x), out)
            before, x = (before if skip else x), _reduction(net, left, right, out)
        for _ in range(repeats):
            before, x = x, _normal(net, x, before, out)
    return net.model(net.linear(net.global_pool(net.relu(x)), classes), preprocess="inception")


def nasnetalarge(classes: int = 1000, size: int = 331, seed: int = 0) -> Any:
    return _nasnet(Net("nasnetalarge", size, seed), 96, 168, 6, True, classes)


def nasnetamobile(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _nasnet(Net("nasnetamobile", size, seed), 32, 44, 4, False, classes)
