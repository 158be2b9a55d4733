"""Choosing between models: what every candidate answers and costs, a policy fitted on it, and what it would come to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analyze.chosen import apart, skipped
from ..core import registry
from ..core.choice import Candidate, Guarantee, Selection
from ..core.chooser import OBJECTIVES, Outcome
from ..core.errors import EdgewiseError, InputError, StoreError, rebuild
from ..core.preprocess import parse_preprocess
from ..core.records import to_json
from ..core.types import Failure, Finding
from ..data import arrays, open_dataset
from ..measure import isolate
from ..measure.accuracy import Exam
from ..measure.answering import adds_up
from ..measure.energy import Metered
from ..measure.rows import rows
from ..select import drift, methods, risk
from ..select.chain import spent
from ..select.deciding import deciding_ns
from ..select.evaluate import Fit, evaluate
from ..select.features import NAMES
from ..select.features.reduce import PIXELS
from ..select.folds import halves
from ..select.methods import Method
from ..select.policies import cascade, single
from ..select.policy import Policy, looking_ns
from ..select.search import forms
from ..select.table import Scores, Table
from ..store.db import Store
from . import home
from .company import company
from .contenders import FEWEST, Contender, refuse_other_classes
from .images import digest
from .prices import Price, prices, some
from .scores import Scored, gather

# Of the images, the share that a policy is fitted on where others are to show what it is worth.
_FITTED_SHARE = 0.5
_FEATURES_S = 3600.0
_LOOKING_S = 600.0
# Changes whenever features of the same image are others.
_FEATURES = 2
_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for. `method` is as `select.methods` reads it; `max_loss` is how much less often right than the
    best candidate alone, as a share of all images; `risk` is how often more than that may be lost, None where nothing
    is to be promised."""

    method: str = "cascade"
    objective: str = "time"
    max_loss: float = 0.0
    risk: float | None = None
    top: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """An image that was passed over: its file, or its number, and why."""

    image: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """`table` is of `contenders`, in their order, on the images of `indices`; `probabilities` says whose outputs are
    that already. `apart`: why they were not tried in one process, where they were not. A chooser between some of them
    may work all the same, and is taken for as quick as they are by themselves."""

    table: Table
    contenders: tuple[Contender, ...]
    probabilities: tuple[bool, ...]
    indices: tuple[int, ...]
    skipped: tuple[Skipped, ...]
    failures: tuple[Failure, ...]
    apart: str = ""

    @property
    def exam(self) -> Exam:
        return self.contenders[0].exam

    @property
    def findings(self) -> list[Finding]:
        reason = self.skipped[0].reason if self.skipped else ""
        label, names = self.exam.label, [each.image for each in self.skipped]
        return [*skipped(label, names, reason, len(self.exam.indices)), *apart(label, self.apart)]


@dataclass(frozen=True, slots=True)
class Fitted:
    policy: Policy
    outcome: Outcome
    guarantee: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """Who hears how far it is: of the images of one candidate, and of turns on the clock."""

    asked: Callable[[str, int, int], None] = lambda who, count, done: None
    priced: Callable[[int, int], None] = lambda start, turn: None


def check(wish: Wish) -> ModuleType:
    """The module of the method, once what was asked for makes sense."""
    method = methods.parse(wish.method)
    if wish.objective not in OBJECTIVES:
        raise InputError(f"--objective is one of {', '.join(OBJECTIVES)}, found {wish.objective!r}")
    if not 0 <= wish.max_loss < 1:
        raise InputError(f"--max-loss is a number of points from 0 to below 100, found {wish.max_loss * 100:g}")
    if wish.risk is not None and not 0 < wish.risk < 1:
        raise InputError(f"--risk is a probability between 0 and 1, found {wish.risk:g}", "--risk 0.05")
    if wish.top < 1:
        raise InputError(f"--top is at least 1, found {wish.top}")
    return method.module


