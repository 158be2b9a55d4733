"""The main job: race every way to run a model, check what was asked of the winner, measure it afresh, write it down."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..analyze.accuracy import Outcome, paired
from ..core import stats
from ..core.errors import EdgewiseError
from ..core.evaluation import Evaluation
from ..core.race import Beside, Entry, Loss, Race, Status, Wanted
from ..core.stats.paired import SMALLEST_DIFFERENCE
from ..core.stats.racing import ERROR_RATE
from ..core.text import parse_target
from ..core.types import Failure, Measurement, Model, Placement, Scenario, Target
from ..measure.cell import Cell, Session
from ..measure.energy import Metered
from ..store.db import Store
from ..store.kept import Kept
from . import images, recipes
from .accuracy import accuracy
from .candidates import Candidate, candidates, group_size, not_tried, ready
from .images import Question
from .prepare import Limits, complete
from .race import CLOSE_TURNS, GROUP, Contender, Heats, p50_afresh, ratio_afresh
from .request import Request

# Images a first look at accuracy asks about, and the seconds it may take on a slow model.
SAMPLE = 1000
SAMPLE_S = 20.0
FEWEST_IMAGES = 100
# How long a candidate is measured alone before a claim about its percentile stays undecided.
LONGEST_TRIAL_S = 20.0
_LEVEL = 0.95

# What is being done, and how far it is.
Progress = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the command line asks for."""

    wanted: Wanted = field(default_factory=Wanted)
    on: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    load: Scenario = field(default_factory=Scenario)
    against: str = "ort"
    question: Question | None = None
    starts: int = 5
    seed: int = 0
    # What is made of the model joins the race, each as a model of its own.
    recipes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tuned:
    """The race, the cell that won it with the model it runs, and what was measured afresh: the winner's first.
    `classes` are the data's, `calibration` is what int8 was made with."""

    race: Race
    cell: Cell | None
    model: Model | None = None
    final: tuple[Measurement, ...] = ()
    classes: tuple[str, ...] = ()
    preprocess: str | None = None
    calibration: str | None = None


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the fresh processes showed, the winner's measurement first."""

    final: tuple[Beside, ...] = ()
    measured: tuple[Measurement, ...] = ()
    p50_ns: tuple[float, float, float] | None = None


def tune(request: Request, tuning: Tuning, store: Store, progress: Progress, meters: Sequence[Metered] = ()) -> Tuned:
    return _Tune(request, tuning, store, progress, meters).run()


