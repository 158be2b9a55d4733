"""What is computed twice, computed once; settings that are equal, kept once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace

from ...model.graph import Array, Node, nested
from .draft import Change, Draft, identical, plain

# Their answers are not a matter of their inputs.
_RANDOM = frozenset(
    ["Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
_EITHER_WAY = frozenset(["Add", "Mul", "Max", "Min", "Sum", "And", "Or", "Xor", "Equal"])
# Weights that two layers share can no longer be pruned for one of them.
_WEIGHED = frozenset(["BatchNormalization", "Conv", "ConvTranspose", "Gemm", "MatMul"])


def merge(draft: Draft) -> int:
    """Nodes that do the same to the same, merged; how many are gone."""
    known: dict[Hashable, list[str]] = defaultdict(list)
    count = 0
    for key in [_key(node) for node in draft.ordered()]:
        node = draft.nodes[key]
        if node.operator in _RANDOM or nested(node):
            continue
        twins = known[_kind(draft, node)]
        for place, name in enumerate(twins):
            twin = draft.nodes[name]
            instead = {old: new for old, new in zip(node.outputs, twin.outputs, strict=True) if old}
            if _equal(draft, twin, node) and draft.put([node], Change(instead=instead)):
                # An answer of the network keeps its name, which the other has now.
                twins[place] = key if key in draft.nodes else name
                count += 1
                break
        else:
            twins.append(key)
    return count


def _key(node: Node) -> str:
    return next(name for name in node.outputs if name)


def _kind(draft: Draft, node: Node) -> Hashable:
    """What two that are the same have in common, the numbers of their constants apart."""
    inputs = [_sort(draft, name) for name in node.inputs]
    if node.operator in _EITHER_WAY:
        inputs.sort()
    made = tuple(bool(name) for name in node.outputs)
    return node.operator, node.domain, plain(node.attributes), tuple(inputs), made


def _sort(draft: Draft, name: str) -> tuple[str, ...]:
    array = draft.constants.get(name)
    return ("", name) if array is None else (array.dtype.name, *map(str, array.shape))


def _equal(draft: Draft, one: Node, other: Node) -> bool:
    if one.operator in _EITHER_WAY and sorted(one.inputs) == sorted(other.inputs):
        return True
    for a, b in zip(one.inputs, other.inputs, strict=True):
        arrays = draft.constants.get(a), draft.constants.get(b)
        if a != b and (arrays[0] is None or arrays[1] is None or not identical(arrays[0], arrays[1])):
            return False
    return True


def share(draft: Draft) -> int:
    """Settings (shapes, axes, single numbers) that are equal and used in the same way, kept once; how many are gone."""
    known: dict[Hashable, list[tuple[str, Array]]] = defaultdict(list)
    gone: set[str] = set()
    for node in list(draft.ordered()):
        inputs = list(node.inputs)
        for place, name in enumerate(node.inputs):
            array = draft.constants.get(name)
            if array is None or node.operator in _WEIGHED or (array.dtype.kind == "f" and array.size > 1):
                continue
            # In the same place of the same operator only: whoever opens the batch changes what Reshape is told.
            alike = known[node.operator, place, array.dtype.name, array.shape]
            found = next((other for other, those in alike if identical(those, array)), None)
            if found is None:
                alike.append((name, array))
            elif found != name:
                inputs[place] = found
                gone.add(name)
        if tuple(inputs) != node.inputs:
            draft.put([node], Change((replace(node, inputs=tuple(inputs)),)))
    return len(gone)
