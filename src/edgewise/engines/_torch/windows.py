"""ONNX operators with windows over an image: convolutions, pools, normalizations, resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...model.graph import Array
from .ops import Made, Op, register

Pairs = list[tuple[int, int]]
# Positions to take, and how much of each (None: all of it).
Taps = list[tuple[Array, Array | None]]


def _window(op: Op, kernel: Sequence[int]) -> tuple[list[int], list[int], Pairs]:
    """Strides, dilations, and what is padded before and after each axis."""
    n = len(kernel)
    strides = list(op.attribute("strides") or [1] * n)
    dilations = list(op.attribute("dilations") or [1] * n)
    pads, auto = op.attribute("pads") or [0] * 2 * n, op.attribute("auto_pad", "NOTSET")
    if auto == "NOTSET":
        return strides, dilations, list(zip(pads[:n], pads[n:], strict=True))
    around = []
    for i, size in enumerate(op.shape()[2:]):
        wanted = 0
        if auto.startswith("SAME"):
            reach = (kernel[i] - 1) * dilations[i] + 1
            wanted = max(0, (math.ceil(size / strides[i]) - 1) * strides[i] + reach - size)
        small, large = wanted // 2, wanted - wanted // 2
        around.append((large, small) if auto == "SAME_LOWER" else (small, large))
    return strides, dilations, around


def _padded(op: Op, x: Any, around: Pairs, value: float = 0.0) -> Any:
    flat = [size for pair in reversed(around) for size in pair]
    return op.functional.pad(x, flat, value=value) if any(flat) else x


def _of_rank(op: Op, name: str, where: Any = None) -> Any:
    """conv1d, conv2d, conv3d: the function for as many axes as the input has."""
    axes = len(op.shape()) - 2
    if axes not in (1, 2, 3):
        raise op.refuse(f"over {axes} axes")
    return getattr(where or op.torch, f"{name}{axes}d")


@register("Conv")
def _conv(op: Op) -> Made:
    strides, dilations, around = _window(op, op.shape(1)[2:])
    x, bias = op[0], op[2] if op.has(2) else None
    if any(a != b or a < 0 for a, b in around):
        x, around = _padded(op, x, around), [(0, 0)] * len(around)
    pads = [a for a, _ in around]
    return _of_rank(op, "conv")(x, op[1], bias, strides, pads, dilations, op.attribute("group", 1))


@register("ConvTranspose")
def _conv_transpose(op: Op) -> Made:
    kernel = op.shape(1)[2:]
    n = len(kernel)
    strides, dilations, _ = _window(op, kernel)
    extra = list(op.attribute("output_padding") or [0] * n)
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise op.refuse(f"with output_padding={extra} as large as its stride and dilation")
    made, given = op.made()[2:], op.attribute("pads") or [0] * 2 * n
    begins, ends = given[:n], given[n:]
    whole = [
        (size - 1) * s + (k - 1) * d + 1 + e
        for size, s, k, d, e in zip(op.shape()[2:], strides, kernel, dilations, extra, strict=True)
    ]
    if op.attribute("output_shape") or op.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        # The pads follow from the size of the result.
        cut = [w - m for w, m in zip(whole, made, strict=True)]
        if min(cut) < 0:
            raise op.refuse("whose result is larger than what it computes")
        lower = op.attribute("auto_pad") != "SAME_UPPER"
        begins = [c - c // 2 if lower else c // 2 for c in cut]
        ends = [c - b for c, b in zip(cut, begins, strict=True)]
    even = begins == ends
    pads = begins if even else [0] * n
    bias, group = op[2] if op.has(2) else None, op.attribute("group", 1)
    y = _of_rank(op, "conv_transpose")(op[0], op[1], bias, strides, pads, extra, group, dilations)
    if even:
        return y
    return y[(..., *(slice(b, b + m) for b, m in zip(begins, made, strict=True)))]


def _pool_sizes(op: Op, kernel: list[int]) -> tuple[list[int], list[int], Pairs, bool]:
    strides, dilations, around = _window(op, kernel)
    ceil = bool(op.attribute("ceil_mode", 0))
    made = []
    for size, k, s, d, (before, after) in zip(op.shape()[2:], kernel, strides, dilations, around, strict=True):
        room = size + before + after - (k - 1) * d - 1
        count = (math.ceil(room / s) if ceil else room // s) + 1
        # A window that would begin in the padding behind is left out, by torch and, from opset 22 on, by ONNX.
        made.append(count - 1 if ceil and (count - 1) * s >= size + before else count)
    if tuple(made) != op.made()[2:]:
        raise op.refuse(f"with ceil_mode whose result is {op.made()[2:]}; torch's is {tuple(made)}")
    return strides, dilations, around, ceil


@register("MaxPool")
def _max_pool(op: Op) -> Made:
    if op.wants(1):
        raise op.refuse("that gives its indices")
    kernel = list(op.attribute("kernel_shape"))
    strides, dilations, around, ceil = _pool_sizes(op, kernel)
    pool = _of_rank(op, "max_pool", op.functional)
    if all(a == b and 2 * a <= k for (a, b), k in zip(around, kernel, strict=True)):
        return pool(op[0], kernel, strides, [a for a, _ in around], dilations, ceil)
    return _cut(op, pool(_padded(op, op[0], around, -math.inf), kernel, strides, 0, dilations, ceil), ceil)


def _cut(op: Op, y: Any, ceil: bool) -> Any:
    """Without windows that begin in the padding behind, the last ones: padding not its own is input to torch."""
    return y[(..., *(slice(size) for size in op.made()[2:]))] if ceil else y


@register("AveragePool")
def _average_pool(op: Op) -> Made:
    kernel = list(op.attribute("kernel_shape"))
    strides, dilations, around, ceil = _pool_sizes(op, kernel)
    if max(dilations) > 1:
        raise op.refuse("with dilations")
    include = bool(op.attribute("count_include_pad", 0))
    pool = _of_rank(op, "avg_pool", op.functional)
    if all(a == b and 2 * a <= k for (a, b), k in zip(around, kernel, strict=True)):
        return pool(op[0], kernel, strides, [a for a, _ in around], ceil, include)
    y = _cut(op, pool(_padded(op, op[0], around), kernel, strides, 0, ceil, True), ceil)
    return y if include else y * op.net.constant(_uncounted(op, kernel, strides, around))


def _uncounted(op: Op, kernel: list[int], strides: list[int], around: Pairs) -> Array:
    """By how much each mean grows when padding is not counted: what was counted over what is real."""
    ratio = np.ones(1)
    for size, k, s, (before, after), count in zip(op.shape()[2:], kernel, strides, around, op.made()[2:], strict=True):
        begin = np.arange(count) * s
        counted = np.minimum(begin + k, size + before + after) - begin
        real = np.minimum(begin + k, size + before) - np.maximum(begin, before)
        ratio = np.multiply.outer(ratio, counted / np.maximum(real, 1))
    return np.asarray(ratio[0], np.float32)


@register("GlobalAveragePool")
def _global_average_pool(op: Op) -> Made:
    return op.torch.mean(op[0], tuple(range(2, len(op.shape()))), True)


@register("GlobalMaxPool")
def _global_max_pool(op: Op) -> Made:
    return op.torch.amax(op[0], tuple(range(2, len(op.shape()))), True)


@register("LRN")
def _lrn(op: Op) -> Made:
    """In fp32, since squares leave the range of fp16; torch's own puts a window of even size one channel further."""
    n, c, *rest = op.shape()
    size = op.attribute("size")
    x = op[0].to(op.torch.float32)
    rows = op.torch.reshape(x * x, (n, 1, c, math.prod(rest)))
    rows = op.functional.pad(rows, (0, 0, (size - 1) // 2, size // 2))
    mean = op.torch.reshape(op.functional.avg_pool2d(rows, (size, 1), 1), op.shape())
    scale = (mean * op.attribute("alpha", 1e-4) + op.attribute("bias", 1.0)) ** op.attribute("beta", 0.75)
    return (x / scale).to(op.net.dtype(op.dtype()))


@register("BatchNormalization")
def _batch_normalization(op: Op) -> Made:
    if op.attribute("training_mode", 0):
        raise op.refuse("in training")
    epsilon = op.attribute("epsilon", 1e-5)
    known = [op.net.constants.get(name) for name in op.node.inputs[1:5]]
    if any(array is None for array in known):
        return op.functional.batch_norm(op[0], op[3], op[4], op[1], op[2], eps=epsilon)
    # What is constant is worked out once: one multiplication and one addition are left.
    scale, bias, mean, variance = (np.asarray(array, np.float64) for array in known)
    factor = scale / np.sqrt(variance + epsilon)
    shape = (-1,) + (1,) * (len(op.shape()) - 2)
    terms = [array.reshape(shape).astype(np.float32) for array in (bias - mean * factor, factor)]
    return op.torch.addcmul(op.net.constant(terms[0]), op[0], op.net.constant(terms[1]))


@register("InstanceNormalization")
def _instance_normalization(op: Op) -> Made:
    return op.functional.instance_norm(op[0], weight=op[1], bias=op[2], eps=op.attribute("epsilon", 1e-5))


@register("LayerNormalization")
def _layer_normalization(op: Op) -> Made:
    if op.wants(1) or op.wants(2):
        raise op.refuse("that gives its mean or deviation")
    over, epsilon = op.shape()[op.axis(-1) :], op.attribute("epsilon", 1e-5)
    scale, bias = op[1], op[2] if op.has(2) else None
    if op.shape(1) == over and (bias is None or op.shape(2) == over):
        return op.functional.layer_norm(op[0], over, scale, bias, epsilon)
    y = op.functional.layer_norm(op[0], over, None, None, epsilon) * scale
    return y if bias is None else y + bias


@register("GroupNormalization")
def _group_normalization(op: Op) -> Made:
    groups, channels, epsilon = op.attribute("num_groups"), op.shape()[1], op.attribute("epsilon", 1e-5)
    scale, bias = op[1], op[2]
    if op.opset < 21 and op.shape(1)[0] != channels:  # one for each group
        scale, bias = (op.torch.repeat_interleave(v, channels // groups) for v in (scale, bias))
    return op.functional.group_norm(op[0], groups, scale, bias, epsilon)


@register("MeanVarianceNormalization")
def _mean_variance_normalization(op: Op) -> Made:
    axes = tuple(op.attribute("axes") or (0, 2, 3))
    centred = op[0] - op.torch.mean(op[0], axes, True)
    return centred / (op.torch.sqrt(op.torch.mean(centred * centred, axes, True)) + 1e-9)


@register("LpNormalization")
def _lp_normalization(op: Op) -> Made:
    return op.functional.normalize(op[0], float(op.attribute("p", 2)), op.axis(-1))


@register("GridSample")
def _grid_sample(op: Op) -> Made:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(m := op.attribute("mode", "linear"), m)
    padding, corners = op.attribute("padding_mode", "zeros"), bool(op.attribute("align_corners", 0))
    if mode == "bicubic" and len(op.shape()) == 5:
        raise op.refuse("that is cubic in three axes")
    return op.functional.grid_sample(op[0], op[1], mode, padding, corners)


@register("Resize", "Upsample")
def _resize(op: Op) -> Made:
    """torch's own where it means the same; else a weighted sum of chosen positions, axis by axis."""
    mode, shape, made = op.attribute("mode", "nearest"), op.shape(), op.made()
    old = op.opset < 11
    where = "asymmetric" if old else op.attribute("coordinate_transformation_mode", "half_pixel")
    if where == "tf_crop_and_resize" or op.attribute("antialias", 0):
        raise op.refuse("that crops or smooths")
    if op.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise op.refuse("that keeps the aspect ratio")
    axes = [axis % len(shape) for axis in op.attribute("axes") or range(len(shape))]
    scales = op.known(1 if old else 2, "scales") or []
    sizes = dict(zip(axes, scales, strict=True)) if scales else {a: made[a] / shape[a] for a in axes}
    if any(int(np.float32(sizes[a]) * np.float32(shape[a])) != made[a] for a in axes if scales):
        raise op.refuse(f"of {list(shape)} by {scales}, whose size depends on how the product is rounded")
    if where == "align_corners" and any(not math.isclose(sizes[a] * shape[a], made[a], rel_tol=1e-6) for a in axes):
        # The standard divides by the unrounded size; no engine is known to.
        raise op.refuse("that aligns corners to a fraction of an element")
    moved = [axis for axis in range(len(shape)) if sizes.get(axis, 1) != 1 or made[axis] != shape[axis]]
    sampled = {a: _sources(where, shape[a], made[a], sizes[a]) for a in moved}
    if mode == "nearest":
        rounding = "floor" if old else op.attribute("nearest_mode", "round_prefer_floor")
        taps = {a: _nearest(sampled[a], rounding, shape[a]) for a in moved}
    else:
        taps = {a: _weighted(op, mode, sampled[a], shape[a]) for a in moved}
    if min(moved, default=2) >= 2 and len(shape) in (3, 4, 5) and op.dtype() != "float64":
        own = _own_resize(op, mode, where, taps, sizes)
        if own is not None:
            return own
    x = op[0]
    for axis, chosen in taps.items():
        first, *others = (_taken(op, x, axis, *tap) for tap in chosen)
        x = first
        for other in others:
            x = x + other
    return x


def _taken(op: Op, x: Any, axis: int, at: Array, weight: Array | None) -> Any:
    x = op.torch.index_select(x, axis, op.net.constant(at))
    if weight is None:
        return x
    column = [-1 if a == axis else 1 for a in range(len(op.shape()))]
    return x * op.net.constant(weight.reshape(column).astype(np.float32))


def _sources(where: str, size: int, made: int, scale: float) -> Array:
    """Where on the input's axis each element of the output comes from; in single precision, as others round too."""
    i, one = np.arange(made, dtype=np.float32), np.float32(scale)
    if where == "align_corners":
        return i * np.float32(size - 1) / np.float32(max(made - 1, 1))
    if where == "asymmetric":
        return i / one
    if where == "pytorch_half_pixel" and made == 1:
        return i
    shift = np.float32(size / 2 * (1 - made / (scale * size))) if where == "half_pixel_symmetric" else np.float32(0)
    return np.asarray(shift + (i + np.float32(0.5)) / one - np.float32(0.5))


def _nearest(at: Array, rounding: str, size: int) -> Taps:
    if rounding.startswith("round"):
        near = np.ceil(at - 0.5) if rounding == "round_prefer_floor" else np.floor(at + 0.5)
    else:
        near = np.floor(at) if rounding == "floor" else np.ceil(at)
    return [(near.clip(0, size - 1).astype(np.int64), None)]


def _weighted(op: Op, mode: str, at: Array, size: int) -> Taps:
    """Two neighbours of each place, or four."""
    floor = np.floor(at)
    part = at - floor
    if mode == "linear":
        weights = [1 - part, part]
    else:
        a = op.attribute("cubic_coeff_a", -0.75)
        distances = [part + 1, part, 1 - part, 2 - part]
        weights = [
            (a + 2) * d**3 - (a + 3) * d**2 + 1 if i in (1, 2) else a * (d**3 - 5 * d**2 + 8 * d - 4)
            for i, d in enumerate(distances)
        ]
    places = [floor + i for i in range(1 - len(weights) // 2, 1 + len(weights) // 2)]
    if op.attribute("exclude_outside", 0):
        weights = [w * ((p >= 0) & (p < size)) for w, p in zip(weights, places, strict=True)]
        total = np.sum(weights, axis=0)
        weights = [w / total for w in weights]
    return [(p.clip(0, size - 1).astype(np.int64), w) for p, w in zip(places, weights, strict=True)]


def _own_resize(op: Op, mode: str, where: str, taps: dict[int, Taps], scales: dict[int, float]) -> Any:
    """torch.nn.functional.interpolate, if it takes the same positions."""
    shape, made, rank = op.shape(), op.made(), len(op.shape())
    if mode == "nearest":
        # In single precision, as torch does it: 3 × (1/3) may fall below 1.
        steps = {a: np.arange(made[a], dtype=np.float32) * np.float32(shape[a] / made[a]) for a in taps}
        if all(np.array_equal(taps[a][0][0], np.floor(steps[a])) for a in taps):
            return op.functional.interpolate(op[0], made[2:], mode="nearest")
        return None
    names = {("linear", 3): "linear", ("linear", 4): "bilinear", ("linear", 5): "trilinear", ("cubic", 4): "bicubic"}
    usual = op.attribute("cubic_coeff_a", -0.75) == -0.75 and not op.attribute("exclude_outside", 0)
    centred = where == "half_pixel" or (where == "pytorch_half_pixel" and min(made[2:]) > 1)
    if (mode, rank) not in names or not usual or not (centred or where == "align_corners"):
        return None
    corners = where == "align_corners"
    exact = all(math.isclose(scales[a] * shape[a], made[a], rel_tol=1e-6) for a in taps)
    if corners or exact:
        return op.functional.interpolate(op[0], made[2:], mode=names[mode, rank], align_corners=corners)
    factors = [scales.get(a, 1.0) for a in range(2, rank)]
    if [int(f * s) for f, s in zip(factors, shape[2:], strict=True)] != list(made[2:]):
        return None
    return op.functional.interpolate(
        op[0], scale_factor=factors, mode=names[mode, rank], align_corners=False, recompute_scale_factor=False
    )
