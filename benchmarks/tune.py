"""P1: the race against measuring everything: what it finds, what it costs, what it gains over `ort:cpu` as installed.

For each network: (a) `edgewise tune`'s race; (b) every candidate measured the default way, as `edgewise bench` does;
(c) the chosen and the exhaustive best afresh, in turns, beside `ort:cpu`. Twice: in any precision, and in fp32 alone,
whose exhaustive part is a share of the first.

`cost_fraction` is all the time of the race, from its first process to the last of those that measure the winner
afresh, over the time of (b), worker starts included on both sides; `cost_choosing` leaves measuring afresh out.
Each step that is done is kept beside --store and not done again. After --minutes no further step is begun; the same
command goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from _goal import finish, say
from edgewise.core import stats
from edgewise.core.stats.special import t_quantile
from edgewise.core.types import Measurement, Scenario
from edgewise.measure.cell import Cell
from edgewise.store.db import Store
from edgewise.study.candidates import candidates, ready
from edgewise.study.compare import compare
from edgewise.study.images import Question
from edgewise.study.prepare import Limits
from edgewise.study.request import Request, request
from edgewise.study.sweep import sweep
from edgewise.study.tune import Tuning, tune

# Small enough that measuring every candidate of all of them takes minutes, and of as many families.
NETWORKS = (
    "mobilenet_v1_050",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "squeezenet1_1",
    "shufflenet_v2_x0_5",
    "mnasnet1_0",
    "efficientnet_lite0",
    "pocket/medium",
)


class OutOfTime(Exception):
    """What is left is for the next time."""


@dataclass(frozen=True)
class Raced:
    """A race: whom it chose, seconds until then and in all, and the loss of top-1 where there are labels."""

    chosen: str
    choosing_s: float
    whole_s: float
    loss: float | None


@dataclass(frozen=True)
class Found:
    """One network: what both ways chose and took, and log ratios of cost, one per fresh set of processes."""

    network: str
    precision: str
    race: Raced
    exhaustive: str
    exhaustive_s: float
    regret: list[float]
    speedup: list[float]


class Notes:
    """What is done: a line for each step, with what it came to."""

    def __init__(self, path: Path, minutes: float) -> None:
        self._path, self._deadline = path, time.monotonic() + 60 * minutes
        lines = path.read_text().splitlines() if path.exists() else []
        self._done = {tuple(key): value for key, value in map(json.loads, lines)}

    def once(self, key: tuple[str, ...], step: Callable[[], Any]) -> Any:
        if key not in self._done:
            if time.monotonic() > self._deadline:
                raise OutOfTime
            self._done[key] = step()
            with self._path.open("a") as file:
                file.write(json.dumps([key, self._done[key]]) + "\n")
        return self._done[key]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--precisions", nargs="+", default=["any", "fp32"], choices=["any", "fp32"])
    parser.add_argument("--on", nargs="+", default=[], help="race and measure these only: a shortened trial")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--store", default="tune.db", help="results, and what is done already (beside it, in .jsonl)")
    parser.add_argument("--minutes", type=float, default=35.0, help="begin no further step after these")
    options = parser.parse_args()
    notes = Notes(Path(options.store).with_suffix(".jsonl"), options.minutes)
    found: list[Found] = []
    try:
        for network in options.networks:
            for precision in options.precisions:
                found.append(measure(network, precision, options, notes))
                say(_line(found[-1]))
    except OutOfTime:
        say(f"out of time at {network}: the same command goes on")
    _finish(found, options.precisions)


def measure(network: str, precision: str, options: argparse.Namespace, notes: Notes) -> Found:
    only = () if precision == "any" else (precision,)
    with Store(options.store) as store:
        named = (*options.on, "ort") if options.on else ()
        wanted = request((network,), named, (), [Scenario()], Limits(timeout_s=300.0))
        store.save_machine(wanted.machine)
        store.save_model(wanted.models[0])
        # Conversions are made once whoever asks for them: neither way is charged.
        those = candidates(wanted, tuple(options.on), only, "latency", Scenario())
        cells = {str(c.task.placement): c for c in ready(those, wanted, wanted.limits) if isinstance(c, Cell)}

        def race() -> dict[str, Any]:
            question = Question() if wanted.models[0].data else None
            tuning = Tuning(on=tuple(options.on), precision=only, question=question, starts=options.starts)
            tuned = tune(wanted, tuning, store, lambda what, detail: None)
            assert tuned.cell is not None and tuned.race.winner is not None
            loss = tuned.race.winner.loss
            took = tuned.race.choosing_s, tuned.race.racing_s
            return asdict(Raced(str(tuned.cell.task.placement), *took, -loss.difference if loss else None))

        def alone(cell: Cell) -> list[float | None]:
            """Seconds, and the median where it ran. What an earlier attempt left half done is done anew."""
            begin = time.monotonic()
            (result,) = sweep([cell], store, lambda *_: None)
            samples = result.samples_ns if isinstance(result, Measurement) else ()
            return [time.monotonic() - begin, stats.quantile(samples, 0.5) if samples else None]

        raced = Raced(**notes.once((network, precision, "race"), race))
        # The same for any precision: a target is measured once.
        measured = {name: notes.once((network, "alone", name), partial(alone, cell)) for name, cell in cells.items()}
        best = min((name for name, (_, p50) in measured.items() if p50), key=lambda name: float(measured[name][1]))
        regret, speedup = notes.once(
            (network, precision, "afresh"), lambda: _afresh(wanted, cells[raced.chosen], cells[best], store, options)
        )
        return Found(network, precision, raced, best, sum(took for took, _ in measured.values()), regret, speedup)


def _afresh(
    wanted: Request, chosen: Cell, best: Cell, store: Store, options: argparse.Namespace
) -> tuple[list[float], list[float]]:
    """Log of chosen over best, and of baseline over chosen, one number per fresh set of processes."""
    against = candidates(wanted, ("ort:cpu:fp32",), (), "latency", Scenario())[:1]
    (baseline,) = ready(against, wanted, wanted.limits)
    assert isinstance(baseline, Cell)
    cells = list({cell.task: cell for cell in (chosen, best, baseline)}.values())
    results = compare(cells, store, lambda *_: None, starts=options.starts, study="race")
    by_task = {result.task: result for result in results if isinstance(result, Measurement)}
    a, b, c = (by_task[cell.task] for cell in (chosen, best, baseline))
    return _logs(a, b), _logs(c, a)


def _logs(first: Measurement, second: Measurement) -> list[float]:
    found = []
    for start in range(len(first.starts)):
        turns = [[r.samples_ns for r in m.measured if r.start == start] for m in (first, second)]
        pairs = [math.log(sorted(x)[len(x) // 2] / sorted(y)[len(y) // 2]) for x, y in zip(*turns, strict=False)]
        found.append(sorted(pairs)[len(pairs) // 2])
    return found


def _interval(values: list[float]) -> tuple[float, float, float]:
    """exp of the mean, with Student's 95 % interval."""
    centre = fmean(values)
    half = t_quantile(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return math.exp(centre - half), math.exp(centre), math.exp(centre + half)


def _line(found: Found) -> str:
    low, regret, high = _interval(found.regret)
    _, speedup, _ = _interval(found.speedup)
    return (
        f"{found.network} ({found.precision}): {found.race.chosen} against {found.exhaustive}: "
        f"{regret:.3f} [{low:.3f}, {high:.3f}]; {speedup:.2f}× ort:cpu; race {found.race.whole_s:.0f} s "
        f"({found.race.choosing_s:.0f} s to choose) of {found.exhaustive_s:.0f} s"
    )


def _finish(found: list[Found], precisions: list[str]) -> None:
    details: dict[str, object] = {}
    values: dict[str, tuple[float, float, float]] = {}
    good = True
    for precision in precisions:
        group = [each for each in found if each.precision == precision]
        if not group:
            good = False
            continue
        # Networks are the unit here: each gives one speed-up and one regret.
        values[precision] = _interval([fmean(each.speedup) for each in group])
        regret = _interval([fmean(each.regret) for each in group])
        whole = sum(each.exhaustive_s for each in group)
        cost = sum(each.race.whole_s for each in group) / whole
        good &= regret[2] <= 1.02 and cost <= 1 / 3 and len(group) >= 8
        details[precision] = {
            "networks": len(group),
            "speedup": values[precision],
            "regret": regret,
            "worst_regret": max(_interval(each.regret)[1] for each in group),
            "cost_fraction": cost,
            "cost_choosing": sum(each.race.choosing_s for each in group) / whole,
            "losses": {each.network: each.race.loss for each in group if each.race.loss is not None},
            "chosen": {each.network: each.race.chosen for each in group},
        }
    low, value, high = values.get("any") or next(iter(values.values()), (0.0, 0.0, 0.0))
    finish("P1", value, (low, high), 2.0, bool(good and "any" in values and value >= 2.0), **details)


if __name__ == "__main__":
    main()
