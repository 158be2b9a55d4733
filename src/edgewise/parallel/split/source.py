"""What is cut: the graph of a model, as it is written or as the engine has optimized it; and how values lie in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...core import registry
from ...core.errors import Unsupported
from ...core.types import Model, Target, Tensor
from ...model import feeds as noise
from ...model.emit import emit
from ...model.graph import Graph, Node, graph, written
from ...optimize import quantize
from .chains import Axis
from .eight import Eight, eight
from .rows import blocked

_REORDERS = "com.microsoft.nchwc"


@dataclass(frozen=True, slots=True)
class Source:
    """The graph, the targets its pieces are loaded on, and the values whose channels lie in blocks, of how many; for
    parts that compute a float graph in 8 bits, what is known for that."""

    graph: Graph
    targets: list[Target]
    blocks: dict[str, int] = field(default_factory=dict)
    eights: tuple[Eight | None, ...] = ()


def source_of(model: Model, targets: Sequence[Target], folder: Path) -> Source:
    """The graph as the engine has optimized it, where all parts run on the same kind of target, because an engine
    optimizes a piece less well than the whole. Of a quantized model the graph as it is: what an engine makes of it is
    its own affair, and it makes the same of a piece."""
    first = targets[0]
    engine = registry.find("engines", first.engine)
    alike = {(target.engine, target.device, target.precision, target.options) for target in targets}
    if len(alike) > 1 or not hasattr(engine, "optimized") or model.precision == "int8":
        return Source(graph(model), list(targets))
    path = folder / "optimized.onnx"
    pieces = [replace(target, options=engine.optimized(model, target, str(path)).options) for target in targets]
    found = observed(str(path), model, pieces[0], folder)
    names = blocked(found)
    return Source(found, pieces, dict.fromkeys(names, _block(pieces[0], folder)) if names else {})


def forms(models: Sequence[Model], targets: Sequence[Target]) -> tuple[Model, Model | None]:
    """The file that is cut, and its 8-bit form where some targets take that and others do not."""
    floats = {model.digest: model for model in models if model.precision != "int8"}
    others = {model.digest: model for model in models if model.precision == "int8"}
    if len(floats) > 1 or len(others) > 1:
        shown = ", ".join(
            f"{Path(model.path).name} for {target}" for model, target in zip(models, targets, strict=True)
        )
        raise Unsupported(
            f"a split takes targets that load the same file, or that file and its 8-bit form; found {shown}",
            "choose engines that read the file as it is",
        )
    found = [*floats.values(), *others.values(), None]
    assert found[0] is not None
    return found[0], found[1]


def source_for(models: Sequence[Model], targets: Sequence[Target], folder: Path, axis: Axis = "auto") -> Source:
    """Of one file as it is or as the engine has it; of two the float graph, as the quantizer found it: parts in
    8 bits take from the other file what they need."""
    model, quantized = forms(models, targets)
    if axis == "inputs" and (quantized is not None or model.precision == "int8"):
        raise Unsupported(
            f"shares of a sum are exchanged in floating point, and {model.label} would be computed in 8 bits",
            "leave out split=inputs",
        )
    if quantized is None:
        return source_of(model, targets, folder)
    path = folder / "prepared.onnx"
    quantize.prepare(model, path)
    found, known = graph(replace(model, path=str(path))), eight(graph(quantized))
    if not any(map(known.knows, found.nodes)):
        raise Unsupported(
            f"nothing of {model.label} is found again in its 8-bit form", "choose targets of the same precision"
        )
    return Source(found, list(targets), eights=tuple(known if m.precision == "int8" else None for m in models))


def any_batch(model: Model) -> bool:
    """Whether the file leaves open how many samples come at once."""
    import onnx

    inputs = onnx.load(model.path, load_external_data=False).graph.input
    firsts = [each.type.tensor_type.shape.dim[:1] for each in inputs if each.name in {t.name for t in model.inputs}]
    return all(first and not first[0].HasField("dim_value") for first in firsts)


def observed(path: str, model: Model, target: Target, folder: Path) -> Graph:
    """A file whose operators no public rule knows the sizes of: it is run once, and they are looked at."""
    inputs = {tensor.name: tensor for tensor in model.inputs}
    bare = written(path, inputs, tuple(inputs))
    names = [name for node in bare.nodes for name in node.outputs if name]
    unknown = [Tensor(name, "float32", None) for name in names]
    spy = folder / "observed.onnx"
    spy.write_bytes(emit(bare.nodes, bare.constants, list(model.inputs), unknown, bare.opset).SerializeToString())
    looked = replace(model, path=str(spy), outputs=tuple(unknown))
    executable = registry.find("engines", target.engine).load(looked, target)
    try:
        shapes = {t.name: tuple(d for d in t.shape or () if isinstance(d, int)) for t in model.inputs}
        answers = executable.run(noise.feeds(model, shapes, 0))
    finally:
        executable.close()
    found = {name: Tensor(name, str(array.dtype), tuple(array.shape)) for name, array in answers.items()}
    spy.unlink()
    return replace(bare, values=inputs | found)


def _block(target: Target, folder: Path) -> int:
    """How many channels the engine puts together, which depends on the processor: it is asked to do so with numbers
    that tell where they came from."""
    channels, path = 64, folder / "block.onnx"
    form = Tensor("x", "float32", (1, channels, 1, 2))
    made = replace(form, name="y")
    node = Node("reorder", "ReorderInput", ("x",), ("y",), {}, _REORDERS)
    path.write_bytes(emit([node], {}, [form], [made], 17).SerializeToString())
    asked = Model("block", str(path), (form,), (made,))
    executable = registry.find("engines", target.engine).load(asked, target)
    try:
        given = np.arange(2 * channels, dtype=np.float32).reshape(1, channels, 1, 2)
        # A block holds the first place of all its channels, and then the second.
        return int(np.argmax(np.asarray(executable.run({"x": given})["y"]).ravel() == 1))
    finally:
        executable.close()
