"""8 bits by ranges that are known beforehand: written as QDQ by ONNX Runtime, with as much care as is asked for.

In order: channels are made even (`equalize`), ranges taken from the calibration inputs (`calibrate`), the layers that
would suffer most left in float (`keep`), and shifts of the mean taken out of the biases (`correct`). All of it changes
constants of the float network or what is known of its values; the quantizer is the same for all, so that what it
guarantees (an int32 bias in units of its input's and its weights' scales, without overflow) holds for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError, Unsupported
from ...model.arena import value_bytes
from ...model.cost import cost
from ...model.graph import Array, Graph, fixed, graph
from ...model.load import inspect
from ..observe import Observe, observer
from .correct import corrected
from .equalize import equalized
from .mixed import free
from .options import Quantizing
from .ranges import Range, floats, ranges
from .sensitivity import difference, layers, sensitivity

# Weights have so many levels on either side; one bit less where sums saturate.
_LEVELS = {True: 127, False: 64}
_SENSITIVITY_SAMPLES = (8, 128)
# Every layer is tried by itself: what that may cost together, about a minute on two cores.
_SENSITIVITY_MULTIPLY_ADDS = 3e12
_CORRECTION_SAMPLES = (16, 256)
# What is held at once of the values inside.
_HELD_BYTES = 256 << 20
_BATCH = 32


def write(
    source: Path,
    target: Path,
    runs: Sequence[Mapping[str, Array]],
    vnni: bool,
    known: Mapping[str, Range] | None = None,
    keep: Sequence[str] = (),
) -> None:
    """The file `source` quantized, with the ranges seen in `runs`, or those that are known better."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._feeds = iter(runs)

        def get_next(self) -> dict[str, Any] | None:
            feeds = next(self._feeds, None)
            return None if feeds is None else dict(feeds)

    more: dict[str, Any] = {}
    if known is not None:
        more["extra_options"] = {"TensorQuantOverrides": _overrides(source, known)}
    quantize_static(
        str(source),
        str(target),
        Reader(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=not vnni,
        nodes_to_exclude=list(keep),
        **more,
    )
    if keep:
        free(source, target, keep)


def _overrides(source: Path, known: Mapping[str, Range]) -> dict[str, list[dict[str, Any]]]:
    """Ranges as the quantizer takes them: of values whose type it knows, and not of a Softmax, whose range it knows."""
    import onnx

    proto = onnx.shape_inference.infer_shapes(onnx.load(str(source)))
    there = {value.name for value in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output)}
    there -= {tensor.name for tensor in proto.graph.initializer}
    there -= {name for node in proto.graph.node if node.op_type == "Softmax" for name in node.output}
    return {
        name: [{"rmin": np.float32(low), "rmax": np.float32(high)}]
        for name, (low, high) in known.items()
        if name in there
    }


def refine(source: Path, target: Path, samples: Mapping[str, Array], vnni: bool, options: Quantizing) -> None:
    """The file `source` quantized as `options` say, with ranges from `samples` (the first axis); `source` is
    rewritten on the way."""
    _name(source, with_biases=options.correct == "bias")
    work = _Work(source, target, samples, vnni)
    plain = equalized(work.plain) if options.equalize == "yes" else work.plain
    known = ranges(plain, observer(samples, _batch(plain)), options.calibrate)
    keep = work.kept(plain, known, options.keep) if options.keep else []
    work.write(plain, known, keep)
    if options.correct == "bias":
        largest = max(value_bytes(plain, name) for name in plain.values)
        some = _first(samples, work.batch, _within(_HELD_BYTES / max(largest, 1), _CORRECTION_SAMPLES))
        observe = observer(some)
        expected = list(observe(plain, plain.outputs))
        before, error = target.read_bytes(), work.error(expected, observe)
        watch = partial(observer, batch=_batch(plain))
        work.write(corrected(plain, work.quantized(), some, watch), known, keep)
        # Right in the mean of every layer can be less right at the end: all outputs a little larger, as a rule.
        if work.error(expected, observe) > error:
            target.write_bytes(before)


