"""The suite any engine passes: right answers, honest refusals, no surprises for whoever calls it.

It runs in this process, and some checks feed an engine what may kill it: callers isolate it in a worker.
The outcomes come one by one in the order of CHECKS, so after a crash the first check without one is to blame.
"""

from __future__ import annotations

import copy
import gc
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import psutil

from ..core import registry
from ..core.errors import CheckFailed, EdgewiseError, InputError, Unavailable, Unsupported
from ..core.protocols import Array, Executable, Feeds, Outputs
from ..core.text import parse_target
from ..core.types import PRECISIONS, Model, Target
from ..model.graph import fixed
from ..model.load import inspect
from . import converted
from ._cases import Case, Graph, cases, expected

# What one thread answers to the same question twice; GPUs may add up in another order.
REPEATED = 1e-6
# Far above the noise of allocators, far below what CYCLES leaked models or RUNS leaked tensors would take.
LEAK_BYTES = 12 << 20
CYCLES, RUNS = 30, 300
OPERATOR = "operator."


@dataclass(frozen=True, slots=True)
class Outcome:
    check: str
    verdict: Literal["pass", "fail", "refused", "skip"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """One engine on one device, and a folder for the models it is given."""

    name: str
    engine: Any
    device: str | None
    scratch: Path
    # Conversions, by what they are made from: many checks open the same case.
    made: dict[str, Model] = field(default_factory=dict)

    def record(self, case: Case) -> Model:
        path = self.scratch / f"{case.name}.onnx"
        onnx.save(case.model, str(path))
        return inspect(str(path))

    def open(
        self, case: Case, threads: int = 1, feeds: Feeds | None = None, options: tuple[tuple[str, str], ...] = ()
    ) -> closing[Executable]:
        record = self.record(case)
        target = Target(self.name, self.device, record.precision, threads, options=options)
        return closing(self.engine.load(self.readable(record, target, feeds or case.feeds), target))

    def readable(self, record: Model, target: Target, feeds: Feeds) -> Model:
        """An engine that converts gets the sizes of the feeds, since it converts for them."""
        if not hasattr(self.engine, "convert"):
            return record
        sized = fixed(record, {name: array.shape for name, array in feeds.items()})
        key = repr((sized, target.options))
        if key not in self.made:
            self.made[key] = converted(self.name, sized, target, tempfile.mkdtemp(dir=self.scratch))
        return self.made[key]


@dataclass(frozen=True, slots=True)
class Check:
    """`answers`: it needs right answers, so it says nothing about an engine that does not compute."""

    name: str
    about: str
    run: Callable[[Bench], None]
    answers: bool = True


def check(engine_name: str, *, device: str | None = None, scratch: Path, first: int = 0) -> Iterator[Outcome]:
    """Every check in turn, beginning with number `first`, on one device (by default the engine's own choice)."""
    engine: Any = registry.find("engines", engine_name)
    bench = Bench(engine_name, engine, device, scratch)
    for each in CHECKS[first:]:
        yield _judge(each, bench)


def _judge(each: Check, bench: Bench) -> Outcome:
    if each.answers and not getattr(bench.engine, "COMPUTES", True):
        return Outcome(each.name, "skip", f"{bench.name} computes nothing")
    try:
        each.run(bench)
    except (Unavailable, ImportError) as skipped:
        return Outcome(each.name, "skip", str(skipped))
    except Unsupported as refusal:
        return Outcome(each.name, "refused", refusal.message)
    except CheckFailed as failed:
        return Outcome(each.name, "fail", failed.message)
    except Exception as error:  # noqa: BLE001  whatever an engine throws is its verdict
        return Outcome(each.name, "fail", _shown(error))
    return Outcome(each.name, "pass")


def operators(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Operator -> "yes", "refused: reason" or "wrong: reason", judged by the smallest cases that use it."""
    by_name = {OPERATOR + case.name: case for case in cases()}
    found: dict[str, list[tuple[int, int, str]]] = {}
    for outcome in outcomes:
        if outcome.check in by_name and outcome.verdict != "skip":
            used = by_name[outcome.check].operators
            rank, word = {"fail": (0, "wrong: "), "refused": (1, "refused: ")}.get(outcome.verdict, (2, "yes"))
            for operator in used:
                found.setdefault(operator, []).append((len(used), rank, word + outcome.reason))
    # A block that fails does not tell which of its operators is to blame: it counts only for want of better.
    return {operator: min(found[operator])[2] for operator in sorted(found)}


def _shown(error: BaseException) -> str:
    # OpenVINO's first lines are source positions; the reason comes after them.
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"[:400]


def _compare(found: Outputs, wanted: Mapping[str, Array], tolerance: float, what: str) -> None:
    """Names, types and shapes and integers exactly; floats within `tolerance` of the largest magnitude."""
    if set(found) != set(wanted):
        raise CheckFailed(f"{what}: outputs are named {sorted(found)}, expected {sorted(wanted)}")
    for name, right in wanted.items():
        answer = found[name]
        if not isinstance(answer, np.ndarray):
            raise CheckFailed(f"{what}: output {name!r} is a {type(answer).__name__}, not an array")
        if (answer.dtype, answer.shape) != (right.dtype, right.shape):
            had, should = f"{answer.dtype}{list(answer.shape)}", f"{right.dtype}{list(right.shape)}"
            raise CheckFailed(f"{what}: output {name!r} is {had}, expected {should}")
        limit = tolerance * float(np.abs(right).max()) if right.dtype.kind == "f" else 0.0
        error = float(np.abs(answer.astype(np.float64) - right.astype(np.float64)).max())
        if not error <= limit:  # so that NaN counts as wrong
            raise CheckFailed(f"{what}: output {name!r} is off by {error:.3g}, allowed {limit:.3g}")


def _right(executable: Executable, case: Case, what: str, feeds: Feeds | None = None) -> None:
    _compare(executable.run(feeds or case.feeds), expected(case), case.tolerance, what)


def _refused(action: Callable[[], object], kind: type[EdgewiseError], naming: Iterable[str], what: str) -> None:
    try:
        action()
    except kind as error:
        said = f"{error.message} {error.hint or ''}"
        if silent := [name for name in naming if name not in said]:
            raise CheckFailed(f"{what}: the error does not name {', '.join(silent)}: {said}") from None
    except Exception as error:  # noqa: BLE001  any other kind is the finding
        raise CheckFailed(f"{what}: expected {kind.__name__}, got {_shown(error)}") from None
    else:
        raise CheckFailed(f"{what}: expected {kind.__name__}, but it went through")


def _noise(case: Case, seed: int, batch: int | None = None) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    shapes = {name: (batch or array.shape[0], *array.shape[1:]) for name, array in case.feeds.items()}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def _copied(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: np.array(array) for name, array in arrays.items()}


def _case(name: str) -> Case:
    """With feeds of its own, so that an engine that writes into them spoils no other check."""
    case = next(case for case in cases() if case.name == name)
    return replace(case, feeds=_copied(case.feeds))


def version(bench: Bench) -> None:
    """version() is a non-empty text"""
    found: object = bench.engine.version()
    if not isinstance(found, str) or not found.strip():
        raise CheckFailed(f"version() gave {found!r}")


def devices(bench: Bench) -> None:
    """devices() are well-formed: unique names that can stand in a target, kinds, known precisions"""
    found = bench.engine.devices()
    names = [device.name for device in found]
    if not names or len(set(names)) != len(names):
        raise CheckFailed(f"device names must be there and unique, found {names}")
    for device in found:
        target, precisions = Target(bench.name, device.name), set(device.precisions)
        if not device.kind or not precisions or not precisions <= set(PRECISIONS):
            raise CheckFailed(f"not a well-formed device: {device}")
        if parse_target(str(target)) != target:
            raise CheckFailed(f"the device {device.name!r} cannot be written in a target: {target}")


def _operator(name: str, bench: Bench) -> None:
    case = _case(name)
    with bench.open(case) as executable:
        _right(executable, case, case.name)


def dynamic_batch(bench: Bench) -> None:
    """a model with a symbolic batch runs at 1, 3 and 8, each row as if it were alone"""
    case = _case("classifier")
    feeds = _noise(case, 1, batch=8)
    rows_of = [{name: array[i : i + 1] for name, array in feeds.items()} for i in range(8)]
    with bench.open(case, feeds=rows_of[0]) as executable:
        alone = [executable.run(row) for row in rows_of]
        rows = {name: np.concatenate([row[name] for row in alone]) for name in alone[0]}
        _compare(rows, expected(case, feeds), case.tolerance, "row by row")
        for batch in (1, 3, 8):
            part = {name: array[:batch] for name, array in feeds.items()}
            wanted = {name: array[:batch] for name, array in rows.items()}
            _compare(_run_or_reload(bench, case, executable, part), wanted, case.tolerance, f"batch {batch}")


def _run_or_reload(bench: Bench, case: Case, executable: Executable, feeds: Feeds) -> Outputs:
    try:
        return executable.run(feeds)
    except Exception:  # noqa: BLE001  an engine may compile for the first batch it sees, and need another load
        with bench.open(case, feeds=feeds) as fresh:
            return fresh.run(feeds)


def non_contiguous_feeds(bench: Bench) -> None:
    """arrays that are views, with any strides, give the right answer"""
    case = _case("classifier")
    views: dict[str, Callable[[Array], Array]] = {
        "Fortran order": np.asfortranarray,
        "negative strides": lambda array: array[..., ::-1].copy()[..., ::-1],
        "every second element": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    }
    with bench.open(case) as executable:
        for what, view in views.items():
            _right(executable, case, what, {name: view(array) for name, array in case.feeds.items()})


def side_by_side(bench: Bench) -> None:
    """two executables do not disturb each other, in turns and from two threads"""
    pair = _case("classifier"), _case("residual")
    wanted = [expected(case) for case in pair]

    def runs(executable: Executable, case: Case, right: Mapping[str, Array]) -> None:
        for _ in range(40):
            _compare(executable.run(case.feeds), right, case.tolerance, f"{case.name} in its own thread")

    with bench.open(pair[0]) as first, bench.open(pair[1]) as second, ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            _right(first, pair[0], "in turns")
            _right(second, pair[1], "in turns")
        for _ in pool.map(runs, (first, second), pair, wanted):
            pass  # the iterator raises what a thread raised


def two_threads(bench: Bench) -> None:
    """threads=2 gives the same answer"""
    for case in (_case("classifier"), _case("conv_padded"), _case("matmul_batched")):
        with bench.open(case, threads=2) as executable:
            _right(executable, case, case.name)


def repeated_runs(bench: Bench) -> None:
    """the same feeds give the same answer, also after other feeds"""
    case = _case("classifier")
    with bench.open(case) as executable:
        first = _copied(executable.run(case.feeds))
        for seed in range(5):
            executable.run(_noise(case, seed))
            _compare(executable.run(case.feeds), first, REPEATED, f"repetition {seed + 1}")


def outputs_are_kept(bench: Bench) -> None:
    """a later run, or the caller refilling its own buffers, leaves earlier outputs alone"""
    for case in (_case("classifier"), _case("identity")):
        with bench.open(case) as executable:
            buffers = _noise(case, 1)
            first = executable.run(buffers)
            kept = _copied(first)
            for name, array in _noise(case, 2).items():
                buffers[name][...] = array
            _compare(first, kept, 0, f"{case.name} after its feeds were refilled")
            executable.run(buffers)
        _compare(first, kept, 0, f"{case.name} after another run and close")


def feeds_are_untouched(bench: Bench) -> None:
    """feeds are only read: their values stay, and read-only arrays will do"""
    case = _case("two_inputs_two_outputs")
    feeds = _copied(case.feeds)
    with bench.open(case) as executable:
        first = _copied(executable.run(feeds))
        _compare(feeds, case.feeds, 0, "feeds after a run")
        for array in feeds.values():
            array.flags.writeable = False
        _compare(executable.run(feeds), first, REPEATED, "read-only feeds")


def wrong_feeds(bench: Bench) -> None:
    """a missing or unknown feed, a wrong type or rank: an InputError naming it, and the next run works"""
    case = _case("two_inputs_two_outputs")
    x0, x1 = case.feeds["x0"], case.feeds["x1"]
    mistakes: dict[str, tuple[str, dict[str, Array]]] = {
        "a missing feed": ("x1", {"x0": x0}),
        "an unknown feed": ("stranger", {"x0": x0, "x1": x1, "stranger": x1}),
        "a wrong type": ("x0", {"x0": x0.astype(np.float64), "x1": x1}),
        "integers for floats": ("x1", {"x0": x0, "x1": x1.astype(np.int64)}),
        "a wrong rank": ("x1", {"x0": x0, "x1": x1[0]}),
    }
    with bench.open(case) as executable:
        first = _copied(executable.run(case.feeds))
        for what, (name, feeds) in mistakes.items():
            _refused(partial(executable.run, feeds), InputError, (name,), what)
        _compare(executable.run(case.feeds), first, REPEATED, "after refused feeds")


def close_ends_it(bench: Bench) -> None:
    """close() may be called twice, and without a run; run() after it raises an EdgewiseError"""
    case = _case("classifier")
    with bench.open(case):
        pass
    with bench.open(case) as executable:
        executable.run(case.feeds)
        executable.close()
        _refused(partial(executable.run, case.feeds), EdgewiseError, (), "run() after close()")


def unknown_device(bench: Bench) -> None:
    """an unknown device raises an EdgewiseError that lists the known ones"""
    known = [device.name for device in bench.engine.devices() if not device.composite]
    load = partial(bench.engine.load, bench.record(_case("classifier")))
    _refused(partial(load, Target(bench.name, "nosuch", "fp32", 1)), EdgewiseError, known, "device 'nosuch'")


def unknown_precision(bench: Bench) -> None:
    """a precision the device does not have raises an EdgewiseError that lists those it has"""
    found = bench.engine.devices()
    device = next((device for device in found if device.name == bench.device), found[0])
    load = partial(bench.engine.load, bench.record(_case("classifier")))
    missing = [precision for precision in PRECISIONS if precision not in device.precisions]
    if not missing:
        raise Unavailable(f"{device.name} has every precision, so there is none to ask for in vain")
    for precision in missing:
        target = Target(bench.name, device.name, precision, 1)
        _refused(partial(load, target), EdgewiseError, device.precisions, precision)


def leaks(bench: Bench) -> None:
    """loading, running and closing again and again takes no more memory"""
    graph = Graph("heavy")
    case = graph.case(graph.op("MatMul", graph.input(64, 1024), graph.weight(1024, 256)))

    def cycle() -> None:
        with bench.open(case) as executable:
            executable.run(case.feeds)

    _grows(cycle, CYCLES, "load, run and close")
    with bench.open(case) as executable:
        _grows(partial(executable.run, case.feeds), RUNS, "run")


def _grows(action: Callable[[], object], times: int, what: str) -> None:
    process = psutil.Process()
    for _ in range(5):  # pools and caches fill first
        action()
    gc.collect()
    before = process.memory_info().rss
    for _ in range(times):
        action()
    gc.collect()
    grown = process.memory_info().rss - before
    if grown > LEAK_BYTES:
        raise CheckFailed(f"{times} times {what} kept {grown >> 20} MiB, allowed {LEAK_BYTES >> 20}")


def broken_files(bench: Bench) -> None:
    """garbage, an empty file, a truncated model or no file at all: load() raises"""
    record, content = bench.record(_case("classifier")), _case("classifier").model.SerializeToString()
    garbage = np.random.default_rng(0).bytes(4096)
    for what, data in {"garbage": garbage, "empty": b"", "truncated": content[: len(content) // 2]}.items():
        path = bench.scratch / f"{what}.onnx"
        path.write_bytes(data)
        model = replace(record, path=str(path), digest=what)
        target = Target(bench.name, bench.device, "fp32", 1)
        try:
            bench.engine.load(bench.readable(model, target, _case("classifier").feeds), target)
        except Exception:  # noqa: BLE001  any exception will do: the driver converts foreign ones
            continue
        raise CheckFailed(f"load() accepted a file that is {what}")


def zero_copy(bench: Bench) -> None:
    """copy=off gives the right answers too, each until the next run, and sees it when feeds are refilled"""
    if "copy" not in getattr(bench.engine, "OPTIONS", ()):
        raise Unavailable(f"{bench.name} has no option copy")
    case = _case("classifier")
    feeds = _noise(case, 1)
    with bench.open(case, options=(("copy", "off"),)) as executable:
        for seed in range(3):
            for name, array in _noise(case, seed).items():
                feeds[name][...] = array
            _compare(executable.run(feeds), expected(case, feeds), case.tolerance, f"feeds {seed}")


def profile(bench: Bench) -> None:
    """an instrumented run answers right, and its operators take no longer than the whole"""
    if not hasattr(bench.engine, "profile"):
        raise Unavailable(f"{bench.name} does not tell what its operators take")
    case, runs = _case("residual"), 8
    target = Target(bench.name, bench.device, "fp32", 1)
    record = bench.readable(bench.record(case), target, case.feeds)
    if not hasattr(bench.engine, "convert"):
        record = fixed(record, {name: array.shape for name, array in case.feeds.items()})
    took = []
    with closing(bench.engine.profile(record, target)) as executable:
        for _ in range(runs):
            begin = time.perf_counter_ns()
            outputs = executable.run(case.feeds)
            took.append(time.perf_counter_ns() - begin)
            _compare(outputs, expected(case), case.tolerance, "instrumented")
        ops = executable.ops()
    if not ops or any(len(op.samples_ns) != runs or not op.operator for op in ops):
        raise CheckFailed(f"each operator has a kind and a time for each of the {runs} runs, found {ops[:3]}")
    total = sum(sum(op.samples_ns) for op in ops)
    if not 0 < total <= sum(took):
        raise CheckFailed(f"the operators take {total} ns, the runs they are part of {sum(took)} ns")


def support(bench: Bench) -> None:
    """support() knows every operator of a plain network, and rejects one that nobody has"""
    if not hasattr(bench.engine, "support"):
        raise Unavailable(f"{bench.name} does not tell what it supports")
    target = Target(bench.name, bench.device, "fp32", 1)
    stranger = replace(_case("residual"), name="stranger", model=copy.deepcopy(_case("residual").model))
    last = stranger.model.graph.node[-1]
    last.op_type, last.domain = "NoSuchOperator", "nowhere"
    del last.attribute[:]
    stranger.model.opset_import.append(onnx.helper.make_opsetid("nowhere", 1))
    for case, wanted in ((_case("residual"), set()), (stranger, {"NoSuchOperator"})):
        record = fixed(bench.record(case), {name: array.shape for name, array in case.feeds.items()})
        verdicts = bench.engine.support(record, target)
        rejected = {verdict.operator for verdict in verdicts if verdict.verdict == "rejected"}
        if rejected != wanted or not verdicts:
            raise CheckFailed(f"{case.name}: rejected {sorted(rejected)}, expected {sorted(wanted)}")


def _named(function: Callable[[Bench], None], answers: bool) -> Check:
    return Check(function.__name__, function.__doc__ or "", function, answers)


_ANSWERS = (dynamic_batch, non_contiguous_feeds, side_by_side, two_threads, zero_copy, profile, support)
_MANNERS = (
    version, devices, repeated_runs, outputs_are_kept, feeds_are_untouched, wrong_feeds, close_ends_it,
    unknown_device, unknown_precision, leaks,
)  # fmt: skip

CHECKS: tuple[Check, ...] = (
    *(_named(function, answers=False) for function in _MANNERS),
    *(Check(OPERATOR + case.name, ", ".join(case.operators), partial(_operator, case.name)) for case in cases()),
    *(_named(function, answers=True) for function in _ANSWERS),
    _named(broken_files, answers=True),  # the likeliest to take the process with it comes last
)
