"""A plan of several models, one of them chosen for each image: what is saved, what opens it, what it answers.

A JSON file, read and sealed as every plan is (`core.plan`); the arrays of its policy are in an .npz beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from .choice import Candidate
from .errors import EdgewiseError, InputError
from .plan import Planned, check_hexadecimal, check_model, digest, require
from .preprocess import parse_preprocess
from .records import from_json, to_json
from .types import Model, Target

OBJECTIVES = ("time", "energy", "memory")
HINT = "make it again: edgewise select fit --models A B --data DATA -o PLAN"


@dataclass(frozen=True, slots=True)
class Member:
    """A candidate and where its model is. `probabilities`: whether its outputs are that already."""

    model: Planned
    candidate: Candidate
    probabilities: bool


@dataclass(frozen=True, slots=True)
class Arrays:
    """A file beside the plan, by its bare name."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The images a policy was fitted on. `data` is what was asked for, a path relative to the plan or a built-in name;
    `digest` is of the images in their order, `dataset` of all there are in the data. Of those, in an order drawn with
    `seed`, the first `held` were held out for calibration, and up to `limit` after them are what it was fitted on."""

    data: str
    built_in: bool
    labels: str | None
    label: str
    digest: str
    images: int
    skipped: int = 0
    dataset: str = ""
    seed: int = 0
    held: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The policy replayed on the images it was fitted on, beside the best candidate alone. A cost is of one image on
    average, in the unit of the objective. `asked` is the share of images each candidate was asked about."""

    objective: str
    top: int
    accuracy: float
    cost: float
    best: int
    best_accuracy: float
    best_cost: float
    asked: tuple[float, ...]
    accuracies: tuple[float, ...]
    costs: tuple[float, ...]
    refused: float = 0.0
    # What looking at an image and deciding takes; part of the cost, where that is time.
    deciding_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Choosing:
    """`policy` names its kind, `fields` and `arrays` are all there is to it. `guarantee` is what can be said of it for
    sure, and opaque here; `max_loss` and `risk` are what was asked for, as shares. `outputs` is how many classes there
    are; `classes` names them, where they have names."""

    version: int
    kind: str
    digest: str
    created: str
    members: tuple[Member, ...]
    outputs: int
    classes: tuple[str, ...]
    policy: str
    fields: dict[str, Any]
    arrays: Arrays | None
    guarantee: dict[str, Any] | None
    max_loss: float
    risk: float | None
    seen: Seen
    outcome: Outcome
    machine: str
    machine_label: str
    versions: tuple[tuple[str, str], ...]
    # As it was asked for, with its options.
    method: str = ""

    @property
    def how(self) -> str:
        """The policy, with the options it was asked for with; where nothing could be promised it is another one."""
        return self.method if self.method.partition("(")[0] == self.policy else self.policy


@dataclass(frozen=True, slots=True)
class Loadable:
    """A candidate as its engine loads it: converted, sizes set."""

    name: str
    model: Model
    target: Target
    preprocess: str
    # None: not known, and seen from what comes out.
    probabilities: bool | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything a process needs to run a chooser. `arrays` is a path, `sha256` what must be in it."""

    members: tuple[Loadable, ...]
    outputs: int
    classes: tuple[str, ...]
    policy: str
    fields: dict[str, Any]
    arrays: str | None = None
    sha256: str | None = None
    guarantee: dict[str, Any] | None = None
    kind: str = "select"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a chooser makes of one image. `label` is None where nobody is trusted with it; `ranked` are the classes from
    the most likely down, with their shares. `model` had the last word, after all of `asked`; `why` says why it had."""

    label: int | None
    name: str
    confidence: float | None
    model: str | None
    asked: tuple[str, ...]
    why: str
    time_ns: int
    ranked: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why there is no answer for an image."""

    error: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """What a candidate takes in memory: what loading it added here or, before that, what it took in its own process."""

    name: str
    loaded: bool
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Live:
    """A chooser run on images one by one, beside what replaying says of the same images. `live_ns` and `replayed_ns`
    are means of one image; costs of candidates were taken in turns with the live run, and what they take in each
    other's company just before it, so both saw the same machine. `planned_ns` is by the costs that the plan was fitted
    with. `same` is the share of images that were answered as replayed, by the same candidates; `alike` of those where
    the same ones were asked. `distinct` images were shown, some of them again."""

    images: int
    live_ns: float
    replayed_ns: float
    planned_ns: float
    same: float
    accuracy: float | None = None
    alike: float | None = None
    distinct: int | None = None

    @property
    def ratio(self) -> float:
        return self.live_ns / self.replayed_ns


def sealed(plan: Choosing) -> Choosing:
    """With the digest of all its other fields."""
    return replace(plan, digest=digest(to_json(plan)))


def dumps(plan: Choosing) -> str:
    return json.dumps(to_json(plan), indent=1, ensure_ascii=False) + "\n"


def record(fields: Mapping[str, Any], name: str) -> Choosing:
    """The plan of several models that `plan.opened` found; `name` is the file's, for messages."""
    try:
        plan = from_json(Choosing, fields)
        _check(plan)
    except EdgewiseError as error:
        raise InputError(f"{name} is not a plan: {error.message}", HINT) from None
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise InputError(f"{name} is not a plan: {error}", HINT) from None
    return plan


