"""What an operator needs in order to compute some rows of its output: the rows of its inputs under its windows.

Rows are the third axis, the height of an image. A part that computes some rows of the last of a chain of operators
computes a few more of those before it (the halo), and needs nothing of what others compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...model.graph import Array, Graph, Node
from .rules import BINARY, CONVOLUTIONS, UNARY, shape_of

AXIS = 2
_WINDOWED = frozenset(("AveragePool", "LpPool", "MaxPool"))
# One input in, the same rows out; these look at neighbours along the channels at most.
_ALONG_CHANNELS = frozenset(("LogSoftmax", "Softmax"))
_ROW_BY_ROW = UNARY | {"BatchNormalization", "Dropout", "Identity", "LRN", "QuantizeLinear", "DequantizeLinear"}
_REORDERS = frozenset(("ReorderInput", "ReorderOutput"))
_BLOCKED = "com.microsoft.nchwc"

Rows = tuple[int, int]
# Of each input the rows that some rows of the output need; None where all of it is needed.
Needs = Callable[[int, int], tuple[Rows | None, ...] | None]
Change = Callable[[int, int], Mapping[str, Any]]


def _nothing(begin: int, end: int) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class RowRule:
    """`needs` is None for rows that no row of the input reaches. `attributes` are those that differ for a piece,
    `constants` the inputs, by their place, that do."""

    needs: Needs = field(compare=False)
    attributes: Change = field(default=_nothing, compare=False)
    constants: Callable[[int, int], Mapping[int, Array]] = field(default=lambda begin, end: {}, compare=False)


def row_rule(node: Node, found: Graph) -> RowRule | None:
    """None where the operator cannot be cut by rows, or nobody here knows how."""
    made = shape_of(found, node.outputs[0])
    if made is None or len(made) <= AXIS or made[AXIS] < 2 or not node.inputs or node.inputs[0] in found.constants:
        return None
    operator = node.operator
    if operator in CONVOLUTIONS or operator in _WINDOWED:
        return _window(node, found)
    if operator == "Concat":
        return None if int(node.attributes.get("axis", 0)) % len(made) == AXIS else _same_rows(node, found)
    if operator == "Split":
        return None if int(node.attributes.get("axis", 0)) % len(made) == AXIS else _first(node, found)
    if operator in BINARY:
        return _same_rows(node, found)
    if operator in _ALONG_CHANNELS:
        axis = int(node.attributes.get("axis", -1)) % len(made)
        return _first(node, found) if axis != AXIS and found.opset >= 13 else None
    if operator in _REORDERS:
        return None if node.attributes.get("channels_last") else _first(node, found)
    if operator == "Pad":
        return _pad(node, found)
    return _first(node, found) if operator in _ROW_BY_ROW else None


def _single(node: Node) -> bool:
    return sum(1 for name in node.outputs if name) == 1


def _first(node: Node, found: Graph) -> RowRule | None:
    """The rows of the first input; the others are settings."""
    given = shape_of(found, node.inputs[0])
    if any(name and name not in found.constants for name in node.inputs[1:]) or given is None:
        return None
    for name in node.outputs:
        made = shape_of(found, name) if name else given
        if made is None or len(made) != len(given) or made[AXIS] != given[AXIS]:
            return None
    # A scale for every row (or for blocks of them) would have to be cut too.
    if node.operator in ("QuantizeLinear", "DequantizeLinear") and found.constants[node.inputs[1]].size > 1:
        axis = int(node.attributes.get("axis", 1)) % len(given)
        if axis == AXIS or found.constants[node.inputs[1]].ndim > 1:
            return None
    others = (None,) * (len(node.inputs) - 1)
    return RowRule(lambda begin, end: ((begin, end), *others))


def _same_rows(node: Node, found: Graph) -> RowRule | None:
    """Inputs that have rows, and such as are the same for every row."""
    made = shape_of(found, node.outputs[0])
    assert made is not None
    cut = []
    for name in node.inputs:
        shape = shape_of(found, name)
        if shape is None:
            return None
        axis = AXIS - (len(made) - len(shape))
        tall = 0 <= axis < len(shape) and shape[axis] > 1
        if tall and axis != AXIS:
            return None
        cut.append(tall)
    if not any(tall for tall, name in zip(cut, node.inputs, strict=True) if name not in found.constants):
        return None
    return RowRule(lambda begin, end: tuple((begin, end) if tall else None for tall in cut))


@dataclass(frozen=True, slots=True)
class _Window:
    """The windows of a convolution or a pooling, along each axis of the image, with all padding spelt out."""

    reaches: tuple[int, ...]
    strides: tuple[int, ...]
    heads: tuple[int, ...]
    tails: tuple[int, ...]
    height: int

    def seen(self, begin: int, end: int) -> Rows:
        """From the first to behind the last row that windows lie over, beyond the image too."""
        first = begin * self.strides[0] - self.heads[0]
        return first, (end - 1 - begin) * self.strides[0] + first + self.reaches[0]

    def rows(self, begin: int, end: int) -> Rows | None:
        first, last = self.seen(begin, end)
        first, last = max(0, first), min(self.height, last)
        return (first, last) if first < last else None

    def attributes(self, begin: int, end: int) -> dict[str, Any]:
        first, last = self.seen(begin, end)
        heads = [max(0, -first), *self.heads[1:]]
        tails = [max(0, last - self.height), *self.tails[1:]]
        return {"pads": [*heads, *tails], "auto_pad": "NOTSET"}


def _window(node: Node, found: Graph) -> RowRule | None:
    given, made = shape_of(found, node.inputs[0]), shape_of(found, node.outputs[0])
    settings = node.attributes
    if given is None or made is None or len(given) != len(made) or not _single(node):
        return None
    convolves = node.operator in CONVOLUTIONS
    if convolves and any(name and name not in found.constants for name in node.inputs[1:3]):
        return None
    rounds_up = bool(settings.get("ceil_mode", 0))
    if rounds_up and settings.get("count_include_pad", 0):
        # What the last window counts is then neither image nor padding.
        return None
    spans = settings.get("kernel_shape") or (found.constants[node.inputs[1]].shape[2:] if convolves else ())
    window = _spelt_out([int(span) for span in spans], settings, given[AXIS:], made[AXIS:])
    if window is None:
        return None
    if not convolves and any(
        most >= span for span, *ends in zip(spans, window.heads, window.tails, strict=True) for most in ends
    ):
        # Windows wholly in the padding: not everybody has those.
        return None
    added = len(node.inputs) > 3 and bool(node.inputs[3])
    places = len(node.inputs)

    def needs(begin: int, end: int) -> tuple[Rows | None, ...] | None:
        rows = window.rows(begin, end)
        if rows is None:
            return None
        return (rows, *[(begin, end) if added and place == 3 else None for place in range(1, places)])

    def attributes(begin: int, end: int) -> dict[str, Any]:
        return window.attributes(begin, end) | ({"ceil_mode": 0} if rounds_up else {})

    return RowRule(needs, attributes)


def _spelt_out(
    spans: Sequence[int], settings: Mapping[str, Any], given: tuple[int, ...], made: tuple[int, ...]
) -> _Window | None:
    """Padding by name (auto_pad) and by rounding up, as numbers."""
    axes = len(given)
    if len(spans) != axes:
        return None
    strides = tuple(map(int, settings.get("strides") or (1,) * axes))
    dilations = tuple(map(int, settings.get("dilations") or (1,) * axes))
    reaches = tuple(d * (k - 1) + 1 for d, k in zip(dilations, spans, strict=True))
    # From the beginning of the first window to the end of the last.
    covers = [(m - 1) * s + r for m, s, r in zip(made, strides, reaches, strict=True)]
    automatic = settings.get("auto_pad", "NOTSET")
    automatic = automatic.decode() if isinstance(automatic, bytes) else str(automatic or "NOTSET")
    if automatic.startswith("SAME"):
        missing = [cover - size for cover, size in zip(covers, given, strict=True)]
        if min(missing) < 0:
            # Windows that leave places out: engines do not agree on which.
            return None
        heads = tuple(-(-each // 2) if automatic == "SAME_LOWER" else each // 2 for each in missing)
    elif automatic == "VALID":
        heads = (0,) * axes
    else:
        heads = tuple(map(int, (settings.get("pads") or (0,) * axes)[:axes]))
    tails = tuple(max(0, cover - head - size) for cover, head, size in zip(covers, heads, given, strict=True))
    return _Window(reaches, strides, heads, tails, given[0])


def _pad(node: Node, found: Graph) -> RowRule | None:
    """Rows of a constant around the image; where it is mirrored, parts would need each other's rows."""
    given, made = shape_of(found, node.inputs[0]), shape_of(found, node.outputs[0])
    mode = node.attributes.get("mode", "constant")
    plain = (mode.decode() if isinstance(mode, bytes) else mode) == "constant" and len(node.inputs) in (2, 3)
    if given is None or made is None or not plain or any(n and n not in found.constants for n in node.inputs[1:]):
        return None
    pads = found.constants[node.inputs[1]]
    if pads.size != 2 * len(given) or int(pads.min()) < 0:
        return None
    head, height = int(pads[AXIS]), given[AXIS]

    def needs(begin: int, end: int) -> tuple[Rows | None, ...] | None:
        first, last = max(0, begin - head), min(height, end - head)
        return ((first, last), *(None,) * (len(node.inputs) - 1)) if first < last else None

    def constants(begin: int, end: int) -> dict[int, Array]:
        mine = np.array(pads, np.int64)
        mine[AXIS] = max(0, head - begin)
        mine[AXIS + len(given)] = max(0, end - head - height)
        return {1: mine}

    return RowRule(needs, constants=constants)


def blocked(found: Graph) -> frozenset[str]:
    """The values that lie in memory by blocks of channels, one behind the other, as ONNX Runtime arranges them: those
    its own operators make, and what is computed of them element by element."""
    names: set[str] = set()
    for node in found.nodes:
        own = node.domain == _BLOCKED
        if node.operator != "ReorderOutput" if own else any(name in names for name in node.inputs):
            names.update(name for name in node.outputs if name)
    return frozenset(names)
