"""Does a network treat the rows of a batch one by one? Proved operator by operator.

ncnn's networks have no batch of their own: a batch is run row by row, which is only right where rows do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ...model.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where the batch sits in a value: `axis` has batch * `block` entries, all of one row next to each other."""

    axis: int
    block: int = 1


class Mixed(Exception):
    """Rows may meet; the message says where."""


_ELEMENTWISE = frozenset(
    [
        "Abs",
        "Acos",
        "Add",
        "And",
        "Asin",
        "Atan",
        "BitShift",
        "Cast",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Div",
        "Dropout",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "IsInf",
        "IsNaN",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Mean",
        "Min",
        "Mish",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "PRelu",
        "Pow",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Sub",
        "Sum",
        "Swish",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
        "Where",
        "Xor",
    ]
)
_PER_IMAGE = frozenset(
    [
        "AveragePool",
        "BatchNormalization",
        "Conv",
        "ConvTranspose",
        "DepthToSpace",
        "GlobalAveragePool",
        "GlobalLpPool",
        "GlobalMaxPool",
        "GroupNormalization",
        "InstanceNormalization",
        "LRN",
        "LpPool",
        "MaxPool",
        "Resize",
        "SpaceToDepth",
        "Upsample",
    ]
)


def separate(many: Graph, one: Graph, batch: int, inputs: Collection[str]) -> frozenset[str]:
    """The outputs whose row i depends on row i of `inputs` alone; the others have nothing to do with `inputs`.

    `many` is the graph at `batch` rows, `one` the same model at a single row. Raises Mixed where it cannot be proved.
    """
    proof = _Proof(many, batch)
    carried = {name: _Rows(0) for name in inputs}
    for node in many.nodes:
        found = proof.through(node, carried)
        if found is not None:
            carried.update(dict.fromkeys(node.outputs, found))
    for name, tensor in many.values.items():
        alone = one.values.get(name)
        if alone is None or tensor.shape is None or alone.shape is None:
            continue
        wanted = list(tensor.shape)
        if name in carried:
            wanted[carried[name].axis] = proof.shape(name)[carried[name].axis] // batch
        if tuple(wanted) != alone.shape:
            raise Mixed(f"{name!r} is {tensor.shape} at batch {batch} and {alone.shape} at batch 1")
    for name in many.outputs:
        if name in carried and prod(proof.shape(name)[: carried[name].axis]) != 1:
            raise Mixed(f"the batch of output {name!r} is not its first dimension")
    return frozenset(carried).intersection(many.outputs)


