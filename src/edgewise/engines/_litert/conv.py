"""Convolutions and pools: windows that slide over NHWC maps."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np

from ...core.errors import Unsupported
from ...core.protocols import Array
from ...model.graph import Node
from .flatbuffer import Quant, Slot
from .layout import NHWC, NWC
from .writer import Writer, attribute, operator

_SAME, _VALID = 0, 1


@dataclass(frozen=True, slots=True)
class _Window:
    """One spatial axis: sizes before and after, and how the window goes over it. `end` may be negative: unused."""

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    declared_end: int

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation + 1

    @property
    def end(self) -> int:
        return (self.out - 1) * self.stride + self.reach - self.size - self.begin

    @property
    def is_same(self) -> bool:
        """Whether it is what TensorFlow calls SAME: the smaller half of the padding comes first."""
        total = max(self.end + self.begin, 0)
        return self.out == ceil(self.size / self.stride) and self.begin == total // 2 and total == self.begin + self.end

    @property
    def is_valid(self) -> bool:
        return self.begin == 0 and self.end <= 0


def _windows(w: Writer, node: Node, kernel: tuple[int, ...]) -> list[_Window]:
    """Rows and columns; what has only one spatial axis gets another of size 1."""
    sizes, outs = w.shape(node.inputs[0])[2:], w.shape(node.outputs[0])[2:]
    rank = len(sizes)
    if rank not in (1, 2):
        raise Unsupported(f"litert has {node.operator} over one or two axes, and {node.name!r} has {rank}")
    strides = attribute(node, "strides", [1] * rank)
    dilations = attribute(node, "dilations", [1] * rank)
    pads = attribute(node, "pads", [0] * (2 * rank))
    auto = attribute(node, "auto_pad", "NOTSET")
    found = []
    for i in range(rank):
        begin, end = pads[i], pads[i + rank]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max((outs[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - sizes[i], 0)
            begin = total // 2 if auto == "SAME_UPPER" else total - total // 2
            end = total - begin
        elif auto == "VALID":
            begin = end = 0
        if begin < 0 or end < 0:
            raise Unsupported(f"litert has {node.operator} without negative padding only (node {node.name!r})")
        found.append(_Window(sizes[i], outs[i], kernel[i], strides[i], dilations[i], begin, end))
    return [_Window(1, 1, 1, 1, 1, 0, 0)] * (2 - rank) + found


def _map(w: Writer, name: str) -> Slot:
    """The value as rows × columns × channels."""
    shape = w.shape(name)
    if len(shape) == 4:
        return w.take(name, NHWC)
    return w.reshape(w.take(name, NWC), (shape[0], 1, shape[2], shape[1]))


def _put_map(w: Writer, name: str, slot: Slot) -> None:
    shape = w.shape(name)
    if len(shape) == 4:
        w.put(name, slot, NHWC)
    else:
        w.put(name, w.reshape(slot, (shape[0], shape[2], shape[1])), NWC)


def _out_shape(x: Slot, windows: list[_Window], channels: int) -> tuple[int, ...]:
    return x.shape[0], windows[0].out, windows[1].out, channels


def _padded(w: Writer, x: Slot, windows: list[_Window], lowest: bool = False) -> tuple[Slot, int]:
    """The map with what padding the operator itself cannot do, and the padding it is to do."""
    if all(window.is_valid for window in windows):
        return x, _VALID
    if all(window.is_same for window in windows):
        return x, _SAME
    pads = [(0, 0), *((window.begin, max(window.end, 0)) for window in windows), (0, 0)]
    shape = [size + sum(pad) for size, pad in zip(x.shape, pads, strict=True)]
    if not lowest:
        return w.step("PAD", x, w.ints(np.array(pads)), shape=shape, options="Pad"), _VALID
    low = np.array([-128], np.int8) if x.dtype == "int8" else np.array([np.finfo(np.float32).min], np.float32)
    value = w.file.constant(f"{w.node.name}/lowest", low, x.quant)
    return w.step("PADV2", x, w.ints(np.array(pads)), value, shape=shape, options="PadV2"), _VALID


def weights_in_integers(w: Writer, name: str, axis: int) -> Quant | None:
    """Scales of 8-bit weights that kernels take: around zero, one for all or one for each output channel."""
    quant, array = w.scales.get(name), w.constants.get(name)
    if quant is None or array is None or array.dtype != np.int8 or any(quant.zeros):
        return None
    if len(quant.scales) > 1 and (quant.axis != axis or len(quant.scales) != array.shape[axis]):
        return None
    return quant


def integer_bias(w: Writer, node: Node, x: Quant, scales: Quant, channels: int) -> Slot:
    """int32 in steps of input × weights, as kernels expect it."""
    steps = np.array(scales.scales, np.float32).astype(np.float64) * x.scales[0]
    bias = w.need(node, 2).reshape(-1).astype(np.float64) if w.given(node, 2) else np.zeros(channels)
    name = node.inputs[2] if w.given(node, 2) else f"{node.name}/bias"
    quant = Quant(tuple(float(step) for step in steps), (0,) * len(steps))
    whole = np.rint(bias / steps).clip(-(2**31), 2**31 - 1).astype(np.int32)
    return w.file.constant(name, np.broadcast_to(whole, (channels,)), quant)


def float_bias(w: Writer, node: Node, channels: int) -> Slot:
    if not w.given(node, 2):
        return w.file.constant(f"{node.name}/bias", np.zeros(channels, np.float32))
    return w.weights(node.inputs[2], w.need(node, 2), (node.inputs[2], "bias"))


def _fits(w: Writer, node: Node) -> bool:
    biased = w.given(node, 2) and w.const(node.inputs[2]) is None
    return w.in_integers(node.inputs[0]) and not biased and weights_in_integers(w, node.inputs[1], 0) is not None


@operator("Conv", int8="free", fits=_fits)
def conv(w: Writer, node: Node) -> None:
    name = node.inputs[1]
    array = w.constants[name] if w.quantized else w.need(node, 1)
    kernel = array if array.ndim == 4 else np.expand_dims(array, 2)
    windows = _windows(w, node, array.shape[2:])
    channels, group = kernel.shape[0], attribute(node, "group", 1)
    depthwise = group > 1 and kernel.shape[1] == 1 and group == w.shape(node.inputs[0])[1]
    x, padding = _padded(w, _map(w, node.inputs[0]), windows)
    # [out, in, rows, columns] to [1, rows, columns, out] or [out, rows, columns, in]
    laid = kernel.transpose((1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
    quant = None
    if w.quantized and x.quant is not None:
        scales = w.scales[name]
        quant = Quant(scales.scales, scales.zeros, 3 if depthwise and len(scales.scales) > 1 else 0)
        bias = integer_bias(w, node, x.quant, scales, channels)
    else:
        bias = float_bias(w, node, channels)
    weights = w.weights(name, laid, (name, "laid", depthwise, w.quantized), quant)
    rows, columns = windows
    fields: dict[str, Any] = {
        "padding": padding, "strideH": rows.stride, "strideW": columns.stride,
        "dilationHFactor": rows.dilation, "dilationWFactor": columns.dilation,
        "fusedActivationFunction": w.activation(node),
    }  # fmt: skip
    kind, options = "CONV_2D", "Conv2D"
    if depthwise:
        kind, options = "DEPTHWISE_CONV_2D", "DepthwiseConv2D"
        fields["depthMultiplier"] = channels // group
    shape = _out_shape(x, windows, channels)
    _put_map(w, node.outputs[0], w.step(kind, x, weights, bias, shape=shape, quant=w.goal, options=options, **fields))


def _transpose_fits(w: Writer, node: Node) -> bool:
    simple = attribute(node, "group", 1) == 1 and w.in_integers(node.inputs[0])
    biased = w.given(node, 2) and w.const(node.inputs[2]) is None
    return simple and not biased and weights_in_integers(w, node.inputs[1], 1) is not None


@operator("ConvTranspose", int8="free", fits=_transpose_fits)
def conv_transpose(w: Writer, node: Node) -> None:
    name = node.inputs[1]
    array = w.constants[name] if w.quantized else w.need(node, 1)
    if array.ndim != 4:
        raise Unsupported(f"litert has ConvTranspose over two axes, and {node.name!r} has {array.ndim - 2}")
    if any(dilation != 1 for dilation in attribute(node, "dilations", [1, 1])):
        raise Unsupported(f"litert has no ConvTranspose with dilations (node {node.name!r})")
    array = _ungrouped(array, attribute(node, "group", 1))
    x, out = w.take(node.inputs[0], NHWC), w.shape(node.outputs[0])
    strides = attribute(node, "strides", [1, 1])
    full = [(x.shape[1 + i] - 1) * strides[i] + array.shape[2 + i] for i in range(2)]
    begins = [_cut_before(node, i, full[i], out[2 + i]) for i in range(2)]
    if any(begin < 0 or begin + size > whole for begin, size, whole in zip(begins, out[2:], full, strict=True)):
        raise Unsupported(f"litert has no ConvTranspose that pads beyond what the kernel reaches (node {node.name!r})")
    shape = (x.shape[0], *full, out[1])
    quant = None
    if w.quantized and x.quant is not None:
        quant = Quant(w.scales[name].scales, w.scales[name].zeros)
        bias = integer_bias(w, node, x.quant, quant, out[1])
    else:
        bias = float_bias(w, node, out[1])
    weights = w.weights(name, array.transpose(1, 2, 3, 0), (name, "turned", w.quantized), quant)
    made = w.step(
        "TRANSPOSE_CONV", w.ints(shape), weights, x, bias, shape=shape, dtype=x.dtype, quant=w.goal,
        options="TransposeConv", padding=_VALID, strideH=strides[0], strideW=strides[1],
    )  # fmt: skip
    if full != list(out[2:]):
        sizes = (x.shape[0], *out[2:], out[1])
        made = w.step("SLICE", made, w.ints([0, *begins, 0]), w.ints(sizes), shape=sizes, options="Slice")
    w.put(node.outputs[0], made, NHWC)


def _cut_before(node: Node, axis: int, full: int, out: int) -> int:
    """How much of the full result is cut off before what is kept."""
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto == "NOTSET" and not node.attributes.get("output_shape"):
        return int(attribute(node, "pads", [0] * 4)[axis])
    if auto == "VALID":
        return 0
    total = full + int(attribute(node, "output_padding", [0, 0])[axis]) - out
    return total // 2 if auto == "SAME_UPPER" else total - total // 2


def _ungrouped(array: Array, group: int) -> Array:
    """Weights [in, out / group, ...] with zeros between the groups."""
    if group == 1:
        return array
    into, out = array.shape[0] // group, array.shape[1]
    dense = np.zeros((array.shape[0], out * group, *array.shape[2:]), array.dtype)
    for g in range(group):
        dense[g * into : (g + 1) * into, g * out : (g + 1) * out] = array[g * into : (g + 1) * into]
    return dense


def _pool_windows(w: Writer, node: Node) -> list[_Window]:
    windows = _windows(w, node, tuple(node.attributes["kernel_shape"]))
    if any(window.dilation != 1 for window in windows):
        raise Unsupported(f"litert has no {node.operator} with dilations (node {node.name!r})")
    return windows


def _pool(w: Writer, node: Node, kind: str, x: Slot, windows: list[_Window], padding: int, activation: int) -> Slot:
    rows, columns = windows
    return w.step(
        kind, x, shape=_out_shape(x, windows, x.shape[3]), options="Pool2D", padding=padding, strideH=rows.stride,
        strideW=columns.stride, filterHeight=rows.kernel, filterWidth=columns.kernel,
        fusedActivationFunction=activation,
    )  # fmt: skip


@operator("MaxPool", int8="same")
def max_pool(w: Writer, node: Node) -> None:
    w.one_output(node)
    windows = _pool_windows(w, node)
    x = _map(w, node.inputs[0])
    # Where nothing is below zero, zeros are as good as the lowest number, and padding with them is faster.
    low = (x.quant.zeros[0] != -128) if x.quant is not None else node.inputs[0] not in w.nonnegative
    x, padding = _padded(w, x, windows, lowest=low)
    _put_map(w, node.outputs[0], _pool(w, node, "MAX_POOL_2D", x, windows, padding, w.activation(node)))
    if node.inputs[0] in w.nonnegative:
        w.nonnegative.add(node.outputs[0])


def _counted(window: _Window, include: bool) -> Array:
    """How many elements each position of the window is averaged over."""
    low, high = (-window.begin, window.size + window.declared_end) if include else (0, window.size)
    starts = np.arange(window.out) * window.stride - window.begin
    return np.minimum(starts + window.kernel, high) - np.maximum(starts, low)


def _no_correction(w: Writer, node: Node) -> bool:
    return w.in_integers(node.inputs[0]) and _divisors(_pool_windows(w, node), node) is None


def _divisors(windows: list[_Window], node: Node) -> Array | None:
    """What the answer must be multiplied with, where the operator divides by other counts than ONNX."""
    include = bool(attribute(node, "count_include_pad", 0))
    counts = np.outer(*(_counted(window, include) for window in windows))
    if all(window.is_same for window in windows):
        # SAME divides by what is really there.
        own = np.outer(*(_counted(window, False) for window in windows))
    else:
        own = np.full(counts.shape, prod(window.kernel for window in windows))
    return None if (own == counts).all() else (own / counts).astype(np.float32)


@operator("AveragePool", int8="same", fits=_no_correction)
def average_pool(w: Writer, node: Node) -> None:
    windows = _pool_windows(w, node)
    x, padding = _padded(w, _map(w, node.inputs[0]), windows)
    factors = _divisors(windows, node)
    if factors is None:
        made = _pool(w, node, "AVERAGE_POOL_2D", x, windows, padding, w.activation(node))
    else:
        made = _pool(w, node, "AVERAGE_POOL_2D", x, windows, padding, 0)
        scale = w.file.constant(f"{node.name}/counts", factors[np.newaxis, :, :, np.newaxis])
        made = w.step("MUL", made, scale, options="Mul", fusedActivationFunction=w.activation(node))
    _put_map(w, node.outputs[0], made)


@operator("LRN")
def lrn(w: Writer, node: Node) -> None:
    size = node.attributes["size"]
    if size % 2 == 0 or len(w.shape(node.inputs[0])) != 4:
        raise Unsupported(f"litert has LRN over an odd number of channels of a map only (node {node.name!r})")
    made = w.step(
        "LOCAL_RESPONSE_NORMALIZATION", w.take(node.inputs[0], NHWC), options="LocalResponseNormalization",
        radius=size // 2, bias=attribute(node, "bias", 1.0), alpha=attribute(node, "alpha", 1e-4) / size,
        beta=attribute(node, "beta", 0.75),
    )  # fmt: skip
    w.put(node.outputs[0], made, NHWC)
