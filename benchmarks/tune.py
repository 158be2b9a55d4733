"""P1: the race against measuring everything: what it finds, what it costs, what it gains over `ort:cpu` as installed.

For each network: (a) `edgewise tune`'s race; (b) every candidate measured the default way, as `edgewise bench` does;
(c) the chosen and the exhaustive best afresh, in turns, beside `ort:cpu`. Twice: in any precision, and in fp32 alone,
whose exhaustive part is a share of the first. What is done is kept beside --store and not measured again. The cost of a
race is what it takes to choose, worker starts included on both sides; measuring the winner afresh is told apart.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev

from _goal import finish, say
from edgewise.analyze import summary
from edgewise.core.stats.special import t_quantile
from edgewise.core.types import Measurement, Result, Scenario
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


@dataclass(frozen=True)
class Found:
    """One network: seconds of both ways, what they chose, and log ratios of cost, one per fresh set of processes."""

    network: str
    precision: str
    chosen: str
    exhaustive: str
    race_s: float
    confirmed_s: float
    exhaustive_s: dict[str, float]
    regret: list[float]
    speedup: list[float]
    loss: float | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--precisions", nargs="+", default=["any", "fp32"], choices=["any", "fp32"])
    parser.add_argument("--on", nargs="+", default=[], help="race and measure these only: a shortened trial")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--store", default="tune.db", help="results, and what is done already (beside it, in .jsonl)")
    options = parser.parse_args()
    notes = Path(options.store).with_suffix(".jsonl")
    done = [Found(**json.loads(line)) for line in notes.read_text().splitlines()] if notes.exists() else []
    for network in options.networks:
        for precision in options.precisions:
            if not any((each.network, each.precision) == (network, precision) for each in done):
                found = measure(network, precision, options, done)
                done.append(found)
                with notes.open("a") as file:
                    file.write(json.dumps(asdict(found)) + "\n")
            say(_line(next(each for each in done if (each.network, each.precision) == (network, precision))))
    wanted = [each for each in done if each.network in options.networks]
    _finish(wanted, len(options.networks))


def measure(network: str, precision: str, options: argparse.Namespace, done: list[Found]) -> Found:
    only = () if precision == "any" else (precision,)
    with Store(options.store) as store:
        named = (*options.on, "ort") if options.on else ()
        wanted = request((network,), named, (), [Scenario()], Limits(timeout_s=300.0))
        store.save_machine(wanted.machine)
        store.save_model(wanted.models[0])
        # Conversions are made once whoever asks for them: neither way is charged.
        those = candidates(wanted, tuple(options.on), only, "latency", Scenario())
        cells = [made for made in ready(those, wanted, wanted.limits) if isinstance(made, Cell)]
        question = Question() if wanted.models[0].data else None
        tuning = Tuning(on=tuple(options.on), precision=only, question=question, starts=options.starts)
        tuned = tune(wanted, tuning, store, lambda what, detail: None)
        assert tuned.cell is not None
        # What was measured already, for any precision, took what it took then.
        before = {k: s for each in done if each.network == network for k, s in each.exhaustive_s.items()}
        seconds, alone = dict[str, float](), list[Result]()
        for cell in cells:
            begin = time.monotonic()
            alone += sweep([cell], store, lambda *_: None, resume=True)
            name = str(cell.task.placement)
            seconds[name] = before.get(name, time.monotonic() - begin)
        rows = [summary.figures(m) for m in alone if isinstance(m, Measurement) and m.samples_ns]
        best = summary.ranked(rows)[0][1].measurement
        regret, speedup = _afresh(wanted, tuned.cell, next(c for c in cells if c.task == best.task), store, options)
        loss = tuned.race.winner.loss if tuned.race.winner else None
        return Found(
            network,
            precision,
            str(tuned.cell.task.placement),
            str(best.task.placement),
            tuned.race.choosing_s,
            tuned.race.racing_s,
            seconds,
            regret,
            speedup,
            -loss.difference if loss else None,
        )


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
        f"{found.network} ({found.precision}): {found.chosen} against {found.exhaustive}: "
        f"{regret:.3f} [{low:.3f}, {high:.3f}]; {speedup:.2f}× ort:cpu; race {found.race_s:.0f} s of "
        f"{sum(found.exhaustive_s.values()):.0f} s ({found.confirmed_s:.0f} s with the winner measured afresh)"
    )


def _finish(found: list[Found], networks: int) -> None:
    details: dict[str, object] = {"networks": networks}
    values: dict[str, tuple[float, float, float]] = {}
    good = True
    for precision in dict.fromkeys(each.precision for each in found):
        group = [each for each in found if each.precision == precision]
        # Networks are the unit here: each gives one speed-up and one regret.
        speedup = _interval([fmean(each.speedup) for each in group])
        regret = _interval([fmean(each.regret) for each in group])
        whole = sum(sum(each.exhaustive_s.values()) for each in group)
        cost = sum(each.race_s for each in group) / whole
        values[precision] = speedup
        good &= regret[2] <= 1.02 and cost <= 1 / 3
        details[precision] = {
            "speedup": speedup,
            "regret": regret,
            "worst_regret": max(_interval(each.regret)[1] for each in group),
            "cost": cost,
            "cost_confirmed": sum(each.confirmed_s for each in group) / whole,
            "losses": {each.network: each.loss for each in group if each.loss is not None},
            "chosen": {each.network: each.chosen for each in group},
        }
    low, value, high = values.get("any") or next(iter(values.values()))
    finish("P1", value, (low, high), 2.0, bool(good and value >= 2.0 and networks >= 8), **details)


if __name__ == "__main__":
    main()
