"""Passes on files: a model in, a model out, each pass by the name it has in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import EdgewiseError, InputError, Unsupported
from ..core.records import from_json
from ..core.types import Model
from ..data import arrays
from ..model.emit import emit
from ..model.feeds import shapes
from ..model.graph import Array, Graph, Node, fixed, graph
from ..model.load import inspect
from .fuse import fuse
from .lowrank import lowrank
from .lowrank.layer import layers
from .lowrank.pieces import Choice, alone
from .observe import Keep, Observe, afresh, observer, opened
from .prune import prune, weakest
from .prune.coupling import coupled
from .prune.widths import narrowed
from .prune.with_data import prune_with_data
from .reorder import reordered

# Seconds that a small graph takes where the model is to run.
Timed = Callable[[Graph], float]
# Goes up when a pass makes something else of the same model: what was kept before is then made again.
REVISION = 4
FORM = "numpy.savez(path, INPUT=array[n, ...])"


@dataclass(frozen=True, slots=True)
class Pass:
    """What it does with a graph, with what is to be seen in it, what its pieces take, and what it may keep of having
    looked; and its options: numbers between 0 and 1, None where not given. `exact`: answers stay the same but for
    rounding. `data`: it looks at the network at work, and at what its pieces take, where it may."""

    apply: Callable[..., Graph]
    options: Mapping[str, float | None]
    exact: bool = False
    data: bool = False


def _prune(
    found: Graph,
    observe: Observe | None,
    timed: Timed | None,
    keep: Keep,
    *,
    ratio: float | None = None,
    cost: float | None = None,
) -> Graph:
    """By `cost`, what is to be left of it, by what channels are worth at work; by `ratio`, the share of each layer's
    channels that goes, their weights being the smallest."""
    if cost is not None:
        if ratio is not None:
            raise InputError("prune goes by ratio or by cost, found both", "prune(cost=0.7)")
        if observe is None:
            raise Unsupported(
                "prune(cost=…) looks at what channels are worth, and there are no inputs to see it by",
                "--data FOLDER, or prune(ratio=0.3)",
            )
        return prune_with_data(found, observe, 1 - cost, _seconds(found, timed) if timed else None, keep=keep)
    classes = coupled(found)
    share = 0.3 if ratio is None else ratio
    gone = weakest(found, classes, share)
    if not gone:
        raise Unsupported(
            f"nothing can be taken out at a ratio of {share:g}: {len(classes)} channels are free to go, "
            "and what stays of a layer is a multiple of 8",
            "prune(ratio=0.5)",
        )
    return prune(found, gone)


def _seconds(found: Graph, timed: Timed) -> Callable[[str, int, int], float]:
    """What a layer takes with so many channels in and out."""
    nodes = {node.name: node for node in found.nodes}
    return lambda name, taken, made: timed(narrowed(by_itself(found, nodes[name]), taken, made))


def _lowrank(
    found: Graph, observe: Observe | None, timed: Timed | None, keep: Keep, *, cost: float | None = None
) -> Graph:
    known = {layer.node.name: layer for layer in layers(found)}

    def seconds(node: Node, choice: Choice | None) -> float:
        assert timed is not None
        if node.name in known:
            return timed(alone(found, known[node.name], choice))
        return timed(by_itself(found, node))

    ratio, costing = 0.7 if cost is None else cost, seconds if timed else None
    return lowrank(found, observe, ratio=ratio, cost=costing, in_turn=False, keep=keep)


def by_itself(found: Graph, node: Node) -> Graph:
    """One node, with what it reads and makes."""
    given = tuple(dict.fromkeys(name for name in node.inputs if name and name not in found.constants))
    values = {name: found.values[name] for name in (*given, *node.outputs) if name in found.values}
    return Graph((node,), found.constants, values, given, node.outputs[:1], found.opset)


PASSES: Mapping[str, Pass] = {
    "fuse": Pass(lambda found, observe, timed, keep: fuse(found), {}, exact=True),
    "lowrank": Pass(_lowrank, {"cost": None}, data=True),
    "prune": Pass(_prune, {"ratio": None, "cost": None}, data=True),
    "reorder": Pass(lambda found, observe, timed, keep: reordered(found), {}, exact=True),
}


def options(name: str, given: Mapping[str, str]) -> dict[str, float | None]:
    """The options of a pass as numbers; what is unknown or out of range is refused."""
    known = PASSES[name].options
    found = dict(known)
    for key, text in given.items():
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{name} has no {key!r}; {has}")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value < 1:
            raise InputError(f"{key} of {name} is a number between 0 and 1, found {text!r}")
        found[key] = value
    return found


def apply_file(
    model: dict[str, Any],
    name: str,
    given: dict[str, float | None],
    path: str,
    batched: bool,
    samples: str | None = None,
    timed: Timed | None = None,
    keep: Keep = afresh,
) -> Model:
    """One pass on a model's file, written to `path`. Its input sizes must be known; the file itself is not touched.
    `batched`: its batch was open, and stays so where what is left takes any. `samples`: an .npz of its inputs."""
    source = from_json(Model, model)
    if source.precision == "int8":
        raise Unsupported(f"{source.label} is quantized: {name} comes before quantize")
    observe = observer(inputs_of(source, samples)) if samples else None
    found = PASSES[name].apply(graph(source), observe, timed, keep, **given)
    return write(found, source.label, path, batched)


def write(found: Graph, label: str, path: str, batched: bool) -> Model:
    """A graph as a file; `batched`: with an open batch, where it takes any."""
    part = Path(path).with_suffix(".part.onnx")
    if not (batched and _written(opened(found), label, part) and _takes_two(part)):
        _written(found, label, part)
    part.replace(path)
    return inspect(path)


def inputs_of(model: Model, samples: str) -> dict[str, Array]:
    """One array per input, its first axis the samples."""
    return {tensor.name: arrays.member(samples, tensor.name, FORM) for tensor in model.inputs}


def _written(found: Graph, label: str, path: Path) -> bool:
    inputs = [found.values[name] for name in found.inputs]
    outputs = [found.values[name] for name in found.outputs]
    path.write_bytes(emit(found.nodes, found.constants, inputs, outputs, found.opset, label).SerializeToString())
    return True


def _takes_two(path: Path) -> bool:
    """Whether the sizes of a batch of two come out as such."""
    try:
        model = inspect(str(path))
        two = graph(fixed(model, shapes(model, 2, {})))
        return all((two.values[name].shape or (0,))[0] == 2 for name in two.outputs)
    except EdgewiseError:
        return False
