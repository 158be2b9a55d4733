"""T5: whether operator times, never rescaled, add up to the latency nobody was watching.

Networks x engines x threads, each profiled in several fresh processes: plain and instrumented runs in turns, what the
operators of an instrumented run took together over the plain run beside it, typical pairs only (analyze/accounting.py
says which). Two copies of a network in one process differ by some percent for as long as they live, so the interval is
Student's over the processes.

The residue (latency - operators) is dispatch + copy + other - looking: the executor's own time between operators,
inputs and outputs crossing, the rest of the run, and what an instrumented run took more than a plain one.
"""

from __future__ import annotations

import argparse
from statistics import fmean

from _goal import finish, say
from edgewise.analyze.accounting import CLOSE, Account, account
from edgewise.core import stats
from edgewise.core.types import Failure, Scenario
from edgewise.measure.profile import profile
from edgewise.study.prepare import Limits
from edgewise.study.request import request

NETWORKS = ("mobilenet_v2", "squeezenet1_1", "inception_v1", "resnet50")
ENGINES = ("ort", "openvino", "mnn", "ncnn", "torch")
RESIDUE = 0.10


def accounts(network: str, target: str, starts: int) -> list[Account]:
    """One for each fresh process; none where the target refuses."""
    (cell,) = request((network,), (target,), (1,), [Scenario()], Limits()).cells()
    found = []
    for _ in range(starts):
        taken = cell if isinstance(cell, Failure) else profile(cell)
        if isinstance(taken, Failure):
            say(f"{network} on {target}: {taken.message}")
            return []
        found.append(account(taken))
    return found


def shares(found: list[Account]) -> dict[str, float | None]:
    """The parts of the account, of the plain latency."""

    def share(values: list[float | None]) -> float | None:
        told = [value / each.plain_ns for value, each in zip(values, found, strict=True) if value is not None]
        return fmean(told) if told else None

    return {
        "dispatch": share([each.dispatch_ns for each in found]),
        "copy": share([each.copy_ns for each in found]),
        "other": share([each.other_ns for each in found]),
        "looking": share([each.looking_ns for each in found]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--engines", nargs="+", default=ENGINES)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--starts", type=int, default=5, help="fresh processes for each")
    options = parser.parse_args()
    ratios, splits = {}, {}
    for network in options.networks:
        for engine in options.engines:
            for threads in options.threads:
                target = f"{engine}:cpu@{threads}"
                found = accounts(network, target, options.starts)
                ratio = stats.ratio([[(each.sum_ratio, 1.0)] for each in found])
                if ratio is None:
                    continue
                name = f"{network} on {target}"
                ratios[name], splits[name] = ratio, shares(found)
                parts = ", ".join(f"{part} {v:.1%}" for part, v in splits[name].items() if v is not None)
                print(f"{name:32} {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]  {parts}", flush=True)
    if not ratios:
        raise SystemExit("nothing was profiled")
    name, worst = max(ratios.items(), key=lambda item: abs(item[1].estimate - 1))
    ends = sorted((abs(worst.low - 1), abs(worst.high - 1)))
    # An interval that holds 1 holds a perfect sum.
    interval = (0.0 if worst.low <= 1 <= worst.high else ends[0], ends[1])
    value = abs(worst.estimate - 1)
    within = sum(abs(ratio.estimate - 1) <= CLOSE for ratio in ratios.values())
    named = all(
        abs(1 - ratio.estimate) <= RESIDUE and splits[each]["dispatch"] is not None for each, ratio in ratios.items()
    )
    finish(
        "T5",
        value,
        interval,
        CLOSE,
        value <= CLOSE and named,
        worst=name,
        within=within,
        of=len(ratios),
        residue_named_and_small=named,
        starts=options.starts,
        ratios={each: [ratio.estimate, ratio.low, ratio.high] for each, ratio in ratios.items()},
        shares=splits,
    )


if __name__ == "__main__":
    main()
