"""The engine that computes nothing, on purpose: programmable latency, failures, crashes and operator support.

Every layer above `engines` is tested on it, deterministically and fast. With `over=ENGINE` it runs another engine
and adds the same faults to it. Options:

    latency=2ms          time per run, with `over` the least it takes; several, as 1ms+2ms+5ms, take turns run by run
    jitter=0.1           relative, seeded
    slow=0.03            fraction of each run's time added after it
    every=1s             ... for so long, and then not for so long, by the machine's clock
    over=ort             run this engine inside
    fail, crash, hang    load or run: raise, die by SIGSEGV, never return
    at=5                 ... at the fifth run
    refuse=Conv+Relu     operators to reject
    leave=Softmax+Resize operators to leave to the CPU
    wrong=Softmax        operators to compute wrongly, with `over`
    leak=1000000         bytes lost per run
    chatter=on           print garbage on stdout and stderr
    wait=sleep           sleep through the latency instead of spinning
"""

from __future__ import annotations

import ctypes
import random
import re
import sys
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np

from ..core import registry
from ..core.errors import EngineFailure, InputError, Unsupported
from ..core.protocols import Executable, Feeds, Outputs
from ..core.types import PRECISIONS, Device, Model, Ran, Target, Verdict
from ._target import check_feeds, check_options, choose, pick

COMPUTES = False
OPTIONS = [
    *("latency", "jitter", "slow", "every", "over", "fail", "crash", "hang", "at", "leak", "chatter", "wait"),
    *("refuse", "leave", "wrong"),
]
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_STAGES = {"load": "load", "run": "run", "never": None}


def version() -> str:
    return "1"


def devices() -> Sequence[Device]:
    return (
        Device("cpu", "cpu", "computes nothing", precisions=PRECISIONS),
        Device("npu", "npu", "computes nothing, elsewhere", precisions=PRECISIONS),
    )


def load(model: Model, target: Target) -> Executable:
    pick("null", devices(), target)
    check_options("null", target, OPTIONS)
    found = _named(target, "refuse") & {operator for _, operator in _nodes(model)}
    if found:
        raise Unsupported(f"null was told to refuse {', '.join(sorted(found))}")
    run = Null(model, target)
    run.fault("load")
    return run


def support(model: Model, target: Target) -> Sequence[Verdict]:
    """As the options say: an imitation of a device that does not have every operator."""
    device = pick("null", devices(), target).name
    check_options("null", target, OPTIONS)
    refused, left = _named(target, "refuse"), _named(target, "leave")
    found = []
    for name, operator in _nodes(model):
        if operator in refused:
            found.append(Verdict(name, operator, "rejected", reason="null was told to refuse it"))
        elif operator in left:
            found.append(Verdict(name, operator, "falls back", "cpu", "null was told to leave it"))
        else:
            found.append(Verdict(name, operator, "supported", device))
    return found


def _named(target: Target, option: str) -> set[str]:
    return set((target.option(option) or "").split("+")) - {""}


def _nodes(model: Model) -> list[tuple[str, str]]:
    """Name and operator of each node; one without a name is known by its first output."""
    import onnx

    nodes = onnx.load(model.path, load_external_data=False).graph.node
    return [(node.name or node.output[0], node.op_type) for node in nodes if node.op_type != "Constant"]


def _nanoseconds(text: str) -> int:
    match = re.fullmatch(r"([0-9.]+)(ns|us|ms|s)", text)
    if not match:
        raise InputError(f"{text!r} is not a time; expected such as 2ms or 300us")
    return round(float(match[1]) * _UNITS[match[2]])


class Null:
    def __init__(self, model: Model, target: Target) -> None:
        self._model = model
        usual = "0ns" if target.option("over") else "100us"
        self._latencies = cycle([_nanoseconds(t) for t in (target.option("latency") or usual).split("+")])
        self._jitter = float(target.option("jitter") or 0)
        self._slow = float(target.option("slow") or 0)
        every = target.option("every")
        self._every_ns = _nanoseconds(every) if every else None
        self._random = random.Random(0)
        self._faults = {kind: choose(target, kind, _STAGES, "never") for kind in ("fail", "crash", "hang")}
        self._at = int(target.option("at") or 1)
        self._leak = int(target.option("leak") or 0)
        self._leaked: list[bytes] = []
        self._chatter = bool(choose(target, "chatter", {"on": True, "off": False}, "off"))
        self._sleeps = bool(choose(target, "wait", {"sleep": True, "spin": False}, "spin"))
        self._runs = 0
        self._closed = False
        self._inner: Executable | None = None
        over = target.option("over")
        wrong = _named(target, "wrong")
        self._wrong = bool(wrong) and not wrong.isdisjoint(operator for _, operator in _nodes(model))
        if over:
            engine = registry.find("engines", over)
            self._inner = engine.load(model, Target(over, target.device, target.precision, target.threads))

    def fault(self, stage: str) -> None:
        if self._chatter:
            print("\x00\xff{garbage", flush=True)  # noqa: T201
            print("]\x1b[31m not json", file=sys.stderr, flush=True)  # noqa: T201
        if self._faults["fail"] == stage:
            raise EngineFailure(f"null was told to fail at {stage}")
        if self._faults["crash"] == stage:
            ctypes.string_at(0)
        while self._faults["hang"] == stage:
            time.sleep(60)

    def run(self, feeds: Feeds) -> Outputs:
        begin = time.perf_counter_ns()
        if self._closed:
            raise InputError("this executable is closed")
        check_feeds(self._model.inputs, feeds)
        self._runs += 1
        if self._runs == self._at:
            self.fault("run")
        if self._leak:
            self._leaked.append(bytes(self._leak))
        outputs = self._inner.run(feeds) if self._inner else self._zeros(feeds)
        if self._wrong:
            outputs = {name: array[..., ::-1] if array.ndim else array + 1 for name, array in outputs.items()}
        took = time.perf_counter_ns() - begin
        wait = next(self._latencies) * (1 + self._slow_now()) * (1 + self._jitter * self._random.gauss(0, 1)) - took
        if self._inner:
            wait = max(took * self._slow_now(), wait)
        deadline = time.perf_counter_ns() + wait
        if self._sleeps and wait > 0:
            time.sleep(wait / 1e9)
        while time.perf_counter_ns() < deadline:
            pass
        return outputs

    def _slow_now(self) -> float:
        return 0.0 if self._every_ns and time.monotonic_ns() // self._every_ns % 2 else self._slow

    def _zeros(self, feeds: Feeds) -> dict[str, np.ndarray[Any, Any]]:
        first = next(iter(feeds.values()), None)
        batch = first.shape[0] if first is not None and first.ndim else 1
        return {
            out.name: np.zeros([d if isinstance(d, int) else batch for d in out.shape or ()], out.dtype)
            for out in self._model.outputs
        }

    def ran(self) -> Ran:
        return Ran(devices=("null",), notes=("nothing was computed",) if not self._inner else ())

    def close(self) -> None:
        self._closed = True
        if self._inner:
            self._inner.close()
