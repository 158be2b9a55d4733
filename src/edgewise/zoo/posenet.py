"""PoseNet (Papandreou et al., 2018): MobileNet v1 of full width that stops at stride 16, and four heads.

Of the files published for TensorFlow Lite, the one for 257x257 goes on to stride 32; the older one, for 353x257, stops
at 16 as here, and has three quarters of the channels.
"""

from __future__ import annotations

from typing import Any

from .layers import Net

# Channels and stride of the separable convolutions. The last reaches as far as it did at stride 32.
_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 1), (1024, 1))
_KEYPOINTS, _EDGES = 17, 16


def posenet(size: int = 257, seed: int = 0) -> Any:
    net = Net("posenet", size, seed)
    x = net.relu6(net.conv(net.input, 32, 3, 2))
    for index, (channels, stride) in enumerate(_BLOCKS):
        dilation = 2 if index == len(_BLOCKS) - 1 else 1
        x = net.relu6(net.conv(x, x.channels, 3, stride, groups=x.channels, dilation=dilation))
        x = net.relu6(net.conv(x, channels))
    return net.model(
        heatmaps=net.conv(x, _KEYPOINTS, then="bias"),
        offsets=net.conv(x, 2 * _KEYPOINTS, then="bias"),
        displacements_forward=net.conv(x, 2 * _EDGES, then="bias"),
        displacements_backward=net.conv(x, 2 * _EDGES, then="bias"),
        preprocess="inception",
    )
