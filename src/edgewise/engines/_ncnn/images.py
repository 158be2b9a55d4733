"""Convolutions, pools, pads and resizes as pnnx converts them rightly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...core.errors import Unsupported
from ...model.graph import Node
from .writer import Writer


def _fill(w: Writer, x: str, axis: int, first: int, last: int, value: float) -> str:
    """As the height of an image, which pnnx pads, whatever axis it is."""
    if not first and not last:
        return x
    before, size, after = w.shapes[x][:axis], w.shapes[x][axis], w.shapes[x][axis + 1 :]
    image = w.reshape(x, (1, prod(before), size, prod(after)))
    pads = [0, 0, first, 0, 0, 0, last, 0]
    made = (1, prod(before), size + first + last, prod(after))
    if w.graph.opset < 11:
        padded = w.op("Pad", (image,), made, mode="constant", pads=pads, value=float(value))
    else:
        inputs = (image, w.weight(np.array(pads, np.int64)), w.scalar(value))
        padded = w.op("Pad", inputs, made, mode="constant")
    return w.reshape(padded, (*before, made[2], *after))


def _pad(w: Writer, node: Node) -> str:
    x = w.value(node.inputs[0])
    rank = len(w.shapes[x])
    pads = w.ints(node, 1, "pads") or []
    axes = [axis % rank for axis in w.ints(node, 3, "axes") or range(rank)]
    mode = node.attributes.get("mode", "constant")
    fill = float(node.attributes.get("value", 0))
    if len(node.inputs) > 2 and node.inputs[2]:
        if node.inputs[2] not in w.graph.constants:
            raise Unsupported("ncnn has no Pad with a computed value")
        fill = float(w.graph.constants[node.inputs[2]].item())
    for position, axis in enumerate(axes):
        first, last = pads[position], pads[position + len(axes)]
        size = w.shapes[x][axis]
        x = w.cut(x, axis, max(-first, 0), size - max(-last, 0))
        first, last = max(first, 0), max(last, 0)
        if mode != "constant" and (first or last):
            indices = np.pad(np.arange(w.shapes[x][axis]), (first, last), mode=mode)
            x = w.pick(x, axis, indices.tolist(), f"Pad in mode {mode}")
            continue
        x = _fill(w, x, axis, first, last, fill)
    return x


def _depth_to_space(w: Writer, node: Node) -> str:
    x, block = w.value(node.inputs[0]), node.attributes["blocksize"]
    if w.graph.opset < 11:
        raise Unsupported("pnnx has no DepthToSpace before opset 11", "export the model with a newer opset")
    if node.attributes.get("mode", "DCR") == "DCR":
        x = _swap(w, x, block * block, w.shapes[x][1] // block**2)
    return w.op("DepthToSpace", (x,), w.shape(node.outputs[0]), blocksize=block, mode="CRD")


def _swap(w: Writer, x: str, outer: int, inner: int) -> str:
    """Channels that count outer * inner, counted inner * outer."""
    n, c, height, width = w.shapes[x]
    table = w.reshape(x, (n, outer, inner, height, width))
    turned = w.op("Transpose", (table,), (n, inner, outer, height, width), perm=[0, 2, 1, 3, 4])
    return w.reshape(turned, (n, c, height, width))


def _space_to_depth(w: Writer, node: Node) -> str:
    x, block = w.value(node.inputs[0]), node.attributes["blocksize"]
    height, width = w.shapes[x][2:]
    corners = []
    for down in range(block):
        row = w.every(x, 2, down, height // block, block)
        corners += [w.every(row, 3, right, width // block, block) for right in range(block)]
    return w.concat(corners, 1)


def _resize(w: Writer, node: Node) -> str:
    shape, made = w.shape(node.inputs[0]), w.shape(node.outputs[0])
    if shape == made:
        return w.value(node.inputs[0])
    attributes = node.attributes
    mode = attributes.get("mode", "nearest")
    place = attributes.get("coordinate_transformation_mode", "half_pixel")
    scales = w.graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
    by = (
        [float(s) for s in scales]
        if scales is not None and scales.size
        else [b / a for a, b in zip(shape, made, strict=True)]
    )
    whole = all(scale == int(scale) for scale in by)
    rounding = attributes.get("nearest_mode", "round_prefer_floor")
    # Whole scales repeat pixels either way; for others ncnn has only the floor of the quotient.
    repeats = place == "asymmetric" and rounding == "floor"
    repeats |= whole and place in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
    smooth = place in ("half_pixel", "align_corners") or (place == "pytorch_half_pixel" and min(made[2:]) > 1)
    cubic = mode == "cubic" and smooth and attributes.get("cubic_coeff_a", -0.75) == -0.75
    known = (mode == "nearest" and repeats) or (mode == "linear" and smooth) or cubic
    odd = attributes.get("antialias") or attributes.get("exclude_outside") or attributes.get("axes")
    if not known or odd or len(shape) != 4 or shape[:2] != made[:2]:
        raise Unsupported(f"ncnn has no Resize in mode {mode} with {place} coordinates over these axes")
    place = {"nearest": "asymmetric", "linear": place, "cubic": place}[mode]
    place = "half_pixel" if place == "pytorch_half_pixel" else place
    extra = {"cubic_coeff_a": -0.75} if mode == "cubic" else {"nearest_mode": "floor"}
    inputs = (w.value(node.inputs[0]), "", w.weight(np.array(by, np.float32)))
    return w.op("Resize", inputs, made, mode=mode, coordinate_transformation_mode=place, **extra)


def _window(w: Writer, node: Node, kernel: Sequence[int]) -> dict[str, Any]:
    """Kernel, strides, dilations and pads of a convolution or pool, spelled out: pnnx mistakes `auto_pad`."""
    half = len(kernel)
    given = node.attributes
    found = {"strides": given.get("strides") or [1] * half, "dilations": given.get("dilations") or [1] * half}
    pads = given.get("pads") or [0] * 2 * half
    mode = given.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        sizes, made = w.shape(node.inputs[0])[2:], w.shape(node.outputs[0])[2:]
        if node.operator == "ConvTranspose":
            sizes, made = made, sizes
        reach = ((k - 1) * d + 1 for k, d in zip(kernel, found["dilations"], strict=True))
        rows = zip(sizes, made, found["strides"], reach, strict=True)
        total = [max((out - 1) * step + span - size, 0) for size, out, step, span in rows]
        less, more = [t // 2 for t in total], [t - t // 2 for t in total]
        pads = less + more if mode == "SAME_UPPER" else more + less
    return found | {"kernel_shape": list(kernel), "pads": list(pads)}


def _conv(w: Writer, node: Node) -> str:
    window = _window(w, node, w.shape(node.inputs[1])[2:])
    inputs = [w.value(name) for name in node.inputs if name]
    return w.op("Conv", inputs, w.shape(node.outputs[0]), group=node.attributes.get("group", 1), **window)


def _conv_transpose(w: Writer, node: Node) -> str:
    """Where pads are uneven, all of the answer is computed and then cut."""
    window = _window(w, node, w.shape(node.inputs[1])[2:])
    half = len(window["kernel_shape"])
    pads, made = window["pads"], w.shape(node.outputs[0])
    extra = list(node.attributes.get("output_padding") or [0] * half)
    group = node.attributes.get("group", 1)
    inputs = [w.value(name) for name in node.inputs if name]
    if "output_shape" in node.attributes:
        raise Unsupported("ncnn has no ConvTranspose with an output_shape")
    if pads[:half] == pads[half:]:
        return w.op("ConvTranspose", inputs, made, group=group, output_padding=extra, **window)
    sizes = w.shapes[inputs[0]][2:]
    rows = zip(sizes, window["strides"], window["dilations"], window["kernel_shape"], extra, strict=True)
    full = [(size - 1) * step + (k - 1) * d + 1 + more for size, step, d, k, more in rows]
    window["pads"] = [0] * 2 * half
    x = w.op("ConvTranspose", inputs, (*made[:2], *full), group=group, output_padding=extra, **window)
    for axis in range(half):
        x = w.cut(x, axis + 2, pads[axis], pads[axis] + made[axis + 2])
    return x


def _pool(w: Writer, node: Node) -> str:
    """Uneven pads are added before; those that do not count are taken out of the mean again."""
    x, made = w.value(node.inputs[0]), w.shape(node.outputs[0])
    window = _window(w, node, node.attributes["kernel_shape"])
    kernel, strides, pads = window["kernel_shape"], window["strides"], window["pads"]
    half, mean = len(kernel), node.operator == "AveragePool"
    if len(node.outputs) > 1 or any(d != 1 for d in window.pop("dilations")):
        raise Unsupported(f"ncnn has no {node.operator} with dilations or indices")
    counted = {"count_include_pad": node.attributes.get("count_include_pad", 0)} if mean else {}
    ceil = node.attributes.get("ceil_mode", 0)
    if pads[:half] == pads[half:]:
        ceiling = {"ceil_mode": ceil} if ceil else {}
        return w.op(node.operator, (x,), made, **window, **counted, **ceiling)
    if mean and ceil:
        raise Unsupported("ncnn has no AveragePool with uneven pads and ceil_mode")
    inside = np.ones(1)
    for axis in range(half):
        size, first = w.shapes[x][axis + 2], pads[axis]
        last = max((made[axis + 2] - 1) * strides[axis] + kernel[axis] - size - first, 0)
        real = np.pad(np.ones(size), (first, last))
        starts = range(0, made[axis + 2] * strides[axis], strides[axis])
        inside = np.multiply.outer(inside, [real[start : start + kernel[axis]].sum() for start in starts])
        x = _fill(w, x, axis + 2, first, last, 0 if mean else float(np.finfo(np.float32).min))
    window["pads"] = [0] * 2 * half
    pooled = w.op(node.operator, (x,), made, **window)
    if not mean or counted["count_include_pad"]:
        return pooled
    return w.binary("Mul", pooled, w.weight((prod(kernel) / inside[None]).astype(np.float32)))


def _upsample(w: Writer, node: Node) -> str:
    if node.attributes.get("mode", "nearest") != "nearest":
        raise Unsupported("ncnn has no Upsample in mode linear, whose corners differ from Resize's")
    return w.generic(node)[0]


RULES: dict[str, Callable[[Writer, Node], str]] = {
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Upsample": _upsample,
    "Resize": _resize,
}
