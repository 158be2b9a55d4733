"""A plan: the saved answer to "how do I run this model here?", which `edgewise run` executes.

A JSON file. Every field is checked when it is read, and a digest over all of them is inside.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, get_args

from .errors import EdgewiseError, InputError
from .preprocess import parse_preprocess
from .race import Loss, Prefer, Wanted
from .records import from_json, to_json
from .text import parse_placement
from .types import Placement, Scenario

VERSION = 1
# One model on one target; one model laid over several; several models, one of them chosen for each image.
KINDS = ("single", "parallel", "select")
# A plan is small; whatever is larger is something else.
LARGEST_BYTES = 10_000_000
HINT = "make it again: edgewise tune MODEL -o PLAN"


@dataclass(frozen=True, slots=True)
class Source:
    """Where the model is. `file`: the user's own, its path relative to the plan; `beside`: copied beside the plan, by
    its bare name; `built-in`: by its name. `sha256` is of the file, `digest` of the model, with its external data."""

    kind: str
    path: str
    sha256: str
    digest: str


@dataclass(frozen=True, slots=True)
class Planned:
    """The model as it runs: `recipe` and `parent` tell what was made of what. `shapes` are those given for inputs whose
    sizes the model leaves open."""

    label: str
    source: Source
    recipe: str | None = None
    parent: str | None = None
    preprocess: str | None = None
    classes: tuple[str, ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured, and how sure it is: ratios are the other's cost over this one's, each with a 95 % interval.
    None of the `candidates` costs less by a share of more than `gain`, but for the error rate."""

    p50_ns: tuple[float, float, float] | None
    than: str
    ratio: tuple[float, float, float] | None
    runner_up: str | None
    runner_up_ratio: tuple[float, float, float] | None
    candidates: int
    gain: float
    error_rate: float
    peak_bytes: int | None = None
    loss: Loss | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    version: int
    kind: str
    digest: str
    created: str
    model: Planned
    placement: Placement
    scenario: Scenario
    machine: str
    machine_label: str
    versions: tuple[tuple[str, str], ...]
    wanted: Wanted
    proof: Proof


def sealed(plan: Plan) -> Plan:
    """With the digest of all its other fields."""
    return replace(plan, digest=digest(to_json(plan)))


def dumps(plan: Plan) -> str:
    return json.dumps(to_json(plan), indent=1, ensure_ascii=False) + "\n"


def loads(text: str, name: str) -> Plan:
    """The plan in `text`; `name` is the file's, for messages."""
    return record(opened(text, name), name)


def opened(text: str, name: str) -> dict[str, Any]:
    """The fields of a plan of any kind, once they are found to be those that were written."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{name} is not a plan: it is no JSON", HINT) from None
    if not isinstance(found, dict) or not {"version", "kind", "digest"} <= set(found):
        raise InputError(f"{name} is not a plan: it lacks version, kind or digest", HINT)
    if found["version"] != VERSION:
        raise InputError(f"{name} is a plan of version {found['version']!r}; this edgewise reads {VERSION}", HINT)
    if found["kind"] not in KINDS:
        raise InputError(f"{name} is a plan of kind {found['kind']!r}; this edgewise runs {', '.join(KINDS)}", HINT)
    if found["digest"] != digest(found):
        raise InputError(f"{name} was changed after it was written: its digest does not fit what is in it", HINT)
    return found


def record(fields: Mapping[str, Any], name: str) -> Plan:
    """The plan of one model that `opened` found; one of several is a `core.chooser`."""
    if fields["kind"] == "select":
        raise InputError(f"{name} is a plan of several models; expected one of a single model", HINT)
    try:
        plan = from_json(Plan, fields)
        _check(plan)
    except EdgewiseError as error:
        raise InputError(f"{name} is not a plan: {error.message}", HINT) from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{name} is not a plan: {error}", HINT) from None
    return plan


def digest(fields: Mapping[str, Any]) -> str:
    """Over everything but itself, in one spelling."""
    rest = {key: value for key, value in fields.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _check(plan: Plan) -> None:
    """What `from_json` takes on trust: the types of plain values, and what they may be."""
    proof = plan.proof
    texts = {
        "created": plan.created,
        "machine": plan.machine,
        "machine_label": plan.machine_label,
        "than": proof.than,
    }
    for field, value in texts.items():
        require(isinstance(value, str), f"{field} is {value!r}, expected a text")
    check_model(plan.model)
    require(all(isinstance(text, str) for pair in plan.versions for text in pair), "versions are texts")
    require(plan.wanted.prefer in get_args(Prefer), f"unknown preference {plan.wanted.prefer!r}")
    numbers = [*(proof.p50_ns or ()), *(proof.ratio or ()), *(proof.runner_up_ratio or ()), proof.error_rate]
    for value in (*numbers, proof.gain, proof.candidates):
        finite = isinstance(value, (int, float)) and math.isfinite(value)
        require(finite, f"{value!r} is no number")
    alone = parse_placement(str(plan.placement)).kind == "single"
    require(alone == (plan.kind == "single"), f"the placement {plan.placement} is none of a {plan.kind} plan")


def check_model(model: Planned) -> None:
    source = model.source
    for field, value in (("label", model.label), ("path", source.path)):
        require(isinstance(value, str), f"{field} is {value!r}, expected a text")
    check_hexadecimal("sha256", source.sha256, 64)
    check_hexadecimal("digest", source.digest, 32)
    require(source.kind in ("file", "beside", "built-in"), f"a model from {source.kind!r} is not known")
    require(bool(source.path) and "\0" not in source.path, f"the path {source.path!r} is none")
    if source.kind == "beside":
        bare = PurePath(source.path).name == source.path and source.path not in (".", "..") and "\\" not in source.path
        require(bare, f"its model {source.path!r} is not beside it")
    if source.kind == "file":
        require(not PurePath(source.path).is_absolute(), f"its model {source.path!r} is not relative to it")
    if model.preprocess is not None:
        parse_preprocess(model.preprocess)
    for text in (model.recipe, model.parent):
        require(text is None or isinstance(text, str), f"recipe and parent are texts, found {text!r}")
    require(all(isinstance(name, str) for name in model.classes), "classes are texts")
    for name, shape in model.shapes:
        whole = isinstance(name, str) and all(isinstance(size, int) and size > 0 for size in shape)
        require(whole, f"the shape of {name!r} is {shape!r}")


def require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)


def check_hexadecimal(field: str, value: Any, length: int) -> None:
    good = isinstance(value, str) and len(value) == length and set(value) <= set("0123456789abcdef")
    require(good, f"{field} is {value!r}, expected {length} hexadecimal digits")
