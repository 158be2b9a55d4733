"""MobileViT (Mehta and Rastegari, 2021): inverted residuals, and transformers over every second place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .layers import Net, Value
from .tokens import Tokens, layer_norm, reshape, transformer

_PATCH, _HEADS = 2, 4
_LAYERS = (2, 4, 3)


def _inverted(net: Net, x: Value, out: int, expansion: int, stride: int = 1) -> Value:
    y = net.silu(net.conv(x, x.channels * expansion))
    y = net.silu(net.conv(y, y.channels, 3, stride, groups=y.channels))
    y = net.conv(y, out)
    return net.add(x, y) if stride == 1 and x.channels == out else y


def _unfolded(net: Net, x: Value) -> Tokens:
    """Patch by patch a row for each place within."""
    name = net.node("Transpose", [x.name], perm=[0, 2, 3, 1])[0]
    name = reshape(net, name, x.height // _PATCH, _PATCH, x.width // _PATCH, _PATCH * x.channels)
    name = net.node("Transpose", [name], perm=[0, 1, 3, 2, 4])[0]
    count = x.height * x.width
    return Tokens(reshape(net, name, count, x.channels), count, x.channels, x.moments)


def _folded(net: Net, x: Tokens, like: Value) -> Value:
    """The rows back to their places."""
    name = reshape(net, x.name, like.height // _PATCH, like.width // _PATCH, _PATCH, _PATCH * x.channels)
    name = net.node("Transpose", [name], perm=[0, 1, 3, 2, 4])[0]
    name = reshape(net, name, like.height, like.width, x.channels)
    name = net.node("Transpose", [name], perm=[0, 3, 1, 2])[0]
    return replace(like, name=name, channels=x.channels, moments=x.moments)


def _block(net: Net, x: Value, channels: int, layers: int) -> Value:
    """Near places by a convolution, far ones by transformers, and both beside what came in."""
    y = net.silu(net.conv(x, x.channels, 3))
    y = net.conv(y, channels, then="nothing")
    tokens = _unfolded(net, y)
    for _ in range(layers):
        tokens = transformer(net, tokens, _HEADS, 2 * channels, "silu", layers**-0.5, apart=_PATCH**2)
    y = net.silu(net.conv(_folded(net, layer_norm(net, tokens), y), x.channels))
    return net.silu(net.conv(net.concat(x, y), x.channels, 3))


def _mobilevit(net: Net, channels: tuple[int, ...], inner: tuple[int, ...], expansion: int, classes: int) -> Any:
    net.needs_multiple_of(64)
    x = net.silu(net.conv(net.input, 16, 3, 2))
    x = _inverted(net, x, channels[0], expansion)
    x = _inverted(net, x, channels[1], expansion, 2)
    x = _inverted(net, x, channels[1], expansion)
    x = _inverted(net, x, channels[1], expansion)
    for out, within, layers in zip(channels[2:5], inner, _LAYERS, strict=True):
        x = _block(net, _inverted(net, x, out, expansion, 2), within, layers)
    x = net.silu(net.conv(x, channels[5]))
    # Pixels between zero and one, blue first.
    return net.model(net.linear(net.global_pool(x), classes), preprocess="unit(resize=288, crop=256, order=bgr)")


def mobilevit_xxs(classes: int = 1000, size: int = 256, seed: int = 0) -> Any:
    net = Net("mobilevit_xxs", size, seed)
    return _mobilevit(net, (16, 24, 48, 64, 80, 320), (64, 80, 96), 2, classes)


def mobilevit_xs(classes: int = 1000, size: int = 256, seed: int = 0) -> Any:
    net = Net("mobilevit_xs", size, seed)
    return _mobilevit(net, (32, 48, 64, 80, 96, 384), (96, 120, 144), 4, classes)


def mobilevit_s(classes: int = 1000, size: int = 256, seed: int = 0) -> Any:
    net = Net("mobilevit_s", size, seed)
    return _mobilevit(net, (32, 64, 96, 128, 160, 640), (144, 192, 240), 4, classes)
