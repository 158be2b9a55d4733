"""How a PyTorch network runs: on the host, on a device, compiled, as a CUDA graph, with a clock in it."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import EdgewiseError, EngineFailure, InputError, Unsupported
from ...core.profile import OpTime, Spans
from ...core.protocols import Array, Feeds, Outputs
from ...core.types import Device, Model, Ran
from ...model.graph import Graph, fixed, graph
from .._target import check_feeds

# Networks kept, one for each set of input sizes; their weights are shared.
_KEPT = 8


@dataclass(frozen=True, slots=True)
class Wants:
    """A target, understood."""

    device: Any
    precision: str
    floats: Any
    mode: str
    freeze: bool
    channels_last: bool
    copy: bool
    threads: int
    onednn: bool
    cudnn_benchmark: bool


_current: Wants | None = None


def _settle(wants: Wants) -> None:
    """The settings of the process, as `wants` has them."""
    global _current  # noqa: PLW0603  the settings are global, and this is their owner
    _own_cache()  # before anything of torch makes the choice
    import torch

    torch.set_num_threads(wants.threads)
    torch.backends.mkldnn.enabled = wants.onednn
    if torch.cuda.is_available():
        torch.backends.cudnn.benchmark = wants.cudnn_benchmark
        with warnings.catch_warnings():
            # Since 2.9 there is a second way to say this, and one warns of the other; both agree only after this one.
            warnings.simplefilter("ignore")
            torch.set_float32_matmul_precision("high" if wants.precision == "tf32" else "highest")
            torch.backends.cudnn.allow_tf32 = wants.precision == "tf32"
    _current = wants


def _own_cache() -> None:
    """Inductor's folder goes into the user's cache: its own choice is one in /tmp that anybody could have made."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "edgewise" / "inductor"
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(folder)  # wanted now: the cache drops what was not for longest
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)


def _compile(module: Any, wants: Wants) -> Any:
    import torch
    import torch._inductor.config as known

    options = {
        "freezing": wants.freeze,
        "compile_threads": 1,  # its pool of processes would stay about while the network is measured
        "fx_graph_cache": False,  # pickles; what the C++ compiler made is kept
        "cpp_cache_precompile_headers": False,  # in /tmp, whatever the folder
    }
    options = {key: value for key, value in options.items() if hasattr(known, key)}
    return torch.compile(module, fullgraph=True, dynamic=False, options=options)


class _Network:
    """The network for one set of input sizes."""

    def __init__(
        self, source: Graph, wants: Wants, shared: dict[str, Any], clock: Callable[[int], None] | None
    ) -> None:
        import torch

        from .net import Net

        self.source, self.wants = source, wants
        net = Net(source, wants.floats, wants.device, channels_last=wants.channels_last, shared=shared, clock=clock)
        self.module = net.module()
        if not wants.mode.startswith("compile"):
            # Found at once, without asking the module where among its parts it keeps them.
            self.module.__dict__.update(self.module._buffers)
        self.forward = _compile(self.module, wants) if wants.mode.startswith("compile") else self.module.forward
        tensors = [source.values[name] for name in source.inputs]
        self.inputs = [
            torch.zeros(tensor.shape, dtype=getattr(torch, tensor.dtype), device=wants.device) for tensor in tensors
        ]

    def warm(self) -> None:
        """What compiles at the first call is called here, so that it counts as loading."""
        import torch

        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.forward(*self.inputs)


class _OnHost(_Network):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._lent: list[Array | None] = [None] * len(self.inputs)
        self._aliases: list[bool] | None = None
        if self.wants.mode == "compile":
            self.warm()

    def knows(self, arrays: Sequence[Any]) -> bool:
        return all(map(_same, arrays, self._lent))

    def take(self, arrays: Sequence[Array]) -> None:
        import torch

        for position, array in enumerate(arrays):
            lent = array.flags.c_contiguous and array.flags.writeable and array.dtype.isnative
            ready = array if lent else np.array(array, array.dtype.newbyteorder("="), order="C")
            self.inputs[position] = torch.from_numpy(ready)
            # A copy is stale once its owner changes the original.
            self._lent[position] = array if lent else None

    def run(self) -> list[Array]:
        outputs = self.forward(*self.inputs)
        if self._aliases is None:
            self._aliases = self._shared_with(outputs)
        return [
            output.numpy().copy() if alias and self.wants.copy else output.numpy()
            for output, alias in zip(outputs, self._aliases, strict=True)
        ]

    def _shared_with(self, outputs: Sequence[Any]) -> list[bool]:
        """Which outputs are memory of an input or a weight; the same in each run, since sizes are."""
        held = {t.untyped_storage().data_ptr() for t in (*self.inputs, *self.module.buffers())}
        constant = [name in self.source.constants for name in self.source.outputs]
        return [c or o.untyped_storage().data_ptr() in held for c, o in zip(constant, outputs, strict=True)]


