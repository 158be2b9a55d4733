"""Passes in a worker, which may time pieces of the network on the target it is made for."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core import registry
from ..core.front import Layer
from ..core.records import from_json, to_json
from ..core.text import parse_target
from ..core.types import Model, Placement, Target
from ..model.emit import emit
from ..model.feeds import feeds, shapes
from ..model.graph import Graph
from ..model.graph import graph as graph_of
from ..model.load import inspect
from ..optimize import apply
from ..optimize.eight import eight
from ..optimize.observe import observer
from ..optimize.quantize.sensitivity import sensitivity
from ..parallel.build import build

# The least of many runs: what a layer takes when nobody is in its way.
_RUNS, _LONGEST_S = 30, 0.05
_SENSITIVITY_SAMPLES = 128


def apply_file(
    model: dict[str, Any],
    name: str,
    given: dict[str, Any],
    path: str,
    batched: bool,
    samples: str | None = None,
    target: str | None = None,
) -> Model:
    """`optimize.apply.apply_file`, with what pieces of the model take on `target`."""
    timed = timer(parse_target(target)) if target else None
    return apply.apply_file(model, name, given, path, batched, samples, timed)


def sensitivity_of(model: dict[str, Any], samples: str) -> Any:
    """For a worker: which layers of a model mind being quantized; as JSON."""
    source = from_json(Model, model)
    seen = {name: array[:_SENSITIVITY_SAMPLES] for name, array in apply.inputs_of(source, samples).items()}
    found = sensitivity(graph_of(source), observer(seen))
    return to_json([Layer(each.layer, each.mse, each.kl) for each in found])


def timer(target: Target) -> Callable[[Graph], float]:
    """Seconds that a small graph takes there; what has the same sizes is timed once."""
    known: dict[object, float] = {}
    engine = registry.find("engines", target.engine)
    if hasattr(engine, "environment"):
        os.environ.update(engine.environment(target))

    def timed(graph: Graph) -> float:
        key = _sizes(graph)
        if key not in known:
            known[key] = _least_s(eight(graph) if target.precision == "int8" else graph, target)
        return known[key]

    return timed


def _sizes(graph: Graph) -> object:
    """What a kernel is chosen by: operators, settings and sizes; not names, not weights."""
    return tuple(
        (
            node.operator,
            tuple(sorted((name, str(value)) for name, value in node.attributes.items())),
            tuple(
                graph.constants[name].shape
                if name in graph.constants
                else getattr(graph.values.get(name), "shape", None)
                for name in node.inputs
            ),
        )
        for node in graph.nodes
    )


def _least_s(graph: Graph, target: Target) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "piece.onnx"
        inputs, outputs = ([graph.values[name] for name in names] for names in (graph.inputs, graph.outputs))
        path.write_bytes(emit(graph.nodes, graph.constants, inputs, outputs, graph.opset).SerializeToString())
        model = inspect(str(path))
        given = feeds(model, shapes(model, 1, {}), 0)
        ready = build(model, Placement.single(target))
        try:
            ready.run(given)
            taken: list[float] = []
            until = time.perf_counter() + _LONGEST_S
            while len(taken) < _RUNS and (len(taken) < 3 or time.perf_counter() < until):
                begin = time.perf_counter()
                ready.run(given)
                taken.append(time.perf_counter() - begin)
        finally:
            ready.close()
    return min(taken)
