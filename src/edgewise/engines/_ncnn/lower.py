"""A graph rewritten into what pnnx converts rightly: fewer operators, floats throughout, plain names.

ncnn computes in floats, so whole numbers and truth values become floats too (exact up to 2**24); only the indices
of an embedding stay integers. Operators that pnnx leaves over or gets wrong are spelled out in those it knows.
Reshapes at the very end to more axes than ncnn has are left to whoever reads the output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import Unsupported
from ...model.graph import Graph, Node
from . import images, rules
from .rules import RESHAPES
from .writer import OPSET, WHOLE, Feed, Writer

_MOST_AXES = 4
_RULES: dict[str, Callable[[Writer, Node], str]] = {**rules.RULES, **images.RULES}


@dataclass(frozen=True, slots=True)
class Answer:
    """An output of the model: number `position` of the rewritten graph's, or a copy of the input `given`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    position: int | None = None
    given: str | None = None


@dataclass(frozen=True, slots=True)
class Lowered:
    proto: Any
    feeds: tuple[Feed, ...]
    answers: tuple[Answer, ...]


def lower(graph: Graph) -> Lowered:
    """The whole graph; Unsupported names the operator that has no way into ncnn."""
    writer = Writer(graph)
    makers = {name: node for node in graph.nodes for name in node.outputs}
    sources = {}
    for name in graph.outputs:
        source = name
        while len(writer.shape(source)) > _MOST_AXES and source in makers and makers[source].operator in RESHAPES:
            source = makers[source].inputs[0]
        if source in graph.constants:
            raise Unsupported(f"output {name!r} is constant, which ncnn cannot give")
        sources[name] = source
    wanted = {source for source in sources.values() if source in makers}
    kept: list[Node] = []
    needed = set(wanted)
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    for node in reversed(kept):
        _take(writer, node)
    outputs = list(dict.fromkeys(writer.names[source] for source in wanted))
    # What only passes through (a Cast, say) is no output of a network, but its input.
    given = {key: feed.name for feed, key in writer.feeds.items() if feed.limit is None}
    outputs = [name for name in outputs if name not in given]
    answers = []
    for name in graph.outputs:
        source, dtype, shape = sources[name], graph.values[name].dtype, writer.shape(name)
        if source not in makers:
            answers.append(Answer(name, dtype, shape, given=source))
        elif writer.names[source] in given:
            answers.append(Answer(name, dtype, shape, given=given[writer.names[source]]))
        else:
            answers.append(Answer(name, dtype, shape, position=outputs.index(writer.names[source])))
    return Lowered(writer.proto(outputs), tuple(writer.feeds), tuple(answers))


def _take(w: Writer, node: Node) -> None:
    if node.domain not in ("", "ai.onnx"):
        raise Unsupported(f"ncnn has no operator {node.domain}::{node.operator}")
    for name in node.outputs:
        dtype = w.graph.values[name].dtype if name in w.graph.values else "float32"
        if dtype != "float32" and dtype not in WHOLE:
            raise Unsupported(f"ncnn computes in float32, and {node.operator} makes {dtype}")
    rule = _RULES.get(node.operator)
    if rule is not None:
        w.names[node.outputs[0]] = rule(w, node)
        return
    if node.operator == "Split":
        _split(w, node)
        return
    if any(w.whole(name) for name in node.outputs if name in w.graph.values):
        of = " of whole numbers" if w.whole(node.inputs[0]) else ""
        raise Unsupported(f"ncnn has no operator {node.operator}{of}")
    if not _exists(node.operator) or not all(
        isinstance(v, int | float | str | bytes | list | np.ndarray) for v in node.attributes.values()
    ):
        raise Unsupported(f"ncnn has no operator {node.operator}")
    w.names.update(zip(node.outputs, w.generic(node), strict=True))


def _exists(operator: str) -> bool:
    from onnx import defs

    try:
        defs.get_schema(operator, OPSET, "")
    except defs.SchemaError:
        return False
    return True


def _split(w: Writer, node: Node) -> None:
    """Slices: of a Split without sizes pnnx makes a network that crashes."""
    x, start = w.value(node.inputs[0]), 0
    axis = node.attributes.get("axis", 0) % len(w.shapes[x])
    for name in node.outputs:
        # An output that nobody wants has no size of its own.
        size = w.shape(name)[axis] if name in w.graph.values else None
        if size is None:
            raise Unsupported("ncnn has no Split with an unused output")
        w.names[name] = w.cut(x, axis, start, start + size)
        start += size