def _same(one: object, other: object) -> bool:
    return one is other and one is not None


class _OnDevice(_Network):
    """Feeds go through buffers of the host, pinned on CUDA, into fixed places on the device."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        import torch

        self._cuda = self.wants.device.type == "cuda"
        self._sources = [torch.zeros(t.shape, dtype=t.dtype, pin_memory=self._cuda) for t in self.inputs]
        self._results: list[Any] | None = None
        self._arrays: Sequence[Array] = ()
        if self.wants.mode.endswith("graph"):
            self._capture()
        elif self.wants.mode == "compile":
            self.warm()

    def _capture(self) -> None:
        import torch

        with torch.inference_mode(), torch.cuda.device(self.wants.device), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Kernels and their workspaces are chosen in the first runs, which no graph may record.
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.forward(*self.inputs)
            torch.cuda.current_stream().wait_stream(side)
            record = torch.cuda.CUDAGraph()
            with torch.cuda.graph(record, stream=side):
                outputs = self.forward(*self.inputs)

        def replay(*_: Any) -> Any:
            record.replay()
            return outputs

        self.forward = replay

    def knows(self, arrays: Sequence[Any]) -> bool:
        return len(arrays) == len(self._arrays) and all(map(_same, arrays, self._arrays))

    def take(self, arrays: Sequence[Array]) -> None:
        self._arrays = list(arrays)

    def run(self) -> list[Array]:
        import torch

        for array, source, place in zip(self._arrays, self._sources, self.inputs, strict=True):
            np.copyto(source.numpy(), array)
            place.copy_(source, non_blocking=self._cuda)
        outputs = self.forward(*self.inputs)
        if self._results is None:
            self._results = [torch.empty(o.shape, dtype=o.dtype, pin_memory=self._cuda) for o in outputs]
        for output, result in zip(outputs, self._results, strict=True):
            result.copy_(output, non_blocking=self._cuda)
        if self._cuda:
            torch.cuda.current_stream(self.wants.device).synchronize()
        return [result.numpy().copy() if self.wants.copy else result.numpy() for result in self._results]


class Torch:
    """The networks of a model, one for each set of input sizes."""

    def __init__(self, model: Model, device: Device, wants: Wants, clock: Callable[[int], None] | None = None) -> None:
        import torch

        if torch.get_num_interop_threads() != 1:
            with suppress(RuntimeError):  # once in a process, and before they are first used
                torch.set_num_interop_threads(1)
        self._model, self._device, self._wants, self._clock = model, device, wants, clock
        self._names = [tensor.name for tensor in model.inputs]
        self._shared: dict[str, Any] = {}
        self._networks: dict[tuple[tuple[int, ...], ...], Any] = {}
        self._network: Any = None
        self._closed = False
        self._inference = torch.inference_mode
        _settle(wants)
        sizes = [tensor.shape for tensor in model.inputs]
        if all(shape is not None and all(isinstance(size, int) for size in shape) for shape in sizes):
            self._network = self._build({tensor.name: tensor.shape for tensor in model.inputs})
        else:
            _check_file(model)

    def _build(self, shapes: Mapping[str, Any]) -> Any:
        key = tuple(tuple(shapes[name]) for name in self._names)
        if key not in self._networks:
            while len(self._networks) >= _KEPT:
                del self._networks[next(iter(self._networks))]
            kind = _OnHost if self._wants.device.type == "cpu" else _OnDevice
            source = graph(fixed(self._model, shapes))
            with _explained(f"building {self._model.label}"):
                self._networks[key] = kind(source, self._wants, self._shared, self._clock)
        return self._networks[key]

    def ready(self, feeds: Feeds) -> Any:
        """The network for these feeds, which it has taken. Arrays it took last time were checked then."""
        if self._closed:
            raise InputError("this executable is closed")
        if _current != self._wants:
            _settle(self._wants)
        arrays = [feeds.get(name) for name in self._names]
        network = self._network
        if network is None or len(feeds) != len(arrays) or not network.knows(arrays):
            check_feeds(self._model.inputs, feeds)
            network = self._network = self._build({name: feeds[name].shape for name in self._names})
            network.take(arrays)
        return network

    def run(self, feeds: Feeds) -> Outputs:
        network = self.ready(feeds)
        with self._inference():
            try:
                return dict(zip(network.source.outputs, network.run(), strict=True))
            except Exception as error:
                raise _failure(error, f"running {self._model.label}") from error

    def ran(self) -> Ran:
        from .net import tally

        if self._network is None:
            return Ran((self._device.name,))
        wants, network = self._wants, self._network
        found = tally(network.module, network.inputs, wants.precision == "tf32")
        places = {str(tensor.device) for tensor in (*network.module.buffers(), *network.inputs)}
        notes = [
            note
            for note, holds in (
                ("compiled by inductor", wants.mode.startswith("compile")),
                ("weights frozen", wants.mode.startswith("compile") and wants.freeze),
                ("CUDA graph", wants.mode.endswith("graph")),
                # The tally is of the module as it was before it was compiled or recorded.
                ("counted before compiling", wants.mode != "eager"),
                ("tf32 as set, not observed", wants.precision == "tf32"),
                ("channels last", wants.channels_last),
                ("oneDNN where torch prefers it", self._device.name == "cpu" and wants.onednn),
            )
            if holds
        ]
        return Ran(tuple(sorted(places)), tuple(found.items()), tuple(notes))

    def close(self) -> None:
        self._closed = True
        self._network = None
        self._networks.clear()
        self._shared.clear()


class TorchProfile(Torch):
    """One that reads a clock between operators."""

    def __init__(self, model: Model, device: Device, wants: Wants) -> None:
        self._marks: list[Any] = []
        self._events: list[Any] = []
        self._taken: list[tuple[Any, list[int]]] = []
        kind = wants.device.type
        super().__init__(model, device, wants, {"cpu": self._read, "cuda": self._event}.get(kind, self._wait))

    def _read(self, _: int) -> None:
        self._marks.append(time.perf_counter_ns())

    def _event(self, _: int) -> None:
        import torch

        if len(self._events) == len(self._marks):
            self._events.append(torch.cuda.Event(enable_timing=True))
        event = self._events[len(self._marks)]
        event.record(torch.cuda.current_stream(self._wants.device))
        self._marks.append(event)

    def _wait(self, _: int) -> None:
        import torch

        getattr(torch, self._wants.device.type).synchronize()
        self._marks.append(time.perf_counter_ns())

    def run(self, feeds: Feeds) -> Outputs:
        network = self.ready(feeds)
        assert self._clock is not None
        self._marks = []
        self._clock(-1)
        outputs = super().run(feeds)
        self._clock(-1)
        if self._wants.device.type == "cuda":
            self._marks[-1].synchronize()
            first = self._marks[0]
            self._marks = [round(first.elapsed_time(event) * 1e6) for event in self._marks]
        self._taken.append((network.source, self._marks))
        return outputs

    def ops(self) -> Sequence[OpTime]:
        """The operators of the graph, each with torch's way to it: in eager mode nothing else lies between them."""
        spent: dict[tuple[int, str, str], list[int]] = {}
        for source, marks in self._taken:
            between = pairwise(marks[1:-1])
            for index, (node, (begin, end)) in enumerate(zip(source.nodes, between, strict=True)):
                spent.setdefault((index, node.name, node.operator), []).append(end - begin)
        return [
            OpTime(name, operator, tuple(samples), self._device.name) for (_, name, operator), samples in spent.items()
        ]

    def spans(self) -> Spans:
        """Before the first operator inputs are copied, after the last one outputs."""
        whole = tuple(marks[-2] - marks[1] for _, marks in self._taken)
        return Spans(whole, whole)


def _check_file(model: Model) -> None:
    """Where sizes are open, a file that is no model must be refused before the first run."""
    import onnx

    if not onnx.load(model.path, load_external_data=False).graph.output:
        raise InputError(f"{model.label} is not an ONNX file: it holds no graph")


def _failure(error: Exception, doing: str) -> EdgewiseError:
    if isinstance(error, EdgewiseError):
        return error
    text = " ".join(str(error).split())[:300] or repr(error)
    if "not implemented for" in text or isinstance(error, NotImplementedError):
        return Unsupported(f"torch has no kernel for this: {text}")
    return EngineFailure(f"torch failed while {doing}: {text}")


@contextmanager
def _explained(doing: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _failure(error, doing) from error
