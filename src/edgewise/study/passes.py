"""Passes in a worker, which may time pieces of the network on the target it is made for."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ..core import registry
from ..core.front import Layer
from ..core.records import from_json, to_json
from ..core.text import parse_target
from ..core.types import Model, Placement, Target, Tensor
from ..model.cost import cost
from ..model.emit import emit
from ..model.feeds import feeds, shapes
from ..model.graph import Graph, Node
from ..model.graph import graph as graph_of
from ..model.load import inspect
from ..optimize import apply
from ..optimize.eight import eight
from ..optimize.observe import Keep, observer
from ..optimize.quantize.sensitivity import layers, sensitivity
from ..parallel.build import build

# The least of many runs: what a layer takes when nobody is in its way.
_RUNS, _LONGEST_S = 30, 0.05
# Every layer is tried by itself, on as many samples as that takes about a minute for, on two cores.
_SENSITIVITY_SAMPLES = (8, 128)
_SENSITIVITY_MULTIPLY_ADDS = 3e12
# What a layer takes beyond being called is never next to nothing of what was measured.
_LEAST_SHARE = 0.05
# By model, pass, samples and target: what passes saw the last times. A worker that stays need not look again.
_SEEN: dict[tuple[str, ...], Any] = {}
_MOST_SEEN = 4
_T = TypeVar("_T")


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
    keep = _keeping(repr(model), name, samples or "", target or "")
    return apply.apply_file(model, name, given, path, batched, samples, timed, keep)


def _keeping(*about: str) -> Keep:
    def keep(look: Callable[[], _T]) -> _T:
        found: _T = _SEEN.pop(about) if about in _SEEN else look()
        while len(_SEEN) >= _MOST_SEEN:
            del _SEEN[next(iter(_SEEN))]
        # Last, where it stays longest.
        _SEEN[about] = found
        return found

    return keep


def sensitivity_of(model: dict[str, Any], samples: str) -> Any:
    """For a worker: which layers of a model mind being quantized; as JSON."""
    source = from_json(Model, model)
    plain = graph_of(source)
    first = (source.inputs[0].shape or (1,))[0]
    batch = first if isinstance(first, int) else 1
    each = cost(source).multiply_adds / batch * len(list(layers(plain)))
    fewest, most = _SENSITIVITY_SAMPLES
    count = min(max(int(_SENSITIVITY_MULTIPLY_ADDS / max(each, 1.0)), fewest), most)
    seen = {name: array[: max(count, batch)] for name, array in apply.inputs_of(source, samples).items()}
    found = sensitivity(plain, observer(seen))
    return to_json([Layer(each.layer, each.mse, each.kl) for each in found])


@cache
def timer(target: Target) -> Callable[[Graph], float]:
    """Seconds that a small graph takes there, without what calling the engine takes, which a whole network does once;
    what has the same sizes is timed once."""
    known: dict[object, float] = {}
    engine = registry.find("engines", target.engine)
    if hasattr(engine, "environment"):
        os.environ.update(engine.environment(target))

    # Eight bits are for models that are quantized, and this one is not.
    plain = replace(target, precision="fp32") if target.precision == "int8" else target
    calling_s = cache(lambda: _least_s(_nothing(), plain))

    def timed(graph: Graph) -> float:
        key = _sizes(graph)
        if key not in known:
            whole = _least_s(eight(graph) if target.precision == "int8" else graph, target)
            known[key] = max(whole - calling_s(), whole * _LEAST_SHARE)
        return known[key]

    return timed


def _nothing() -> Graph:
    """A network with as good as nothing to do."""
    values = {name: Tensor(name, "float32", (1, 16, 1, 1)) for name in ("x", "y")}
    return Graph((Node("nothing", "Relu", ("x",), ("y",), {}),), {}, values, ("x",), ("y",), 13)


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
