"""A loaded ncnn network as an Executable, plain and timed layer by layer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import EngineFailure, InputError, Unsupported
from ...core.profile import OpTime, Spans
from ...core.protocols import Array, Feeds, Outputs
from ...core.types import Model, Ran
from .._target import check_feeds
from .convert import Plan, Result, Source, has, refuse_unknown
from .param import Layer, parse, without_gelu, write

# Layers that read their input and write elsewhere. Others work in place, and would do so on what was only lent.
_ONLY_READ = ("Convolution", "Convolution1D", "ConvolutionDepthWise", "Deconvolution", "InnerProduct", "Pooling")
# Beyond it, floats skip whole numbers.
_LARGEST_WHOLE = 1 << 24


def open_net(path: Path, settings: Mapping[str, Any], gpu: int | None = None) -> Any:
    """The network at `path`. ncnn reports by return codes only, and a network used after a failure is a crash."""
    import ncnn

    refuse_unknown(path)
    net = ncnn.Net()
    for name, value in settings.items():
        setattr(net.opt, name, value)
    if gpu is not None:
        net.opt.use_vulkan_compute = True
        net.set_vulkan_device(gpu)
    weights = path.with_suffix(".bin")
    layers = parse(path)
    if gpu is None and settings.get("use_bf16_storage"):
        _refuse_wrong(layers)
    if net.load_param_mem(write(layers if gpu is None else without_gelu(layers))) != 0:
        raise EngineFailure(f"ncnn cannot read the network {path.name}")
    if not weights.is_file() or net.load_model(str(weights)) != 0:
        raise EngineFailure(
            f"ncnn cannot read {weights.name}, the weights of {path.name}: missing, cut short or others'"
        )
    return net


def _refuse_wrong(layers: Sequence[Layer]) -> None:
    """A grouped convolution that has no bf16 hands it to the convolutions inside: the answer is around 1e20."""
    for layer in layers:
        if layer.grouped() and not has(layer.kind, "support_bf16_storage"):
            raise Unsupported(f"ncnn computes grouped convolutions wrongly in bf16, and {layer.name!r} is one")


class _Port:
    """An input blob: a buffer of ncnn's own, as numpy sees it, or an array lent for one run."""

    def __init__(self, source: Source, whole: bool, lend: bool) -> None:
        import ncnn

        self.source = source
        self.lend = lend
        self._whole = whole
        self._mat = ncnn.Mat(tuple(reversed(source.shape)))
        self._view = self._mat.numpy("i" if source.limit is not None else "f")
        self._lent: Array | None = None

    def mat(self, array: Array, row: int) -> Any:
        import ncnn

        part = (array[row] if self.source.rows else array).reshape(self.source.shape)
        if self.lend:
            self._lent = np.ascontiguousarray(part)  # must live as long as ncnn looks at it
            return ncnn.Mat(self._lent)
        limit = self.source.limit
        if limit is not None:
            if part.min() < -limit or part.max() >= limit:
                raise InputError(f"input {self.source.name!r} holds an index that is not in a table of {limit}")
            part = np.where(part < 0, part + limit, part)
        elif self._whole and abs(part).max() > _LARGEST_WHOLE:
            raise InputError(f"input {self.source.name!r} holds a number above 2**24, and ncnn computes in floats")
        self._view[...] = part
        return self._mat