def refuse_unknown_costs(table: Table, objective: str) -> None:
    """What nothing measured cannot be saved."""
    for candidate in table.candidates:
        if objective == "energy" and candidate.energy_uj is None:
            raise InputError(
                f"there is no energy meter here that covers every candidate: that of {candidate.name} is not known",
                "--objective time",
            )
        if objective == "memory" and candidate.memory_bytes is None:
            raise InputError(f"the memory of {candidate.name} is not known here", "--objective time")


def uses_features(module: ModuleType) -> bool:
    """Whether a method looks at images itself: then it has an option that says at what."""
    return "features" in inspect.signature(module.fit).parameters


def gathered(
    contenders: Sequence[Contender],
    failures: Sequence[Failure],
    store: Store | None,
    told: Told,
    *,
    meters: Sequence[Metered] = (),
    features: bool = False,
    pricing: Mapping[str, int] | None = None,
) -> Gathered:
    """Every candidate asked about every image, then all of them priced in turns. One that fails is left out. `pricing`
    are keywords of `prices`."""
    answered = gather(contenders, told.asked)
    scored = [each for each in answered if isinstance(each, Scored)]
    failed = [*failures, *(each for each in answered if isinstance(each, Failure))]
    _refuse_too_few(len(scored), failed)
    wrong = [each.reasons for each in scored]
    kept = [place for place in range(len(wrong[0])) if not any(reasons[place] for reasons in wrong)]
    left_out = _left_out(scored)
    exam = contenders[0].exam
    if not kept:
        first = left_out[0]
        raise InputError(f"none of the {len(wrong[0])} images of {exam.label} can be used: {first.reason}")
    refuse_other_classes([each.contender for each in scored], [each.rows.shape[1] for each in scored])
    labels = open_dataset(exam.data, exam.labels).labels[[exam.indices[place] for place in kept]]
    _refuse_other_labels(scored[0], int(labels.max()))
    indices = tuple(exam.indices[place] for place in kept)
    pictures = some(exam, indices)
    found = prices([each.contender for each in scored], pictures, store, told.priced, meters=meters, **(pricing or {}))
    priced = [(each, price) for each, price in zip(scored, found, strict=True) if isinstance(price, Price)]
    failed += [each for each in found if isinstance(each, Failure)]
    _refuse_too_few(len(priced), failed)
    drawn = [_logarithms(each, kept) for each, _ in priced]
    candidates = tuple(_candidate(each.contender, price) for each, price in priced)
    table = Table(candidates, labels, tuple(logs for logs, _ in drawn))
    left = tuple(each.contender for each, _ in priced)
    known = tuple(each for _, each in drawn)
    alone = ""
    own = [candidate.run_ns + candidate.prepare_ns for candidate in candidates]
    stands = forms([candidate.model for candidate in candidates], own, table.right())
    try:
        table = replace(table, company=company(left, table.classes, known, pictures, stands=stands))
    except EdgewiseError as error:
        alone = error.message
    if features:
        table = _with_features(table, exam, indices)
    return Gathered(table, left, known, indices, left_out, tuple(failed), alone)


def _logarithms(scored: Scored, kept: Sequence[int]) -> tuple[Scores, bool]:
    """Rows for a table, and whether what came out were probabilities; some at a time: they are doubled on the way."""
    offset = parse_preprocess(scored.contender.exam.preprocess).label_offset
    parts = [scored.rows[kept[first : first + _AT_ONCE]] for first in range(0, len(kept), _AT_ONCE)]
    known = all(adds_up(part.astype(np.float64)) for part in parts)
    return np.concatenate([rows(part, probabilities=known, offset=offset) for part in parts]), known


def _refuse_too_few(left: int, failures: Sequence[Failure]) -> None:
    if left >= FEWEST:
        return
    if not failures:
        raise InputError("there is nothing to choose between: fewer than two candidates are left")
    first = failures[0]
    where = f"{first.label} on {first.task.placement}"
    raise rebuild({"error": first.error, "message": f"{where}: {first.message}", "hint": first.hint})


