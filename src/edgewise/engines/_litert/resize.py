"""Resize and Upsample: where each output element looks, compared with where the kernels would look."""

from __future__ import annotations

import numpy as np

from ...core.errors import Unsupported
from ...core.protocols import Array
from ...model.graph import Node
from .flatbuffer import Slot
from .layout import NHWC, Order, arranged, with_last
from .shape import pick
from .writer import Writer, attribute, operator

# (align corners, half-pixel centres)
_KERNELS = ((False, True), (False, False), (True, False))
_CLOSE = 1e-4


def _fits(w: Writer, node: Node) -> bool:
    nearest = attribute(node, "mode", "nearest") == "nearest"
    return w.in_integers(node.inputs[0]) and (nearest or _kernel(w, node) is not None)


@operator("Resize", "Upsample", int8="same", fits=_fits)
def resize(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    mode, before = attribute(node, "mode", "nearest"), w.shape(x)
    if mode == "nearest":
        looks = {axis: _rounded(node, _coordinates(w, node, axis)) for axis in range(len(before))}
        _nearest(w, node, {axis: places.clip(0, before[axis] - 1) for axis, places in looks.items()})
        return
    for fault in ("antialias", "exclude_outside"):
        if attribute(node, fault, 0):
            raise Unsupported(f"litert has no Resize with {fault} (node {node.name!r})")
    if mode not in ("linear", "bilinear"):
        raise Unsupported(f"litert has no Resize of mode {mode!r} (node {node.name!r})")
    kernel = _kernel(w, node)
    if kernel is not None:
        _by_kernel(w, node, "RESIZE_BILINEAR", "ResizeBilinear", *kernel)
        return
    # No kernel looks just there, so each axis is multiplied with the matrix of its weights.
    order = w.order(x)
    made = w.take(x, order)
    for axis in range(len(before)):
        if before[axis] != w.shape(out)[axis]:
            made, order = _interpolated(w, made, order, axis, _coordinates(w, node, axis))
    w.put(out, made, order)


def _kernel(w: Writer, node: Node) -> tuple[bool, bool] | None:
    """The kind of kernel that looks where a linear Resize looks, if there is one."""
    before, after = w.shape(node.inputs[0]), w.shape(node.outputs[0])
    if len(before) != 4 or before[:2] != after[:2]:
        return None
    looks = {axis: _coordinates(w, node, axis) for axis in (2, 3)}
    for align, half in _KERNELS:
        if all(_agree(looks[axis], _linear(before[axis], after[axis], align, half), before[axis]) for axis in (2, 3)):
            return align, half
    return None


def _by_kernel(w: Writer, node: Node, kind: str, options: str, align: bool, half: bool) -> None:
    after = w.shape(node.outputs[0])
    made = w.step(
        kind, w.take(node.inputs[0], NHWC), w.ints(after[2:]),
        shape=arranged(after, NHWC), options=options, alignCorners=align, halfPixelCenters=half,
    )  # fmt: skip
    w.put(node.outputs[0], made, NHWC)


def _interpolated(w: Writer, slot: Slot, order: Order, axis: int, looks: Array) -> tuple[Slot, Order]:
    last = with_last(order, axis)
    if last != order:
        perm = [order.index(each) for each in last]
        shape = [slot.shape[place] for place in perm]
        slot = w.step("TRANSPOSE", slot, w.ints(perm), shape=shape, options="Transpose")
    size, rows = slot.shape[-1], np.arange(len(looks))
    low = np.floor(looks.clip(0, size - 1)).astype(np.int64)
    part = looks.clip(0, size - 1) - low
    matrix = np.zeros((len(looks), size), np.float32)
    matrix[rows, low] += 1 - part
    matrix[rows, np.minimum(low + 1, size - 1)] += part
    weights = w.file.constant(f"{w.node.name}/weights", matrix)
    bias = w.file.constant(f"{w.node.name}/bias", np.zeros(len(looks), np.float32))
    shape = [*slot.shape[:-1], len(looks)]
    return w.step("FULLY_CONNECTED", slot, weights, bias, shape=shape, options="FullyConnected", keepNumDims=True), last


def _coordinates(w: Writer, node: Node, axis: int) -> Array:
    """Where on the input's axis each output element looks."""
    size, out = w.shape(node.inputs[0])[axis], w.shape(node.outputs[0])[axis]
    scale = _scale(w, node, axis)
    how = attribute(node, "coordinate_transformation_mode", "half_pixel" if node.operator == "Resize" else "asymmetric")
    if w.graph.opset < 11:
        how = "asymmetric"
    place = np.arange(out, dtype=np.float64)
    if how == "asymmetric":
        return place / scale
    if how == "align_corners":
        return place * (size - 1) / (out - 1) if out > 1 else np.zeros(1)
    if how == "pytorch_half_pixel" and out == 1:
        return np.zeros(1)
    if how in ("half_pixel", "pytorch_half_pixel"):
        return (place + 0.5) / scale - 0.5
    if how == "half_pixel_symmetric":
        # What a size that is not whole loses is lost on both sides.
        return (place + 0.5) / scale - 0.5 + size / 2 * (1 - out / (scale * size))
    raise Unsupported(f"litert has no Resize with coordinates {how!r} (node {node.name!r})")


def _scale(w: Writer, node: Node, axis: int) -> float:
    size, out = w.shape(node.inputs[0])[axis], w.shape(node.outputs[0])[axis]
    if attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unsupported(f"litert has Resize to the sizes asked for only (node {node.name!r})")
    position = 1 if node.operator == "Upsample" or w.graph.opset < 11 else 2
    scales = node.attributes.get("scales")
    if w.given(node, position) and w.need(node, position).size:
        scales = [float(scale) for scale in w.need(node, position)]
    if scales is None:
        return out / size
    axes = [each % len(w.shape(node.inputs[0])) for each in attribute(node, "axes", range(len(scales)))]
    return float(scales[axes.index(axis)]) if axis in axes else 1.0


def _rounded(node: Node, places: Array) -> Array:
    how = attribute(node, "nearest_mode", "round_prefer_floor" if node.operator == "Resize" else "floor")
    # Where a coordinate is whole but for the last bits, it is meant to be whole.
    whole = np.rint(places)
    places = np.where(np.abs(places - whole) < 1e-6, whole, places)
    if how.startswith("round"):
        places = places - 0.5 if how == "round_prefer_floor" else places + 0.5
    found: Array = np.ceil(places) if how in ("ceil", "round_prefer_floor") else np.floor(places)
    return found.astype(np.int64)


def _nearest(w: Writer, node: Node, looks: dict[int, Array]) -> None:
    """By the kernel where it looks at the same elements, else picked one by one."""
    x, out = node.inputs[0], node.outputs[0]
    before, after = w.shape(x), w.shape(out)
    changed = [axis for axis in looks if not np.array_equal(looks[axis], np.arange(before[axis]))]
    if len(before) == 4 and changed and set(changed) <= {2, 3}:
        for align, half in _KERNELS:
            kernel = {axis: _kernel_nearest(before[axis], after[axis], align, half) for axis in (2, 3)}
            if all(np.array_equal(looks[axis], kernel[axis]) for axis in kernel):
                _by_kernel(w, node, "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor", align, half)
                return
    order = w.order(x)
    made = w.take(x, order)
    for axis in changed:
        made = pick(w, made, order.index(axis), looks[axis])
    w.put(out, made, order)


def _step(size: int, out: int, align: bool) -> np.float32:
    return np.float32((size - 1) / (out - 1) if align and out > 1 else size / out)


def _linear(size: int, out: int, align: bool, half: bool) -> Array:
    place, step = np.arange(out, dtype=np.float32), _step(size, out, align)
    found: Array = (place + np.float32(0.5)) * step - np.float32(0.5) if half else place * step
    return found


def _agree(one: Array, other: Array, size: int) -> bool:
    return bool(np.abs(one.clip(0, size - 1) - other.clip(0, size - 1)).max() < _CLOSE)


def _kernel_nearest(size: int, out: int, align: bool, half: bool) -> Array:
    place = np.arange(out, dtype=np.float32) + np.float32(0.5 if half else 0)
    scaled = place * _step(size, out, align)
    found: Array = (np.floor(scaled + np.float32(0.5)) if align else np.floor(scaled)).astype(np.int64)
    return found.clip(0, size - 1)