def _check(plan: Choosing) -> None:
    """What `from_json` takes on trust: the types of plain values, and what they may be."""
    texts = {
        "created": plan.created,
        "machine": plan.machine,
        "machine_label": plan.machine_label,
        "policy": plan.policy,
        "method": plan.method,
        "data": plan.seen.data,
        "label": plan.seen.label,
        "digest": plan.seen.digest,
        "dataset": plan.seen.dataset,
    }
    for field, value in texts.items():
        require(isinstance(value, str), f"{field} is {value!r}, expected a text")
    labels = plan.seen.labels
    require(labels is None or isinstance(labels, str), f"labels is {labels!r}, expected a text")
    require(len(plan.members) > 0, "it has no candidate")
    for member in plan.members:
        _check_member(member)
    require(_whole(plan.outputs, 2), f"outputs is {plan.outputs!r}, expected the number of classes")
    require(all(isinstance(name, str) for name in plan.classes), "classes are texts")
    for field, opaque in (("fields", plan.fields), ("guarantee", plan.guarantee)):
        require(isinstance(opaque, dict) or (opaque is None and field == "guarantee"), f"{field} is {opaque!r}")
    require(_number(plan.max_loss), f"max_loss is {plan.max_loss!r}, expected a number")
    require(plan.risk is None or _number(plan.risk), f"risk is {plan.risk!r}, expected a number")
    if plan.arrays is not None:
        path = plan.arrays.path
        bare = isinstance(path, str) and PurePath(path).name == path and path not in ("", ".", "..")
        require(bare and "\\" not in path and "\0" not in path, f"its arrays {path!r} are not beside it")
        check_hexadecimal("sha256", plan.arrays.sha256, 64)
    require(all(isinstance(text, str) for pair in plan.versions for text in pair), "versions are texts")
    for field in ("images", "skipped", "seed", "held"):
        count = getattr(plan.seen, field)
        require(_whole(count, 0), f"{field} is {count!r}, expected a number")
    require(plan.seen.limit is None or _whole(plan.seen.limit, 1), f"limit is {plan.seen.limit!r}, expected a number")
    _check_guarantee(plan.guarantee or {})
    _check_outcome(plan.outcome, len(plan.members))


def _check_member(member: Member) -> None:
    check_model(member.model)
    candidate = member.candidate
    for field, value in (("label", candidate.label), ("model", candidate.model)):
        require(isinstance(value, str), f"{field} is {value!r}, expected a text")
    require(
        isinstance(member.probabilities, bool), f"probabilities is {member.probabilities!r}, expected true or false"
    )
    parse_preprocess(candidate.preprocess)
    for cost in (candidate.run_ns, candidate.prepare_ns):
        require(_number(cost) and cost >= 0, f"{cost!r} is no time")
    for found in (candidate.memory_bytes, candidate.energy_uj):
        require(found is None or (_number(found) and found >= 0), f"{found!r} is no cost")


def _check_guarantee(guarantee: Mapping[str, Any]) -> None:
    """What is said of it; the rest of it is for who opens it."""
    for field in ("epsilon", "delta"):
        value = guarantee.get(field, 0.0)
        require(_number(value), f"{field} of its guarantee is {value!r}, expected a number")
    images, reference = guarantee.get("images", 0), guarantee.get("reference", "")
    require(_whole(images, 0), f"images of its guarantee is {images!r}, expected a number")
    require(isinstance(reference, str), f"reference of its guarantee is {reference!r}, expected a text")
    monitor = guarantee.get("monitor")
    require(monitor is None or isinstance(monitor, dict), f"the monitor of its guarantee is {monitor!r}")


def _check_outcome(outcome: Outcome, members: int) -> None:
    require(outcome.objective in OBJECTIVES, f"unknown objective {outcome.objective!r}")
    require(_whole(outcome.top, 1), f"top is {outcome.top!r}, expected a number")
    require(_whole(outcome.best, 0) and outcome.best < members, f"the best candidate is {outcome.best!r}")
    shares = (outcome.accuracy, outcome.best_accuracy, outcome.refused, *outcome.asked, *outcome.accuracies)
    for value in (*shares, outcome.cost, outcome.best_cost, *outcome.costs, outcome.deciding_ns):
        require(_number(value), f"{value!r} is no number")
    for listed in (outcome.asked, outcome.accuracies, outcome.costs):
        require(len(listed) == members, f"{len(listed)} figures are of {members} candidates")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
