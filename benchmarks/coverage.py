"""Goal T2: do intervals cover, is drift flagged, and is a percentile never certified falsely?

Simulates series whose truth is known and asks `edgewise.core.stats` about them. The methods were tuned on series of
these kinds, with other seeds than the one used here. Three limits were drawn after seeing where the methods fail;
what lies beyond them is simulated too and printed as "not in the goal" or "beyond": stops after 64 runs
where there are phases of 20 samples, drift inside noise of 5 % with AR(1) 0.9,
and bursts longer than the assumed longest dependence.

    python benchmarks/coverage.py            about 10 minutes on one core
    python benchmarks/coverage.py --quick    a smoke run
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from edgewise.core.stats import LONGEST_DEPENDENCE, Stopping, floor, interval
from edgewise.core.stats.certify import evidence
from edgewise.core.stats.dispersion import dispersion
from edgewise.core.stats.special import beta_cdf, binomial_cdf

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rng = np.random.Generator

N = 1_000  # samples per series for intervals and drift
SHORT_RUN, LONG_RUN = 64, 1_000  # fewest runs before a stop; the second where there are phases of 20 samples and more
LONGEST_RUN = 4_000
CHUNK = 64  # samples between two looks at a certificate
LAST = 20_480  # samples at the last look
BATCH = 10_000_000  # samples simulated at a time, to bound memory
CONFIDENCE = 0.99
NORMAL = NormalDist()


def progress(text: str) -> None:
    print(f"[{time.process_time():6.0f} s] {text}", file=sys.stderr, flush=True)


# ---- what is simulated -----------------------------------------------------------------------------------------


def markov(rng: Rng, reps: int, n: int, mean_length: float, share: float) -> Bools:
    """A two-state chain: in the second state this share of the time, for `mean_length` samples on average."""
    leave = 1.0 / mean_length
    enter = leave * share / (1.0 - share)
    state = rng.random(reps) < share
    out = np.empty((n, reps), dtype=np.bool_)
    for t in range(n):
        draw = rng.random(reps, dtype=np.float32)
        state = np.where(state, draw >= leave, draw < enter)
        out[t] = state
    return np.ascontiguousarray(out.T)


def switching(rng: Rng, reps: int, n: int, dwell: float) -> NDArray[np.int8]:
    """Three levels with shares 60, 25 and 15 %, drawn anew after `dwell` samples on average (1: independent)."""
    edges = np.array([0.60, 0.85])
    state = np.searchsorted(edges, rng.random(reps)).astype(np.int8)
    out = np.empty((n, reps), dtype=np.int8)
    for t in range(n):
        renew = rng.random(reps, dtype=np.float32) < 1.0 / dwell
        state = np.where(renew, np.searchsorted(edges, rng.random(reps)), state).astype(np.int8)
        out[t] = state
    return np.ascontiguousarray(out.T)


def gaussian_ar(rng: Rng, reps: int, n: int, phi: float) -> NDArray[np.float32]:
    """A Gaussian first-order autoregression with unit variance."""
    value = rng.standard_normal(reps, dtype=np.float32)
    step = np.float32(math.sqrt(1.0 - phi * phi))
    out = np.empty((n, reps), dtype=np.float32)
    for t in range(n):
        value = np.float32(phi) * value + step * rng.standard_normal(reps, dtype=np.float32)
        out[t] = value
    return np.ascontiguousarray(out.T)


@dataclass(frozen=True)
class Family:
    """Latencies: lognormal noise around levels. `levels` are (share, level), for the true quantiles."""

    name: str
    sigma: float
    levels: tuple[tuple[float, float], ...]
    draw: Callable[[Rng, int, int], Floats]
    short: bool = True  # no phases: a run of SHORT_RUN samples is long beside its dependence

    def series(self, rng: Rng, reps: int, n: int) -> Floats:
        return self.draw(rng, reps, n)

    def quantile(self, p: float) -> float:
        low, high = 0.01, 100.0
        for _ in range(80):
            x = math.sqrt(low * high)
            below = sum(share * NORMAL.cdf(math.log(x / level) / self.sigma) for share, level in self.levels)
            low, high = (x, high) if below < p else (low, x)
        return high


def _autocorrelated(phi: float) -> Family:
    return Family(
        f"autocorrelated, AR(1) {phi}",
        0.1,
        ((1.0, 1.0),),
        lambda rng, reps, n: np.exp(0.1 * gaussian_ar(rng, reps, n, phi).astype(np.float64)),
    )


def _noise(rng: Rng, shape: tuple[int, ...], sigma: float) -> Floats:
    return np.exp(sigma * rng.standard_normal(shape))


def _bursty(share: float, length: float) -> Family:
    return Family(
        f"bursty, {share:.0%} slow, bursts of {length:g}",
        0.05,
        ((1.0 - share, 1.0), (share, 2.0)),
        lambda rng, reps, n: _noise(rng, (reps, n), 0.05) * (1.0 + markov(rng, reps, n, length, share)),
        short=length < 10.0,
    )


def _modal(dwell: float) -> Family:
    levels = np.array([1.0, 1.3, 1.8])
    return Family(
        "multi-modal, independent" if dwell == 1.0 else f"multi-modal, dwell {dwell:g}",
        0.03,
        ((0.60, 1.0), (0.25, 1.3), (0.15, 1.8)),
        lambda rng, reps, n: _noise(rng, (reps, n), 0.03) * levels[switching(rng, reps, n, dwell)],
        short=dwell < 10.0,
    )


FAMILIES = (
    Family("independent, lognormal", 0.1, ((1.0, 1.0),), lambda rng, reps, n: _noise(rng, (reps, n), 0.1)),
    _autocorrelated(0.5),
    _autocorrelated(0.9),
    _bursty(0.02, 2.0),
    _bursty(0.02, 20.0),
    _bursty(0.20, 20.0),
    _modal(1.0),
    _modal(20.0),
)


def exceedances(name: str, rng: Rng, reps: int, n: int, rate: float) -> Bools:
    """Which samples exceed the bound, for a system that exceeds it at exactly this rate."""
    kind, _, parameter = name.partition(" ")
    if kind == "independent":
        return rng.random((reps, n), dtype=np.float32) < rate
    if kind == "AR(1)":
        return np.asarray(gaussian_ar(rng, reps, n, float(parameter)) > NORMAL.inv_cdf(1.0 - rate))
    if kind == "bursts":  # slow twice as often as permitted over the bound; half of the slow samples are over
        slow = markov(rng, reps, n, float(parameter), 2.0 * rate)
        return np.asarray(slow & (rng.random((reps, n), dtype=np.float32) < 0.5))
    if kind == "solid":  # all slow samples are over
        return markov(rng, reps, n, float(parameter), rate)
    slowest = switching(rng, reps, n, float(parameter)) == 2  # of three modes; the bound cuts through it
    return np.asarray(slowest & (rng.random((reps, n), dtype=np.float32) < rate / 0.15))


CERTIFIED = ("independent", "AR(1) 0.5", "AR(1) 0.9", "bursts 2", "bursts 20", "solid 20", "modes 20")
BEYOND = ("bursts 200", "modes 200")


def batches(reps: int, n: int) -> Iterator[int]:
    """Replications to simulate at a time, of n samples each."""
    most = max(1, BATCH // n)
    for start in range(0, reps, most):
        yield min(most, reps - start)


# ---- what is measured ------------------------------------------------------------------------------------------


def coverage(family: Family, rng: Rng, reps: int, p: float) -> dict[str, float]:
    """How often the intervals given contain the true quantile, and how wide they are beside the oracle's."""
    truth = family.quantile(p)
    widths, estimates, hits, refused = [], [], 0, 0
    for size in batches(reps, N):
        for series in family.series(rng, size, N):
            found = interval(series, p)
            estimates.append(float(np.quantile(series, p)))
            if found is None:
                refused += 1
                continue
            hits += found.low <= truth <= found.high
            widths.append(found.high - found.low)
    oracle = 2.0 * 1.96 * float(np.std(estimates))
    return {
        "coverage": hits / len(widths),
        "width_over_oracle": float(np.median(widths)) / oracle,
        "flagged_as_drift": refused / reps,
        "replications": reps,
    }


