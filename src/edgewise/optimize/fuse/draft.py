"""A graph while it is being rewritten: who makes a value, who reads it, and one node replaced at a time.

A rule looks at one node and what is around it, and says what should stand in its place. It need not say what nobody
reads any more: that goes by itself.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...core.types import Tensor
from ...model.graph import Array, Graph, Node

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What stands in the place of some nodes: other nodes, with constants and values of their own; and of what those
    nodes made, what is another value now (`instead`: the old name, then the one to read)."""

    nodes: tuple[Node, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    values: tuple[Tensor, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite by its name, and the operators of the nodes it is asked about."""

    name: str
    operators: frozenset[str]
    find: Callable[[Draft, Node], Change | None]


def rule(name: str, operators: str) -> Callable[[Callable[[Draft, Node], Change | None]], Rule]:
    return lambda find: Rule(name, frozenset(operators.split()), find)


class Draft:
    """Nodes by the first value they make; everything a rule asks of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.opset, self.inputs, self.outputs = graph.opset, graph.inputs, graph.outputs
        self.constants: dict[str, Array] = dict(graph.constants)
        self.values: dict[str, Tensor] = dict(graph.values)
        self.nodes: dict[str, Node] = {}
        self._places: dict[str, int] = {}
        self._makers: dict[str, str] = {}
        self._readers: dict[str, Counter[str]] = {}
        self._names = {node.name for node in graph.nodes}
        self._base: dict[str, str] = {}
        for place, node in enumerate(graph.nodes):
            self._add(node, place)

    # What is there.

    def shape(self, name: str) -> Shape | None:
        if name in self.constants:
            return tuple(self.constants[name].shape)
        shape = self.values[name].shape if name in self.values else None
        if shape is None or not all(isinstance(size, int) for size in shape):
            return None
        return tuple(size for size in shape if isinstance(size, int))

    def dtype(self, name: str) -> str:
        if name in self.constants:
            return self.constants[name].dtype.name
        return self.values[name].dtype if name in self.values else "unknown"

    def floats(self, name: str) -> bool:
        """Whether it holds the kind of numbers that may be rounded otherwise."""
        return self.dtype(name) in ("float16", "float32", "float64")

    def weights(self, name: str) -> Array | None:
        """A constant of floats, in double precision."""
        return self.constants[name].astype(np.float64) if name in self.constants and self.floats(name) else None

    def number(self, name: str) -> float | None:
        """A constant that is one number."""
        array = self.constants.get(name)
        return (
            float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind in "fiu" else None
        )

    def integers(self, node: Node, index: int, attribute: str) -> list[int] | None:
        """What is an input in new opsets and was an attribute in old ones; None where it is not said or not known."""
        if attribute in node.attributes:
            return [int(each) for each in node.attributes[attribute]]
        array = self.constants.get(node.inputs[index]) if len(node.inputs) > index else None
        return None if array is None else [int(each) for each in array.reshape(-1)]

    def maker(self, name: str, *operators: str) -> Node | None:
        """The node that makes the value, where it is one of these operators of ONNX."""
        node = self.nodes.get(self._makers.get(name, ""))
        return node if node is not None and node.operator in operators and not node.domain else None

    def readers(self, name: str) -> list[Node]:
        return [self.nodes[key] for key in self._readers.get(name, ())]

    def alone(self, name: str) -> bool:
        """Whether it is read once, by one node, and is not an answer of the network."""
        return name not in self.outputs and self._readers.get(name, Counter()).total() == 1

    def used(self, name: str) -> bool:
        return name in self.outputs or bool(self._readers.get(name))

    def there(self, node: Node) -> bool:
        return self.nodes.get(_key(node)) is node

    def fresh(self, name: str) -> str:
        """A name like this one that nothing has."""
        base = self._base.get(name, name)
        number = 1
        while (made := f"{base}.{number}") in self.constants or made in self.values or made in self._names:
            number += 1
        self._base[made] = base
        self._names.add(made)
        return made

    # What changes.

    def put(self, gone: Sequence[Node], change: Change) -> bool:
        """The change in the place of the last of `gone`; not where it would lose the name of an answer."""
        for old, new in change.instead.items():
            if old in self.outputs and (new in self.outputs or new not in self._makers):
                return False
        place = max(self._places[_key(node)] for node in gone)
        for node in gone:
            self._remove(node)
        self.constants.update(change.constants)
        self.values.update({value.name: value for value in change.values})
        for node in change.nodes:
            self._add(node, place)
        for old, new in change.instead.items():
            if old in self.outputs:
                self._call(new, old)
            else:
                self._read(old, new)
        for node in gone:
            self._bury(node)
        return True

    def _add(self, node: Node, place: int) -> None:
        key = _key(node)
        self.nodes[key], self._places[key] = node, place
        self._names.add(node.name)
        for name in node.outputs:
            if name:
                self._makers[name] = key
        for name in node.inputs:
            if name:
                self._readers.setdefault(name, Counter())[key] += 1

    def _remove(self, node: Node) -> None:
        key = _key(node)
        del self.nodes[key]
        for name in node.outputs:
            if name:
                del self._makers[name]
        for name in node.inputs:
            if name:
                self._readers[name].pop(key, None)

    def _swap(self, old: Node, new: Node) -> None:
        place = self._places[_key(old)]
        self._remove(old)
        self._add(new, place)

    def _read(self, old: str, new: str) -> None:
        """Who reads `old` reads `new`."""
        for node in self.readers(old):
            self._swap(node, replace(node, inputs=tuple(new if name == old else name for name in node.inputs)))

    def _call(self, old: str, new: str) -> None:
        """What was called `old` is called `new`."""
        self._read(old, new)
        maker = self.nodes[self._makers[old]]
        self._swap(maker, replace(maker, outputs=tuple(new if name == old else name for name in maker.outputs)))

    def _bury(self, node: Node) -> None:
        """Whoever worked for this node alone."""
        for name in node.inputs:
            maker = self.nodes.get(self._makers.get(name, ""))
            if maker is not None and not any(self.used(made) for made in maker.outputs if made):
                self._remove(maker)
                self._bury(maker)

    def graph(self) -> Graph:
        nodes = tuple(self.ordered())
        used = {name for node in nodes for name in node.inputs} | {*self.outputs, *self.inputs}
        made = used | {name for node in nodes for name in node.outputs}
        return Graph(
            nodes,
            {name: array for name, array in self.constants.items() if name in used},
            {name: value for name, value in self.values.items() if name in made},
            self.inputs,
            self.outputs,
            self.opset,
        )

    def ordered(self) -> Iterator[Node]:
        """Those that an answer depends on, in an order they can run: as before, where that still is one."""
        wanted: set[str] = set()
        ahead = [self._makers[name] for name in self.outputs if name in self._makers]
        while ahead:
            key = ahead.pop()
            if key not in wanted:
                wanted.add(key)
                ahead += [self._makers[name] for name in self.nodes[key].inputs if name in self._makers]
        waits = {key: {self._makers[n] for n in self.nodes[key].inputs if n in self._makers} for key in wanted}
        after: dict[str, list[str]] = {}
        for key, those in waits.items():
            for each in those:
                after.setdefault(each, []).append(key)
        ready = [(self._places[key], key) for key, those in waits.items() if not those]
        heapq.heapify(ready)
        while ready:
            _, key = heapq.heappop(ready)
            yield self.nodes[key]
            for each in after.get(key, ()):
                waits[each].discard(key)
                if not waits[each]:
                    heapq.heappush(ready, (self._places[each], each))


def _key(node: Node) -> str:
    return next(name for name in node.outputs if name)


def text(node: Node, name: str, default: str) -> str:
    value = node.attributes.get(name, default)
    return value.decode() if isinstance(value, bytes) else str(value)


def plain(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Attributes as something that can be compared."""
    return tuple(sorted((name, repr(_listed(value))) for name, value in attributes.items()))


def _listed(value: Any) -> Any:
    return (value.dtype.name, value.shape, value.tolist()) if isinstance(value, np.ndarray) else value


def stored(arrays: Mapping[str, Array], dtype: np.dtype[Any]) -> dict[str, Array] | None:
    """In the type they are kept in; None where that cannot hold them."""
    with np.errstate(over="ignore"):
        found = {name: array.astype(dtype) for name, array in arrays.items()}
    return found if all(np.isfinite(array).all() for array in found.values()) else None


def identical(a: Array, b: Array) -> bool:
    """Bit by bit."""
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.hasobject:
        return False
    ours, theirs = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (a, b))
    return bool(np.array_equal(ours, theirs))