class Network:
    """Runs row by row where the model has a batch. What `copy=off` means stands in the engine's docstring."""

    def __init__(
        self,
        model: Model,
        plan: Plan,
        net: Any,
        device: str,
        precision: str,
        copy: bool = True,
        notes: Sequence[str] = (),
    ) -> None:
        self._model = model
        self._plan = plan
        self._net = net
        self._device = device
        self._precision = precision
        self._copy = copy
        layers = parse(Path(model.path))
        readers: dict[str, list[str]] = {}
        for layer in layers:
            for blob in layer.takes:
                readers.setdefault(blob, []).append(layer.kind)
        dtypes = {tensor.name: tensor.dtype for tensor in model.inputs}
        self._ports = [
            _Port(
                source,
                whole=dtypes[source.name] != "float32",
                lend=not copy
                and dtypes[source.name] == "float32"
                and all(kind in _ONLY_READ for kind in readers.get(source.blob, ("",))),
            )
            for source in plan.sources
        ]
        self._seen: list[Array | None] = [None] * len(model.inputs)
        self._ran = self._count(notes)

    def _count(self, notes: Sequence[str]) -> Ran:
        layers = [layer for layer in self._net.layers() if layer.type not in ("Input", "Split")]
        on_gpu = self._device.startswith("vulkan")
        precisions: Counter[str] = Counter()
        left = Counter(layer.type for layer in layers if on_gpu and not layer.support_vulkan)
        for layer in layers:
            if on_gpu:
                has = layer.support_vulkan
            else:
                has = {"bf16": layer.support_bf16_storage, "fp16": layer.support_fp16_storage}.get(self._precision)
            precisions[self._precision if has else "fp32"] += 1
        if layers and not precisions[self._precision]:
            raise Unsupported(
                f"no layer of {self._model.label} runs in {self._precision} in ncnn: they would run in fp32"
            )
        if on_gpu and layers and left.total() == len(layers):
            raise Unsupported(f"no layer of {self._model.label} runs on {self._device}: all would fall back to the CPU")
        said = [*notes]
        if self._plan.rows > 1:
            said.append(f"ncnn has no batch: {self._plan.rows} rows run one after the other")
        said += [f"{count} × {kind} on the CPU" for kind, count in left.most_common()]
        said += [f"input {p.source.name!r} is copied" for p in self._ports if not self._copy and not p.lend]
        if not layers:
            said.append("nothing is computed: outputs are copies of inputs")
        devices = (self._device, "cpu") if left else (self._device,)
        return Ran(devices=devices, precisions=tuple(sorted(precisions.items())), notes=tuple(said))

    def run(self, feeds: Feeds) -> Outputs:
        if self._net is None:
            raise InputError("this executable is closed")
        inputs = self._model.inputs
        if len(feeds) != len(inputs) or any(
            feeds.get(tensor.name) is not array for tensor, array in zip(inputs, self._seen, strict=True)
        ):
            check_feeds(inputs, feeds)
            self._seen = [feeds[tensor.name] for tensor in inputs]
        outputs: dict[str, Array] = {}
        for row in range(self._plan.rows):
            extractor = self._net.create_extractor()
            for port in self._ports:
                if extractor.input(port.source.blob, port.mat(feeds[port.source.name], row)) != 0:
                    raise EngineFailure(f"ncnn did not take the input {port.source.name!r}")
            self._before(extractor)
            for result in self._plan.results:
                if result.blob is not None and (row == 0 or result.rows):
                    self._keep(outputs, result, row, self._extract(extractor, result.blob))
        self._after()
        return {result.name: self._finished(result, outputs, feeds) for result in self._plan.results}

    def _extract(self, extractor: Any, blob: str) -> Array:
        code, mat = extractor.extract(blob)
        if code != 0:
            raise EngineFailure(f"ncnn failed to compute {blob!r} of {self._model.label} (code {code})")
        found: Array = mat.numpy()
        return found

    def _keep(self, outputs: dict[str, Array], result: Result, row: int, found: Array) -> None:
        rows = self._plan.rows if result.rows else 1
        shape = found.shape if result.shape is None else result.shape
        if found.size * rows != np.prod(shape, dtype=np.int64):
            raise EngineFailure(f"ncnn made {found.shape} of {result.name!r}, which should be {shape} in {rows} rows")
        if rows == 1 and not self._copy:
            outputs[result.name] = found.reshape(shape)
            return
        if row == 0:
            outputs[result.name] = np.empty(shape, found.dtype)
        outputs[result.name].reshape(rows, *found.shape)[row] = found

    def _finished(self, result: Result, outputs: Mapping[str, Array], feeds: Feeds) -> Array:
        if result.given is not None:
            return np.array(feeds[result.given], result.dtype, copy=True).reshape(result.shape or ())
        return outputs[result.name].astype(result.dtype, copy=False)

    def _before(self, extractor: Any) -> None:
        """Between the inputs and the outputs of one row."""

    def _after(self) -> None:
        """After the last row."""

    def ran(self) -> Ran:
        return self._ran

    def close(self) -> None:
        self._ports = []
        self._seen = []
        self._net = None


class Timed(Network):
    """Asks for blob after blob of one extractor, which computes only what is new for each."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        import ncnn

        super().__init__(*arguments, **options)
        layers = [layer for layer in self._net.layers() if layer.type != "Input" and layer.tops]
        on_gpu = self._device.startswith("vulkan")
        self._layers = [
            (layer.name, layer.type, layer.tops[0], "cpu" if on_gpu and not layer.support_vulkan else self._device)
            for layer in layers
        ]
        self._now = [0] * len(layers)
        self._times: list[list[int]] = []
        self._looped = 0
        self._whole: list[int] = []
        self._pool = ncnn.PoolAllocator()

    def _before(self, extractor: Any) -> None:
        # What comes out of ncnn's own pool is copied on its way out. This one is like it, and is not.
        extractor.set_blob_allocator(self._pool)
        start = time.perf_counter_ns()
        for number, (name, _, blob, _) in enumerate(self._layers):
            begin = time.perf_counter_ns()
            code, mat = extractor.extract(blob, 1)  # 1: as it is, not unpacked to floats
            self._now[number] += time.perf_counter_ns() - begin
            # Held any longer, it could not be computed upon in place, and the next layer would copy it first.
            del mat
            if code != 0:
                raise EngineFailure(f"ncnn failed at the layer {name!r} (code {code})")
        self._looped += time.perf_counter_ns() - start

    def _after(self) -> None:
        self._times.append(self._now)
        self._now = [0] * len(self._layers)
        self._whole.append(self._looped)
        self._looped = 0

    def ops(self) -> Sequence[OpTime]:
        return [
            OpTime(name, kind, tuple(times[number] for times in self._times), device)
            for number, (name, kind, _, device) in enumerate(self._layers)
        ]

    def spans(self) -> Spans:
        """Outside are the copies of inputs and outputs, and unpacking the latter; the layers compute when asked."""
        return Spans(tuple(self._whole), tuple(self._whole))
