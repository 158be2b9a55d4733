"""Networks with deadlines on several devices, in simulation: the share of jobs in time under `latency-aware` less that
under the best of the other schedulers, over random mixes (`_mixes.py` says which), each with its own arrivals.

The rule and its constants were chosen on seeds below 2,000; the default here begins above them. Needs no quiet machine.
"""

from __future__ import annotations

import argparse
import math
from statistics import fmean, stdev

from _goal import finish, say
from _mixes import in_phases, random_mix, scattered
from edgewise.core.stats.special import t_quantile
from edgewise.parallel.mix.bound import best_hits, load
from edgewise.parallel.mix.desk import Desk
from edgewise.parallel.mix.schedulers import RULES
from edgewise.parallel.mix.simulate import arrivals, simulate

OURS = "latency-aware"
CASES = ("runs scatter by 10 %", "runs scatter by 40 %", "devices are slow in phases")


def shares(seed: int, case: str, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """By scheduler: the share of all jobs in time, and that of the network that fares worst."""
    networks, expected = random_mix(seed)
    spread = 0.1 if "10 %" in case else 0.4
    serve = in_phases(expected, seed, seconds) if "phases" in case else scattered(expected, seed, spread)
    jobs, whole, worst = arrivals(networks, seconds, seed), {}, {}
    for name, rule in RULES.items():
        block = simulate(Desk(expected, [network.deadline_ns for network in networks]), rule, jobs, serve)
        whole[name] = fmean(each.hit for each in block.served)
        own = [[each.hit for each in block.served if each.job.network == n] for n in range(len(networks))]
        worst[name] = min(fmean(hits) for hits in own if hits)
    return whole, worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=5_000, help="of the first mix")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.mixes)
    bounds = [(load(*random_mix(seed)) or 0.0, best_hits(*random_mix(seed))) for seed in seeds]
    details: list[dict[str, object]] = []
    lowest = (math.inf, (0.0, 0.0))
    for case in CASES:
        found = [shares(seed, case, options.seconds) for seed in seeds]
        hits = {name: fmean(whole[name] for whole, _ in found) for name in RULES}
        worst = {name: fmean(least[name] for _, least in found) for name in RULES}
        rival = max((name for name in RULES if name != OURS), key=lambda name: hits[name])
        ahead = [whole[OURS] - whole[rival] for whole, _ in found]
        half = t_quantile(0.975, len(ahead) - 1) * stdev(ahead) / math.sqrt(len(ahead))
        behind = [max(share for name, share in whole.items() if name != OURS) - whole[OURS] for whole, _ in found]
        told = (fmean(ahead), (fmean(ahead) - half, fmean(ahead) + half))
        lowest = min(lowest, told)
        late = sum(each > 0.01 for each in behind)
        for name, share in hits.items():
            say(f"{case}: {name} {share:.1%}, the network that fares worst {worst[name]:.1%}")
        say(f"  {told[0]:+.1%} [{told[1][0]:+.1%}, {told[1][1]:+.1%}] against {rival}")
        say(f"  more than a point behind the best other in {late} of {len(behind)} mixes, at most {max(behind):.1%}")
        about_case = {"case": case, "hits": hits, "worst_network": worst, "rival": rival, "ahead": told[0]}
        details.append(about_case | {"behind": late, "most_behind": max(behind)})
    about = {
        "mixes": options.mixes,
        "overloaded": sum(each > 1 for each, _ in bounds),
        "bound": fmean(b for _, b in bounds),
    }
    finish("deadlines in simulation", lowest[0], lowest[1], 0.05, lowest[1][0] > 0.05, cases=details, **about)


if __name__ == "__main__":
    main()
