"""What a chooser comes to: its candidates, who is asked how often, and what choosing saves beside the best alone."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.chooser import Choosing, Live, Outcome
from ..core.stats.proportions import wilson
from ..core.types import Column, Finding, Section

# How far a live run may be from what replaying says.
AGREES = 0.05
_UNITS = {"time": "ns", "energy": "uj", "memory": "bytes"}
_MOST_NAMES = 3
_PROMISED = ("reference", "epsilon", "delta", "images")


def run(
    plan: Choosing, *, outcome: Outcome | None = None, images: int | None = None, fitted: int | None = None
) -> Section:
    """The candidates and, last, the chooser; on other images than when the plan was made, where `outcome` is of those.
    `fitted`: on how many of them it was fitted, all unless said."""
    told, count = outcome or plan.outcome, plan.seen.images if images is None else images
    fitted = count if fitted is None else fitted
    columns = (
        Column("model"),
        Column("target"),
        Column("accuracy", "accuracy"),
        Column("interval", "accuracy_range", 1),
        Column("cost", _UNITS[told.objective]),
        Column("run", "ns", 2),
        Column("prepare", "ns", 3),
        Column("memory", "bytes", 4),
        Column("energy", "uj", 5),
        Column("asked", "share"),
    )
    rows: list[tuple[object, ...]] = []
    for place, member in enumerate(plan.members):
        candidate, right = member.candidate, told.accuracies[place]
        rows.append(
            (
                candidate.label,
                str(candidate.target),
                right,
                wilson(round(right * count), count),
                told.costs[place],
                candidate.run_ns,
                candidate.prepare_ns,
                candidate.memory_bytes,
                candidate.energy_uj,
                told.asked[place],
            )
        )
    interval = wilson(round(told.accuracy * count), count)
    rows.append((plan.how, "", told.accuracy, interval, told.cost, None, None, None, None, None))
    return Section("Candidates", columns, tuple(rows), tuple(_findings(plan, told, count, fitted)))


def _findings(plan: Choosing, told: Outcome, images: int, fitted: int) -> list[Finding]:
    best = plan.members[told.best].candidate.name
    asked = [place for place, share in enumerate(told.asked) if share > 0]
    found = []
    if len(asked) == 1:
        name = plan.members[asked[0]].candidate.name
        found.append(Finding("chooser_alone", "note", plan.policy, (("name", name), ("images", images))))
    else:
        values = (
            ("best", best),
            ("ratio", told.best_cost / told.cost if told.cost else None),
            ("objective", told.objective),
            ("difference", told.accuracy - told.best_accuracy),
            ("candidates", len(asked)),
        )
        found.append(Finding("chooser_cheaper", "note", plan.policy, values))
    if told.refused:
        found.append(Finding("chooser_refuses", "note", plan.policy, (("share", told.refused),)))
    if plan.guarantee is not None and set(_PROMISED) <= set(plan.guarantee):
        promised = tuple((name, plan.guarantee[name]) for name in _PROMISED)
        found.append(Finding("chooser_promise", "note", plan.policy, promised))
    if fitted:
        found.append(Finding("chooser_fitted", "note", plan.policy, (("images", images), ("fitted", fitted))))
    return found


def skipped(label: str, names: Sequence[str], reason: str, images: int) -> list[Finding]:
    """Images of `label` that were passed over, out of so many; the reason is that of the first."""
    if not names:
        return []
    shown = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    values = (("count", len(names)), ("images", images), ("names", shown), ("reason", reason))
    return [Finding("images_skipped", "caution", label, values)]


def drifted(plan: Choosing, images: int) -> Finding:
    """What was promised does not apply to the last of so many images."""
    return Finding("chooser_drift", "caution", plan.policy, (("images", images),))


def lived(live: Live) -> Finding:
    """Whether a live run bears out what was replayed."""
    values = (
        ("images", live.images),
        ("live_ns", live.live_ns),
        ("replayed_ns", live.replayed_ns),
        ("planned_ns", live.planned_ns),
        ("same", live.same),
        ("alike", live.alike),
        ("distinct", live.distinct),
    )
    if abs(live.ratio - 1) <= AGREES:
        return Finding("live_agrees", "note", "live", values)
    return Finding("live_differs", "caution", "live", values)


def apart(label: str, reason: str) -> list[Finding]:
    """Candidates on `label` that were not tried in one process, and why; no reason: they were."""
    return [Finding("priced_apart", "caution", label, (("reason", reason),))] if reason else []