class _Tune:
    def __init__(
        self, request: Request, tuning: Tuning, store: Store, progress: Progress, meters: Sequence[Metered]
    ) -> None:
        self.request, self.tuning, self.store, self.progress, self.meters = request, tuning, store, progress, meters
        self.model = request.models[0]
        self.models = {self.model.digest: self.model}
        self.missed: list[str] = []
        self.heading = ""
        self.losses: dict[str, Loss] = {}
        self.classes: tuple[str, ...] = ()
        self.preprocess: str | None = None
        self.held_out = False

    def run(self) -> Tuned:
        begin = time.monotonic()
        tuning, wanted = self.tuning, self.tuning.wanted
        limits = self._calibrated()
        self._make(limits)
        those = candidates(
            self.request, tuning.on, tuning.precision, wanted.prefer, tuning.load, tuple(self.models.values())
        )
        baseline = self._baseline()
        self.progress("preparing", f"{len(those)} candidates")
        *made, beside = ready([*those, baseline], self.request, limits)
        cells = [each for each in made if isinstance(each, Cell)]
        failures = [each for each in made if isinstance(each, Failure)]
        for failure in failures:
            about = (failure.task, failure.machine, (), "", failure.label, "race")
            self.store.finish(self.store.begin(*about), failure)
        for cell in cells:
            self.store.save_model(cell.model)
        prepared = time.monotonic()
        self.heats = Heats(
            cells,
            self.store,
            wanted,
            self._heat,
            meters=self.meters,
            starts=tuning.starts,
            group=group_size(cells, self.request.machine.memory_bytes, GROUP),
            seed=tuning.seed,
        )
        winner = self._race()
        choosing_s = time.monotonic() - prepared
        shown: _Shown | None = None
        overturned = None
        while winner is not None and shown is None:
            shown = self._confirm(winner, beside)
            winner = winner if shown else self._choose()
        if winner is not None and shown is not None:
            better = self._better(shown.final)
            again = self._confirm(better, beside) if better else None
            if better is not None and again is not None:
                overturned, winner, shown = winner.name, better, again
            self.heats.settle(winner)
        ratios = [ratio for c in self.heats.alive if c is not winner and (ratio := self.heats.ratio(c))]
        shown = shown or _Shown()
        self.heats.close()
        race = Race(
            self.model.label,
            self.request.machine.id,
            wanted,
            self._entries(winner, failures),
            shown.final,
            shown.p50_ns,
            max((1 - low for low, _, _ in ratios), default=0.0),
            ERROR_RATE,
            self.heats.heats,
            choosing_s,
            time.monotonic() - prepared,
            time.monotonic() - begin,
            (
                *not_tried(self.request, tuning.on, tuning.precision, wanted.prefer, tuning.load.batch),
                *(self.missed if tuning.recipes else ("recipes other than quantize (--optimize)",)),
            ),
            overturned,
        )
        # A race among fewer answers another question.
        asked = str((wanted, tuning.on, tuning.precision, tuning.against, *tuning.recipes))
        key = "\n".join((self.model.digest, self.request.machine.id, asked, str(tuning.load)))
        Kept(self.store).keep("race", key, race)
        won = winner.cell if winner else None
        model = self.models[won.task.subject] if won else None
        return Tuned(race, won, model, shown.measured, self.classes, self.preprocess, limits.calibration)

    # Who takes part

    def _baseline(self) -> Candidate:
        """What most people run: ONNX Runtime as it comes."""
        target = parse_target(self.tuning.against)
        facts = next(engine for engine in self.request.engines if engine.name == target.engine)
        full = complete(target, facts, self.request.machine, self.model)
        return Candidate(self.model, Placement.single(full), self.tuning.load)

    def _calibrated(self) -> Limits:
        """int8 is raced as it will be asked about images: calibrated on the same ones."""
        limits, question = self.request.limits, self.tuning.question
        if question is None:
            return limits
        derives = self.model.precision != "int8"
        count = images.statistics_images(self.model) if self.tuning.recipes else question.held
        question = replace(question, held=count)
        own = limits.calibration or images.own_calibration(self.model, question.data, count)
        exam, held = images.exam(self.model, question, hold_out=derives and own is None)
        self.held_out = derives and own is None
        self.classes, self.preprocess = exam.classes, exam.preprocess
        if own is None and derives:
            own = images.held_out_calibration(self.model, exam, held)
        return replace(limits, calibration=own)

    def _make(self, limits: Limits) -> None:
        """What the recipes make of the model. One that cannot be applied is told at the end."""
        made = recipes.made(
            (self.model,),
            [recipes.parse(text) for text in self.tuning.recipes],
            self.request.machine,
            limits,
            lambda what: self.progress(f"making {what}", ""),
            self.missed.append,
        )
        for model in made:
            self.models.setdefault(model.digest, model)
            self.store.save_model(model)

    # The race

    def _heat(self, number: int, those: Sequence[Contender], turn: int) -> None:
        if not turn:
            names = ", ".join(c.name for c in those)
            self.heading = f"heat {number}, {len(self.heats.alive)} candidates in: {names}"
        self.progress(self.heading, f"turn {turn}" if turn else "")

    def _race(self) -> Contender | None:
        self.heats.screen()
        return self._choose()

    def _choose(self) -> Contender | None:
        """The best that keeps all bounds; None where none does."""
        while True:
            self.heats.decide()
            best = self.heats.best
            if best is None or self._keeps(best):
                return best

    def _keeps(self, best: Contender) -> bool:
        """Whether the best keeps what was asked of it; where not, it is out, and the race goes on without."""
        wanted = self.tuning.wanted
        if self.tuning.question is not None and not self._accurate(best):
            return False
        if wanted.percentile is None:
            return True
        self.progress(f"measuring {best.name} alone", "")
        p, bound_ns = wanted.percentile
        try:
            samples = self._alone(best, p, bound_ns)
        except EdgewiseError as error:
            self.heats.without([best], "failed", error.message)
            return False
        found = stats.certify(samples, bound_ns, p)
        if found.certified:
            return True
        share = found.over / found.n if found.n else 1.0
        # What is slower than one whose median is above the bound is above it too. What takes more memory is not.
        hopeless = wanted.prefer == "latency" and bool(samples) and stats.quantile(samples, 0.5) > bound_ns
        those = [c for c in self.heats.contenders if c.status == "slower"] if hopeless else []
        status: Status = "late" if found.refuted else "undecided"
        self.heats.without([best, *those], status, f"{share:.4f}")
        return False

    def _alone(self, contender: Contender, p: float, bound_ns: float) -> tuple[int, ...]:
        """Samples of a fresh process without company, until they decide the claim or time is up."""
        cell, samples = contender.cell, list[int]()
        number = self.store.begin(cell.task, cell.machine, cell.versions, cell.inputs, cell.label, "race")
        failure = None
        try:
            with Session(cell) as session:
                self.store.add(number, session.open())
                session.warm_up(lambda part: self.store.add(number, part))
                deadline = time.monotonic() + LONGEST_TRIAL_S
                planned = 0
                while time.monotonic() < deadline:
                    round = session.round()
                    self.store.add(number, round)
                    samples += round.samples_ns
                    if len(samples) >= planned:
                        planned = len(samples) + len(samples) // 4
                        found = stats.certify(samples, bound_ns, p)
                        if found.certified or found.refuted:
                            break
        except EdgewiseError as error:
            failure = Failure.of(error, cell.task, cell.machine, "run", cell.label)
            raise
        finally:
            self.store.finish(number, failure)
        return tuple(samples)

    # Accuracy

    def _accurate(self, best: Contender) -> bool:
        bound = self.tuning.wanted.loss
        p50_ns = stats.quantile(best.measured.samples_ns, 0.5)
        sample = max(FEWEST_IMAGES, min(SAMPLE, int(SAMPLE_S * 1e9 / p50_ns)))
        alike = self._alike(best)
        for limit in (sample, None):
            loss = self._loss(self.models[best.cell.task.subject], best.cell.task.placement.targets[0], limit)
            if isinstance(loss, Failure):
                if bound is None:
                    return True
                self.heats.without(alike, "inaccurate", loss.message)
                return False
            self.losses |= {c.name: loss for c in alike}
            # 97.5 % one-sided at each of two looks: 95 % in all.
            if bound is None or -loss.low <= bound:
                return True
            if -loss.high > bound or loss.images < sample:
                break
        self.heats.without(alike, "inaccurate", "")
        return False

    def _alike(self, contender: Contender) -> list[Contender]:
        """Those that compute the same: all but the number of threads and copies."""
        first = replace(contender.cell.task.placement.targets[0], threads=None, cores=())
        return [
            c
            for c in self.heats.contenders
            if replace(c.cell.task.placement.targets[0], threads=None, cores=()) == first
            and c.cell.task.subject == contender.cell.task.subject
        ]

    def _loss(self, model: Model, target: Target, limit: int | None) -> Loss | Failure:
        """Of `model` on `target` against the model as it is on the baseline, on the same images."""
        assert self.tuning.question is not None
        base = self._baseline().placement.targets[0]
        question = replace(self.tuning.question, limit=limit or self.tuning.question.limit)
        if self.tuning.recipes:
            question = replace(question, held=images.statistics_images(self.model))
        asked = dict.fromkeys(((self.model, base), (model, target)))
        found = [
            answered
            for who, where in asked
            for answered in accuracy(
                (who,),
                (where,),
                question,
                self.request.machine,
                self.request.engines,
                self.request.limits,
                self.store,
                lambda who, count, done: self.progress(f"asking {who} about {count} images", f"{done} answered"),
                batch=self.tuning.load.batch,
                resume=True,
                hold_out=self.held_out,
            )
        ]
        failed = next((each for each in found if isinstance(each, Failure)), None)
        if failed is not None:
            return failed
        evaluations = [each for each in found if isinstance(each, Evaluation)]
        first, last = Outcome.of(evaluations[0]), Outcome.of(evaluations[-1])
        pair = paired(first, last)
        # Against itself there is nothing to estimate.
        low, high = pair.interval if len(asked) > 1 else (0.0, 0.0)
        count, top1 = evaluations[-1].images, float(last.right.mean())
        return Loss(str(base), evaluations[-1].data_label, count, top1, pair.difference, low, high)

    # Afterwards

    def _confirm(self, winner: Contender, beside: Cell | Failure) -> _Shown | None:
        """The winner in fresh processes beside the runner-up, the baseline and the best in fp32: chosen before, so that
        what they show now is not what they were chosen for. None where it no longer runs or answers right: it is out.
        """
        roles: dict[str, tuple[Cell, list[str]]] = {_name(winner.cell): (winner.cell, [])}
        for role, cell in (
            ("runner-up", self._next(winner)),
            ("baseline", beside if isinstance(beside, Cell) else None),
            ("best in fp32", self._best_fp32(winner)),
        ):
            if cell is not None:
                roles.setdefault(_name(cell), (cell, []))[1].append(role)
        cells = [cell for cell, _ in roles.values()]
        fresh = Heats(
            cells,
            self.store,
            replace(self.tuning.wanted, memory_bytes=None),
            lambda number, those, turn: self.progress(
                f"measuring the winner afresh, {number} of {self.tuning.starts}: {', '.join(c.name for c in those)}",
                f"turn {turn}" if turn else "",
            ),
            meters=self.meters,
            starts=self.tuning.starts,
            seed=self.tuning.seed + 1,
        )
        for _ in range(self.tuning.starts):
            fresh.heat(fresh.alive, CLOSE_TURNS, all_turns=True)
        fresh.close()
        self.heats.learn(fresh)
        first, *others = fresh.contenders
        if first.status is not None:
            winner.side.failure = winner.side.failure or first.side.failure
            self.heats.without([winner], first.status, first.reason)
            return None
        found = []
        for c, (_, its) in zip(others, list(roles.values())[1:], strict=True):
            if c.measured.samples_ns:
                ratio = ratio_afresh(fresh, c, first)
                p50_ns = stats.quantile(c.measured.samples_ns, 0.5)
                found.append(Beside(c.cell.task, tuple(its), p50_ns, ratio))
        own = Beside(first.cell.task, tuple(roles[_name(winner.cell)][1]), 0.0)
        if first.measured.samples_ns and own.roles:
            found.append(replace(own, p50_ns=stats.quantile(first.measured.samples_ns, 0.5), ratio=(1.0, 1.0, 1.0)))
        measured = tuple(c.measured for c in (first, *others) if c.measured.samples_ns)
        return _Shown(tuple(found), measured, p50_afresh(first))

    def _next(self, winner: Contender) -> Cell | None:
        """The best of the others that may win."""
        standings = self.heats.standings
        for among in (self.heats.alive, [c for c in self.heats.contenders if c.status == "slower"]):
            others = [c.number for c in among if c is not winner and standings.gap(c.number, winner.number)]
            number = standings.first(others)
            if number is not None:
                return self.heats.contenders[number].cell
        return None

    def _best_fp32(self, winner: Contender) -> Cell | None:
        standings = self.heats.standings
        among = [
            c.number
            for c in self.heats.contenders
            if c.status in (None, "slower")
            and c.cell.task.placement.targets[0].precision == "fp32"
            and standings.gap(c.number, winner.number)
        ]
        number = standings.first(among)
        return None if number is None else self.heats.contenders[number].cell

    def _better(self, final: Sequence[Beside]) -> Contender | None:
        """A runner-up that the fresh processes show to be better after all, and that keeps what was asked."""
        for beside in final:
            if "runner-up" in beside.roles and beside.ratio is not None:
                _, _, high = beside.ratio
                c = next(c for c in self.heats.contenders if c.cell.task == beside.task)
                if high < 1 - SMALLEST_DIFFERENCE and c.status in (None, "slower") and self._keeps(c):
                    return c
        return None

    def _entries(self, winner: Contender | None, failures: Sequence[Failure]) -> tuple[Entry, ...]:
        entries = [self._entry(c, winner) for c in self.heats.contenders]
        order = ("won", "tied", "slower", "inaccurate", "late", "undecided", "memory", "wrong", "failed")
        entries.sort(key=lambda e: (order.index(e.status) > 2, e.status == "failed", _key(e)))
        entries += [
            Entry(failure.task, failure.label, "failed", None, reason=failure.message, failure=failure)
            for failure in failures
        ]
        return tuple(entries)

    def _entry(self, c: Contender, winner: Contender | None) -> Entry:
        m = c.measured
        samples = m.samples_ns
        rounds = [r for r in m.measured if r.samples_ns]
        used = c.energy_uj()
        agreed = [start.agreement.error for start in m.starts if start.agreement]
        batch = c.cell.task.scenario.batch
        return Entry(
            c.cell.task,
            c.cell.label,
            "won" if c is winner else c.status or "tied",
            c.heat,
            len(m.starts),
            self.heats.ratio(c) if winner is not None and samples else None,
            stats.quantile(samples, 0.5) if samples else None,
            stats.quantile(samples, 0.9) if samples and stats.carries(len(samples), 0.9) else None,
            len(samples) * batch / sum(r.elapsed_ns for r in rounds) * 1e9 if rounds else None,
            m.peak_bytes,
            used[0] if used else None,
            used[1] if used else None,
            max(agreed) if agreed else None,
            self.losses.get(c.name),
            c.reason,
            c.side.failure,
        )


def _key(entry: Entry) -> float:
    if entry.status == "won":
        return 0.0
    return entry.ratio[1] if entry.ratio else float("inf") if entry.p50_ns is None else entry.p50_ns


def _name(cell: Cell) -> str:
    return f"{cell.label} {cell.task.placement} {cell.task.scenario}"
