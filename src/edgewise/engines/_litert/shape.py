"""Operators that move numbers about without changing them."""

from __future__ import annotations

from math import prod

import numpy as np

from ...core.errors import Unsupported
from ...core.protocols import Array
from ...model.graph import Node
from .flatbuffer import Slot
from .layout import NHWC, Order, arranged, gathered, plain, reshaped, transposed, with_last
from .writer import Writer, attribute, operator

_REFLECT = 0


@operator("Identity", "Dropout", int8="same")
def identity(w: Writer, node: Node) -> None:
    w.one_output(node)
    w.alias(node.outputs[0], node.inputs[0])


@operator("ConstantOfShape")
def constant_of_shape(w: Writer, node: Node) -> None:
    """Smaller ones are constants already when a graph gets here."""
    sizes = w.shape(node.outputs[0])
    raise Unsupported(f"{node.name!r} (ConstantOfShape) makes {prod(sizes)} numbers, too many to store in a file")


@operator("Reshape", "Flatten", "Squeeze", "Unsqueeze", int8="same", fits=lambda w, node: w.in_integers(node.inputs[0]))
def reshape(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    before, after = w.shape(x), w.shape(out)
    if prod(before) != prod(after):
        raise Unsupported(f"{node.name!r} ({node.operator}) makes {after} of {before}")
    needed, order = reshaped(before, w.order(x), after)
    w.put(out, w.reshape(w.take(x, needed), arranged(after, order)), order)
    if x in w.nonnegative:
        w.nonnegative.add(out)


@operator("Transpose", int8="same")
def transpose(w: Writer, node: Node) -> None:
    """Nothing moves until someone asks for the order this asks for."""
    x = node.inputs[0]
    order = w.order(x)
    perm = attribute(node, "perm", list(reversed(range(len(order)))))
    w.put(node.outputs[0], w.take(x, order), transposed(order, perm))


def _concat_fits(w: Writer, node: Node) -> bool:
    quants = [w.stored(name) for name in node.inputs]
    single = all(quant is not None and len(quant.scales) == 1 for quant in quants)
    return single and (len(set(quants)) == 1 or w.wanted(node.outputs[0]) is not None)


@operator("Concat", int8="same", fits=_concat_fits)
def concat(w: Writer, node: Node) -> None:
    out = node.outputs[0]
    rank = len(w.shape(out))
    axis = node.attributes["axis"] % rank
    orders = [w.order(name) for name in node.inputs if name not in w.constants]
    order = next((each for each in orders if each != plain(rank)), plain(rank))
    slots = [w.take(name, order) for name in node.inputs]
    quant = w.wanted(out) or slots[0].quant if w.quantized else None
    if quant is not None:
        # Only equal scales may be laid side by side.
        slots = [w.requantize(slot, quant) for slot in slots]
    made = slots[0]
    if len(slots) > 1:
        shape = arranged(w.shape(out), order)
        made = w.step("CONCATENATION", *slots, shape=shape, options="Concatenation", axis=order.index(axis))
    w.put(out, made, order)
    if all(name in w.nonnegative for name in node.inputs):
        w.nonnegative.add(out)


@operator("Split", int8="same", fits=lambda w, node: w.in_integers(node.inputs[0]))
def split(w: Writer, node: Node) -> None:
    x = node.inputs[0]
    order, shape = w.order(x), w.shape(x)
    axis = attribute(node, "axis", 0) % len(shape)
    place = order.index(axis)
    slot = w.take(x, order)
    sizes = _parts(w, node, shape[axis])
    made = [
        w.file.tensor(name or node.name, [*slot.shape[:place], size, *slot.shape[place + 1 :]], slot.dtype, slot.quant)
        for name, size in zip(node.outputs, sizes, strict=True)
    ]
    if len(set(sizes)) == 1:
        w.file.operator("SPLIT", [w.ints(place), slot], made, "Split", numSplits=len(made))
    else:
        w.file.operator("SPLIT_V", [slot, w.ints(sizes), w.ints(place)], made, "SplitV", numSplits=len(made))
    for name, part in zip(node.outputs, made, strict=True):
        w.put(name, part, order)
        if x in w.nonnegative:
            w.nonnegative.add(name)


def _parts(w: Writer, node: Node, size: int) -> list[int]:
    """From what the node says: of an output that nobody reads, the size is not known otherwise."""
    given = node.attributes.get("split")
    if w.given(node, 1):
        given = [int(part) for part in w.need(node, 1)]
    if given:
        return list(given)
    each = -(-size // len(node.outputs))
    return [each] * (len(node.outputs) - 1) + [size - each * (len(node.outputs) - 1)]


@operator("Slice", int8="same", fits=lambda w, node: w.in_integers(node.inputs[0]))
def slice_(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    order, shape = w.order(x), w.shape(x)
    ranges = [range(size) for size in shape]
    for start, end, axis, step in zip(*_slice_arguments(w, node), strict=True):
        ranges[axis % len(shape)] = range(shape[axis % len(shape)])[slice(start, end, step)]
    placed = [ranges[axis] for axis in order]
    slot, after = w.take(x, order), [len(each) for each in placed]
    if 0 in after:
        raise Unsupported(f"litert has no empty tensors, and {node.name!r} makes one")
    starts = [each.start for each in placed]
    if all(each.step == 1 for each in placed):
        made = w.step("SLICE", slot, w.ints(starts), w.ints(after), shape=after, options="Slice")
    else:
        steps = [each.step for each in placed]
        ends = [each.start + len(each) * each.step for each in placed]
        # An end before the first element cannot be written as a number: −1 means the last one.
        mask = sum(1 << i for i, end in enumerate(ends) if end < 0)
        arguments = w.ints(starts), w.ints([max(end, 0) for end in ends]), w.ints(steps)
        made = w.step("STRIDED_SLICE", slot, *arguments, shape=after, options="StridedSlice", endMask=mask)
    w.put(out, made, order)
    if x in w.nonnegative:
        w.nonnegative.add(out)


def _slice_arguments(w: Writer, node: Node) -> tuple[list[int], list[int], list[int], list[int]]:
    """Starts, ends, axes and steps, from inputs or (until opset 10) attributes."""
    if "starts" in node.attributes:
        starts, ends = node.attributes["starts"], node.attributes["ends"]
        return starts, ends, attribute(node, "axes", list(range(len(starts)))), [1] * len(starts)
    starts, ends = ([int(value) for value in w.need(node, i)] for i in (1, 2))
    axes = [int(value) for value in w.need(node, 3)] if w.given(node, 3) else list(range(len(starts)))
    steps = [int(value) for value in w.need(node, 4)] if w.given(node, 4) else [1] * len(starts)
    return starts, ends, axes, steps


def _pad_fits(w: Writer, node: Node) -> bool:
    zero = not w.given(node, 2) or not w.need(node, 2).any()
    return w.in_integers(node.inputs[0]) and (zero or attribute(node, "mode", "constant") != "constant")


@operator("Pad", int8="same", fits=_pad_fits)
def pad(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    order, rank = w.order(x), len(w.shape(x))
    pads = [int(value) for value in (w.need(node, 1) if w.given(node, 1) else node.attributes["pads"])]
    axes = [int(axis) % rank for axis in w.need(node, 3)] if w.given(node, 3) else list(range(rank))
    value = float(w.need(node, 2).reshape(())) if w.given(node, 2) else float(attribute(node, "value", 0.0))
    around = dict.fromkeys(range(rank), (0, 0)) | {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    if min(pads) < 0:
        raise Unsupported(f"litert has Pad with positive pads only (node {node.name!r})")
    slot, mode = w.take(x, order), attribute(node, "mode", "constant")
    shape, table = arranged(w.shape(out), order), w.ints(np.array([around[axis] for axis in order]))
    if mode == "reflect":
        made = w.step("MIRROR_PAD", slot, table, shape=shape, options="MirrorPad", mode=_REFLECT)
    elif mode == "constant" and value == 0:
        made = w.step("PAD", slot, table, shape=shape, options="Pad")
    elif mode == "constant":
        filler = w.file.constant(f"{node.name}/value", np.array([value], slot.dtype))
        made = w.step("PADV2", slot, table, filler, shape=shape, options="PadV2")
    else:
        made = slot
        for place, axis in enumerate(order):
            before, after = around[axis]
            size = slot.shape[place]
            indices = np.arange(-before, size + after)
            if before or after:
                made = pick(w, made, place, indices.clip(0, size - 1) if mode == "edge" else indices % size)
    w.put(out, made, order)


def pick(w: Writer, slot: Slot, place: int, indices: Array) -> Slot:
    """Slices along one place, by number."""
    shape = [*slot.shape[:place], len(indices), *slot.shape[place + 1 :]]
    return w.step("GATHER", slot, w.ints(indices), shape=shape, options="Gather", axis=place)


@operator(
    "Gather", int8="same", fits=lambda w, node: w.in_integers(node.inputs[0]) and node.inputs[0] not in w.constants
)
def gather(w: Writer, node: Node) -> None:
    x, which = node.inputs
    order, shape = w.order(x), w.shape(x)
    axis = attribute(node, "axis", 0) % len(shape)
    slot, place = w.take(x, order), order.index(axis)
    fixed = w.const(which)
    if fixed is not None:
        indices = w.ints(np.where(fixed < 0, fixed + shape[axis], fixed))
    else:
        # The kernel takes no negative ones, which in ONNX count from the end.
        given = w.take(which)
        below = w.step("LESS", given, w.number(0, given), dtype="bool", options="Less")
        turned = w.step("ADD", given, w.number(shape[axis], given), options="Add")
        indices = w.step("SELECT_V2", below, turned, given, dtype=given.dtype, options="SelectV2")
    there = (*slot.shape[:place], *indices.shape, *slot.shape[place + 1 :])
    made = w.step("GATHER", slot, indices, shape=there, options="Gather", axis=place)
    w.put(node.outputs[0], made, gathered(order, axis, len(indices.shape)))


@operator("Expand")
def expand(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    shape = w.shape(out)
    order = w.common([x], shape)
    slot, there = w.spread(x, len(shape), order), arranged(shape, order)
    w.put(out, w.step("BROADCAST_TO", slot, w.ints(there), shape=there, options="BroadcastTo"), order)


@operator("Tile")
def tile(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    order = w.order(x)
    times = w.need(node, 1)
    slot, there = w.take(x, order), arranged(w.shape(out), order)
    w.put(out, w.step("TILE", slot, w.ints([times[axis] for axis in order]), shape=there, options="Tile"), order)


@operator("DepthToSpace", int8="same")
def depth_to_space(w: Writer, node: Node) -> None:
    block, slot = node.attributes["blocksize"], w.take(node.inputs[0], NHWC)
    if attribute(node, "mode", "DCR") == "CRD":
        # Channels come as (channel, row, column) and are wanted as (row, column, channel).
        n, h, w_, c = slot.shape
        parts = w.reshape(slot, (n, h, w_, c // block**2, block**2))
        turned = w.step(
            "TRANSPOSE", parts, w.ints([0, 1, 2, 4, 3]),
            shape=(n, h, w_, block**2, c // block**2), options="Transpose",
        )  # fmt: skip
        slot = w.reshape(turned, slot.shape)
    shape = arranged(w.shape(node.outputs[0]), NHWC)
    w.put(node.outputs[0], w.step("DEPTH_TO_SPACE", slot, shape=shape, options="DepthToSpace", blockSize=block), NHWC)


@operator("SpaceToDepth", int8="same")
def space_to_depth(w: Writer, node: Node) -> None:
    slot, shape = w.take(node.inputs[0], NHWC), arranged(w.shape(node.outputs[0]), NHWC)
    block = node.attributes["blocksize"]
    w.put(node.outputs[0], w.step("SPACE_TO_DEPTH", slot, shape=shape, options="SpaceToDepth", blockSize=block), NHWC)


@operator("OneHot")
def one_hot(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    depth, values = int(w.need(node, 1).reshape(())), w.need(node, 2)
    rank = len(w.shape(out))
    axis = attribute(node, "axis", -1) % rank
    given = w.take(x)
    whole = w.step("CAST", given, dtype="int32", options="Cast") if given.dtype != "int32" else given
    size = w.ints(depth)
    # Negative labels count from the end.
    inside = w.step("FLOOR_MOD", whole, size, options="FloorMod")
    on, off = (w.file.constant(f"{node.name}/values", np.asarray(values[i])) for i in (1, 0))
    order: Order = with_last(plain(rank), axis)
    made = w.step(
        "ONE_HOT", inside, size, on, off,
        shape=(*given.shape, depth), dtype=values.dtype.name, options="OneHot", axis=-1,
    )  # fmt: skip
    w.put(out, made, order)
