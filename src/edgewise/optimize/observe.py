"""What passes see of a network at work: the values inside it, on inputs that somebody chose.

A pass asks for values by name and takes them batch by batch; who runs the network, and on what, is not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from ..core.errors import InputError
from ..core.types import Tensor
from ..model.emit import emit
from ..model.graph import Array, Graph

# Batch by batch, the values of these names in this graph. The samples are the same each time, in the same order.
Observe = Callable[[Graph, Sequence[str]], Iterator[Mapping[str, Array]]]
_BATCH = 32
_T = TypeVar("_T")


class Keep(Protocol):
    """What a pass found by looking, which is the same for all of its options: found now, or kept from before."""

    def __call__(self, look: Callable[[], _T]) -> _T: ...


def afresh(look: Callable[[], _T]) -> _T:
    """Nothing is kept."""
    return look()


def observer(samples: Mapping[str, Array], batch: int = _BATCH, threads: int = 0) -> Observe:
    """Over `samples`, one array per input with the samples along its first axis, by ONNX Runtime.

    Several at a time where the graph takes them; else as many as it is written for, a rest being left out.
    """
    count = min(len(array) for array in samples.values())

    def observe(graph: Graph, names: Sequence[str]) -> Iterator[Mapping[str, Array]]:
        each = _samples(graph)
        if count < each:
            raise InputError(f"{count} samples are too few for a model whose batch is {each}")
        session, end = _session(opened(graph), names, threads), count
        two = {name: array[:2] for name, array in samples.items()}
        if each == 1 and count > 1 and _takes(session, graph, names, two):
            each = batch
        else:
            session, end = _session(graph, names, threads), count - each + 1
        for begin in range(0, end, each):
            feeds = {name: array[begin : begin + each] for name, array in samples.items()}
            yield dict(zip(names, session.run(list(names), feeds), strict=True))

    return observe


def opened(graph: Graph) -> Graph:
    """With an open batch: in the sizes of inputs and outputs, and where sizes were computed with a batch of one."""
    values = {
        name: replace(tensor, shape=("batch", *tensor.shape[1:]))
        if tensor.shape and name in (*graph.inputs, *graph.outputs)
        else tensor
        for name, tensor in graph.values.items()
    }
    constants = dict(graph.constants)
    for node in graph.nodes:
        shape = constants.get(node.inputs[1]) if node.operator == "Reshape" else None
        if shape is not None and shape.size > 1 and shape[0] == 1 and not node.attributes.get("allowzero"):
            # 0: as in what is reshaped.
            constants[node.inputs[1]] = np.concatenate([np.zeros(1, np.int64), shape[1:]])
    return replace(graph, values=values, constants=constants)


def _samples(graph: Graph) -> int:
    """How many the graph is written for."""
    shape = graph.values[graph.inputs[0]].shape or (1,)
    return shape[0] if isinstance(shape[0], int) else 1


def _session(graph: Graph, names: Sequence[str], threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    inputs = [graph.values[name] for name in graph.inputs]
    # Sizes inside are left to the engine: with an open batch the ones written down are not those that come out.
    outputs = [Tensor(name, graph.values[name].dtype, None) for name in names]
    made = emit(graph.nodes, graph.constants, inputs, outputs, graph.opset)
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _takes(session: Any, graph: Graph, names: Sequence[str], two: Mapping[str, Array]) -> bool:
    """Whether two samples at once come out as two, in every value asked for."""
    from onnxruntime.capi import onnxruntime_pybind11_state as errors

    try:
        found = session.run(list(names), dict(two))
    except (errors.Fail, errors.InvalidArgument, errors.RuntimeException):
        return False
    for name, array in zip(names, found, strict=True):
        one = graph.values[name].shape
        if one is None or tuple(array.shape) != (2 * (one[0] if isinstance(one[0], int) else 1), *one[1:]):
            return False
    return True
