"""Everything that is known about some models on some machines: what every analysis draws from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.evaluation import Evaluation
from ..core.front import Front
from ..core.mix import Mix
from ..core.profile import Profile
from ..core.race import Race
from ..core.roofs import Roofs, Traffic
from ..core.selected import Selected
from ..core.support import Support
from ..core.types import Failure, Finding, Machine, Measurement, Model, Section
from ..core.ways import Ways
from ..model.cost import Cost


@dataclass(frozen=True, slots=True)
class Costed:
    """What a model costs, counted at one batch size."""

    subject: str
    label: str
    batch: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class Evidence:
    """`measurements` were taken alone, the newest of each task, machine and engine version. `costs` and `models` are by
    the subject's digest, `published` (top-1 as a share, from the paper) by the model's label. `unfinished` names what
    was begun and is in none of them: a budget or an interruption ended it, or it is being measured."""

    machines: Mapping[str, Machine] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()
    failures: tuple[Failure, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    profiles: tuple[Profile, ...] = ()
    supports: tuple[Support, ...] = ()
    roofs: tuple[Roofs, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    races: tuple[Race, ...] = ()
    ways: tuple[Ways, ...] = ()
    costs: Mapping[str, Costed] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    mixes: tuple[Mix, ...] = ()
    fronts: tuple[Front, ...] = ()
    selected: tuple[Selected, ...] = ()


def absent(title: str, what: str, command: str) -> Section:
    """The section of an analysis that has nothing to draw: what is missing, and the command that gets it."""
    return Section(title, (), (), (Finding("absent", "note", title, (("what", what), ("command", command))),))
