"""The executable under test, in the worker: opened once, then asked for rounds."""

from __future__ import annotations

import gc
import importlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any

from ..core import registry
from ..core.chooser import Unanswered
from ..core.errors import InputError, Unsupported
from ..core.protocols import EVERYBODY, Chooses, Delivered, Executable, Feeds, Reports, Spread, Streams
from ..core.records import from_json, to_json
from ..core.text import parse_placement, parse_scenario
from ..core.types import Model, Placement, Ran, Round, Start, Target


class Bench:
    """The operations a parent may call; arguments and results are JSON."""

    def __init__(self, requests_fd: int, answers_fd: int) -> None:
        self._requests_fd = requests_fd
        self._answers_fd = answers_fd
        self._executables: list[Executable] = []
        self._stream: Iterator[Delivered] | None = None
        self._seen_ns: int | None = None
        self._targets = 0

    def call(self, function: str, keywords: Mapping[str, Any]) -> Any:
        """Any function of edgewise, in isolation."""
        module, _, name = function.partition(":")
        if not module.startswith("edgewise."):
            raise InputError(f"{function!r} is not a function of edgewise")
        return to_json(getattr(importlib.import_module(module), name)(**keywords))

    def open(
        self,
        model: Mapping[str, Any],
        placement: str,
        scenario: str,
        cores: list[int],
        reference: str | None,
        parts: Sequence[Any] = (),
        kept: str | None = None,
        plan: Mapping[str, Any] | None = None,
        pictures: Mapping[str, Any] | None = None,
    ) -> Any:
        """Pin, load, run once, compare with the reference: everything before the first round. A `plan` of several
        models is opened by who knows its kind, and shown images in turn: noise would tell nothing of it."""
        from ..model import feeds
        from ..system import affinity, meters
        from .surroundings import Surroundings

        if cores:
            affinity.pin(tuple(cores))
        subject, place, load = from_json(Model, model), parse_placement(placement), parse_scenario(scenario)
        self._surroundings, self._targets = Surroundings(), len(place.targets)
        if plan is None:
            shapes = {t.name: tuple(d for d in t.shape or () if isinstance(d, int)) for t in subject.inputs}
            self._feeds: Feeds = feeds.feeds(subject, shapes, load.seed, load.input)
            shared = [(from_json(Model, each), tuple(own)) for each, own in parts]
            make: Callable[[int], Executable] = partial(_built, subject, place, shared, kept)
        else:
            from .pictures import Pictures, decoded

            images = decoded(from_json(Pictures, pictures))
            self._feeds = {}
            make = partial(_shown, plan, images, load.batch, load.n)
        if place.kind in ("single", "select"):
            for target in place.targets:
                _import(target)
        baseline = meters.rss_bytes()
        started, begin = time.time_ns(), time.perf_counter_ns()
        self._executables = [make(0)]
        loaded = time.perf_counter_ns()
        outputs = self._executables[0].run(self._feeds)
        first = time.perf_counter_ns()
        self._executables += [make(number) for number in range(1, load.n)]
        peak = meters.peak_bytes()
        if isinstance(self._executables[0], Spread):
            theirs = self._executables[0].peak_bytes
            peak = None if peak is None or theirs is None else peak + theirs
        start = Start(
            started,
            loaded - begin,
            first - loaded,
            baseline,
            self._proof(place),
            peak_bytes=peak,
            cores=affinity.current(),
            cpus=os.cpu_count(),
        )
        if reference is not None:
            import numpy as np

            from ..model.equal import agreement

            with np.load(reference, allow_pickle=False) as stored:
                expected = {name: stored[name] for name in stored.files}
            start = replace(start, agreement=agreement(outputs, expected))
        # From here on nothing but rounds: Python's cycle collector would only add its pauses to the engine's.
        gc.collect()
        gc.disable()
        # What proving and comparing took is not the engine's.
        meters.reset_peak()
        return to_json(start)

    def _proof(self, placement: Placement) -> Ran:
        """What the engine says it runs; a precision it does not run is refused, not relabelled."""
        executable = self._executables[0]
        if not isinstance(executable, Reports):
            return Ran()
        ran = executable.ran()
        precision = placement.parts[0].target.precision
        names = [name for name, _ in ran.precisions]
        if precision not in (None, "fp32", "tf32") and names and precision not in names:
            shown = ", ".join(f"{count} operators in {name}" for name, count in ran.precisions)
            raise Unsupported(f"{placement} was asked for {precision}, and the engine reports {shown}")
        return ran

    def save_outputs(self, path: str) -> None:
        """Run once and keep the outputs at `path`: how a reference is made."""
        import numpy as np

        outputs: Mapping[str, Any] = self._executables[0].run(self._feeds)
        with open(path, "wb") as file:
            np.savez(file, **outputs)

    def round(
        self, start: int, warmup: bool, duration_ns: int, max_runs: int, exclude: list[int], settle_ns: int = 0
    ) -> Any:
        """Runs back to back, with what else went on meanwhile; before them, some that do not count."""
        from .loop import one_by_one, side_by_side

        if isinstance(self._executables[0], Streams):
            return self._streamed(self._executables[0], start, warmup, duration_ns, max_runs, exclude)
        runs = [executable.run for executable in self._executables]

        def take(for_ns: int) -> list[int]:
            if len(runs) == 1:
                return one_by_one(runs[0], self._feeds, for_ns, max_runs)
            return side_by_side(runs, self._feeds, for_ns, max_runs)

        if settle_ns:
            take(settle_ns)
        ours = [pid for executable in self._executables if isinstance(executable, Spread) for pid in executable.pids]
        self._surroundings.begin([*exclude, *ours])
        started, begin = time.time_ns(), time.perf_counter_ns()
        samples = take(duration_ns)
        elapsed = time.perf_counter_ns() - begin
        return to_json(self._surroundings.end(Round(start, warmup, started, elapsed, tuple(samples))))

    def _streamed(
        self, executable: Streams, start: int, warmup: bool, duration_ns: int, max_runs: int, exclude: list[int]
    ) -> Any:
        """A stretch of one stream that goes on from round to round."""
        from .loop import streamed

        if self._stream is None:
            self._stream = executable.stream(repeat(self._feeds))
        self._surroundings.begin([*exclude, *executable.pids])
        started = time.time_ns()
        begin, end, samples, done = streamed(self._stream, executable.window, duration_ns, max_runs, self._seen_ns)
        self._seen_ns = end
        for error in executable.lost:
            # The stream goes on without it; a measurement of what was asked for does not.
            raise error
        # Where all work on every frame, nobody has a share.
        shares = () if EVERYBODY in done else tuple(done.get(who, 0) for who in range(self._targets))
        round = Round(start, warmup, started, end - begin, tuple(samples), shares=shares)
        return to_json(self._surroundings.end(round))

    def profile(self, model: Mapping[str, Any], placement: str, warmup: int, runs: int) -> Any:
        """Plain and instrumented runs in turns, after `open`: what each operator took, and what asking cost."""
        target = parse_placement(placement).parts[0].target
        engine = registry.find("engines", target.engine)
        if not hasattr(engine, "profile"):
            raise Unsupported(
                f"{target.engine} does not tell what its operators take", "edgewise profile MODEL --on ort:cpu@1"
            )
        profiled = engine.profile(from_json(Model, model), target)
        plain_ns: list[int] = []
        instrumented_ns: list[int] = []
        turns = [(self._executables[0], plain_ns), (profiled, instrumented_ns)]
        for _ in range(warmup + runs):
            for executable, samples in turns:
                begin = time.perf_counter_ns()
                executable.run(self._feeds)
                samples.append(time.perf_counter_ns() - begin)
            # Each finds the caches as the other left them; so each is first in every other pair.
            turns.reverse()
        ops = [replace(op, samples_ns=op.samples_ns[warmup:]) for op in profiled.ops()]
        spans = profiled.spans()
        spans = replace(spans, engine_ns=spans.engine_ns[warmup:], executor_ns=spans.executor_ns[warmup:])
        profiled.close()
        return to_json(
            {"ops": ops, "spans": spans, "plain_ns": plain_ns[warmup:], "instrumented_ns": instrumented_ns[warmup:]}
        )

    def examine(self, model: Mapping[str, Any], data: str, labels: str | None, preprocess: str) -> None:
        """After `open`: the labelled images `answer` is asked about."""
        from .answering import Examination

        self._examination = Examination(self._executables[0], from_json(Model, model), data, labels, preprocess)

    def answer(self, indices: list[int]) -> Any:
        return to_json(self._examination.answer(indices))

    def begin_scoring(self, model: Mapping[str, Any], data: str, labels: str | None, preprocess: str) -> None:
        """After `open`: the images `score` is asked about."""
        from .scoring import Scoring

        self._scoring = Scoring(self._executables[0], from_json(Model, model), data, labels, preprocess)

    def score(self, indices: list[int], path: str) -> int:
        return self._scoring.score(indices, path)

    def begin_pricing(self, model: Mapping[str, Any], preprocess: str, pictures: Mapping[str, Any]) -> None:
        """After `open`: the images `price` makes inputs of and runs."""
        from .pictures import Pictures, decoded
        from .pricing import Pricing

        images = decoded(from_json(Pictures, pictures))
        self._pricing = Pricing(self._executables[0], from_json(Model, model), preprocess, images)

    def price(self, duration_ns: int, settle_ns: int) -> Any:
        return to_json(self._pricing.price(duration_ns, settle_ns))

    def open_plan(self, plan: Mapping[str, Any], cores: list[int], pictures: Mapping[str, Any] | None = None) -> int:
        """A plan of several models, to be asked about images: a user's (`choose`), or `pictures` (`went`): their
        number, where there are some."""
        from ..system import affinity
        from .pictures import Pictures, decoded

        if cores:
            affinity.pin(tuple(cores))
        self._executables = [registry.opener(str(plan["kind"]))(plan, measured=pictures is not None)]
        self._images = decoded(from_json(Pictures, pictures)) if pictures is not None else []
        if self._images:
            # These are timed: as in `open`, the cycle collector would only add its pauses.
            gc.collect()
            gc.disable()
        return len(self._images)

    def choose(self, inputs: list[str], top: int) -> Any:
        """One image at a time, as it would be asked about; decoding is not part of it. One that cannot be used has a
        reason in place of an answer."""
        chooser = self._executables[0]
        assert isinstance(chooser, Chooses)
        found = []
        for path in inputs:
            try:
                found.append(chooser.predict(path, top=top))
            except InputError as error:
                found.append(Unanswered(type(error).__name__, error.message, error.hint))
        return to_json(found)

    def guaranteed(self) -> bool | None:
        """After the last image."""
        chooser = self._executables[0]
        assert isinstance(chooser, Chooses)
        chooser.settle()
        return chooser.guaranteed

    def went(self, first: int, count: int, settle: int) -> Any:
        """So many of the images, one by one; before them, some that do not count."""
        from .pricing import went

        chooser, images = self._executables[0], self._images
        went(chooser, [images[(first - 1 - back) % len(images)] for back in range(settle)])
        return to_json(went(chooser, [images[(first + each) % len(images)] for each in range(count)]))

    def prepare_execution(self, model: Mapping[str, Any], preprocess: str | None) -> None:
        """After `open`: how what a user gives becomes inputs, for `execute`."""
        from .executing import Execution

        self._execution = Execution(self._executables[0], from_json(Model, model), preprocess, self._feeds)

    def execute(self, inputs: list[str], top: int, keep: bool) -> Any:
        return to_json(self._execution.run(inputs, top, keep))

    def save_executed(self, path: str) -> None:
        self._execution.save(path)

    def serve(self, exclude: list[int]) -> Any:
        """Answer requests until the parent says stop. The samples are the parent's: it knows the intended times."""
        from .serving import answer_requests

        self._surroundings.begin(exclude)
        started, begin = time.time_ns(), time.perf_counter_ns()
        runs = [executable.run for executable in self._executables]
        answer_requests(runs, self._feeds, self._requests_fd, self._answers_fd)
        elapsed = time.perf_counter_ns() - begin
        return to_json(self._surroundings.end(Round(0, False, started, elapsed, ())))


def _built(
    subject: Model, place: Placement, shared: Sequence[tuple[Model, tuple[int, ...]]], kept: str | None, _: int
) -> Executable:
    from ..parallel.build import build

    return build(subject, place, shared, kept)


def _shown(plan: Mapping[str, Any], images: Sequence[Any], batch: int, of: int, number: int) -> Executable:
    """The plan opened once more; several side by side begin at different images."""
    from .pictures import Shown

    opened: Executable = registry.opener(str(plan["kind"]))(plan)
    return Shown(opened, images, batch, number * len(images) // of)


def _import(target: Target) -> None:
    """Import the engine's library now, so that loading a model is not charged for it."""
    engine = registry.find("engines", target.engine)
    if hasattr(engine, "environment"):
        os.environ.update(engine.environment(target))
    engine.version()


OPERATIONS = (
    "call",
    "open",
    "save_outputs",
    "round",
    "profile",
    "examine",
    "answer",
    "begin_scoring",
    "score",
    "begin_pricing",
    "price",
    "open_plan",
    "choose",
    "guaranteed",
    "went",
    "prepare_execution",
    "execute",
    "save_executed",
    "serve",
)