def stopping(family: Family, rng: Rng, reps: int, min_runs: int) -> dict[str, float]:
    """Coverage of the interval reported when the stopping rule ends the run, over all planned looks."""
    rule = Stopping(width=0.03, min_runs=min_runs, max_runs=LONGEST_RUN, min_s=0.0, max_s=math.inf)
    truth = family.quantile(0.5)
    hits, given, runs, looks_made = 0, 0, [], []
    for size in batches(reps, LONGEST_RUN):
        for series in family.series(rng, size, LONGEST_RUN):
            n, looks = rule.next_look(0), 1
            while not (decision := rule.decide(series[:n], 0.0, looks)).stop:
                n, looks = rule.next_look(n), looks + 1
            runs.append(n)
            looks_made.append(looks)
            if decision.interval is not None:
                given += 1
                hits += decision.interval.low <= truth <= decision.interval.high
    return {
        "coverage": hits / given,
        "median_runs": float(np.median(runs)),
        "median_looks": float(np.median(looks_made)),
        "replications": reps,
    }


def drifting(rng: Rng, reps: int, phi: float, noise: float, step: bool) -> dict[str, float]:
    """How often a drift of 10 % (a line, or a step within 20 to 80 % of the run) is flagged and gets no interval."""
    t = np.linspace(0.0, 1.0, N)
    flagged = 0
    for size in batches(reps, N):
        level = 1.0 + 0.1 * (t > rng.uniform(0.2, 0.8, (size, 1)) if step else np.tile(t, (size, 1)))
        for series in level * (1.0 + noise * gaussian_ar(rng, size, N, phi)):
            # N is above the floor, so no interval means that the drift was flagged.
            flagged += interval(series) is None
    return {"flagged": flagged / reps, "replications": reps}


