"""GoogLeNet (Szegedy et al., 2014), and Inception v1: the same network as TensorFlow released it, batch-normalized.

In Inception v1 the wide branch has 3x3 convolutions where the paper has 5x5. The auxiliary heads serve training only
and are left out of both.
"""

from __future__ import annotations

from typing import Any, Literal

from .layers import Net, Value, same

# Table 1 of the paper: 1x1, 3x3 after its reduction, the wide one after its own, and what follows the pooling.
_Module = tuple[int, tuple[int, int], tuple[int, int], int]
_THREE: tuple[_Module, ...] = ((64, (96, 128), (16, 32), 32), (128, (128, 192), (32, 96), 64))
_FOUR: tuple[_Module, ...] = (
    (192, (96, 208), (16, 48), 64),
    (160, (112, 224), (24, 64), 64),
    (128, (128, 256), (24, 64), 64),
    (112, (144, 288), (32, 64), 64),
    (256, (160, 320), (32, 128), 128),
)
_FIVE: tuple[_Module, ...] = ((256, (160, 320), (32, 128), 128), (384, (192, 384), (48, 128), 128))


def _modules(net: Net, x: Value, modules: tuple[_Module, ...], wide: int, then: Literal["norm", "bias"]) -> Value:
    """Four branches side by side; `wide`: the kernel of the third."""

    def conv(x: Value, out: int, kernel: int = 1) -> Value:
        return net.relu(net.conv(x, out, kernel, then=then))

    for alone, (reduced, three), (narrowed, widest), pooled in modules:
        x = net.concat(
            conv(x, alone),
            conv(conv(x, reduced), three, 3),
            conv(conv(x, narrowed), widest, wide),
            conv(net.max_pool(x, 3, 1, pad=1), pooled),
        )
    return x


def googlenet(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    net = Net("googlenet", size, seed)
    x = net.relu(net.conv(net.input, 64, 7, 2, then="bias"))
    x = net.local_response(net.max_pool(x, ceil=True))
    x = net.relu(net.conv(x, 64, then="bias"))
    x = net.local_response(net.relu(net.conv(x, 192, 3, then="bias")))
    for modules in (_THREE, _FOUR, _FIVE):
        x = _modules(net, net.max_pool(x, ceil=True), modules, 5, "bias")
    return net.model(net.linear(net.global_pool(x), classes))


def inception_v1(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    net = Net("inception_v1", size, seed)
    x = net.relu(net.conv(net.input, 64, 7, 2, pad=same(net.input, 7, 2)))
    x = net.relu(net.conv(net.max_pool(x, pad=same(x, 3, 2)), 64))
    x = net.relu(net.conv(x, 192, 3))
    for modules, window in ((_THREE, 3), (_FOUR, 3), (_FIVE, 2)):
        x = _modules(net, net.max_pool(x, window, pad=same(x, window, 2)), modules, 3, "norm")
    return net.model(net.linear(net.global_pool(x), classes), preprocess="inception")
