"""The table of operators, complete once its themes are imported, and the way from an ONNX graph to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...core.types import Verdict
from ...model.graph import Graph
from . import conv, linear, math, quant, resize, shape
from .fuse import fuse, places
from .writer import OPERATORS, Writer

THEMES = (conv, linear, math, quant, resize, shape)
__all__ = ["OPERATORS", "THEMES", "verdicts", "write"]


def write(graph: Graph, path: Path, *, exact: bool = True) -> None:
    """`exact`: a change of scale goes through fp32, and rounds as ONNX says."""
    Writer(fuse(graph), exact).write(path)


def verdicts(graph: Graph, *, exact: bool = True) -> Sequence[Verdict]:
    """One for each node; those that became part of another share its fate."""
    joined, where = places(graph)
    found = Writer(joined, exact).verdicts()
    return tuple(replace(found[i], node=n.name, operator=n.operator) for n, i in zip(graph.nodes, where, strict=True))