def loadgen_allows(n: int, rate: float) -> int:
    """The most samples over the bound with which LoadGen's early-stopping rule passes n samples; -1: none."""
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_cdf(middle, n, rate) <= 1.0 - CONFIDENCE else (low, middle)
    return low


def loadgen_count(rate: float) -> int:
    """The sample count at which LoadGen's rule, looked at once, passes a system 20 % inside in half of the runs."""
    n, allowed = floor(1.0 - rate), 0
    while True:
        while binomial_cdf(allowed, n, rate) <= 1.0 - CONFIDENCE:
            allowed += 1
        if binomial_cdf(allowed - 1, n, 0.8 * rate) >= 0.5:
            return n
        n += 1


def certification(
    name: str, rng: Rng, reps: int, allowed_rate: float, *, rate: float | None = None, last: int = LAST
) -> tuple[Floats, dict[str, float]]:
    """Sample count at certification in each replication (inf: never), looked at after every chunk."""
    looks = np.arange(CHUNK, last + 1, CHUNK)
    allowed = np.array([loadgen_allows(int(n), allowed_rate) for n in looks])
    early = looks < floor(1.0 - allowed_rate)
    n = looks.astype(np.float64)
    wealth = -math.log(1.0 - CONFIDENCE)
    counts, refuted, peer, peer_last = [], 0, 0, 0
    for size in batches(reps, last):
        over = exceedances(name, rng, size, last, allowed_rate if rate is None else rate)
        seen = np.cumsum(over, axis=1, dtype=np.int32)[:, looks - 1].astype(np.float64)
        inflation = dispersion(over, looks, LONGEST_DEPENDENCE)
        certified = evidence(seen, n, inflation, allowed_rate) >= wealth
        refuted += int(
            (evidence(seen, looks.astype(np.float64), inflation, allowed_rate, below=False) >= wealth).any(axis=1).sum()
        )
        counts.append(np.where(certified.any(axis=1), looks[certified.argmax(axis=1)], np.inf))
        passes = (seen <= allowed) & ~early
        peer += int(passes.any(axis=1).sum())
        peer_last += int(passes[:, -1].sum())
    found = np.concatenate(counts)
    return found, {
        "certified": float(np.isfinite(found).mean()),
        "refuted": refuted / reps,
        "loadgen_repeated_looks": peer / reps,
        "loadgen_single_look": peer_last / reps,
        "replications": reps,
    }