def _left_out(scored: Sequence[Scored]) -> tuple[Skipped, ...]:
    exam = scored[0].contender.exam
    files = getattr(open_dataset(exam.data, exam.labels), "files", None)
    found = []
    for place, index in enumerate(exam.indices):
        reason = next((each.reasons[place] for each in scored if each.reasons[place]), "")
        if reason:
            found.append(Skipped(str(files[index]) if files else f"image {index}", reason))
    return tuple(found)


def _refuse_other_labels(first: Scored, largest: int) -> None:
    exam = first.contender.exam
    outputs = first.rows.shape[1] - parse_preprocess(exam.preprocess).label_offset
    if largest >= outputs:
        raise InputError(
            f"{exam.label} has the class {largest}, and {first.contender.model.label} has {outputs} classes",
            "name the classes in the order of the model's outputs: --labels names.txt",
        )


def _candidate(contender: Contender, price: Price) -> Candidate:
    return Candidate(
        contender.model.label,
        contender.model.digest,
        contender.target,
        contender.exam.preprocess,
        price.run_ns,
        price.prepare_ns,
        price.memory_bytes,
        price.energy_uj,
    )


def _with_features(table: Table, exam: Exam, indices: Sequence[int]) -> Table:
    """What images look like is kept: they themselves are in the name. What it takes to see that is measured each time,
    as all that is compared with it is."""
    path = home.cache() / f"{digest(_FEATURES, exam.digest, tuple(indices))}-features.npz"
    found = _features(path, len(indices))
    if found is None:
        isolate.call(
            "edgewise.select.extracting:save",
            timeout_s=_FEATURES_S,
            data=exam.data,
            labels=exam.labels,
            indices=list(indices),
            path=str(path),
        )
        found = _features(path, len(indices))
    if found is None:
        raise StoreError(f"{path} cannot be read back", "set XDG_CACHE_HOME to a folder that keeps what is written")
    home.used(path)
    shown = some(exam, indices)
    taken = isolate.call(
        "edgewise.select.extracting:taken_ns",
        timeout_s=_LOOKING_S,
        data=shown.data,
        labels=shown.labels,
        indices=list(shown.indices),
    )
    return replace(table, features=found[0], thumbnails=found[1], looking_ns=taken)


def _features(path: Path, images: int) -> tuple[NDArray[np.float64], NDArray[np.uint8]] | None:
    """None where there are none, or a broken file: then they are found again."""
    try:
        # Opened here: numpy leaves a file that is broken open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            rows, thumbnails = file["rows"], file["thumbnails"]
    except (*arrays.BROKEN, KeyError):
        return None
    fits = (rows.shape, thumbnails.shape) == ((images, len(NAMES)), (images, PIXELS))
    return (rows, thumbnails) if fits else None


def fit(table: Table, wish: Wish) -> Fitted:
    """The policy that was asked for, and what it comes to on the images it was fitted on. With a risk, it is fitted on
    some of them and adjusted on the others, so that what is promised is not what was hoped."""
    check(wish)
    refuse_unknown_costs(table, wish.objective)
    method = methods.parse(wish.method)
    if wish.risk is None:
        policy = _fitted(table, method, wish)
        return Fitted(policy, outcome(policy, table, wish))
    fitting, showing = (table.rows(part) for part in halves(table.labels, _FITTED_SHARE, wish.seed))
    best = single.fit(fitting, objective=wish.objective, top=wish.top).candidate
    policy, guarantee = _controlled(method, fitting, showing, best, wish, wish.risk)
    promised: dict[str, Any] = to_json(guarantee) | {"reference": table.candidates[best].name}
    if guarantee.images:
        # What the promise rests on is kept, so that whoever runs it notices when images are no longer like these.
        seen = policy.replay(showing, top=wish.top)
        signals = [drift.signal(int(ran.sum()), sure) for ran, sure in zip(seen.ran, seen.confidence, strict=True)]
        promised["monitor"] = drift.Monitor(signals, seed=wish.seed).saved()
    return Fitted(policy, outcome(policy, table, wish), promised)


