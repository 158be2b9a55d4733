"""A plan to files: for each part and step a model of its own, and where its inputs and outputs lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...core.types import Tensor
from ...model import arena
from ...model.emit import emit
from ...model.graph import Array, Graph, Node
from .eight import Eight, Slice, rounded
from .plan import Plan, Work, scaled
from .rows import AXIS, Rows
from .rules import Cut, Own, Sized, shape_of


@dataclass(frozen=True, slots=True)
class Lies:
    """An input or output of a step's model: where it lies, in bytes from the beginning of the shared memory; or of the
    part's own, where it is `private`.

    Rows of an image lie in `runs` pieces, `pitch` bytes from one to the next, each of `length` elements: then the model
    has an array of its own, from whose runs the first `skip` elements are left out.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    private: bool = False
    runs: int = 1
    pitch: int = 0
    length: int = 0
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What a part does between two exchanges; no `path` where it has nothing to do."""

    path: str = ""
    inputs: tuple[Lies, ...] = ()
    outputs: tuple[Lies, ...] = ()


@dataclass(frozen=True, slots=True)
class Pieces:
    """`steps[part]` in order; `inputs` and `outputs` are those of the whole model, in the shared memory."""

    steps: tuple[tuple[Step, ...], ...]
    inputs: tuple[Lies, ...]
    outputs: tuple[Lies, ...]
    shared_bytes: int
    private_bytes: int


def cut(
    plan: Plan,
    folder: Path,
    blocks: Mapping[str, int] | None = None,
    eights: Sequence[Eight | None] = (),
) -> Pieces:
    """`blocks` are the values whose channels lie in blocks, and of how many; `eights` what parts that compute a float
    graph in 8 bits know for that."""
    of = eights or [None] * plan.parts
    memory = _Memory(plan, blocks or {})
    steps = tuple(
        tuple(_Cutter(plan, memory, part, step, of[part]).cut(folder) for step in range(plan.steps))
        for part in range(plan.parts)
    )
    whole = plan.graph
    return Pieces(
        steps,
        tuple(memory.lies(name) for name in whole.inputs),
        tuple(memory.lies(name) for name in whole.outputs),
        memory.shared_bytes,
        memory.private_bytes,
    )


class _Memory:
    def __init__(self, plan: Plan, blocks: Mapping[str, int]) -> None:
        self._plan, self._blocks = plan, blocks
        sizes = {name: _bytes(plan.graph, name) for name in plan.lives}
        self._shared, self.shared_bytes = arena.place(sizes, plan.lives)
        # What every part makes for itself and needs again in a later step.
        kept = {
            name: _bytes(plan.graph, name)
            for name, value in plan.values.items()
            if not value.shared and name in plan.lasting
        }
        last = {
            name: max((work.step for work in plan.works if name in sources(plan, work)), default=plan.steps)
            for name in kept
        }
        lives = {name: (plan.values[name].step, last[name]) for name in kept}
        self._private, self.private_bytes = arena.place(kept, lives)

    def lies(self, name: str, begin: int = 0, end: int | None = None, *, private: bool = False) -> Lies:
        """All of a value, or channels of it."""
        graph = self._plan.graph
        shape, dtype = shape_of(graph, name), graph.values[name].dtype
        assert shape is not None
        item = np.dtype(dtype).itemsize
        at = self._at(name, private, item)
        if end is None:
            return Lies(name, dtype, shape, at, private)
        channel = math.prod(shape[2:])
        part = (shape[0], end - begin, *shape[2:])
        return Lies(f"{name}[{begin}:{end}]", dtype, part, at + begin * channel * item, private)

    def _at(self, name: str, private: bool, item: int) -> int:
        if private:
            return self._private[name]
        home = self._plan.homes[name]
        return self._shared[home.base] + home.offset * item

    def block(self, name: str) -> int:
        """How many channels lie together."""
        return self._blocks.get(name, 1)

    def rows(self, name: str, rows: Rows, made: Rows, *, private: bool = False) -> Lies:
        """Rows of a value, for a model that has the rows `made` of it, or more than those."""
        graph = self._plan.graph
        shape, dtype = shape_of(graph, name), graph.values[name].dtype
        assert shape is not None
        item, block = np.dtype(dtype).itemsize, self.block(name)
        row = math.prod(shape[AXIS + 1 :]) * block
        at = self._at(name, private, item) + rows[0] * row * item
        part = (*shape[:AXIS], made[1] - made[0], *shape[AXIS + 1 :])
        runs = math.prod(shape[:AXIS]) // block
        if runs == 1 and rows == made:
            return Lies(name, dtype, part, at, private)
        length, skip = (rows[1] - rows[0]) * row, (rows[0] - made[0]) * row
        return Lies(name, dtype, part, at, private, runs, shape[AXIS] * row * item, length, skip)


def sources(plan: Plan, work: Work) -> list[str]:
    """The values in memory that a node needs."""
    return [plan.source(name) for name in work.node.inputs]


def _bytes(graph: Graph, name: str) -> int:
    shape = shape_of(graph, name)
    assert shape is not None
    return math.prod(shape) * np.dtype(graph.values[name].dtype).itemsize


class _Cutter:
    """The model of one part for one step."""

    def __init__(self, plan: Plan, memory: _Memory, part: int, step: int, eight: Eight | None) -> None:
        self._plan, self._memory, self._part, self._step, self._eight = plan, memory, part, step, eight
        self._nodes: list[Node] = []
        self._inputs: dict[str, Lies] = {}
        self._constants: dict[str, Array] = {}
        # Values made here: from when to when in channels, None where whole; and those of which it is rows.
        self._made: dict[str, tuple[int, int] | None] = {}
        self._made_rows: dict[str, Rows] = {}
        # Pieces of values, made of others by a cut or a conversion.
        self._forms: set[str] = set()
        # What names that are not those of the graph are pieces of.
        self._slices: dict[str, Slice] = {}

    def cut(self, folder: Path) -> Step:
        mine = [work for work in self._plan.works if work.step == self._step]
        for work in self._needed(mine):
            self._take(work)
        outputs = tuple(self._outputs())
        if not outputs:
            return Step()
        inputs = tuple(self._inputs.values())
        nodes, constants = self._nodes, self._constants
        if self._eight is not None:
            nodes, added = rounded(nodes, self._eight, self._slices, {each.name for each in outputs})
            constants = constants | added
        made = emit(
            nodes,
            constants,
            [Tensor(each.name, each.dtype, each.shape) for each in inputs],
            [Tensor(each.name, each.dtype, each.shape) for each in outputs],
            self._plan.graph.opset,
            f"step {self._step} of part {self._part}",
        )
        path = folder / f"{self._part}-{self._step:03}.onnx"
        path.write_bytes(made.SerializeToString())
        return Step(str(path), inputs, outputs)

    def _range(self, work: Work) -> tuple[int, int]:
        assert work.edges is not None
        return work.edges[self._part], work.edges[self._part + 1]

    def _needed(self, works: list[Work]) -> list[Work]:
        """What this part has to do: its own channels, and of what everybody does, that which it needs."""
        wanted: set[str] = set()
        kept = []
        for work in reversed(works):
            if work.only not in (None, self._part):
                continue
            if work.rows is not None:
                if work.rows[self._part] is None:
                    continue
            elif work.edges is not None:
                begin, end = self._range(work)
                if begin == end:
                    continue
            elif not any(name in wanted or self._keeps(name) for name in work.node.outputs):
                continue
            kept.append(work)
            wanted.update(sources(self._plan, work))
        return kept[::-1]

    def _keeps(self, name: str) -> bool:
        """Whether what every part makes has to be written down: for later steps, or by the first as an answer."""
        if name in self._plan.graph.outputs and self._part == 0:
            return True
        return any(work.step > self._step for work in self._plan.works if name in sources(self._plan, work))

    def _take(self, work: Work) -> None:
        node = work.node
        if work.rows is not None:
            self._take_rows(work)
            return
        if work.edges is None or work.rule is None:
            self._nodes.append(replace(node, inputs=tuple(self._whole(name) for name in node.inputs)))
            self._made.update(dict.fromkeys(node.outputs))
            return
        begin, end = self._range(work)
        inputs = []
        for name, take in zip(node.inputs, work.rule.takes, strict=True):
            if not name:
                inputs.append("")
            elif isinstance(take, Cut):
                block = self._memory.block(node.inputs[0]) if take.blocked else 1
                inputs.append(self._constant(name, take.axis, begin, end, block))
            elif isinstance(take, Sized):
                inputs.append(self._sized(name, end - begin))
            elif isinstance(take, Own):
                edges = scaled(work.edges, take)
                inputs.append(self._own(name, edges[self._part], edges[self._part + 1]))
            else:
                inputs.append(self._whole(name))
        attributes = work.rule.attributes(node.attributes, begin, end)
        self._nodes.append(replace(node, inputs=tuple(inputs), attributes=attributes))
        self._made[node.outputs[0]] = (begin, end) if work.only is None else None

    def _take_rows(self, work: Work) -> None:
        node, known = work.node, work.row_rule
        assert work.rows is not None and known is not None
        rows = work.rows[self._part]
        assert rows is not None
        needs, changed = known.needs(*rows), known.constants(*rows)
        assert needs is not None
        inputs = []
        for place, (name, need) in enumerate(zip(node.inputs, needs, strict=True)):
            if place in changed:
                made = f"{name}[rows {rows[0]}:{rows[1]}]"
                self._constants[made] = changed[place]
                inputs.append(made)
            elif not name or need is None:
                inputs.append(self._whole(name))
            else:
                inputs.append(self._rows(name, need))
        attributes = dict(node.attributes) | dict(known.attributes(*rows))
        self._nodes.append(replace(node, inputs=tuple(inputs), attributes=attributes))
        for name in node.outputs:
            self._made[name] = None
            self._made_rows[name] = rows

    def _whole(self, name: str) -> str:
        if not name or name in self._made:
            return name
        if name in self._plan.lazy:
            return self._converted(name, name, self._whole)
        if name in self._plan.graph.constants:
            self._constants[name] = self._plan.graph.constants[name]
            return name
        lies = self._memory.lies(name, private=self._private(name))
        self._inputs[lies.name] = lies
        return lies.name

    def _own(self, name: str, begin: int, end: int) -> str:
        if name in self._made:
            return name
        if name in self._plan.lazy:
            return self._converted(name, f"{name}[{begin}:{end}]", lambda given: self._own(given, begin, end))
        lies = self._memory.lies(name, begin, end, private=self._private(name))
        self._inputs[lies.name] = lies
        self._slices[lies.name] = Slice(name)
        return lies.name

    def _rows(self, name: str, need: Rows) -> str:
        shape = shape_of(self._plan.graph, name)
        assert shape is not None
        made = f"{name}[rows {need[0]}:{need[1]}]"
        self._slices[made] = Slice(name)
        if name in self._made:
            there = self._made_rows.get(name, (0, shape[AXIS]))
            return name if there == need else self._sliced(name, made, there, need)
        if name in self._plan.lazy:
            return self._converted(name, made, lambda given: self._rows(given, need))
        if name in self._plan.graph.constants:
            self._constants[made] = self._plan.graph.constants[name][:, :, need[0] : need[1]]
            return made
        lies = replace(self._memory.rows(name, need, need, private=self._private(name)), name=made)
        self._inputs[made] = lies
        return made

    def _converted(self, name: str, made: str, given: Callable[[str], str]) -> str:
        """A value that is made wherever it is needed, from what its source has here."""
        if made not in self._forms:
            self._forms.add(made)
            node = self._plan.lazy[name]
            inputs = (given(node.inputs[0]), *(self._whole(each) for each in node.inputs[1:]))
            self._nodes.append(replace(node, name=made, inputs=inputs, outputs=(made,)))
        return made

    def _sliced(self, name: str, made: str, there: Rows, need: Rows) -> str:
        """Some of the rows that were made here. Where channels lie in blocks, an array of the same memory is cut that
        has the blocks as an axis."""
        if made in self._forms:
            return made
        self._forms.add(made)
        shape, block = shape_of(self._plan.graph, name), self._memory.block(name)
        assert shape is not None
        first, last = need[0] - there[0], need[1] - there[0]
        if block == 1:
            self._cut_rows(name, made, first, last)
            return made
        width = math.prod(shape[AXIS + 1 :])
        apart = self._as(f"{made} apart", (shape[0], shape[1] // block, there[1] - there[0], width * block))
        whole = self._as(made, (*shape[:AXIS], last - first, *shape[AXIS + 1 :]))
        self._nodes.append(Node(f"{made} apart", "Reshape", (name, apart), (f"{made} apart",), {}))
        self._cut_rows(f"{made} apart", f"{made} cut", first, last)
        self._nodes.append(Node(made, "Reshape", (f"{made} cut", whole), (made,), {}))
        return made

    def _cut_rows(self, name: str, made: str, first: int, last: int) -> None:
        if self._plan.graph.opset < 10:
            settings = {"starts": [first], "ends": [last], "axes": [AXIS]}
            self._nodes.append(Node(f"{made} slice", "Slice", (name,), (made,), settings))
            return
        ends = tuple(
            self._as(f"{made} {place}", (at,)) for place, at in (("from", first), ("to", last), ("axis", AXIS))
        )
        self._nodes.append(Node(f"{made} slice", "Slice", (name, *ends), (made,), {}))

    def _as(self, name: str, numbers: tuple[int, ...]) -> str:
        self._constants[f"{name} as"] = np.array(numbers, np.int64)
        return f"{name} as"

    def _constant(self, name: str, axis: int, begin: int, end: int, block: int = 1) -> str:
        made = f"{name}[{':, ' * axis}{begin}:{end}]"
        if name in self._plan.lazy:
            if made not in self._forms:
                self._forms.add(made)
                self._weights(self._plan.lazy[name], made, axis, begin, end)
            return made
        array = self._plan.graph.constants[name]
        if block > 1:
            apart = array.reshape(array.shape[0] // block, array.shape[1] // block, -1)
            mine = apart[:, begin // block : end // block]
            self._constants[made] = mine.reshape(array.shape[0], end - begin, *array.shape[2:])
        else:
            self._constants[made] = array[(slice(None),) * axis + (slice(begin, end),)]
        self._slices[made] = Slice(name, axis, begin, end)
        return made

    def _weights(self, node: Node, made: str, axis: int, begin: int, end: int) -> None:
        """A piece of weights in 8 bits: with the scales that belong to it, where every channel has its own."""
        constants = self._plan.graph.constants
        each = int(node.attributes.get("axis", 1)) % max(1, constants[node.inputs[0]].ndim) == axis
        inputs = [self._constant(node.inputs[0], axis, begin, end)]
        for name in node.inputs[1:]:
            own = each and name and constants[name].ndim == 1 and constants[name].size > 1
            inputs.append(self._constant(name, 0, begin, end) if own else self._whole(name))
        self._nodes.append(replace(node, name=made, inputs=tuple(inputs), outputs=(made,)))

    def _sized(self, name: str, channels: int) -> str:
        made = f"{name}[{channels}]"
        self._constants[made] = self._plan.graph.constants[name].copy()
        self._constants[made][1] = channels
        return made

    def _outputs(self) -> Iterator[Lies]:
        for name, channels in self._made.items():
            if name not in self._plan.lasting:
                continue
            if name in self._made_rows:
                edges = self._plan.row_edges[name]
                rows = edges[self._part], edges[self._part + 1]
                if rows[0] < rows[1]:
                    yield self._memory.rows(name, rows, self._made_rows[name])
            elif channels is not None:
                yield replace(self._memory.lies(name, *channels), name=name)
            elif self._keeps(name):
                yield self._memory.lies(name, private=self._private(name))

    def _private(self, name: str) -> bool:
        """Whether this part has the value for itself; an answer that everybody has is told by the first."""
        return not self._plan.values[name].shared and not (self._part == 0 and name in self._plan.graph.outputs)
