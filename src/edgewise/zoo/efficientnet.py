"""EfficientNet-lite0 (after Tan and Le, 2019): B0 without squeeze-and-excitation, with ReLU6, padded as released."""

from __future__ import annotations

from typing import Any

from .layers import Net, same

# expansion, channels, repeats, stride of the first, kernel: Table 1 of the paper.
_BLOCKS = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
# Google's own takes 127 away, divides by 128, and resizes bilinearly; timm evaluates it after bicubic resizing.
_PREPROCESS = "inception(mean=0.498039, std=0.501961)"


def efficientnet_lite0(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    net = Net("efficientnet_lite0", size, seed)
    x = net.relu6(net.conv(net.input, 32, 3, 2, pad=same(net.input, 3, 2)))
    for expansion, channels, repeats, first_stride, kernel in _BLOCKS:
        for index in range(repeats):
            stride = 1 if index else first_stride
            y = net.relu6(net.conv(x, x.channels * expansion)) if expansion > 1 else x
            y = net.relu6(net.conv(y, y.channels, kernel, stride, groups=y.channels, pad=same(y, kernel, stride)))
            y = net.conv(y, channels)
            x = net.add(x, y) if index else y
    x = net.relu6(net.conv(x, 1280))
    return net.model(net.linear(net.global_pool(x), classes), preprocess=_PREPROCESS)
