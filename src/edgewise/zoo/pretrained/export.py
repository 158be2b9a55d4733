"""A PyTorch module to one clean ONNX file, compared with the module before anybody sees it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...core.errors import CheckFailed, Unsupported
from ...core.types import Agreement
from ...model.equal import agreement
from .network import Network

# What torch's exporter writes by itself; any other is converted to.
_OPSET = 18
# A protobuf ends at two gibibytes; the graph needs its share.
_LARGEST_BYTES = 2_000_000_000
_TOLERANCE = 1e-4
_INPUT, _OUTPUT = "input", "output"


def write(network: Network, file: Path, said: Mapping[str, str]) -> Iterator[Path]:
    """Write the model to `file`; what was written comes back, the model last."""
    network.module.train(False)
    model = _traced(network)
    _clean(model)
    model.metadata_props.update({**said, **_words(network)})
    data = _save(model, file)
    del model
    for batch in (1, 3):  # neither is the one it was traced with
        _check(network, file, batch)
    if data is not None:
        yield data
    yield file


def _words(network: Network) -> dict[str, str]:
    words = {"source": network.source, "weights": network.weights}
    if network.preprocess is not None:
        words["preprocess"] = str(network.preprocess)
    if network.classes:
        words["classes"] = json.dumps(network.classes, ensure_ascii=False)
    return words


def _traced(network: Network) -> Any:
    import torch

    example = torch.zeros(2, *network.size)
    log = logging.getLogger("torch.onnx")
    level = log.level
    try:
        log.setLevel(logging.ERROR)
        with torch.no_grad():
            program = torch.onnx.export(
                network.module,
                (example,),
                dynamo=True,
                opset_version=_OPSET,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                input_names=[_INPUT],
                output_names=[_OUTPUT],
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        reason = " ".join(str(error.__cause__ or error).split())[:300]
        raise Unsupported(f"torch cannot export {network.source} to ONNX for any batch size: {reason}") from None
    finally:
        log.setLevel(level)
    outputs = program.model.graph.outputs
    # A first dimension that is a number does not follow the batch.
    if len(outputs) != 1 or len(outputs[0].shape or ()) != 2 or isinstance(outputs[0].shape[0], int):
        shown = ", ".join(str(output.shape) for output in outputs)
        raise Unsupported(f"{network.source} gives {shown}; expected one vector of scores for each image")
    return program.model


def _clean(model: Any) -> None:
    """Without the exporter's notes: lines of somebody's source, with the paths of the machine it was made on."""
    model.doc_string = None
    model.graph.doc_string = None
    for node in model.graph.all_nodes():
        node.doc_string = None
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props.clear()
    model.graph.metadata_props.clear()
    model.metadata_props.clear()


def _save(model: Any, file: Path) -> Path | None:
    """The file beside it that holds the weights, where they are too many for one."""
    import onnx_ir

    bytes_ = sum(value.const_value.nbytes for value in model.graph.initializers.values())
    if bytes_ <= _LARGEST_BYTES:
        onnx_ir.save(model, file)
        return None
    data = file.with_name(f"{file.name}.data")
    onnx_ir.save(model, file, external_data=data.name)
    return data


def _check(network: Network, file: Path, batch: int) -> None:
    import onnxruntime
    import torch

    images = torch.randn(batch, *network.size, generator=torch.Generator().manual_seed(batch))
    with torch.no_grad():
        expected = network.module(images).numpy()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    found = session.run([_OUTPUT], {_INPUT: images.numpy()})[0]
    distance = agreement({_OUTPUT: found}, {_OUTPUT: expected})
    if distance.nonfinite or not distance.max_abs <= _TOLERANCE * distance.reference_max:
        raise CheckFailed(_disagreement(network, distance))


def _disagreement(network: Network, distance: Agreement) -> str:
    if distance.nonfinite:
        return f"{network.source} exported to ONNX gives {distance.nonfinite} infinite scores that torch does not"
    return (
        f"{network.source} exported to ONNX is off by {distance.max_abs:.3g} from torch, whose largest score is "
        f"{distance.reference_max:.3g}; allowed is {_TOLERANCE:g} of it"
    )
