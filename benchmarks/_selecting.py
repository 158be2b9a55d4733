"""P5: the right model for each image: every method and baseline on CIFAR-100 and on the built-in scenes, then live.

Every candidate (model, target, precision) answers every image once, and is priced on single images, in turns. Methods
are compared by cross-validation, each image answered by policies fitted without it. Then the cascade is fitted on one
half of the CIFAR-100 test images and run image by image on the rest, in turns with the best single candidate run the
same way: preparing, asking and deciding included. The value is its mean time over that one's. A promise is checked by
drawing the images it is shown on a hundred times.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from _goal import finish, say
from edgewise.core.choice import Method, Selection
from edgewise.core.stats import Discordance
from edgewise.core.stats.paired import ratio
from edgewise.core.types import Scenario
from edgewise.select import risk
from edgewise.select.deciding import deciding_ns
from edgewise.select.folds import halves
from edgewise.select.policies import cascade, single
from edgewise.select.policy import Policy
from edgewise.select.table import Table
from edgewise.store.db import Store
from edgewise.study import choosers
from edgewise.study import select as study
from edgewise.study.contenders import contenders
from edgewise.study.images import Question
from edgewise.study.live import live
from edgewise.study.prepare import Limits, expand
from edgewise.study.request import Request, request

SHARED = Path(__file__).resolve().parents[2] / "shared"
CIFAR = tuple(
    str(SHARED / "models" / "cifar100" / f"{name}.onnx")
    for name in ("resnet8", "resnet20", "mobilenet_v2_050", "resnet18_half", "resnet18")
)
TARGETS = ("openvino:cpu:fp32@1", "openvino:cpu:int8@1", "ort:cpu:fp32@1", "ort:cpu:int8@1")
BAR, LOSS_BAR, OVERHEAD_BAR = 0.50, 0.005, 0.03
# What a promise is drawn with: a loss, and how often more may be lost.
EPSILON, DELTA, DRAWS = 0.005, 0.1, 100
# Live and replayed times may be this far apart.
AGREES = 0.05
# Fittings that the draws are spread over.
SPLITS = 5


def gathered(
    models: Sequence[str],
    on: Sequence[str],
    question: Question,
    calibration: str | None,
    how: Sequence[str],
    store: str,
) -> tuple[Request, study.Gathered]:
    names = expand(tuple(models))
    limits = Limits(calibration=calibration)
    wanted = request(names, tuple(on), (), [Scenario()], limits)
    with Store(store) as opened:
        opened.save_machine(wanted.machine)
        for model in wanted.models:
            opened.save_model(model)
        candidates, failures = contenders(wanted, names, question, how)
        for failure in failures:
            say(f"{failure.label} on {failure.task.placement}: {failure.message}")
        told = study.Told(lambda who, count, done: None if done else say(f"{who}, {count} images"))
        return wanted, study.gathered(candidates, failures, opened, told, features=True)


def drawn(name: str, found: Selection) -> None:
    """The table of one data set, as Markdown."""
    print(f"\n{name}: {found.images} images, {found.folds} folds, best single: {_best(found)}\n")
    print(
        "| method | accuracy | difference | time | over the best single | gap closed | over a random mix | overhead |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for each in (*found.methods, *found.singles, found.oracle):
        print(_line(each))


def _best(found: Selection) -> str:
    return found.candidates[max(range(len(found.best)), key=lambda place: found.best[place])]


def _line(each: Method) -> str:
    span = f"[{100 * each.difference.low:+.2f}, {100 * each.difference.high:+.2f}]"
    gap = "-" if each.gap_closed is None else f"{100 * each.gap_closed:.0f} %"
    return (
        f"| {each.name} | {100 * each.accuracy.value:.2f} % | {100 * each.difference.value:+.2f} {span} "
        f"| {each.cost.value / 1e6:.3f} ms | {each.ratio.value:.3f} [{each.ratio.low:.3f}, {each.ratio.high:.3f}] "
        f"| {gap} | {100 * each.over_hull:+.2f} | {each.overhead_ns / 1e3:.0f} µs |"
    )


def violations(table: Table, max_loss: float) -> tuple[int, int]:
    """How often a promise did not hold, and how often one was given. The images that a policy was not fitted on stand
    for all there are: what the promise is shown on is drawn from them with replacement, as if from a larger world."""
    broken = given = 0
    for split in range(SPLITS):
        fitting, rest = halves(table.labels, 0.3, split)
        policy = cascade.fit(table.rows(fitting), max_loss=max_loss)
        best = single.fit(table.rows(fitting)).candidate
        tried = risk.family(policy, table.rows(fitting), reference=best, epsilon=EPSILON, delta=DELTA)
        everything = table.rows(rest)
        for draw in range(DRAWS // SPLITS):
            shown = everything.rows(np.random.default_rng((split, draw)).integers(0, len(rest), len(rest) // 2))
            kept, promise = risk.controlled(tried, shown, reference=best, epsilon=EPSILON, delta=DELTA)
            if promise.images:
                given += 1
                broken += float(risk.losses(kept, everything, best).mean()) > EPSILON
    return broken, given


def in_turns(
    wanted: Request,
    found: study.Gathered,
    policies: Sequence[Policy],
    question: Question,
    blocks: int,
    images: int,
) -> list[list[tuple[float, float, float]]]:
    """For each block and policy: the mean time of an image live, by replaying, and the share answered as replayed."""
    wish = study.Wish()
    made = []
    with tempfile.TemporaryDirectory() as folder:
        opened = []
        for number, policy in enumerate(policies):
            path = str(Path(folder) / f"{number}.plan.json")
            outcome = study.outcome(policy, found.table, wish)
            plan = choosers.write(path, found, study.Fitted(policy, outcome), wish, wanted, question)
            opened.append(choosers.opened(path, plan, Limits()))
        for block in range(blocks):
            order = list(range(len(policies)))
            if block % 2:
                order.reverse()
            times = {}
            for number in order:
                own = replace(
                    found,
                    table=found.table.rows(range(block * images, (block + 1) * images)),
                    indices=found.indices[block * images : (block + 1) * images],
                )
                lived = live(opened[number], own, Limits(), images=images, seed=block)
                times[number] = (lived.live_ns, lived.replayed_ns, lived.same)
                say(f"block {block + 1}, {policies[number].kind}: {lived.live_ns / 1e6:.3f} ms live")
            made.append([times[number] for number in range(len(policies))])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", nargs="+", default=TARGETS)
    parser.add_argument("--limit", type=int, default=None, help="images of each data set: a shortened trial")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--images", type=int, default=400, help="images of a block of the live run")
    parser.add_argument("--careful", type=float, default=1.0, help="standard errors the live cascade keeps away")
    parser.add_argument("--store", default="select.db")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit("the CIFAR-100 networks and images are not here")
    _, scenes = gathered(("pocket/*",), options.on, Question(limit=options.limit), None, (), options.store)
    pocket = study.evaluated(scenes.table, study.Wish(), options.folds)
    drawn("pocket scenes", pocket)
    data = SHARED / "data" / "cifar100"
    question = Question(str(data / "test.npz"), limit=options.limit)
    wanted, found = gathered(CIFAR, options.on, question, str(data / "train_sample.npz"), ("cifar100",), options.store)
    cifar = study.evaluated(found.table, study.Wish(), options.folds)
    drawn("CIFAR-100", cifar)
    loose = study.evaluated(found.table, study.Wish(max_loss=LOSS_BAR), options.folds)
    drawn(f"CIFAR-100, where {100 * LOSS_BAR:g} points may be lost", loose)
    broken, given = violations(found.table, LOSS_BAR)
    say(
        f"a promise of at most {EPSILON:.1%} at {DELTA:g} was given in {given} of {DRAWS} draws, and broken in {broken}"
    )

    fitting, rest = halves(found.table.labels, 0.5)
    policy = cascade.fit(found.table.rows(fitting), max_loss=LOSS_BAR, careful=options.careful)
    best = single.fit(found.table.rows(fitting))
    # What is allowed to the cascade is allowed to one model, too: the cheapest that loses no more.
    cheap = single.fit(found.table.rows(fitting), max_loss=LOSS_BAR)
    # In no order of classes: a block is as good as any other.
    rest = np.random.default_rng(0).permutation(rest)
    kept = replace(found, table=found.table.rows(rest), indices=tuple(found.indices[place] for place in rest))
    before, after = best.replay(kept.table).right, policy.replay(kept.table).right
    pair = Discordance(int((before & ~after).sum()), int((after & ~before).sum()), len(kept.table))
    turns = in_turns(wanted, kept, (policy, best, cheap), question, options.blocks, options.images)
    times = ratio([[(chosen[0], alone[0])] for chosen, alone, _ in turns])
    fairly = ratio([[(chosen[0], alone[0])] for chosen, _, alone in turns])
    assert times is not None and fairly is not None
    overhead = deciding_ns(policy, kept.table) / fmean(alone[0] for _, alone, _ in turns)
    agreed = fmean(chosen[0] / chosen[1] for chosen, _, _ in turns)
    allowed = DELTA + 2 * (DELTA * (1 - DELTA) / max(1, given)) ** 0.5
    met = (
        times.estimate <= BAR
        and pair.interval[0] >= -LOSS_BAR
        and overhead <= OVERHEAD_BAR
        and abs(agreed - 1) <= AGREES
        and given > 0
        and broken <= allowed * given
    )
    names = [candidate.name for candidate in found.table.candidates]
    finish(
        "P5",
        times.estimate,
        (times.low, times.high),
        BAR,
        met,
        candidates=[names[place] for place in policy.candidates],
        best_single=names[best.candidate],
        cheapest_single_allowed=names[cheap.candidate],
        over_cheapest_single_allowed=[fairly.low, fairly.estimate, fairly.high],
        difference=[pair.interval[0], pair.difference, pair.interval[1]],
        images=len(kept.table),
        live_images=options.blocks * options.images,
        live_over_replayed=agreed,
        same_answers=fmean(chosen[2] for chosen, _, _ in turns),
        deciding_over_best=overhead,
        violations=[broken, given, DRAWS],
        folds={each.name: [each.ratio.value, each.difference.value, each.difference.low] for each in cifar.methods},
        folds_with_loss={
            each.name: [each.ratio.value, each.difference.value, each.difference.low] for each in loose.methods
        },
        oracle=[cifar.oracle.ratio.value, cifar.oracle.difference.value],
    )


if __name__ == "__main__":
    main()
