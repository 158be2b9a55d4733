"""An ONNX graph as a `torch.fx` module: plain generated code, so nothing is interpreted while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import Unsupported
from ...core.types import Tensor, Verdict
from ...model.graph import Array, Graph, Node
from . import shapes, sums, windows  # noqa: F401  they fill the table
from .ops import TABLE, Op

# Types that both numpy and torch have.
_DTYPES = ("float64", "int64", "int32", "int16", "int8", "uint8", "bool", "uint16", "uint32", "uint64")
_FLOATS = ("float32", "float16", "bfloat16")
_OLDEST = 7
_AT_THE_BORDER = ("float32", "float16", *_DTYPES)


def missing(nodes: Sequence[Node]) -> list[str]:
    """Operators that the table does not have."""
    return sorted({_named(node) for node in nodes if _lacks(node)})


def _lacks(node: Node) -> bool:
    return node.operator not in TABLE or node.domain not in ("", "ai.onnx")


def _named(node: Node) -> str:
    return f"{node.domain}.{node.operator}" if node.domain not in ("", "ai.onnx") else node.operator


class Net:
    """Builds the module node by node. `floats` is the type that every float of the graph takes.

    `shared` holds weights made for other sizes of the same network; `clock(position)` is called between operators.
    """

    def __init__(
        self,
        graph: Graph,
        floats: Any,
        device: Any,
        *,
        channels_last: bool = False,
        shared: dict[str, Any] | None = None,
        clock: Callable[[int], None] | None = None,
    ) -> None:
        import torch
        from torch import fx

        if graph.opset < _OLDEST:
            raise Unsupported(
                f"torch is fed from opset {_OLDEST} on, where broadcasting is today's; this is {graph.opset}"
            )
        self.torch = torch
        self.constants: Mapping[str, Array] = graph.constants
        self.values: Mapping[str, Tensor] = graph.values
        self.opset = graph.opset
        self._source, self._floats, self._device, self._clock = graph, floats, device, clock
        self._channels_last = channels_last
        self._shared = {} if shared is None else shared
        self._code = fx.Graph()
        self._tracer = fx.proxy.GraphAppendingTracer(self._code)
        self._root = torch.nn.Module()
        self._made: dict[str, Any] = {}
        for index, name in enumerate(graph.inputs):
            self._made[name] = self._border(self._proxy(self._code.placeholder(f"input_{index}")), graph.values[name])

    def module(self) -> Any:
        """The whole network, from the inputs in their order to a tuple of the outputs."""
        from torch import fx

        if lacking := missing(self._source.nodes):
            raise Unsupported(f"torch has no operator {', '.join(lacking)}", "edgewise engines check torch")
        for index, node in enumerate(self._source.nodes):
            if self._clock:
                self._code.call_function(self._clock, (index,))
            self.add(node)
        if self._clock:
            self._code.call_function(self._clock, (len(self._source.nodes),))
        self._code.output(tuple(self._result(name).node for name in self._source.outputs))
        return fx.GraphModule(self._root, self._code)

    def verdicts(self, device: str) -> list[Verdict]:
        found = []
        for node in self._source.nodes:
            reason = ""
            if _lacks(node):
                reason = f"torch has no operator {_named(node)}"
                self._stand_in(node)
            else:
                try:
                    self.add(node)
                except Unsupported as refusal:
                    reason = refusal.message
                    self._stand_in(node)
            found.append(
                Verdict(
                    node.name, node.operator, "rejected" if reason else "supported", "" if reason else device, reason
                )
            )
        return found

    def _stand_in(self, node: Node) -> None:
        """Something for the nodes behind a refused one to refer to."""
        self._made.update({name: self.constant(np.zeros((), np.float32)) for name in node.outputs if name})

    def add(self, node: Node) -> None:
        last = next(iter(reversed(self._code.nodes)), None)
        made = TABLE[node.operator](Op(node, self))
        made = made if isinstance(made, tuple) else (made,)
        self._made.update(zip(node.outputs, made, strict=False))
        for line in reversed(self._code.nodes):
            if line is last:
                break
            line.meta["onnx"] = node

    def _proxy(self, node: Any) -> Any:
        from torch import fx

        return fx.Proxy(node, self._tracer)

    def _border(self, x: Any, tensor: Tensor) -> Any:
        """An input as the network wants it."""
        if tensor.dtype not in _AT_THE_BORDER:
            raise Unsupported(f"torch cannot take {tensor.dtype} from numpy, the type of input {tensor.name!r}")
        wanted = self.dtype(tensor.dtype)
        if self._channels_last and len(tensor.shape or ()) == 4:
            return x.to(dtype=wanted, memory_format=self.torch.channels_last)
        return x if wanted == getattr(self.torch, tensor.dtype) else x.to(wanted)

    def _result(self, name: str) -> Any:
        """An output, as ONNX wants it."""
        dtype = self.constants[name].dtype.name if name in self.constants else self.values[name].dtype
        if dtype == "unknown":
            raise Unsupported(
                f"the type of output {name!r} is not known before the model runs, and torch's need not be it"
            )
        if dtype not in _AT_THE_BORDER:
            raise Unsupported(f"torch cannot give {dtype} to numpy, the type of output {name!r}")
        return self.value(name).to(getattr(self.torch, dtype)).contiguous()

    def value(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self.constant(self.constants[name], name)
        return self._made[name]

    def constant(self, array: Array, name: str = "") -> Any:
        """A tensor of the module. Beyond the range of fp16 is its end, so that a mask stays finite."""
        torch = self.torch
        wanted = self.dtype(array.dtype.name)
        if array.dtype.name == "bfloat16":
            array = array.astype(np.float32)
        tensor = torch.from_numpy(np.array(array, order="C"))
        if wanted == torch.float16 and tensor.is_floating_point():
            limit = torch.finfo(wanted).max
            tensor = torch.where(tensor.isfinite(), tensor.clamp(-limit, limit), tensor)
        tensor = tensor.to(self._device, wanted)
        if self._channels_last and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        known = self._shared.get(name)
        if known is not None and known.shape == tensor.shape and torch.equal(known, tensor):
            tensor = known
        elif name:
            self._shared[name] = tensor
        label = f"constant_{len(self._root._buffers)}"
        self._root.register_buffer(label, tensor)
        return self._proxy(self._code.get_attr(label))

    def dtype(self, name: str) -> Any:
        """What torch computes a type of ONNX in."""
        if name in _FLOATS:
            return self._floats
        if name == "float64" and self._device.type == "mps":
            return self.torch.float32  # it has no other
        if name not in _DTYPES:
            raise Unsupported(f"torch does not compute in {name}")
        return getattr(self.torch, name)


def tally(module: Any, inputs: Sequence[Any], tf32: bool) -> dict[str, int]:
    """How many operators of the graph gave which precision, found by running it line by line."""
    import torch
    from torch import fx

    names = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float64: "fp64"}
    found: dict[str, str] = {}

    class Watch(fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            node = n.meta.get("onnx")
            if node and n.op != "get_attr" and isinstance(result, torch.Tensor) and result.dtype in names:
                # TF32 is a matter of matrix products; everything else is fp32 as ever.
                product = tf32 and node.operator in ("Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum")
                found[node.outputs[0]] = "tf32" if product else names[result.dtype]
            return result

    with torch.inference_mode():
        Watch(module).run(*inputs)
    return {name: sum(1 for value in found.values() if value == name) for name in sorted(set(found.values()))}
