"""A plan to files: for each part and step a model of its own, and where its inputs and outputs lie."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...core.types import Tensor
from ...model import arena
from ...model.emit import emit
from ...model.graph import Array, Graph, Node
from .plan import Plan, Work, scaled
from .rules import Cut, Own, Sized, shape_of


@dataclass(frozen=True, slots=True)
class Lies:
    """An input or output of a step's model: where it lies, in bytes from the beginning of the shared memory; or of the
    part's own, where it is `private`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    private: bool = False


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


def cut(plan: Plan, folder: Path) -> Pieces:
    memory = _Memory(plan)
    steps = tuple(
        tuple(_Cutter(plan, memory, part, step).cut(folder) for step in range(plan.steps)) for part in range(plan.parts)
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
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        sizes = {name: _bytes(plan.graph, name) for name in plan.lives}
        self._shared, self.shared_bytes = arena.place(sizes, plan.lives)
        # What every part makes for itself and needs again in a later step.
        kept = {
            name: _bytes(plan.graph, name)
            for name, value in plan.values.items()
            if not value.shared and name in plan.lasting
        }
        last = {
            name: max((work.step for work in plan.works if name in work.node.inputs), default=plan.steps)
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
        if private:
            at = self._private[name]
        else:
            home = self._plan.homes[name]
            at = self._shared[home.base] + home.offset * item
        if end is None:
            return Lies(name, dtype, shape, at, private)
        channel = math.prod(shape[2:])
        part = (shape[0], end - begin, *shape[2:])
        return Lies(f"{name}[{begin}:{end}]", dtype, part, at + begin * channel * item, private)


def _bytes(graph: Graph, name: str) -> int:
    shape = shape_of(graph, name)
    assert shape is not None
    return math.prod(shape) * np.dtype(graph.values[name].dtype).itemsize


class _Cutter:
    """The model of one part for one step."""

    def __init__(self, plan: Plan, memory: _Memory, part: int, step: int) -> None:
        self._plan, self._memory, self._part, self._step = plan, memory, part, step
        self._nodes: list[Node] = []
        self._inputs: dict[str, Lies] = {}
        self._constants: dict[str, Array] = {}
        # Values made here: from when to when in channels, None where whole.
        self._made: dict[str, tuple[int, int] | None] = {}

    def cut(self, folder: Path) -> Step:
        mine = [work for work in self._plan.works if work.step == self._step]
        for work in self._needed(mine):
            self._take(work)
        outputs = tuple(self._outputs())
        if not outputs:
            return Step()
        inputs = tuple(self._inputs.values())
        made = emit(
            self._nodes,
            self._constants,
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
            if work.edges is not None:
                begin, end = self._range(work)
                if begin == end:
                    continue
            elif not any(name in wanted or self._keeps(name) for name in work.node.outputs):
                continue
            kept.append(work)
            wanted.update(work.node.inputs)
        return kept[::-1]

    def _keeps(self, name: str) -> bool:
        """Whether what every part makes has to be written down: for later steps, or by the first as an answer."""
        if name in self._plan.graph.outputs and self._part == 0:
            return True
        return any(work.step > self._step for work in self._plan.works if name in work.node.inputs)

    def _take(self, work: Work) -> None:
        node = work.node
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
                inputs.append(self._constant(name, take.axis, begin, end))
            elif isinstance(take, Sized):
                inputs.append(self._sized(name, end - begin))
            elif isinstance(take, Own):
                edges = scaled(work.edges, take)
                inputs.append(self._own(name, edges[self._part], edges[self._part + 1]))
            else:
                inputs.append(self._whole(name))
        attributes = work.rule.attributes(node.attributes, begin, end)
        self._nodes.append(replace(node, inputs=tuple(inputs), attributes=attributes))
        self._made[node.outputs[0]] = (begin, end)

    def _whole(self, name: str) -> str:
        if not name or name in self._made:
            return name
        if name in self._plan.graph.constants:
            self._constants[name] = self._plan.graph.constants[name]
            return name
        lies = self._memory.lies(name, private=self._private(name))
        self._inputs[lies.name] = lies
        return lies.name

    def _own(self, name: str, begin: int, end: int) -> str:
        if name in self._made:
            return name
        lies = self._memory.lies(name, begin, end, private=self._private(name))
        self._inputs[lies.name] = lies
        return lies.name

    def _constant(self, name: str, axis: int, begin: int, end: int) -> str:
        array = self._plan.graph.constants[name]
        made = f"{name}[{begin}:{end}]"
        self._constants[made] = array[(slice(None),) * axis + (slice(begin, end),)]
        return made

    def _sized(self, name: str, channels: int) -> str:
        made = f"{name}[{channels}]"
        self._constants[made] = self._plan.graph.constants[name].copy()
        self._constants[made][1] = channels
        return made

    def _outputs(self) -> Iterator[Lies]:
        for name, channels in self._made.items():
            if name not in self._plan.lasting:
                continue
            if channels is not None:
                yield replace(self._memory.lies(name, *channels), name=name)
            elif self._keeps(name):
                yield self._memory.lies(name, private=self._private(name))

    def _private(self, name: str) -> bool:
        """Whether this part has the value for itself; an answer that everybody has is told by the first."""
        return not self._plan.values[name].shared and not (self._part == 0 and name in self._plan.graph.outputs)
