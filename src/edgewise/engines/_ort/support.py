"""What ONNX Runtime makes of each node: run where it was meant to, left to the CPU, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.types import Model, Target, Verdict
from .session import CPU, opened, placed, reason, settled, stopped_by

_FOLDER = "session.model_external_initializers_file_folder_path"


def verdicts(
    model: Model,
    target: Target,
    ep: str,
    settings: Mapping[str, str],
    device: str,
    sizes: Mapping[str, int] | None = None,
) -> Sequence[Verdict]:
    """A node that stops the session is taken out and the rest tried again, so that each gets its own verdict."""
    import onnx

    proto = onnx.load(model.path, load_external_data=False)
    nodes = [node for node in proto.graph.node if node.op_type != "Constant"]
    _name(nodes)
    order = [(node.name, node.op_type) for node in nodes]
    rejected: dict[str, str] = {}
    while True:
        options = settled(target, ep, sizes)
        options.add_session_config_entry(_FOLDER, str(Path(model.path).parent))
        try:
            session = opened(proto.SerializeToString(), options, ep, settings)
            break
        except Exception as error:  # noqa: BLE001  ONNX Runtime's own exceptions have no common parent
            why = reason(error)
            stop = stopped_by(str(error))
            guilty = [node for node in proto.graph.node if stop and _is(node, *stop)]
            if not guilty:
                return [Verdict(name, operator, "rejected", reason=rejected.get(name, why)) for name, operator in order]
            rejected |= {node.name: why for node in guilty}
            _cut(proto.graph, guilty)
    where = {node.name: name for name, node in placed(session)}
    return [_verdict(name, operator, rejected.get(name), where.get(name), ep, device) for name, operator in order]


def _verdict(name: str, operator: str, rejected: str | None, runs_on: str | None, ep: str, device: str) -> Verdict:
    if rejected is not None:
        return Verdict(name, operator, "rejected", reason=rejected)
    if runs_on is None:
        return Verdict(name, operator, "supported", device, "computed beforehand or merged into another operator")
    if runs_on == ep:
        return Verdict(name, operator, "supported", device)
    return Verdict(name, operator, "falls back", "cpu" if runs_on == CPU else runs_on, f"{ep} leaves it to {runs_on}")


def _name(nodes: Sequence[Any]) -> None:
    """A node that its exporter left without a name is known by its first output."""
    for node in nodes:
        node.name = node.name or next((output for output in node.output if output), node.op_type)


def _is(node: Any, operator: str, name: str | None) -> bool:
    return node.op_type == operator and (name is None or node.name == name)


def _cut(graph: Any, nodes: Sequence[Any]) -> None:
    """Take nodes out; what they made is fed from outside instead."""
    from onnx import TensorProto, helper

    known = {value.name: value for value in (*graph.value_info, *graph.output)}
    for node in nodes:
        for name in filter(None, node.output):
            declared = known.get(name)
            # What only the missing operator knows is most likely a float.
            kind = declared.type.tensor_type.elem_type if declared is not None else TensorProto.FLOAT
            graph.input.append(helper.make_tensor_value_info(name, kind or TensorProto.FLOAT, None))
        graph.node.remove(node)