def _controlled(
    method: Method, fitting: Table, showing: Table, reference: int, wish: Wish, delta: float
) -> tuple[Policy, Guarantee]:
    """Which policies are tried, and in which order, comes from the images of fitting alone."""
    adjustable: Any = _fitted(fitting, method, wish)
    if not hasattr(adjustable, "raised"):
        raise InputError(f"the risk of {method.name} cannot be controlled: it has no threshold", "--method cascade")
    tried = risk.family(
        adjustable,
        fitting,
        reference=reference,
        epsilon=wish.max_loss,
        delta=delta,
        objective=wish.objective,
        top=wish.top,
    )
    return risk.controlled(
        tried,
        showing,
        reference=reference,
        epsilon=wish.max_loss,
        delta=delta,
        objective=wish.objective,
        top=wish.top,
    )


def _promised(table: Table, method: Method, wish: Wish, delta: float) -> Policy:
    fitting, showing = (table.rows(part) for part in halves(table.labels, _FITTED_SHARE, wish.seed))
    best = single.fit(fitting, objective=wish.objective, top=wish.top).candidate
    return _controlled(method, fitting, showing, best, wish, delta)[0]


def _fitted(table: Table, method: Method, wish: Wish) -> Policy:
    """With the method's own options, and with those of all that it has."""
    options = {"objective": wish.objective, "max_loss": wish.max_loss, "top": wish.top, "seed": wish.seed}
    fit = method.module.fit
    known = inspect.signature(fit).parameters
    policy: Policy = fit(table, **{name: value for name, value in options.items() if name in known}, **method.options)
    return policy


def evaluated(table: Table, wish: Wish, folds: int) -> Selection:
    """Every method there is, on images held out from its fitting, beside every candidate and the oracle. A method that
    looks at images is left out where `table` has no features. Beside the cascade that is searched stand those that
    others build, the method of `wish` with the options it was given, and, where there is a risk, the one that its
    promise leaves."""
    asked = methods.parse(wish.method)
    fits: dict[str, Fit] = {}
    for name in registry.names(methods.PACKAGE):
        plain = methods.parse(name)
        if name != single.Single.kind and (table.features is not None or not uses_features(plain.module)):
            fits[name] = partial(_fitted, method=plain, wish=wish)
    for how in ("greedy", "plain"):
        fits[f"cascade, {how}"] = partial(_fitted, method=methods.parse(f"cascade(how={how})"), wish=wish)
    if asked.written:
        fits[str(asked)] = partial(_fitted, method=asked, wish=wish)
    if wish.risk is not None:
        promised = asked if asked.module is cascade else methods.parse("cascade")
        fits[f"{promised}, promised"] = partial(_promised, method=promised, wish=wish, delta=wish.risk)
    return evaluate(
        table,
        fits,
        objective=wish.objective,
        top=wish.top,
        max_loss=wish.max_loss,
        count=folds,
        seed=wish.seed,
        timed=wish.objective == "time",
    )


def outcome(policy: Policy, table: Table, wish: Wish) -> Outcome:
    """Replayed on `table`, beside the best candidate alone, which may lose as much as the policy may."""
    objective, top = wish.objective, wish.top
    replayed = policy.replay(table, top=top)
    cost = float(spent(table, policy.candidates, replayed.ran, objective).mean())
    deciding = deciding_ns(policy, table) + looking_ns(policy, table)
    if objective == "time":
        cost += deciding
    each = np.eye(len(table.candidates), dtype=np.bool_)
    costs = table.costs(each, objective)
    accuracies = table.right(top).mean(axis=0)
    best = single.fit(table, objective=objective, max_loss=wish.max_loss, top=top).candidate
    return Outcome(
        objective,
        top,
        float(replayed.right.mean()),
        cost,
        best,
        float(accuracies[best]),
        float(costs[best]),
        tuple(float(share) for share in replayed.ran.mean(axis=0)),
        tuple(float(share) for share in accuracies),
        tuple(float(value) for value in costs),
        float((replayed.last < 0).mean()),
        deciding,
    )
