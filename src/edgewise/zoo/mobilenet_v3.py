"""MobileNetV3 (Howard et al., 2019): inverted residuals; some weigh their channels, the later ones use hard swish."""

from __future__ import annotations

from typing import Any

from .layers import Net, Value

# kernel, expanded channels, channels, weighed or not, hard swish or not, stride: Tables 1 and 2 of the paper.
_Block = tuple[int, int, int, bool, bool, int]
_LARGE: tuple[_Block, ...] = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)
_SMALL: tuple[_Block, ...] = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)

# Further up than its nearly straight part, hard swish magnifies whatever is larger than expected.
_SMALLER = 0.5


def _weighed(net: Net, x: Value) -> Value:
    """Each channel times a weight that the averages of all channels give it, through a quarter as many."""
    quarter = _rounded(x.channels / 4)
    y = net.relu(net.conv(net.global_pool(x, flat=False), quarter, then="bias"))
    return net.multiply(x, net.hard_sigmoid(net.conv(y, x.channels, then="bias")))


def _rounded(channels: float) -> int:
    """To a multiple of eight, and not down by more than a tenth."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def _block(net: Net, x: Value, block: _Block) -> Value:
    kernel, expanded, channels, weighed, hard, stride = block
    activation, gain = (net.hard_swish, _SMALLER) if hard else (net.relu, 1.0)
    y = activation(net.conv(x, expanded, gain=gain)) if expanded != x.channels else x
    y = activation(net.conv(y, expanded, kernel, stride, groups=expanded, gain=gain))
    y = net.conv(_weighed(net, y) if weighed else y, channels)
    return net.add(x, y) if stride == 1 and x.channels == channels else y


def _mobilenet(net: Net, blocks: tuple[_Block, ...], hidden: int, classes: int) -> Any:
    x = net.hard_swish(net.conv(net.input, 16, 3, 2, gain=_SMALLER))
    for block in blocks:
        x = _block(net, x, block)
    x = net.hard_swish(net.conv(x, 6 * x.channels, gain=_SMALLER))
    x = net.hard_swish(net.linear(net.global_pool(x), hidden))
    return net.model(net.linear(x, classes))


def mobilenet_v3_large(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _mobilenet(Net("mobilenet_v3_large", size, seed), _LARGE, 1280, classes)


def mobilenet_v3_small(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _mobilenet(Net("mobilenet_v3_small", size, seed), _SMALL, 1024, classes)
