"""ONNX operators that move elements about: sizes, slices, indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .ops import Made, Op, register


@register("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _reshape(op: Op) -> Made:
    return op.torch.reshape(op[0], op.made())


@register("Transpose")
def _transpose(op: Op) -> Made:
    return op.torch.permute(op[0], tuple(op.attribute("perm") or reversed(range(len(op.shape())))))


@register("Expand")
def _expand(op: Op) -> Made:
    return op[0].expand(op.made())


@register("Tile")
def _tile(op: Op) -> Made:
    return op[0].repeat(op.known(1))


@register("ConstantOfShape")
def _constant_of_shape(op: Op) -> Made:
    value = np.asarray(op.attribute("value", np.zeros(1, np.float32)))
    return op.net.constant(value.reshape(())).expand(op.made())


@register("Concat")
def _concat(op: Op) -> Made:
    return op.torch.cat(op.all(), op.attribute("axis"))


@register("Split")
def _split(op: Op) -> Made:
    axis = op.axis(0)
    parts = op.torch.split(op[0], [op.made(i)[axis] for i in range(len(op.node.outputs))], axis)
    return tuple(parts[i] for i in range(len(op.node.outputs)))


@register("Slice")
def _slice(op: Op) -> Made:
    shape, x = op.shape(), op[0]
    starts, ends = op.known(1, "starts"), op.known(2, "ends")
    axes = op.known(3, "axes") or range(len(starts))
    steps = op.known(4) or [1] * len(starts)
    cuts = [slice(None)] * len(shape)
    flipped = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = shape[axis]
        begin, stop, step = slice(start, end, step).indices(size)  # noqa: PLW2901
        if step < 0:
            # torch has no negative steps: the axis is turned round, and with it the positions.
            flipped.append(axis)
            begin, stop, step = size - 1 - begin, size - 1 - stop, -step  # noqa: PLW2901
        cuts[axis] = slice(begin, max(begin, stop), step)
    if flipped:
        x = op.torch.flip(x, tuple(flipped))
    return x[tuple(cuts)]


@register("Pad")
def _pad(op: Op) -> Made:
    shape, rank = op.shape(), len(op.shape())
    pads, mode = op.known(1, "pads"), op.attribute("mode", "constant")
    axes = [axis % rank for axis in op.known(3) or range(rank)]
    around = {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    if mode == "constant":
        value = op.known(2, "value", 0.0)
        if op.dtype() == "bool":
            raise op.refuse("of logical values")
        return op.functional.pad(op[0], _torch_pads(around, rank), value=op.number(np.asarray(value).item()))
    touched = [axis for axis, pair in around.items() if any(pair)]
    smooth = mode in ("reflect", "edge") and all(0 <= p < shape[a] for a in touched for p in around[a])
    # torch's own pads the last axes of a batch; anything else is a choice of positions, axis by axis.
    if smooth and 3 <= rank <= 5 and min(touched, default=2) >= 2 and op.dtype() in ("float32", "float16"):
        last = _torch_pads(around, rank)[: 2 * (rank - 2)]
        return op.functional.pad(op[0], last, mode="replicate" if mode == "edge" else "reflect")
    x = op[0]
    for axis in touched:
        before, after = around[axis]
        if min(before, after) < 0:
            raise op.refuse(f"that crops in the mode {mode}")
        positions = np.pad(np.arange(shape[axis]), (before, after), mode=mode)
        x = op.torch.index_select(x, axis, op.net.constant(positions))
    return x


def _torch_pads(around: dict[int, tuple[int, int]], rank: int) -> list[int]:
    """Last axis first, before and after."""
    return [size for axis in reversed(range(rank)) for size in around.get(axis, (0, 0))]


@register("Gather")
def _gather(op: Op) -> Made:
    axis = op.axis(0)
    chosen = op.net.constants.get(op.node.inputs[1])
    if chosen is not None and chosen.ndim == 0:
        return op.torch.select(op[0], axis, int(chosen))
    return op[0][(*[slice(None)] * axis, op[1].long())]


def _positive(op: Op, index: int, size: int) -> Any:
    """Indices count from the end where they are negative, which torch's gather and scatter do not know."""
    array = op.net.constants.get(op.node.inputs[index])
    if array is not None:
        return op.net.constant(np.where(array < 0, array + size, array).astype(np.int64))
    found = op[index].long()
    return op.torch.where(found < 0, found + size, found)