class _Proof:
    def __init__(self, graph: Graph, batch: int) -> None:
        self.graph = graph
        self.batch = batch

    def shape(self, name: str) -> tuple[int, ...]:
        if name in self.graph.constants:
            return tuple(self.graph.constants[name].shape)
        shape = self.graph.values[name].shape
        if shape is None or not all(isinstance(size, int) for size in shape):
            raise Mixed(f"the size of {name!r} is not known")
        return tuple(size for size in shape if isinstance(size, int))

    def through(self, node: Node, carried: dict[str, _Rows]) -> _Rows | None:
        """Where the rows are after `node`; None where it has nothing to do with them."""
        rows = [carried.get(name) for name in node.inputs]
        if not any(rows):
            return None
        if node.operator in _ELEMENTWISE:
            return self._elementwise(node, rows)
        if node.operator in _PER_IMAGE:
            return self._first_only(node, rows, rows[0] == _Rows(0) and self._kept(node, 0))
        if node.operator.startswith("Reduce") or node.operator in ("ArgMax", "ArgMin"):
            return self._reduce(node, rows)
        rule = _RULES.get(node.operator)
        if rule is None:
            raise Mixed(f"{node.operator} may mix rows")
        return rule(self, node, rows)

    def _kept(self, node: Node, axis: int) -> bool:
        return self.shape(node.inputs[0])[axis] == self.shape(node.outputs[0])[axis]

    def _first_only(self, node: Node, rows: Sequence[_Rows | None], fits: bool) -> _Rows:
        first = rows[0]
        if first is None or any(rows[1:]) or not fits:
            raise Mixed(f"{node.operator} mixes rows")
        return first

    def _alike(self, name: str, rows: _Rows, axis: int) -> bool:
        """Is `name`, which carries no rows, the same for each of them?"""
        shape = self.shape(name)
        if axis < 0 or shape[axis] == 1:
            return True
        array = self.graph.constants.get(name)
        if array is None or shape[axis] != self.batch * rows.block:
            return False
        parts = np.split(array, self.batch, axis=axis)
        return all(np.array_equal(part, parts[0]) for part in parts)

    def _elementwise(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        rank = len(self.shape(node.outputs[0]))
        shift = [rank - len(self.shape(name)) if name else 0 for name in node.inputs]
        found = {_Rows(r.axis + s, r.block) for r, s in zip(rows, shift, strict=True) if r}
        if len(found) != 1:
            raise Mixed(f"{node.operator} meets rows in different places")
        where = found.pop()
        for name, row, by in zip(node.inputs, rows, shift, strict=True):
            if name and row is None and not self._alike(name, where, where.axis - by):
                raise Mixed(f"{node.operator} treats rows differently")
        return where

    def _reduce(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        rank = len(self.shape(node.inputs[0]))
        if node.operator.startswith("Arg"):
            axes: Sequence[int] = [node.attributes.get("axis", 0)]
        else:
            axes = self._integers(node, 1, "axes") or range(rank)
        axes = [axis % rank for axis in axes]
        row = self._first_only(node, rows, rows[0] is not None and rows[0].axis not in axes)
        gone = 0 if node.attributes.get("keepdims", 1) else sum(axis < row.axis for axis in axes)
        return _Rows(row.axis - gone, row.block)

    def _integers(self, node: Node, position: int, attribute: str) -> list[int]:
        """What newer opsets give as an input and older ones as an attribute."""
        if attribute in node.attributes:
            return [int(value) for value in node.attributes[attribute]]
        if len(node.inputs) <= position or not node.inputs[position]:
            return []
        if node.inputs[position] not in self.graph.constants:
            raise Mixed(f"{node.operator} depends on a computed {attribute}")
        return [int(value) for value in self.graph.constants[node.inputs[position]].ravel()]

    def _axis(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        """Operators along one axis: Softmax, Split, TopK, Concat."""
        named = next(r for r in rows if r)
        rank = len(self.shape(node.inputs[rows.index(named)]))
        flat = node.operator in ("Softmax", "LogSoftmax") and self.graph.opset < 13
        axis = node.attributes.get("axis", {"Split": 0, "Softmax": 1 if flat else -1}.get(node.operator, -1)) % rank
        if named.axis == axis or (flat and named.axis > axis):
            raise Mixed(f"{node.operator} mixes rows")
        if node.operator == "Concat":
            for name, row in zip(node.inputs, rows, strict=True):
                if row != named and (row or not self._alike(name, named, named.axis)):
                    raise Mixed("Concat meets rows in different places")
            return named
        return self._first_only(node, rows, fits=True)

    def _slice(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        rank = len(self.shape(node.inputs[0]))
        starts = self._integers(node, 1, "starts")
        axes = self._integers(node, 3, "axes") or range(len(starts))
        row = rows[0]
        return self._first_only(node, rows, row is not None and row.axis not in [axis % rank for axis in axes])

    def _gather(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        axis = node.attributes.get("axis", 0) % len(self.shape(node.inputs[0]))
        if rows[0] is None and rows[1] is not None and node.inputs[0] in self.graph.constants:
            return _Rows(axis + rows[1].axis, rows[1].block)
        row = self._first_only(node, rows, rows[0] is not None and rows[0].axis != axis)
        return row if row.axis < axis else _Rows(row.axis - 1 + len(self.shape(node.inputs[1])), row.block)

    def _transpose(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        row = self._first_only(node, rows, fits=True)
        perm = node.attributes.get("perm") or list(range(len(self.shape(node.inputs[0]))))[::-1]
        return _Rows(list(perm).index(row.axis), row.block)

    def _reshape(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        """Rows stay apart where as much lies before them as before, and their count still divides the axis."""
        row = self._first_only(node, rows, fits=True)
        before = prod(self.shape(node.inputs[0])[: row.axis])
        shape = self.shape(node.outputs[0])
        for axis, size in enumerate(shape):
            if prod(shape[:axis]) == before and size % self.batch == 0:
                return _Rows(axis, size // self.batch)
        raise Mixed(f"{node.operator} to {shape} mixes rows")

    def _spread(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        """Expand, Tile and Pad: whatever they do, they must leave the rows' own axis alone."""
        row = self._first_only(node, rows, fits=True)
        by = len(self.shape(node.outputs[0])) - len(self.shape(node.inputs[0]))
        moved = _Rows(row.axis + by, row.block)
        if self.shape(node.outputs[0])[moved.axis] != self.shape(node.inputs[0])[row.axis]:
            raise Mixed(f"{node.operator} adds rows")
        if node.operator == "Pad":
            pads = self._integers(node, 1, "pads")
            if pads[row.axis] or len(pads) != 2 * len(self.shape(node.inputs[0])):
                raise Mixed("Pad moves rows")
        return moved

    def _layer_norm(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        first = node.attributes.get("axis", -1) % len(self.shape(node.inputs[0]))
        return self._first_only(node, rows, rows[0] is not None and rows[0].axis < first)

    def _matmul(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        ranks = [len(self.shape(name)) for name in node.inputs]
        rank = max(ranks)
        found = {_Rows(r.axis + rank - n, r.block) for r, n in zip(rows, ranks, strict=True) if r}
        if len(found) != 1 or min(ranks) < 2:
            raise Mixed("MatMul meets rows in different places")
        where = found.pop()
        # Rows may be lines of the left matrix, where the right one is the same for all.
        if where.axis > rank - 3 and (where.axis != rank - 2 or rows[1] is not None):
            raise Mixed("MatMul mixes rows")
        if where.axis <= rank - 3:
            for name, row, own in zip(node.inputs, rows, ranks, strict=True):
                if row is None and not self._alike(name, where, where.axis - rank + own):
                    raise Mixed("MatMul treats rows differently")
        return where

    def _gemm(self, node: Node, rows: Sequence[_Rows | None]) -> _Rows:
        row = self._first_only(node, rows, rows[0] == _Rows(0, rows[0].block if rows[0] else 1))
        bias = node.inputs[2] if len(node.inputs) > 2 else ""
        if node.attributes.get("transA", 0) or (bias and not self._alike(bias, row, len(self.shape(bias)) - 2)):
            raise Mixed("Gemm mixes rows")
        return row


_Rule = Callable[[_Proof, Node, Sequence[_Rows | None]], _Rows]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "Split", "TopK", "Concat"), _Proof._axis),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _Proof._reshape),
    **dict.fromkeys(("Expand", "Tile", "Pad"), _Proof._spread),
    "Slice": _Proof._slice,
    "Gather": _Proof._gather,
    "Transpose": _Proof._transpose,
    "LayerNormalization": _Proof._layer_norm,
    "MatMul": _Proof._matmul,
    "Gemm": _Proof._gemm,
}
