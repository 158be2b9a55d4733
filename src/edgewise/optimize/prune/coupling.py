"""Which channels of a network belong together: what can only be taken out of it at once.

Every channel of every value is one element; operators say which are the same channel (an addition, a depthwise
convolution, a normalization), which become which (concatenation, flattening), and which numbers of which weights belong
to them. The groups of a convolution have to stay alike, so that the first channels of all of them are one, and so are
the second ones. What is connected is one class. A class that reaches an input, an output or an operator nobody here
knows is kept.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ...model.graph import Graph, Node

# One input; what comes out has the channels of what went in.
_SAME = frozenset(
    [
        "Abs",
        "AveragePool",
        "BatchNormalization",
        "Cast",
        "Ceil",
        "Celu",
        "Clip",
        "Dropout",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "InstanceNormalization",
        "LeakyRelu",
        "Log",
        "LpPool",
        "MaxPool",
        "Mish",
        "Neg",
        "PRelu",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tanh",
        "ThresholdedRelu",
    ]
)
_BINARY = frozenset(["Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum"])
_REDUCED = frozenset(["ReduceMax", "ReduceMean", "ReduceSum"])


@dataclass(frozen=True, slots=True, order=True)
class Param:
    """A slice of a constant: one index along one axis. `taken`: it is what a later operator takes from the channel."""

    name: str
    axis: int
    index: int
    taken: bool = False


@dataclass(frozen=True, slots=True)
class Coupled:
    """Channels that go together: the slices of constants, and the channels of values."""

    params: tuple[Param, ...]
    channels: tuple[tuple[str, int], ...]

    @property
    def makers(self) -> tuple[Param, ...]:
        return tuple(param for param in self.params if not param.taken)

    @property
    def takers(self) -> tuple[Param, ...]:
        return tuple(param for param in self.params if param.taken)


def groups_go(groups: int, taken: int, made: int) -> bool:
    """Whether channels of a convolution go with their whole group: where it takes one, or makes one."""
    return groups > 1 and groups in (taken, made)


def coupled(graph: Graph) -> list[Coupled]:
    """Every class that can be taken out, in the order their channels are made."""
    found = _Coupling(graph)
    for name in graph.inputs:
        found.freeze(name)
    for node in graph.nodes:
        found.take(node)
    for name in graph.outputs:
        found.freeze(name)
    return found.classes()


@dataclass
class _Coupling:
    graph: Graph
    parent: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    params: dict[tuple[str, int], list[Param]] = field(default_factory=lambda: defaultdict(list))
    frozen: set[tuple[str, int]] = field(default_factory=set)

    def shape(self, name: str) -> tuple[int, ...] | None:
        if name in self.graph.constants:
            return tuple(self.graph.constants[name].shape)
        value = self.graph.values.get(name)
        if value is None or value.shape is None or not all(isinstance(size, int) for size in value.shape):
            return None
        return tuple(size for size in value.shape if isinstance(size, int))

    def channels(self, name: str) -> int:
        shape = self.shape(name)
        return shape[1] if shape is not None and len(shape) > 1 else 0

    def find(self, at: tuple[str, int]) -> tuple[str, int]:
        root = at
        while self.parent.setdefault(root, root) != root:
            root = self.parent[root]
        while self.parent[at] != root:
            self.parent[at], at = root, self.parent[at]
        return root

    def unite(self, a: tuple[str, int], b: tuple[str, int]) -> None:
        self.parent[self.find(a)] = self.find(b)

    def freeze(self, name: str) -> None:
        for index in range(self.channels(name)):
            self.frozen.add((name, index))

    def own(self, value: str, index: int, constant: str, axis: int, at: int, *, taken: bool = False) -> None:
        if constant in self.graph.constants:
            self.params[value, index].append(Param(constant, axis, at, taken))

    def take(self, node: Node) -> None:
        rule = self._rule(node)
        if rule is None or not rule(node):
            for name in (*node.inputs, *node.outputs):
                if name and name not in self.graph.constants:
                    self.freeze(name)

    def _rule(self, node: Node) -> Callable[[Node], bool] | None:
        if node.domain:
            return None
        if node.operator in _SAME:
            return self._same
        if node.operator in _BINARY:
            return self._binary
        if node.operator in _REDUCED:
            return self._reduced
        rules: dict[str, Callable[[Node], bool]] = {
            "Conv": self._conv,
            "Gemm": self._gemm,
            "MatMul": self._matmul,
            "Concat": self._concat,
            "Flatten": self._flatten,
            "Reshape": self._flatten,
            "Pad": self._pad,
            "Resize": self._resize,
        }
        return rules.get(node.operator)

    def _conv(self, node: Node) -> bool:
        weight = self.shape(node.inputs[1])
        taken, made = self.channels(node.inputs[0]), self.channels(node.outputs[0])
        if weight is None or node.inputs[1] not in self.graph.constants or not taken or not made:
            return False
        groups = int(node.attributes.get("group", 1))
        bias = node.inputs[2] if len(node.inputs) > 2 else ""
        for index in range(made):
            self.own(node.outputs[0], index, node.inputs[1], 0, index)
            self.own(node.outputs[0], index, bias, 0, index)
        if groups_go(groups, taken, made):
            for index in range(taken):
                for each in range(made // groups):
                    group = index // (taken // groups)
                    self.unite((node.inputs[0], index), (node.outputs[0], group * (made // groups) + each))
            return True
        for index in range(taken // groups):
            self.own(node.inputs[0], index, node.inputs[1], 1, index, taken=True)
        # Of each group the channel at the same place, so that all of them stay alike.
        for name, count in ((node.inputs[0], taken // groups), (node.outputs[0], made // groups)):
            for index in range(count * groups):
                self.unite((name, index % count), (name, index))
        return True

    def _gemm(self, node: Node) -> bool:
        if node.attributes.get("transA", 0) or node.inputs[1] not in self.graph.constants:
            return False
        made_axis = 0 if node.attributes.get("transB", 0) else 1
        return self._product(node, made_axis, node.inputs[2] if len(node.inputs) > 2 else "")

    def _matmul(self, node: Node) -> bool:
        shape = self.shape(node.inputs[0])
        if node.inputs[1] not in self.graph.constants or shape is None or len(shape) != 2:
            return False
        return self._product(node, 1, "")

    def _product(self, node: Node, made_axis: int, bias: str) -> bool:
        weight = self.shape(node.inputs[1])
        if weight is None or len(weight) != 2:
            return False
        biased = self.shape(bias) if bias else None
        if bias and (biased is None or bias not in self.graph.constants or biased[-1] != weight[made_axis]):
            return False
        for index in range(weight[made_axis]):
            self.own(node.outputs[0], index, node.inputs[1], made_axis, index)
            if biased is not None:
                self.own(node.outputs[0], index, bias, len(biased) - 1, index)
        for index in range(weight[1 - made_axis]):
            self.own(node.inputs[0], index, node.inputs[1], 1 - made_axis, index, taken=True)
        return True

    def _same(self, node: Node) -> bool:
        count = self.channels(node.outputs[0])
        if not count or count != self.channels(node.inputs[0]):
            return False
        self._each(node.inputs[0], node.outputs[0], count)
        if node.operator in ("BatchNormalization", "InstanceNormalization", "PRelu"):
            for name in node.inputs[1:]:
                shape = self.shape(name)
                if shape is None or name not in self.graph.constants:
                    return False
                if count in shape:
                    axis = shape.index(count)
                    for index in range(count):
                        self.own(node.outputs[0], index, name, axis, index)
                elif math.prod(shape) != 1:
                    return False
        return True

    def _binary(self, node: Node) -> bool:
        out = self.shape(node.outputs[0])
        if out is None or len(out) < 2:
            return False
        for name in node.inputs:
            shape = self.shape(name)
            if shape is None:
                return False
            # Aligned at the right, as broadcasting does.
            axis = 1 - (len(out) - len(shape))
            if axis < 0 or shape[axis] == 1:
                if name not in self.graph.constants and out[1] > 1 and math.prod(shape) > 1 and axis >= 0:
                    self.freeze(name)
                continue
            if shape[axis] != out[1]:
                return False
            for index in range(out[1]):
                if name in self.graph.constants:
                    self.own(node.outputs[0], index, name, axis, index)
                elif axis == 1:
                    self.unite((name, index), (node.outputs[0], index))
                else:
                    return False
        return True

    def _reduced(self, node: Node) -> bool:
        axes = node.attributes.get("axes")
        if axes is None and len(node.inputs) > 1 and node.inputs[1] in self.graph.constants:
            axes = self.graph.constants[node.inputs[1]].tolist()
        shape = self.shape(node.inputs[0])
        if shape is None or not axes or any(axis % len(shape) < 2 for axis in axes):
            return False
        return self._each(node.inputs[0], node.outputs[0], shape[1])

    def _concat(self, node: Node) -> bool:
        out = self.shape(node.outputs[0])
        if out is None or int(node.attributes.get("axis", 0)) % len(out) != 1:
            return False
        at = 0
        for name in node.inputs:
            if name in self.graph.constants:
                return False
            for index in range(self.channels(name)):
                self.unite((name, index), (node.outputs[0], at + index))
            at += self.channels(name)
        return at == out[1]

    def _flatten(self, node: Node) -> bool:
        """Channels, each with all its places, to one row; the row's numbers belong to their channel."""
        shape, out = self.shape(node.inputs[0]), self.shape(node.outputs[0])
        if shape is None or out is None or len(shape) < 2 or len(out) != 2 or out[0] != shape[0]:
            return False
        places = math.prod(shape[2:])
        for index in range(shape[1]):
            for place in range(places):
                self.unite((node.inputs[0], index), (node.outputs[0], index * places + place))
        return True

    def _pad(self, node: Node) -> bool:
        shape, out = self.shape(node.inputs[0]), self.shape(node.outputs[0])
        if shape is None or out is None or shape[:2] != out[:2]:
            return False
        return self._each(node.inputs[0], node.outputs[0], shape[1])

    def _resize(self, node: Node) -> bool:
        """By scales; sizes would name the number of channels."""
        shape, out = self.shape(node.inputs[0]), self.shape(node.outputs[0])
        if shape is None or out is None or shape[:2] != out[:2] or (len(node.inputs) > 3 and node.inputs[3]):
            return False
        return self._each(node.inputs[0], node.outputs[0], shape[1])

    def _each(self, a: str, b: str, count: int) -> bool:
        for index in range(count):
            self.unite((a, index), (b, index))
        return True

    def classes(self) -> list[Coupled]:
        members: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
        for name in (*self.graph.inputs, *(out for node in self.graph.nodes for out in node.outputs if out)):
            for index in range(self.channels(name)):
                members[self.find((name, index))].append((name, index))
        kept = {self.find(at) for at in self.frozen}
        shared = self._shared()
        found = []
        for root, channels in members.items():
            params = tuple(dict.fromkeys(param for at in channels for param in self.params.get(at, ())))
            if root in kept or not any(param.taken for param in params) or not any(not p.taken for p in params):
                continue
            if any(param.name in shared for param in params):
                continue
            found.append(Coupled(params, tuple(channels)))
        return found

    def _shared(self) -> set[str]:
        """Constants that several operators use: what is taken out for one would be missing for the other."""
        uses: dict[str, int] = defaultdict(int)
        for name in _inputs(self.graph.nodes):
            if name in self.graph.constants:
                uses[name] += 1
        return {name for name, count in uses.items() if count > 1}


def _inputs(nodes: Iterable[Node]) -> Iterable[str]:
    return (name for node in nodes for name in node.inputs)
