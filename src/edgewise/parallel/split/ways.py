"""The ways a frame of one model can be divided over the parts, as models to load and places in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...core.errors import Unsupported
from ...core.types import Model, Target
from ...model import arena
from ...model.graph import Graph
from .balance import Way
from .chains import Axis, row_edges, work_of
from .cover import in_common
from .cut import Lies, Pieces, Step, cut
from .eight import multiplies
from .plan import Plan, Work, plan, weights_apart
from .rows import AXIS
from .rules import shape_of
from .source import Source

# What an element takes that is added up or bent, in multiplications of a convolution: an eighth of a nanosecond, in
# which a core with AVX-512 does some seven of them.
_MOVED = 8.0


@dataclass(frozen=True, slots=True)
class Divided:
    """What to load for a way, on which target each part loads it, and how much each part does in each step."""

    way: Way
    pieces: Pieces
    targets: tuple[Target, ...]
    loads: tuple[tuple[float, ...], ...]
    notes: tuple[str, ...]

    @property
    def parts(self) -> tuple[int, ...]:
        """Those that have anything to do."""
        steps = self.pieces.steps
        if self.way.kind == "covered":
            return tuple(range(len(self.targets)))
        return tuple(part for part in range(len(steps)) if any(step.path for step in steps[part]))


class Ways:
    """`models` has for each part what it loads where nothing is cut; `axes` are those to choose from, the first of them
    to begin with. `covers`: whether parts may do each other's shares."""

    def __init__(
        self,
        models: Sequence[Model],
        source: Source,
        targets: Sequence[Target],
        axes: Sequence[Axis],
        *,
        covers: bool = False,
    ) -> None:
        self._models, self._source, self._targets, self.axes = tuple(models), source, tuple(targets), tuple(axes)
        self.covers = covers
        self.equal = (1 / len(targets),) * len(targets)
        self._plans: dict[Way, Plan] = {}

    def plan(self, way: Way) -> Plan:
        """The same one whether parts do each other's shares or not."""
        way = replace(way, kind="split", part=0)
        if way not in self._plans:
            self._plans[way] = plan(self._source.graph, way.shares, way.axis)
        return self._plans[way]

    def loads(self, way: Way) -> tuple[tuple[float, ...], ...]:
        """Work by step and part; what is not divided is a part's whole work."""
        if way.kind in ("split", "covered"):
            return loads(self.plan(way))
        found, _ = weights_apart(self._source.graph)
        work = sum(work_of(node, found) for node in found.nodes)
        if way.kind == "single":
            return (tuple(work * (part == way.part) for part in range(len(self._targets))),)
        counts = [end - begin for begin, end in pairwise(self._samples(way))]
        return (tuple(work * count / sum(counts) for count in counts),)

    def divide(self, way: Way, folder: Path) -> Divided:
        loads_ = self.loads(way)
        if way.kind in ("split", "covered"):
            made = self.plan(way)
            pieces = cut(made, folder, self._source.blocks, self._source.eights)
            notes = (*_notes(made), *_eight_bits(made, self._source))
            if way.kind == "covered":
                pieces = in_common(pieces)
                notes = (*notes, f"parts do each other's shares, and {self._targets[way.part]} what is late")
            return Divided(way, pieces, tuple(self._source.targets), loads_, notes)
        if way.kind == "single":
            parts = len(self._targets)
            edges = tuple(self._batch() * (part > way.part) for part in range(parts + 1))
            note = f"all on {self._targets[way.part]}: no exchanges"
        else:
            edges = self._samples(way)
            shown = " + ".join(str(end - begin) for begin, end in pairwise(edges))
            note = f"1 exchange: the {self._batch()} samples of a batch are divided as {shown}"
        pieces = whole(self._models, self._source.graph, edges)
        return Divided(way, pieces, self._targets, loads_, (note,))

    def _batch(self) -> int:
        shape = self._models[0].inputs[0].shape
        assert shape is not None and isinstance(shape[0], int)
        return shape[0]

    def _samples(self, way: Way) -> tuple[int, ...]:
        return row_edges(self._batch(), way.shares[0])


