"""A small vocabulary of layers that emits clean, named ONNX with seeded, He-scaled weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from ..core.preprocess import parse_preprocess
from ..core.types import Preprocess
from .moments import Floats, Moments, concat, silu
from .weights import content, filters, rounded, seen

OPSET = 17
# What protobuf can write at once, less room for the nodes.
_LARGEST_BYTES = 2**31 - 2**24

Pads = tuple[int, int, int, int]  # top, left, bottom, right
Pad = int | Pads | None  # the same on each side, written out, or None: half the kernel


@dataclass(frozen=True)
class Value:
    """A tensor of the graph: its name, its shape without the batch, and what its channels are expected to hold."""

    name: str
    channels: int
    height: int
    width: int
    moments: Moments

    @property
    def shape(self) -> tuple[int, ...]:
        return self.channels, self.height, self.width


class Output(Protocol):
    """What a network may return."""

    @property
    def name(self) -> str: ...
    @property
    def channels(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class Net:
    """A graph being written. Layers take and return values; weights follow one seeded stream.

    Batch normalization after a convolution is folded into its weight and bias, as every engine would. `parameters`
    counts what the network has before that: two per normalized channel. `lift`: the mean of what a convolution gives,
    which lies around zero otherwise.
    """

    def __init__(self, name: str, size: int, seed: int = 0, channels: int = 3, lift: float = 0.0) -> None:
        self.random = np.random.default_rng(seed)
        self.lift = lift
        self.parameters = 0
        self._claimed_bytes = 0
        # Filled in place: helper.make_graph and make_model would each copy all weights once more.
        self.proto = onnx.ModelProto(ir_version=9, producer_name="edgewise")
        self.proto.opset_import.append(helper.make_opsetid("", OPSET))
        self.graph = self.proto.graph
        self.graph.name = name
        shape = ["batch", channels, size, size]
        self.graph.input.append(helper.make_tensor_value_info("input", TensorProto.FLOAT, shape))
        self.input = Value("input", channels, size, size, Moments.of(np.zeros(channels)))

    # What every layer is written with.

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """One node, and the names of its outputs."""
        name = f"{op.lower()}_{len(self.graph.node)}"
        names = [name] if outputs == 1 else [f"{name}.{index}" for index in range(outputs)]
        self.graph.node.append(helper.make_node(op, inputs, names, name=name, **attributes))
        return names

    def constant(self, name: str, value: NDArray[Any]) -> str:
        tensor = self.graph.initializer.add()
        tensor.name, tensor.data_type = name, helper.np_dtype_to_tensor_dtype(value.dtype)
        tensor.dims.extend(value.shape)
        tensor.raw_data = content(value)
        return name

    def claim(self, *shape: int) -> None:
        """Before so many weights are drawn: whether one file can hold them with all others."""
        self._claimed_bytes += 4 * math.prod(shape)
        if self._claimed_bytes > _LARGEST_BYTES:
            raise ValueError(
                f"weights of {' x '.join(map(str, shape))} make it {self._claimed_bytes} bytes, "
                f"and an ONNX file holds {_LARGEST_BYTES}"
            )

    def label(self) -> str:
        """Before a node and its constants are written: the number the node will have."""
        return str(len(self.graph.node))

    def same(self, op: str, x: Value, moments: Moments, *constants: str, **attributes: Any) -> Value:
        """An operator that keeps the shape."""
        return replace(x, name=self.node(op, [x.name, *constants], **attributes)[0], moments=moments)

    # Layers with weights.

    def conv(
        self,
        x: Value,
        out: int,
        kernel: int | tuple[int, int] = 1,
        stride: int = 1,
        *,
        groups: int = 1,
        dilation: int = 1,
        pad: Pad = None,
        then: Literal["norm", "bias", "nothing"] = "norm",
        gain: float = 1.0,
    ) -> Value:
        """A convolution, and what follows it in the original: batch normalization, a bias, or nothing.

        `gain`: the deviation of what comes out.
        """
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        tall, wide = ((taps - 1) * dilation + 1 for taps in (height, width))
        pads = _pads(pad, tall, wide)
        label = f"conv_{self.label()}"
        self.claim(out, x.channels // groups * height * width + 1)
        down, along = (_steps(*side, stride) for side in _sides(x, tall, wide, pads))
        rows = seen(x.height, tall, stride, pads[0], down)[::dilation]
        columns = seen(x.width, wide, stride, pads[1], along)[::dilation]
        places = np.outer(rows, columns).ravel()
        weight, mean = filters(self.random, x.moments, out, height * width, groups, places, gain)
        names = [x.name, self.constant(f"{label}.weight", weight.reshape(out, -1, height, width))]
        if then != "nothing":
            beta = self._beta(out) + self.lift
            names.append(self.constant(f"{label}.bias", rounded(beta - mean)))
            mean = beta
        self.parameters += weight.size + {"norm": 2, "bias": 1, "nothing": 0}[then] * out
        strides, window = [stride, stride], [height, width]
        apart: dict[str, Any] = {"dilations": [dilation, dilation]} if dilation > 1 else {}
        y = self.node("Conv", names, kernel_shape=window, strides=strides, pads=pads, group=groups, **apart)[0]
        return Value(y, out, down, along, Moments(mean, np.full(out, gain**2)))

    def linear(self, x: Value, out: int) -> Value:
        """A fully connected layer over all of `x`."""
        self.claim(out, x.channels * x.height * x.width + 1)
        label, beta = f"gemm_{self.label()}", self._beta(out)
        weight, mean = filters(self.random, x.moments, out, x.height * x.width, 1, None, 1.0)
        self.parameters += weight.size + out
        names = [
            self.constant(f"{label}.weight", weight.reshape(out, -1)),
            self.constant(f"{label}.bias", rounded(beta - mean)),
        ]
        return Value(self.node("Gemm", [x.name, *names], transB=1)[0], out, 1, 1, Moments.of(beta))

    def norm(self, x: Value) -> Value:
        """Batch normalization that stays a node, because no convolution comes before it."""
        label = f"batchnormalization_{self.label()}"
        beta = self._beta(x.channels)
        self.parameters += 2 * x.channels
        parts = {
            "scale": np.ones(x.channels, np.float32),
            "bias": rounded(beta),
            "mean": rounded(x.moments.mean),
            "variance": rounded(x.moments.variance),
        }
        names = [self.constant(f"{label}.{part}", value) for part, value in parts.items()]
        return self.same("BatchNormalization", x, Moments.of(beta), *names)

    def _beta(self, channels: int) -> Floats:
        return self.random.uniform(-0.2, 0.2, channels)

    # Layers without.

    def relu(self, x: Value) -> Value:
        return self.same("Relu", x, x.moments.relu())

    def relu6(self, x: Value) -> Value:
        if not any(tensor.name == "six" for tensor in self.graph.initializer):
            self.constant("zero", np.array(0, np.float32))
            self.constant("six", np.array(6, np.float32))
        return self.same("Clip", x, x.moments.relu(), "zero", "six")

    def hard_swish(self, x: Value) -> Value:
        return self.same("HardSwish", x, x.moments.through(lambda z: z * np.clip(z / 6 + 0.5, 0, 1)))

    def hard_sigmoid(self, x: Value) -> Value:
        moments = x.moments.through(lambda z: np.clip(z / 6 + 0.5, 0, 1))
        return self.same("HardSigmoid", x, moments, alpha=1 / 6, beta=0.5)

    def local_response(self, x: Value, size: int = 5, alpha: float = 1e-4, beta: float = 0.75) -> Value:
        """Divided by what neighbouring channels hold; so little that the moments stay."""
        return self.same("LRN", x, x.moments, size=size, alpha=alpha, beta=beta, bias=1.0)

    def max_pool(self, x: Value, kernel: int = 3, stride: int = 2, pad: Pad = 0, ceil: bool = False) -> Value:
        # At every place: where networks do that, neighbours have seen much of the same, and have a part in common.
        moments = x.moments.largest(kernel * kernel, common=1 / 3 if stride == 1 else 0.0)
        return self._pool("MaxPool", x, moments, kernel, stride, pad, ceil_mode=int(ceil))

    def average_pool(self, x: Value, kernel: int = 3, stride: int = 1, pad: Pad = None, count: bool = False) -> Value:
        """`count`: zeros of the padding count as values."""
        moments = x.moments.average(kernel * kernel)
        return self._pool("AveragePool", x, moments, kernel, stride, pad, count_include_pad=int(count))

    def _pool(
        self, op: str, x: Value, moments: Moments, kernel: int, stride: int, pad: Pad, **attributes: int
    ) -> Value:
        pads = _pads(pad, kernel, kernel)
        y = self.node(op, [x.name], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, **attributes)[0]
        up = stride - 1 if attributes.get("ceil_mode") else 0
        down, along = (_steps(room + up, window, stride) for room, window in _sides(x, kernel, kernel, pads))
        return Value(y, x.channels, down, along, moments)

    def global_pool(self, x: Value, flat: bool = True) -> Value:
        """The average over all places."""
        pooled = self.node("GlobalAveragePool", [x.name])[0]
        name = self.node("Flatten", [pooled])[0] if flat else pooled
        return Value(name, x.channels, 1, 1, x.moments.overall())

    def flatten(self, x: Value) -> Value:
        return self.same("Flatten", x, x.moments)

    def add(self, x: Value, y: Value) -> Value:
        return self.same("Add", x, x.moments.plus(y.moments), y.name)

    def multiply(self, x: Value, gate: Value) -> Value:
        """`gate`: as many places as `x`, or one for all."""
        return self.same("Mul", x, x.moments.times(gate.moments), gate.name)

    def concat(self, *parts: Value) -> Value:
        name = self.node("Concat", [part.name for part in parts], axis=1)[0]
        channels = sum(part.channels for part in parts)
        return replace(parts[0], name=name, channels=channels, moments=concat([part.moments for part in parts]))

    # Layers of detectors, of images made, and of transformers.

    def silu(self, x: Value) -> Value:
        inner = self.node("Sigmoid", [x.name])[0]
        return self.same("Mul", x, x.moments.through(silu), inner)

    def leaky_relu(self, x: Value, slope: float = 0.1) -> Value:
        # The largest of several values is hardly ever negative: for pooling it is what a ReLU would give.
        moments = replace(x.moments.through(lambda z: np.maximum(z, slope * z)), raw=x.moments)
        return self.same("LeakyRelu", x, moments, alpha=slope)

    def instance_norm(self, x: Value) -> Value:
        """Each channel of each image brought to mean zero and variance one."""
        label = f"instancenormalization_{self.label()}"
        beta = self._beta(x.channels)
        self.parameters += 2 * x.channels
        scale = self.constant(f"{label}.scale", np.ones(x.channels, np.float32))
        bias = self.constant(f"{label}.bias", rounded(beta))
        return self.same("InstanceNormalization", x, Moments.of(beta), scale, bias, epsilon=1e-5)

    def twice(self, x: Value) -> Value:
        """Twice the height and width: each value four times."""
        scales = self.shared("twice", [1, 1, 2, 2])
        modes: dict[str, Any] = {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
        name = self.node("Resize", [x.name, "", scales], **modes)[0]
        # In the windows to come equal values add up: of nine, about as if they varied twice as much.
        moments = Moments(x.moments.mean, 2 * x.moments.variance)
        return replace(x, name=name, height=2 * x.height, width=2 * x.width, moments=moments)

    def halves(self, x: Value) -> tuple[Value, Value]:
        """The first half of the channels, and the second."""
        half = x.channels // 2
        sizes = self.constant(f"split_{self.label()}.sizes", np.array([half, half]))
        names = self.node("Split", [x.name, sizes], outputs=2, axis=1)
        parts = [x.moments.take(every) for every in np.arange(x.channels).reshape(2, half)]
        first, second = (
            replace(x, name=name, channels=half, moments=part) for name, part in zip(names, parts, strict=True)
        )
        return first, second

    def shared(self, name: str, value: float | list[float]) -> str:
        """A constant that several nodes have."""
        if not any(tensor.name == name for tensor in self.graph.initializer):
            self.constant(name, np.array(value, np.float32))
        return name

    def needs_multiple_of(self, side: int) -> None:
        """Where halves are to meet again, no place may be lost on the way."""
        if self.input.height % side:
            raise ValueError(f"its size must be a multiple of {side}, found {self.input.height}")

    def model(self, logits: Value | None = None, *, preprocess: str = "imagenet", **outputs: Output) -> Any:
        """The finished model. A classifier returns its logits, any other network what it calls `outputs`.

        `preprocess`: the usual one its images go through, here brought to the size of the input.
        """
        named: dict[str, Output] = {"logits": logits, **outputs} if logits else outputs
        renamed = {output.name: name for name, output in named.items()}
        for node in self.graph.node:
            for names in (node.input, node.output):
                for index, name in enumerate(names):
                    if name in renamed:
                        names[index] = renamed[name]
        for name, output in named.items():
            shape = ["batch", output.channels] if output is logits else ["batch", *output.shape]
            self.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        images = _preprocess(preprocess, self.input.height, squash=logits is None)
        helper.set_model_props(self.proto, {"parameters": str(self.parameters), "preprocess": str(images)})
        return self.proto


def same(x: Value, kernel: int, stride: int) -> Pads:
    """Padding that leaves ceil(size / stride): where the sum is odd, the larger part comes last."""
    total = max(kernel - (stride if x.height % stride == 0 else x.height % stride), 0)
    before = total // 2
    return before, before, total - before, total - before


def _preprocess(text: str, size: int, squash: bool) -> Preprocess:
    """The usual one, in its own proportion of resizing to cropping; `squash` keeps what lies near the edges."""
    usual = parse_preprocess(text)
    resize = 0 if squash or not usual.crop else round(size * usual.resize / usual.crop)
    return replace(usual, resize=resize, crop=size, squash=squash or not usual.crop)


def _pads(pad: Pad, height: int, width: int) -> Pads:
    if pad is None:
        return (height // 2, width // 2) * 2
    return (pad, pad, pad, pad) if isinstance(pad, int) else pad


def _sides(x: Value, height: int, width: int, pads: Pads) -> tuple[tuple[int, int], tuple[int, int]]:
    """Per direction: the padded length, and the window's."""
    top, left, bottom, right = pads
    return (x.height + top + bottom, height), (x.width + left + right, width)


def _steps(length: int, window: int, stride: int) -> int:
    """How many windows fit."""
    if length < window:
        raise ValueError(f"the input is too small: a window of {window} does not fit into {length}")
    return (length - window) // stride + 1
