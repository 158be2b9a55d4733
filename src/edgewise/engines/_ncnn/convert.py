"""ONNX to ncnn by the pnnx program, and a note beside the result on how to feed it.

pnnx decides by itself which axis is the batch and drops it; what it decided stands only in the Python script that it
writes too. `plan.json` keeps that, the inputs and outputs by their names in the model, and how many rows a batch has.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Any

from ...core.errors import EngineFailure, InputError, Unavailable, Unsupported
from ...core.types import Model
from ...model.graph import Graph, fixed, graph
from ...model.load import inspect
from .._convert import run_converter
from .lower import Lowered, lower
from .param import MAGIC, batch_axes, parse
from .rows import Mixed, separate
from .writer import Feed

# Several times the size of the network, and of no use to it.
_LEFT_BEHIND = (
    "model.onnx", "model.pnnx.param", "model.pnnx.bin", "model.pnnx.onnx", "model.pnnxsim.onnx", "model_pnnx.py",
    "model_ncnn.py",
)  # fmt: skip
# ONNX operators and ncnn layers alike: without any setting it is the former, left over.
_NAMESAKES = ("LSTM", "GRU", "RNN", "Einsum", "GridSample", "TopK")
HINT = "pip install --no-deps pnnx"


@dataclass(frozen=True, slots=True)
class Source:
    """A blob to be filled: the model's input `name`, or its rows in turn, in ncnn's own shape.

    Indices of an embedding are integers below `limit`; everything else is a float.
    """

    name: str
    blob: str
    shape: tuple[int, ...]
    rows: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """An output of the model: what is in `blob`, where `rows` row by row, or else a copy of the input `given`."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    blob: str | None = None
    rows: bool = False
    given: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    sources: tuple[Source, ...]
    results: tuple[Result, ...]
    rows: int = 1


def program() -> str:
    """The converter's path. Its package is not imported: that would import torch, which the program does not need."""
    found = util.find_spec("pnnx")
    path = Path(found.origin).parent / "pnnx" if found and found.origin else None
    for name in ("pnnx", "pnnx.exe"):
        if path is not None and (file := path.with_name(name)).is_file():
            return str(file)
    raise Unavailable("converting for ncnn needs the program pnnx, which is not here", HINT)


def converter() -> str:
    try:
        return metadata.version("pnnx")
    except metadata.PackageNotFoundError:
        raise Unavailable("converting for ncnn needs the package 'pnnx'", HINT) from None


def convert(model: Model, folder: str) -> str:
    if model.precision == "int8":
        raise Unsupported(
            f"{model.label} is quantized, and ncnn's int8 is made by its own tools, which its packages do not carry"
        )
    names, batch = _batch(model)
    reason = "its rows are not independent"
    whole = graph(model)
    if batch > 1:
        one = graph(_one_row(model, names))
        try:
            outputs = separate(whole, one, batch, names)
            return _converted(model, one, Path(folder), names, outputs, whole)
        except Mixed as mixed:
            reason = str(mixed)
    return _converted(model, whole, Path(folder), frozenset(), frozenset(), whole, reason)


def one_row(model: Model) -> Model:
    """The model at batch 1, where its file leaves that open."""
    return _one_row(model, _batch(model)[0])


def _one_row(model: Model, names: frozenset[str]) -> Model:
    shapes = {t.name: tuple(int(str(size)) for size in t.shape or ()) for t in model.inputs if t.name in names}
    return fixed(model, {name: (1, *shape[1:]) for name, shape in shapes.items()})


def _batch(model: Model) -> tuple[frozenset[str], int]:
    """The inputs whose first dimension is open in the file and goes by one name, and its size here."""
    if all(tensor.shape and tensor.shape[0] == 1 for tensor in model.inputs):
        return frozenset(), 1
    first = {t.name: t.shape[0] for t in inspect(model.path).inputs if t.shape}
    symbols = [symbol for symbol in first.values() if not isinstance(symbol, int)]
    names = frozenset(name for name, symbol in first.items() if symbols and symbol == symbols[0])
    sizes = {tensor.shape[0] for tensor in model.inputs if tensor.shape and tensor.name in names}
    return (names, int(str(sizes.pop()))) if len(sizes) == 1 else (frozenset(), 1)


