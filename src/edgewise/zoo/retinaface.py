"""RetinaFace (Deng et al., 2019) on a quarter of MobileNet v1: boxes, scores and landmarks of faces on three levels."""

from __future__ import annotations

from typing import Any

from .layers import Net, Value
from .tokens import rows, softmax, stack

_ANCHORS = 2
_LANDMARKS = 5
_WIDTH = 64
# Channels and stride of the separable convolutions; the end of each part is a level.
_PARTS = (
    ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1)),
    ((128, 2), *[(128, 1)] * 5),
    ((256, 2), (256, 1)),
)


def _conv(net: Net, x: Value, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> Value:
    return net.leaky_relu(net.conv(x, out, kernel, stride, groups=groups))


def _levels(net: Net) -> list[Value]:
    x, levels = _conv(net, net.input, 8, 3, 2), []
    for part in _PARTS:
        for channels, stride in part:
            x = _conv(net, _conv(net, x, x.channels, 3, stride, x.channels), channels)
        levels.append(x)
    return levels


def _pyramid(net: Net, levels: list[Value]) -> list[Value]:
    """All levels to one width; each but the coarsest is added what the next coarser one knows."""
    fine, middle, coarse = (_conv(net, level, _WIDTH) for level in levels)
    middle = _conv(net, net.add(middle, net.twice(coarse)), _WIDTH, 3)
    fine = _conv(net, net.add(fine, net.twice(middle)), _WIDTH, 3)
    return [fine, middle, coarse]


def _context(net: Net, x: Value) -> Value:
    """Windows of 3, 5 and 7 side by side, the larger ones as two and three convolutions."""
    near = net.conv(x, _WIDTH // 2, 3)
    shared = _conv(net, x, _WIDTH // 4, 3)
    middle = net.conv(shared, _WIDTH // 4, 3)
    far = net.conv(_conv(net, shared, _WIDTH // 4, 3), _WIDTH // 4, 3)
    return net.relu(net.concat(near, middle, far))


def retinaface_mobilenet025(size: int = 640, seed: int = 0) -> Any:
    net = Net("retinaface_mobilenet025", size, seed)
    net.needs_multiple_of(32)
    levels = [_context(net, level) for level in _pyramid(net, _levels(net))]
    boxes, scores, landmarks = (
        stack(net, *[rows(net, net.conv(level, _ANCHORS * out, then="bias"), _ANCHORS) for level in levels])
        for out in (4, 2, 2 * _LANDMARKS)
    )
    scores = softmax(net, scores)
    # Less the mean of each colour, blue first.
    return net.model(boxes=boxes, scores=scores, landmarks=landmarks, preprocess="caffe(mean=104/117/123)")
