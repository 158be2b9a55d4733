"""A model split over targets, as one executable."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast, get_args

import numpy as np

from ...core.errors import EdgewiseError, EngineFailure, InputError, Unsupported
from ...core.protocols import Array, Feeds, Outputs
from ...core.types import Model, Placement, Ran, Target
from ...model import feeds as noise
from ...model.graph import graph
from ..opening import settle
from ..options import said
from .balance import Balance, Way, apart, uneven
from .chains import Axis
from .crew import Crew, Loaded
from .kept import Found, about, keep, recall
from .search import Background, expected
from .source import Source, any_batch, forms, source_for
from .ways import Ways

T = TypeVar("T")
_TIMEOUT_S = 120.0
# The options of the first target that say how to cut, and whether to begin with what an earlier run found.
_OPTION = "split"
_SHARES, _KNOWN = "shares", ("kept", "afresh")
# Whether parts do each other's shares: where that is quicker, always with the shares as they are given, or never.
_COVER, _COVERS = "cover", ("auto", "on", "off")
# Ways of cutting that are kept loaded: each has all weights once more, and where parts do each other's shares, each
# part has them.
_KEPT = {"single": 1, "covered": 1, "split": 3, "batch": 3}
# Frames whose steps are looked at together.
_FRAMES = 20
_FEWEST = 6
# How long it may look for a way before the first frame.
_SETTLING_NS = 20_000_000_000
_ASK_NS = 50_000_000


class Split:
    """With shares, it is cut by those and stays so. Without, it begins with equal ones, and goes on by what the parts
    were measured to need; where one target alone is quicker than all of them, that one runs. What it ends in is kept in
    the file `kept`, and the next one begins with it."""

    def __init__(
        self,
        parts: Sequence[tuple[Model, tuple[int, ...]]],
        placement: Placement,
        timeout_s: float = _TIMEOUT_S,
        now: Callable[[], int] = time.perf_counter_ns,
        kept: str | None = None,
    ) -> None:
        self._now = now
        self._kept = Path(kept) if kept else None
        # What was found by an earlier run, or is kept of this one.
        self._found: Found | None = None
        self._crew: Crew | None = None
        self._balance: Balance | None = None
        self._loaded: dict[Way, Loaded] = {}
        # What kept the parts busy in the latest frames, and how those were divided.
        self._busy: deque[Array] = deque(maxlen=_FRAMES)
        self._busy_in: Way | None = None
        # What all frames took together: time by which trials are rare, however seldom somebody asks for a frame.
        self._spent_ns = self._asked_ns = 0
        self._looking: Background[dict[Way, float]] | None = None
        self._loading: Background[Loaded] | None = None
        self._gave_up: str | None = None
        self._began = False
        try:
            self._open([model for model, _ in parts], [cores for _, cores in parts], placement, timeout_s)
        except BaseException:
            self.close()
            raise

    def _open(
        self, models: Sequence[Model], cores: Sequence[tuple[int, ...]], placement: Placement, timeout_s: float
    ) -> None:
        axis, targets = asked(placement)
        given = [part.share for part in placement.parts]
        shares = tuple(1.0 / len(given) if share is None else share for share in given)
        if min(shares) < 0 or sum(shares) <= 0:
            raise InputError(
                f"shares are parts of a whole, found {', '.join(map(str, shares))} in {placement}",
                f"--on 'split({targets[0]}=0.6, {targets[1]}=0.4)'",
            )
        # The first part runs here.
        settle(targets[0])
        # Gone when all is read: a process that is ended from outside could not remove it any more.
        with tempfile.TemporaryDirectory(prefix="edgewise-", ignore_cleanup_errors=True) as folder:
            self._ways, self._first = _prepared(models, targets, axis, shares, covering(placement)[0], Path(folder))
        self._crew = Crew(models, targets, cores, timeout_s)
        if any(share is not None for share in given) or self._first.kind == "covered":
            self._loaded[self._first] = self._load(self._first)
            return
        afresh, _ = fresh(placement)
        self._about = about(models, targets, axis)
        if self._kept is not None and not afresh:
            self._found = recall(
                self._kept, self._about, self._first, self._ways.axes, len(targets), covers=self._ways.covers
            )
        self._balance = self._begun()
        self._settle(models[0])
        self._keep()

    def _begun(self) -> Balance:
        """With what an earlier run found, where there is such and it can still be loaded."""
        if self._found is not None:
            try:
                self._loaded[self._found.way] = self._load(self._found.way)
            except EdgewiseError:
                self._found = None
            else:
                self._began = True
                return Balance(self._found.way, self._found.frame_ns, self._found.split)
        self._loaded[self._first] = self._load(self._first)
        return Balance(self._first)

    def _keep(self) -> None:
        """What there is now, unless it is what was kept before."""
        balance = self._balance
        if self._kept is None or balance is None or self._gave_up is not None or not balance.judged:
            return
        found = Found(self._about, balance.current, balance.split, balance.mean_ns())
        known = self._found
        if (
            known is None
            or (found.way, found.split) != (known.way, known.split)
            or apart(found.frame_ns, known.frame_ns)
        ):
            self._found = found
            keep(self._kept, found)

    def _settle(self, model: Model) -> None:
        """Frames of noise until there is nothing left to try, or it has taken long enough: whoever asked for a split
        without saying how gets one that has been found, and not the finding of it."""
        assert self._balance is not None
        shapes = {t.name: tuple(d for d in t.shape or () if isinstance(d, int)) for t in model.inputs}
        frame = noise.feeds(model, shapes, 0)
        begin = self._now()
        while not self._balance.calm and self._gave_up is None and self._now() - begin < _SETTLING_NS:
            self.run(frame)
        self._balance.calm = True

    def _load(self, way: Way) -> Loaded:
        assert self._crew is not None
        with tempfile.TemporaryDirectory(prefix="edgewise-", ignore_cleanup_errors=True) as folder:
            calm = self._balance is not None and self._balance.calm
            return self._crew.load(self._ways.divide(way, Path(folder)), gently=calm)

    def run(self, feeds: Feeds) -> Outputs:
        if self._crew is None:
            raise EngineFailure("this executable is closed")
        way = self.way
        begin = self._now()
        try:
            answer = self._crew.run(self._loaded[way], feeds)
        except InputError:
            # What was asked is wrong, and nobody has begun with it.
            raise
        except EdgewiseError:
            self.close()
            raise
        if self._balance is not None and self._gave_up is None:
            self._tend(self._balance, way, self._now() - begin)
        return answer

    @property
    def way(self) -> Way:
        """How the next frame is divided."""
        return self._balance.way if self._balance else self._first

    def _tend(self, balance: Balance, way: Way, frame_ns: int) -> None:
        """After a frame: what it tells, and the next move in looking for something better."""
        self._spent_ns += frame_ns
        now = self._spent_ns
        # Looking and loading slow down the frames beside them: those are no measure of the way they ran in.
        if self._looking is None and self._loading is None:
            if way == balance.current:
                if way != self._busy_in:
                    self._busy_in = way
                    self._busy.clear()
                self._busy.append(self._loaded[way].busy_ns.copy())
            balance.note(frame_ns, now)
        elif balance.calm:
            balance.beside(frame_ns)
        if self._loading is not None:
            if self._loading.done and (loaded := self._result(self._loading)) is not None:
                self._begin(balance, loaded)
        elif self._looking is not None:
            if self._looking.done and (expected_ns := self._result(self._looking)) is not None:
                self._choose(balance, expected_ns, now)
        elif self._busy_in == balance.current and self._due(balance, now):
            self._looking = Background(self._look(balance), balance.calm)

    def _look(self, balance: Balance) -> Callable[[], dict[Way, float]]:
        """To be done beside frames, by what is known before them."""
        busy, mean_ns = np.mean(self._busy, axis=0).T.tolist(), balance.mean_ns()
        current, split, fine = balance.current, balance.split, not balance.calm
        # What is near was tried by the run that found the way this one began with.
        near = balance.calm or not self._began
        return lambda: expected(self._ways, current, split, busy, mean_ns, fine=fine, near=near)

    def _due(self, balance: Balance, now: int) -> bool:
        # Asked after every frame, and worth computing only now and then.
        if len(self._busy) < _FEWEST or now - self._asked_ns < _ASK_NS:
            return False
        self._asked_ns = now
        return balance.due(now, uneven(np.mean(self._busy, axis=0).T.tolist()))

    def _result(self, job: Background[T]) -> T | None:
        """What runs, runs on without what could not be had; a part that is gone is found out by the next frame."""
        try:
            return job.result()
        except Exception as error:  # noqa: BLE001 - engines raise anything
            self._gave_up = str(error) or type(error).__name__
            return None

    def _choose(self, balance: Balance, expected_ns: Mapping[Way, float], now_ns: int) -> None:
        self._looking = None
        way = balance.choose(expected_ns, now_ns)
        if way is None:
            self._keep()
            return
        if way in self._loaded:
            balance.begin(way)
        else:
            self._loading = Background(lambda: self._load(way), balance.calm)

    def _begin(self, balance: Balance, loaded: Loaded) -> None:
        assert self._crew is not None
        self._loading = None
        way = loaded.divided.way
        self._loaded[way] = loaded
        balance.begin(way)
        alike = [each for each in self._loaded if each.kind == way.kind]
        spare = [each for each in alike if each not in (way, balance.current, balance.split)]
        for each in spare[: max(0, len(alike) - _KEPT[way.kind])]:
            self._crew.forget(self._loaded.pop(each))

    @property
    def pids(self) -> list[int]:
        return self._crew.pids if self._crew else []

    @property
    def peak_bytes(self) -> int | None:
        return self._crew.peak_bytes if self._crew else None

    def ran(self) -> Ran:
        """As frames are divided now."""
        notes = self._loaded[self.way].divided.notes
        if self._balance is not None:
            if self._began:
                notes = (*notes, "began with the shares that an earlier run found")
            notes = (*notes, f"divided by measured times, changed {self._balance.changes} times so far")
        if self._gave_up is not None:
            notes = (*notes, f"not changed any more: {self._gave_up}")
        return Ran(devices=("cpu",), precisions=(), notes=notes)

    def close(self) -> None:
        if self._crew is not None:
            self._crew.stop()
        for job in (self._looking, self._loading):
            if job is not None:
                job.wait()
        self._looking = self._loading = None
        if self._crew is not None:
            self._crew.close()
            self._crew = None


def asked(placement: Placement) -> tuple[Axis, list[Target]]:
    """How to cut, by the option of the first target; and the targets without it, which engines do not know."""
    axis, targets = said(covering(fresh(placement)[1])[1], _OPTION, get_args(Axis), "how to cut")
    return cast(Axis, axis), targets


def covering(placement: Placement) -> tuple[str, Placement]:
    """Whether parts do each other's shares; and the placement without that option."""
    return _without(placement, _COVER, _COVERS, "whether parts do each other's shares")