class _Work:
    """A file and the graph in it; what is made of the graph is written as the file with other constants."""

    def __init__(self, source: Path, target: Path, samples: Mapping[str, Array], vnni: bool) -> None:
        self.source, self.target, self.samples, self.vnni = source, target, samples, vnni
        model = inspect(str(source))
        first = (model.inputs[0].shape or (1,))[0]
        self.batch = first if isinstance(first, int) else 1
        self.sizes = {name: (self.batch, *array.shape[1:]) for name, array in samples.items()}
        self.model = fixed(model, self.sizes)
        self.plain = graph(self.model)

    def quantized(self) -> Graph:
        return graph(fixed(inspect(str(self.target)), self.sizes))

    def error(self, expected: Sequence[Mapping[str, Array]], observe: Observe) -> float:
        """Of the outputs of what was written last, squared, beside their variance."""
        return difference(expected, observe(self.quantized(), self.plain.outputs))[0]

    def write(self, plain: Graph, known: Mapping[str, Range], keep: Sequence[str]) -> None:
        changed = {name: array for name, array in plain.constants.items() if array is not self.plain.constants[name]}
        source = self.source.with_name("changed.onnx") if changed else self.source
        if changed:
            _replace(self.source, source, changed)
        write(source, self.target, [_first(self.samples, self.batch, self.batch)], self.vnni, known, keep)

    def kept(self, plain: Graph, known: Mapping[str, Range], keep: float) -> list[str]:
        """The layers to leave in float, by what quantizing each alone does to the outputs."""
        count = len(list(layers(plain)))
        if keep >= max(count, 1):
            raise InputError(f"keep={keep:g} leaves nothing to quantize: {count} layers have weights", "keep=3")
        each = max(cost(self.model).multiply_adds / self.batch, 1.0)
        most = _within(_SENSITIVITY_MULTIPLY_ADDS / (count * each), _SENSITIVITY_SAMPLES)
        observe = observer(_first(self.samples, self.batch, most))
        found = sorted(sensitivity(plain, observe, known, _LEVELS[self.vnni]), key=lambda one: -one.mse)
        order = [one.layer for one in found]
        if keep >= 1:
            return order[: int(keep)]
        expected = list(observe(plain, plain.outputs))

        def error(kept: int) -> float:
            self.write(plain, known, order[:kept])
            return self.error(expected, observe)

        # Fewer kept, a larger error: halved until the fewest are found.
        low, high = 0, count - 1
        if (least := error(high)) > keep:
            raise Unsupported(
                f"with one layer in 8 bits the error of the outputs is still {least:.3g} of their variance, "
                f"above keep={keep:g}",
                "a larger keep, or quantize(calibrate=mse)",
            )
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if error(middle) <= keep else (middle + 1, high)
        return order[:low]


def _first(samples: Mapping[str, Array], batch: int, most: int) -> dict[str, Array]:
    """The first samples, as whole batches."""
    count = max(min(most, *(len(array) for array in samples.values())) // batch, 1) * batch
    return {name: array[:count] for name, array in samples.items()}


def _within(value: float, ends: tuple[int, int]) -> int:
    return int(min(max(value, ends[0]), ends[1]))


def _batch(plain: Graph) -> int:
    """How many samples at once, where all values inside are looked at."""
    return _within(_HELD_BYTES / max(sum(value_bytes(plain, name) for name in floats(plain)), 1), (1, _BATCH))


def _name(path: Path, *, with_biases: bool) -> None:
    """Every node by a name of its own, as graphs have them; a bias of zeros where one is to be moved."""
    import onnx

    proto = onnx.load(str(path))
    names: set[str] = set()
    sizes = {tensor.name: list(tensor.dims) for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        if not node.name or node.name in names:
            node.name = node.output[0]
        names.add(node.name)
        shape = sizes.get(node.input[1], []) if node.op_type in ("Conv", "Gemm") else []
        if with_biases and len(node.input) == 2 and shape:
            transposed = any(each.name == "transB" and each.i for each in node.attribute)
            width = shape[0] if node.op_type == "Conv" or transposed else shape[1]
            zeros = np.zeros(width, np.float32)
            proto.graph.initializer.append(onnx.numpy_helper.from_array(zeros, f"{node.output[0]}/bias"))
            node.input.append(f"{node.output[0]}/bias")
    onnx.save(proto, str(path))


def _replace(source: Path, target: Path, constants: Mapping[str, Array]) -> None:
    """The file with other constants in it."""
    import onnx

    proto = onnx.load(str(source))
    left = dict(constants)
    for tensor in proto.graph.initializer:
        if tensor.name in left:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(left.pop(tensor.name), order="C"), tensor.name))
    # What a node made of constants is a constant now.
    for node in [node for node in proto.graph.node if node.output[0] in left]:
        proto.graph.node.remove(node)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(left[node.output[0]], node.output[0]))
    onnx.save(proto, str(target))