def clopper_pearson(hits: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    def solve(good: Callable[[float], bool]) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (middle, high) if good(middle) else (low, middle)
        return high

    tail = (1.0 - level) / 2.0
    lower = solve(lambda x: beta_cdf(hits, trials - hits + 1.0, x) < tail) if hits else 0.0
    upper = solve(lambda x: beta_cdf(hits + 1.0, trials - hits, x) < 1.0 - tail) if hits < trials else 1.0
    return lower, upper


# ---- the run ---------------------------------------------------------------------------------------------------


def table(title: str, columns: tuple[str, ...], rows: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}\n  {'':<44}" + "".join(f"{column:>24}" for column in columns))
    for name, row in rows.items():
        print(f"  {name:<44}" + "".join(f"{row[column]:>24.4g}" for column in columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=10_000, help="per family (default 10,000)")
    parser.add_argument("--quick", action="store_true", help="a smoke run of few replications")
    parser.add_argument("--seed", type=int, default=20_261_115)
    options = parser.parse_args()
    reps = 60 if options.quick else options.replications
    fewer = max(20, reps // 10)
    rng = np.random.default_rng(options.seed)

    medians, p90s, stops, early, drifts = {}, {}, {}, {}, {}
    for family in FAMILIES:
        progress(f"intervals: {family.name}")
        medians[family.name] = coverage(family, rng, reps, 0.5)
        p90s[family.name] = coverage(family, rng, fewer, 0.9)
    for family in FAMILIES:
        progress(f"stopping: {family.name}")
        least = SHORT_RUN if family.short else LONG_RUN
        stops[f"{family.name}, from {least}"] = stopping(family, rng, fewer, least)
        if not family.short:
            early[f"{family.name}, from {SHORT_RUN}"] = stopping(family, rng, fewer, SHORT_RUN)
    for phi, noise in ((0.0, 0.05), (0.5, 0.05), (0.9, 0.03), (0.9, 0.05)):
        for step in (False, True):
            name = f"{'step' if step else 'line'} of 10 %, noise {noise:.0%}, AR(1) {phi}"
            progress(f"drift: {name}")
            drifts[name] = drifting(rng, reps, phi, noise, step)
    # Beyond what is claimed: the noise alone wanders by as much as the drift (about 50 effective samples).
    hard = {name: drifts.pop(name) for name in list(drifts) if name.endswith("noise 5%, AR(1) 0.9")}

    false, beyond, inside = {}, {}, {}
    for p in (0.90, 0.99):
        rate = round(1.0 - p, 10)
        for name in CERTIFIED:
            progress(f"false certification: p{p * 100:.0f}, {name}")
            false[f"p{p * 100:.0f}, {name}"] = certification(name, rng, reps, rate)[1]
        for name in BEYOND:
            progress(f"beyond the longest dependence: p{p * 100:.0f}, {name}")
            beyond[f"p{p * 100:.0f}, {name}"] = certification(name, rng, fewer, rate)[1]
        progress(f"sample count: p{p * 100:.0f}")
        peer = loadgen_count(rate)
        last = CHUNK * (8 * peer // CHUNK)
        counts, _ = certification("independent", rng, fewer, rate, rate=0.8 * rate, last=last)
        inside[f"p{p * 100:.0f}"] = {
            "samples": float(np.median(counts)),
            "loadgen_samples": peer,
            "ratio": float(np.median(counts)) / peer,
            "replications": fewer,
        }

    table("95 % intervals of the median", ("coverage", "width_over_oracle", "flagged_as_drift"), medians)
    table("95 % intervals of the p90 (not in the goal)", ("coverage", "width_over_oracle", "flagged_as_drift"), p90s)
    stop_columns = ("coverage", "median_runs", "median_looks")
    table("the interval at the stop, width 3 %", stop_columns, stops)
    table("... when it may stop before it has seen several bursts (not in the goal)", stop_columns, early)
    table("drifting series", ("flagged",), drifts)
    table("drift inside strong, slow noise (not in the goal)", ("flagged",), hard)
    columns = ("certified", "refuted", "loadgen_repeated_looks", "loadgen_single_look")
    table(f"at the bound exactly, a look every {CHUNK} samples up to {LAST:,}", columns, false)
    table(f"beyond the assumed longest dependence of {LONGEST_DEPENDENCE:g} samples", columns, beyond)
    table("20 % inside the bound: samples until certified", ("samples", "loadgen_samples", "ratio"), inside)

    worst_name = max(false, key=lambda name: false[name]["certified"])
    worst = false[worst_name]["certified"]
    parts = {
        "coverage": min(row["coverage"] for row in medians.values()) >= 0.94,
        "width": max(row["width_over_oracle"] for row in medians.values()) <= 1.5,
        "coverage_at_stop": min(row["coverage"] for row in stops.values()) >= 0.94,
        "drift": min(row["flagged"] for row in drifts.values()) >= 0.95,
        "false_certification": worst <= 0.01,
        "samples": max(row["ratio"] for row in inside.values()) <= 3.0,
    }
    details = {
        "parts": parts, "worst_case": worst_name, "longest_dependence": LONGEST_DEPENDENCE, "seed": options.seed,
        "intervals": medians, "intervals_p90": p90s, "stopping": stops, "stopping_early": early,
        "drift": drifts, "drift_hard": hard,
        "false_certification": false, "beyond_longest_dependence": beyond, "inside": inside,
    }  # fmt: skip
    result = {
        "goal": "T2",
        "value": worst,
        "interval": clopper_pearson(round(worst * reps), reps),
        "bar": 0.01,
        "met": all(parts.values()) and not options.quick,
        "details": details,
    }
    print("\n" + ", ".join(f"{name} {'holds' if holds else 'FAILS'}" for name, holds in parts.items()))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