def fresh(placement: Placement) -> tuple[bool, Placement]:
    """Whether shares are to be looked for as if nothing were known; and the placement without that option."""
    known, rest = _without(placement, _SHARES, _KNOWN, "where shares come from")
    return known == "afresh", rest


def _without(placement: Placement, option: str, choices: Sequence[str], what: str) -> tuple[str, Placement]:
    chosen, targets = said(placement, option, choices, what)
    parts = tuple(replace(part, target=target) for part, target in zip(placement.parts, targets, strict=True))
    return chosen, replace(placement, parts=parts)


def _prepared(
    models: Sequence[Model], targets: Sequence[Target], axis: Axis, shares: tuple[float, ...], cover: str, folder: Path
) -> tuple[Ways, Way]:
    """The ways there are, and the one to begin with: of a batch, whole samples, unless it is said how to cut."""
    model, _ = forms(models, targets)
    covers = len({replace(target, cores=()) for target in targets}) == 1 and axis != "inputs"
    if cover == "on" and not covers:
        raise Unsupported(
            "parts do each other's shares where their targets are alike and sums are not exchanged; "
            f"found split={axis} over {', '.join(map(str, targets))}",
            "the same target on several cores, or leave out cover=on",
        )
    batches = {tensor.shape[0] for tensor in model.inputs if tensor.shape}
    if axis != "auto" or batches == {1} or not batches:
        axes: list[Axis] = ["auto", "channels", "rows"] if axis == "auto" else [axis]
        if axis == "auto" and not any(each.precision == "int8" for each in models):
            axes.append("inputs")
        source = source_for(models, targets, folder, axis)
        ways = Ways(models, source, targets, axes, covers=covers and cover != "off")
        if cover == "on":
            return ways, Way("covered", (shares,), shares.index(max(shares)), axis)
        return ways, Way("split", (shares,), axis=axis)
    if cover == "on":
        raise Unsupported(
            f"a batch is divided by samples, and parts do not do each other's: found {sorted(map(str, batches))}",
            "leave out cover=on, or say how to cut: split=rows",
        )
    if len(batches) > 1 or not all(map(any_batch, models)):
        raise Unsupported(
            f"a batch is divided by samples, and {model.label} fixes how many there are: {sorted(map(str, batches))}",
            "--batch 1, or cut its rows: --on 'split(TARGET{split=rows}, ...)'",
        )
    return Ways(models, Source(graph(model), list(targets)), targets, ["auto"]), Way("batch", (shares,))
