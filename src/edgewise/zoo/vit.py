"""Vision transformers (Dosovitskiy et al., 2020) of the sizes DeiT made usual (Touvron et al., 2020)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .layers import Net, Value
from .moments import Moments
from .tokens import Tokens, layer_norm, rows, transformer

_PATCH, _LAYERS, _HEAD = 16, 12, 64


def _placed(net: Net, x: Tokens) -> Tokens:
    """A row for the class before all others, and to each row what tells its place.

    The row starts as zeros, whatever the batch, and its token comes with the first place: nothing computes a shape.
    """
    pads = net.constant(f"pad_{net.label()}.pads", np.array([0, 1, 0, 0, 0, 0]))
    name = net.node("Pad", [x.name, pads], mode="constant")[0]
    net.parameters += (x.count + 2) * x.channels
    net.claim(x.count + 1, x.channels)
    places = net.random.random((1, x.count + 1, x.channels), dtype=np.float32) * 2 - 1
    places[:, 0] *= 2  # the token and its place
    name = net.node("Add", [name, net.constant("places", places)])[0]
    moments = Moments(x.moments.mean, x.moments.variance + 1 / 3)
    return replace(x, name=name, count=x.count + 1, moments=moments)


def _first(net: Net, x: Tokens) -> Value:
    label = f"slice_{net.label()}"
    bounds = {"starts": [0], "ends": [1], "axes": [1]}
    names = [net.constant(f"{label}.{part}", np.array(value)) for part, value in bounds.items()]
    row = net.node("Slice", [x.name, *names])[0]
    return Value(net.node("Flatten", [row])[0], x.channels, 1, 1, x.moments)


def _vit(name: str, channels: int, classes: int, size: int, seed: int) -> Any:
    net = Net(name, size, seed)
    net.needs_multiple_of(_PATCH)
    x = rows(net, net.conv(net.input, channels, _PATCH, _PATCH, pad=0, then="bias"))
    x = _placed(net, x)
    for _ in range(_LAYERS):
        x = transformer(net, x, channels // _HEAD, 4 * channels, "gelu", _LAYERS**-0.5)
    logits = net.linear(_first(net, layer_norm(net, x)), classes)
    return net.model(logits, preprocess="imagenet(interpolation=bicubic)")


def vit_tiny_patch16(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _vit("vit_tiny_patch16", 192, classes, size, seed)


def vit_small_patch16(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _vit("vit_small_patch16", 384, classes, size, seed)