def _converted(
    model: Model,
    small: Graph,
    folder: Path,
    rows_in: frozenset[str],
    rows_out: frozenset[str],
    whole: Graph,
    reason: str = "",
) -> str:
    """`small` is what is converted; `whole` has the sizes in which outputs are wanted."""
    lowered = lower(small)
    made = folder / "model.ncnn.param"
    if lowered.proto.graph.node:
        axes = _pnnx(lowered, made)
    else:
        # Nothing is computed, which pnnx does not survive; an ncnn network of inputs alone is one too.
        inputs = lowered.feeds or (Feed("", (1,)),)
        lines = [f"Input in{i} 0 1 in{i}" for i, _ in enumerate(inputs)]
        made.write_text("\n".join((MAGIC, f"{len(lines)} {len(lines)}", *lines)) + "\n")
        made.with_suffix(".bin").write_bytes(b"")
        axes = [None] * len(lowered.feeds)
    sources = []
    for number, (feed, axis) in enumerate(zip(lowered.feeds, axes, strict=True)):
        shape = feed.shape
        if axis is not None:
            if shape[axis] != 1:
                raise Unsupported(
                    f"ncnn runs one row at a time, and {model.label} has {shape[axis]} in {feed.name!r}: {reason}",
                    "--batch 1",
                )
            shape = (*shape[:axis], *shape[axis + 1 :]) or (1,)
        if len(shape) > 4:
            raise Unsupported(f"ncnn has no tensor of {len(shape)} dimensions, and {feed.name!r} is one")
        sources.append(Source(feed.name, f"in{number}", shape, feed.name in rows_in, feed.limit))
    results = []
    for answer in lowered.answers:
        shape = tuple(int(str(size)) for size in whole.values[answer.name].shape or ())
        blob = None if answer.position is None else f"out{answer.position}"
        results.append(Result(answer.name, answer.dtype, shape, blob, answer.name in rows_out, answer.given))
    rows = next((int(str(t.shape[0])) for t in model.inputs if t.shape and t.name in rows_in), 1)
    made.with_name("plan.json").write_text(json.dumps(asdict(Plan(tuple(sources), tuple(results), rows))))
    return str(made)


def _pnnx(lowered: Lowered, made: Path) -> list[int | None]:
    import onnx

    source = made.with_name("model.onnx")
    onnx.save(lowered.proto, str(source))
    shapes = ",".join(
        f"[{','.join(map(str, feed.shape))}]{'f32' if feed.limit is None else 'i64'}" for feed in lowered.feeds
    )
    said = run_converter("pnnx", [program(), source.name, f"inputshape={shapes}", "fp16=0"], made)
    refuse_unknown(made)
    if not made.with_suffix(".bin").is_file():
        raise EngineFailure(f"pnnx wrote {made.name} and no weights: {said[-200:]}")
    script = made.with_name("model_ncnn.py").read_text()
    for left in _LEFT_BEHIND:
        made.with_name(left).unlink(missing_ok=True)
    try:
        return batch_axes(script, len(lowered.feeds))
    except ValueError as error:
        raise EngineFailure(f"pnnx does not say how to feed what it made: {error}") from None


def refuse_unknown(param: Path) -> None:
    """pnnx leaves what it cannot convert under its own name, and says nothing."""
    unknown = [
        layer.kind
        for layer in parse(param)
        if not known(layer.kind) or (layer.kind in _NAMESAKES and not layer.settings)
    ]
    if unknown:
        # An expression is what pnnx makes of the small constants that an unknown operator takes.
        kind = next((kind for kind in unknown if kind != "pnnx.Expression"), unknown[0])
        # aten::max_pool2d, F.max_pool2d, torch.max: the name without the place it comes from.
        raise Unsupported(f"ncnn has no operator {kind.rpartition('::')[2].rpartition('.')[2]}")


@cache
def known(kind: str) -> bool:
    import ncnn

    return ncnn.create_layer(kind) is not None


@cache
def has(kind: str, ability: str) -> bool:
    import ncnn

    return bool(getattr(ncnn.create_layer(kind), ability))


def read_plan(param: Path) -> Plan:
    try:
        form: dict[str, Any] = json.loads(param.with_name("plan.json").read_text())
        sources = (Source(**source | {"shape": tuple(source["shape"])}) for source in form["sources"])
        results = (Result(**result | {"shape": tuple(result["shape"])}) for result in form["results"])
        return Plan(tuple(sources), tuple(results), int(form["rows"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{param.name} was converted, and its plan.json is missing or damaged: {error}") from None