def whole(models: Sequence[Model], found: Graph, edges: Sequence[int]) -> Pieces:
    """The model itself on every part, each with its samples of the batch; a part may have none."""
    sizes = {name: _size(found, name) for name in (*found.inputs, *found.outputs)}
    places, bytes_ = arena.place(sizes, dict.fromkeys(sizes, (0, 0)))
    batch = edges[-1]

    def lies(name: str, begin: int, end: int) -> Lies:
        shape, dtype = shape_of(found, name), found.values[name].dtype
        assert shape is not None
        if (begin, end) == (0, batch):
            return Lies(name, dtype, shape, places[name])
        if not shape or shape[0] != batch:
            raise Unsupported(
                f"{name!r} of {models[0].label} has size {shape}: its first axis is not the batch of {batch}"
            )
        each = math.prod(shape[1:]) * np.dtype(dtype).itemsize
        return Lies(name, dtype, (end - begin, *shape[1:]), places[name] + begin * each)

    steps = []
    for model, (begin, end) in zip(models, pairwise(edges), strict=True):
        if begin == end:
            steps.append((Step(),))
            continue
        inputs = tuple(lies(name, begin, end) for name in found.inputs)
        outputs = tuple(lies(name, begin, end) for name in found.outputs)
        steps.append((Step(model.path, inputs, outputs),))
    everything = [tuple(lies(name, 0, batch) for name in names) for names in (found.inputs, found.outputs)]
    return Pieces(tuple(steps), everything[0], everything[1], bytes_, 0)


def _size(found: Graph, name: str) -> int:
    shape = shape_of(found, name)
    if shape is None:
        raise Unsupported(f"the size of {name!r} is not known before it runs: this model cannot be split")
    return math.prod(shape) * np.dtype(found.values[name].dtype).itemsize


def loads(made: Plan) -> tuple[tuple[float, ...], ...]:
    """Work by step and part. What is only moved and added counts where everybody does it because of sums: those are to
    be weighed against the exchanges they spare."""
    found = [[0.0] * made.parts for _ in range(made.steps)]
    for work in made.works:
        whole_ = work_of(work.node, made.graph)
        if made.sums and work.edges is None and not multiplies(work.node):
            whole_ *= _MOVED
        for part in range(made.parts):
            found[work.step][part] += whole_ * _share(made, work, part)
    return tuple(map(tuple, found))


def _share(made: Plan, work: Work, part: int) -> float:
    if work.only not in (None, part):
        return 0.0
    shape = shape_of(made.graph, work.node.outputs[0])
    if work.rows is not None:
        rows = work.rows[part]
        assert shape is not None
        return (rows[1] - rows[0]) / shape[AXIS] if rows else 0.0
    if work.edges is not None:
        return (work.edges[part + 1] - work.edges[part]) / work.edges[-1]
    return 1.0


def _notes(made: Plan) -> tuple[str, ...]:
    by_rows = sum(work.rows is not None for work in made.works)
    by_channels = sum(work.edges is not None and work.only is None for work in made.works)
    steps = len({work.step for work in made.works if work.rows is not None})
    # What is summed up stands there as the sum, and as each part's share of it.
    operators = sum(work.only is None for work in made.works)
    split = by_rows + by_channels + made.sums
    sums = [] if not made.sums else [f"{made.sums} of them by input channels, and added up by every part"]
    return (
        f"{made.steps} exchanges",
        f"{split} of {operators} operators are split, the others are computed by every part",
        *sums,
        f"{steps} of {made.steps} steps cut by rows, redundant work {100 * made.redundant:.1f} %",
    )


def _eight_bits(made: Plan, source: Source) -> list[str]:
    """What parts in 8 bits compute in them."""
    nodes = [work.node for work in made.works if multiplies(work.node)]
    return [
        f"{target}: {sum(map(known.knows, nodes))} of {len(nodes)} convolutions and products in 8 bits"
        for target, known in zip(source.targets, source.eights, strict=False)
        if known is not None
    ]