@register("GatherElements")
def _gather_elements(op: Op) -> Made:
    axis = op.axis(0)
    return op.torch.gather(op[0], axis, _positive(op, 1, op.shape()[axis]))


@register("Scatter", "ScatterElements")
def _scatter_elements(op: Op) -> Made:
    axis, how = op.axis(0), op.attribute("reduction", "none")
    where = _positive(op, 1, op.shape()[axis])
    if how == "none":
        return op.torch.scatter(op[0], axis, where, op[2])
    name = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[how]
    return op.torch.scatter_reduce(op[0], axis, where, op[2], reduce=name)


@register("GatherND")
def _gather_nd(op: Op) -> Made:
    batch, last = int(op.attribute("batch_dims", 0)), op.shape(1)[-1]
    where = op[1].long()
    chosen = [where[(..., i)] for i in range(last)]
    shape = op.shape(1)[:-1]
    # A batch axis is one more index, which counts along itself.
    for axis in reversed(range(batch)):
        counting = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        chosen.insert(0, op.net.constant(counting))
    return op[0][tuple(chosen)]


@register("ScatterND")
def _scatter_nd(op: Op) -> Made:
    how = op.attribute("reduction", "none")
    if how not in ("none", "add"):
        raise op.refuse(f"with reduction={how}")
    where = op[1].long()
    chosen = tuple(where[(..., i)] for i in range(op.shape(1)[-1]))
    return op.torch.index_put(op[0], chosen, op[2], accumulate=how == "add")


@register("OneHot")
def _one_hot(op: Op) -> Made:
    depth = int(np.asarray(op.known(1)).item())
    rank = len(op.shape()) + 1
    axis = int(op.attribute("axis", -1)) % rank
    found = op[0].long()
    found = op.torch.unsqueeze(op.torch.where(found < 0, found + depth, found), axis)
    counting = op.net.constant(np.arange(depth).reshape([-1 if a == axis else 1 for a in range(rank)]))
    return op.torch.where(found == counting, op[2][1], op[2][0])


@register("TopK")
def _top_k(op: Op) -> Made:
    """By a stable sort, because the lower of two equal positions comes first in ONNX, and anywhere in torch.topk."""
    axis, k = op.axis(-1), int(np.asarray(op.known(1, "k")).item())
    both = op.torch.sort(op[0], stable=True, dim=axis, descending=bool(op.attribute("largest", 1)))
    return tuple(op.torch.narrow(both[i], axis, 0, k) for i in range(2))


@register("CumSum")
def _cum_sum(op: Op) -> Made:
    x, shape = op[0], op.shape()
    axis = int(np.asarray(op.known(1)).item()) % len(shape)
    turned = bool(op.attribute("reverse", 0))
    if turned:
        x = op.torch.flip(x, (axis,))
    total = op.torch.cumsum(x, axis, dtype=op.net.dtype(op.dtype()))
    if op.attribute("exclusive", 0):
        nothing = op.torch.zeros_like(op.torch.narrow(total, axis, 0, 1))
        total = op.torch.cat([nothing, op.torch.narrow(total, axis, 0, shape[axis] - 1)], axis)
    return op.torch.flip(total, (axis,)) if turned else total


@register("Trilu")
def _trilu(op: Op) -> Made:
    k = int(np.asarray(op.known(1, default=0)).item())
    return (op.torch.triu if op.attribute("upper", 1) else op.torch.tril)(op[0], k)


@register("DepthToSpace")
def _depth_to_space(op: Op) -> Made:
    n, c, h, w = op.shape()
    b = op.attribute("blocksize")
    deep = op.attribute("mode", "DCR") == "DCR"
    split = (n, b, b, c // b**2, h, w) if deep else (n, c // b**2, b, b, h, w)
    order = (0, 3, 4, 1, 5, 2) if deep else (0, 1, 4, 2, 5, 3)
    return op.torch.reshape(op.torch.permute(op.torch.reshape(op[0], split), order), op.made())


@register("SpaceToDepth")
def _space_to_depth(op: Op) -> Made:
    n, c, h, w = op.shape()
    b = op.attribute("blocksize")
    split = op.torch.reshape(op[0], (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if op.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return op.torch.reshape(op.torch.permute(split, order), op.made())


@register("Size")
def _size(op: Op) -> Made:
    return op.net.constant(np.asarray(math.prod(op.shape()), np.int64))
