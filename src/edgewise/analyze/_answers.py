"""Whether a measurement's answers can be trusted: what is known of their accuracy, and what speaks against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ..core import stats
from ..core.evaluation import Evaluation
from ..core.types import PRECISIONS, Measurement, Scalar, Target
from . import trust
from .accuracy import Outcome, paired
from .evidence import Evidence


@dataclass(frozen=True)
class Answer:
    """`kind`: in the model's own precision (own), asked about the same images as that (paired), about some (alone),
    compared with the reference on made-up input (agreement), or nothing is known."""

    precision: str
    kind: Literal["own", "paired", "alone", "agreement", "nothing"]
    error: float | None = None
    pair: stats.Discordance | None = None
    images: int = 0
    data: str = ""

    @property
    def values(self) -> dict[str, Scalar]:
        """For a finding."""
        low, high = self.pair.interval if self.pair else (None, None)
        return {
            "precision": self.precision,
            "known": self.kind,
            "difference": self.pair.difference if self.pair else None,
            "low": low,
            "high": high,
            "images": self.images,
            "data": self.data,
            "error": self.error,
        }


def answer(measurement: Measurement, evidence: Evidence) -> Answer:
    model = evidence.models.get(measurement.task.subject)
    own = model.precision if model else "fp32"
    used = _lowest(measurement.task.placement.targets, own)
    error = max((start.agreement.error for start in measurement.starts if start.agreement), default=None)
    if used == own:
        return Answer(used, "own", error)
    asked = [e for e in evidence.evaluations if e.complete and e.subject == measurement.task.subject]
    this = [e for e in asked if _decides(e.placement.targets) == _decides(measurement.task.placement.targets)]
    exact = [e for e in asked if _lowest(e.placement.targets, own) == own]
    pairs = [(base, each) for each in this for base in exact if base.data == each.data]
    if pairs:
        base, each = max(pairs, key=lambda pair: _closeness(pair[0], pair[1], measurement))
        return Answer(used, "paired", error, _discordance(base, each), each.images, each.data_label)
    if this:
        return Answer(used, "alone", error, None, this[-1].images, this[-1].data_label)
    return Answer(used, "nothing" if error is None else "agreement", error)


def doubt(measurement: Measurement, known: Answer, max_loss: float) -> tuple[str, float | None] | None:
    """Why it should not be recommended: wrong answers, none at all, a loss beyond `max_loss` that chance does not
    explain, more error than its precision explains that nobody has looked into. None: nothing speaks against it."""
    if any("nothing was computed" in start.ran.notes for start in measurement.starts):
        return "nothing", None
    if trust.wrong(measurement):
        return "wrong", None
    if known.pair:
        return ("loss", known.pair.difference) if known.pair.interval[1] < -max_loss else None
    if known.error is not None and known.error > trust.EXPLAINED_ERROR[known.precision]:
        return "unproven", None
    return None


def _lowest(targets: Sequence[Target], own: str) -> str:
    """The lowest precision used anywhere, the model's own among them."""
    return max([own, *(target.precision or own for target in targets)], key=PRECISIONS.index)


def _decides(targets: Sequence[Target]) -> list[tuple[object, ...]]:
    """What decides about answers: not the number of threads, nor the cores they sit on."""
    return [(target.engine, target.device, target.precision, target.options) for target in targets]


def _closeness(base: Evaluation, own: Evaluation, measurement: Measurement) -> tuple[bool, bool, int]:
    """Asked on this machine, compared with the same engine, about many images."""
    engines = [[target.engine for target in each.placement.targets] for each in (base, own)]
    return own.machine == measurement.machine, engines[0] == engines[1], own.images


@lru_cache(maxsize=256)
def _discordance(first: Evaluation, second: Evaluation) -> stats.Discordance:
    return paired(Outcome.of(first), Outcome.of(second))
