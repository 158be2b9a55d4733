"""OpenVINO's view of a model: described, read, and asked what a device does with it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import InputError, Unsupported
from ...core.types import Model, Tensor, Verdict

_FLOATS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_NO_RULE = re.compile(r"No conversion rule found for operations: (.+)")
_OUTSIDE = ("Parameter", "Result", "Constant")
# Their results are of any type, whatever the network computes in.
_UNTYPED = (*_OUTSIDE, "Convert", "ShapeOf")


def inspect(path: str) -> Model:
    """Describe an .xml file, whose weights are in the .bin beside it."""
    import openvino

    file = Path(path)
    weights = file.with_suffix(".bin")
    for part in (file, weights):
        if not part.is_file():
            raise InputError(f"there is no file {part}", "an OpenVINO model is two files: NAME.xml and NAME.bin")
    try:
        network = openvino.Core().read_model(path)
    except RuntimeError as error:
        raise InputError(f"{file.name} is not a valid OpenVINO model: {_reason(error)}") from None
    digest = hashlib.sha256()
    for part in (file, weights):
        with part.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return Model(
        digest=digest.hexdigest()[:32],
        path=str(file.resolve()),
        inputs=tuple(_tensor(port) for port in network.inputs),
        outputs=tuple(_tensor(port) for port in network.outputs),
        precision=_precision(network),
        label=file.stem,
    )


def _tensor(port: Any) -> Tensor:
    names, shape = port.get_names(), port.get_partial_shape()
    sizes = None if shape.rank.is_dynamic else tuple(d.get_length() if d.is_static else None for d in shape)
    return Tensor(min(names) if names else port.get_node().get_friendly_name(), _dtype(port), sizes)


def _dtype(port: Any) -> str:
    kind = port.get_element_type()
    return "bfloat16" if kind.type_name == "bf16" else str(kind.to_dtype().name)


def _precision(network: Any) -> str:
    """int8 where it is quantized, else what most operators compute in: weights may be stored in fewer bits."""
    kinds: Counter[str] = Counter()
    for node in network.get_ops():
        if node.get_type_name() == "FakeQuantize":
            return "int8"
        if node.get_type_name() not in _UNTYPED and node.get_output_size():
            kinds[_FLOATS.get(_dtype(node.output(0)), "")] += 1
    del kinds[""]
    return kinds.most_common(1)[0][0] if kinds else "fp32"


def read(core: Any, model: Model) -> Any:
    """The network of `model`, with its sizes where they are known."""
    try:
        network = core.read_model(model.path)
    except RuntimeError as error:
        if not (missing := _unknown(error)):
            raise
        raise Unsupported(f"openvino has no operator {', '.join(sorted(missing))}") from None
    _refuse_wrong(network)
    if all(t.shape is not None and all(isinstance(d, int) for d in t.shape) for t in model.inputs):
        # Known sizes compile to better code than dynamic ones; nobody deploys the dynamic one to be fast.
        network.reshape({network.input(i): list(t.shape or ()) for i, t in enumerate(model.inputs)})
    return network


def _refuse_wrong(network: Any) -> None:
    """What the conformance suite has shown to give wrong answers, silently."""
    for node in network.get_ops():
        if node.get_type_name() == "LRN" and not float(bias := node.get_attributes()["bias"]).is_integer():
            raise Unsupported(f"openvino computes LRN wrongly when its bias is not whole ({bias:g})")


def _reason(error: RuntimeError) -> str:
    # The first lines are source positions.
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), "no reason given")


def _unknown(error: RuntimeError) -> set[str]:
    """Operators that an error says it knows nothing about, without their domain."""
    match = _NO_RULE.search(str(error))
    return {name.strip().rpartition(".")[2] for name in match[1].split(",")} if match else set()


def verdicts(model: Model, device: str) -> Sequence[Verdict]:
    """What `device` does with each node of the file; with HETERO, only its first device is no fall-back."""
    import openvino

    core = openvino.Core()
    nodes = [] if model.path.endswith(".xml") else list(_nodes(model.path))
    try:
        network = read(core, model)
    except Unsupported as error:
        if not nodes:
            raise
        words = re.split(r"[ ,]+", error.message)
        return [_unread(name, operator, error.message, operator in words) for name, operator, _ in nodes]
    if nodes:
        made = _makers(network)
        became = [(name, operator, list(_made_of(outputs, made))) for name, operator, outputs in nodes]
    else:
        computing = [each for each in network.get_ops() if each.get_type_name() not in _OUTSIDE]
        became = [(each.get_friendly_name(), each.get_type_name(), [each]) for each in computing]
    runs_on = dict(core.query_model(network, device))
    first = re.split("[:,]", device.removeprefix("HETERO:"))[0]
    return [_verdict(name, operator, parts, runs_on, first) for name, operator, parts in became]


def _nodes(path: str) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Name, operator and outputs of the nodes of an ONNX file."""
    import onnx

    for node in onnx.load(path, load_external_data=False).graph.node:
        if node.op_type != "Constant":
            outputs = [output for output in node.output if output]
            yield node.name or (outputs or [node.op_type])[0], node.op_type, outputs


def _unread(name: str, operator: str, reason: str, guilty: bool) -> Verdict:
    if guilty:
        return Verdict(name, operator, "rejected", reason=reason)
    return Verdict(name, operator, "supported", reason="known; no device was asked, as the model cannot be read")


def _verdict(name: str, operator: str, parts: Sequence[Any], runs_on: Mapping[str, str], first: str) -> Verdict:
    without = sorted({part.get_type_name() for part in parts if part.get_friendly_name() not in runs_on})
    if without:
        return Verdict(name, operator, "rejected", reason=f"{first} has no {', '.join(without)}")
    used = dict.fromkeys(runs_on[part.get_friendly_name()] for part in parts)
    if other := [device for device in used if device != first]:
        return Verdict(name, operator, "falls back", other[0].lower(), f"{first} leaves it to {other[0]}")
    reason = "" if parts else "computed beforehand or merged into another operator"
    return Verdict(name, operator, "supported", first.lower(), reason)


def _makers(network: Any) -> dict[str, Any]:
    """By the name of a tensor, the operator that makes it: ONNX's names stay on the tensors between its nodes."""
    return {name: node for node in network.get_ops() for port in node.outputs() for name in port.get_names()}


def _made_of(outputs: Sequence[str], made: Mapping[str, Any]) -> Iterator[Any]:
    """The operators that an ONNX node became: back from its outputs to tensors that others made."""
    waiting = [made[name] for name in outputs if name in made]
    seen: set[str] = set()
    while waiting:
        part = waiting.pop()
        if part.get_friendly_name() in seen:
            continue
        seen.add(part.get_friendly_name())
        yield part
        waiting += [port.get_node() for port in (i.get_source_output() for i in part.inputs()) if not port.get_names()]
