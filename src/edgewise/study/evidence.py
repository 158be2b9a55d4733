"""Evidence out of stores: the newest of everything, over several machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from ..analyze.evidence import Costed, Evidence
from ..analyze.scaling import NOT_TRIED
from ..core.errors import StoreError
from ..core.evaluation import Evaluation
from ..core.front import Front
from ..core.mix import Mix
from ..core.profile import Profile
from ..core.race import Race
from ..core.roofs import Roofs, Traffic
from ..core.selected import Selected
from ..core.support import Support
from ..core.types import Failure, Machine, Measurement, Model, Result
from ..core.ways import Ways
from ..store.db import Store
from ..store.evaluations import Evaluations
from ..store.kept import Kept
from ..zoo.catalog import CATALOG

# Results measured alone come before those of a race, where a search gave the target only as long as it needed.
_STUDIES = ("bench", "race")
Versions = tuple[tuple[str, str], ...]
R = TypeVar("R")


class _Newest:
    """Results by task, machine and versions: the newest measured alone, or else in a race; the newest failure.

    What failed before an engine was asked has no versions, and counts until any version has measured it.
    """

    def __init__(self) -> None:
        self._measured: dict[Hashable, dict[str, tuple[int, Measurement]]] = {}
        self._failed: dict[Hashable, tuple[int, str, Failure]] = {}
        self._since: dict[Hashable, int] = {}

    def add(self, study: str, created_ns: int, versions: Versions, result: Result) -> None:
        key = (result.task.digest, result.machine, versions)
        if isinstance(result, Failure):
            if created_ns >= self._failed.get(key, (0,))[0]:
                self._failed[key] = (created_ns, study, result)
            return
        of = (result.task.digest, result.machine)
        self._since[of] = max(created_ns, self._since.get(of, 0))
        mine = self._measured.setdefault(key, {})
        if study not in mine or created_ns >= mine[study][0]:
            mine[study] = (created_ns, result)

    def settle(self) -> tuple[tuple[Measurement, ...], tuple[Failure, ...]]:
        """A failure counts where nothing was measured since; one in a race does not undo what was measured alone."""
        measured: list[tuple[int, Measurement]] = []
        failed = dict(self._failed)
        for key, found in self._measured.items():
            study = next(study for study in _STUDIES if study in found)
            created_ns, measurement = found[study]
            failure = failed.get(key)
            if failure and (failure[0] < created_ns or (study, failure[1]) == _STUDIES):
                del failed[key]
                failure = None
            if not failure:
                measured.append((created_ns, measurement))
        measured.sort(key=lambda pair: pair[0])
        in_order = sorted((each for key, each in failed.items() if not self._outdone(key)), key=lambda each: each[0])
        return tuple(m for _, m in measured), tuple(failure for _, _, failure in in_order)

    def _outdone(self, key: Hashable) -> bool:
        """Of failures without a version: whether it was measured since, or ever where this time it was not tried."""
        created_ns, _, failure = self._failed[key]
        since = self._since.get((failure.task.digest, failure.machine))
        unversioned = isinstance(key, tuple) and not key[2]
        return unversioned and since is not None and (since >= created_ns or failure.stage == NOT_TRIED)


def gather(paths: Sequence[str]) -> Evidence:
    """What the stores hold together. Of the same thing in several, the newest counts."""
    machines: dict[str, Machine] = {}
    models: dict[str, Model] = {}
    results, answers, kept = _Newest(), _Answers(), _KeptOf()
    begun: dict[Hashable, str] = {}
    for path in dict.fromkeys(str(Path(path)) for path in paths):
        with Store(path, create=False) as store, _at_once(store):
            machines |= store.machines()
            models |= store.models()
            _results(store, results, begun)
            answers.add(store)
            kept.add(Kept(store))
    measurements, failures = results.settle()
    known = {(m.task.digest, m.machine) for m in measurements} | {(f.task.digest, f.machine) for f in failures}
    evaluations, unanswered, asked = answers.settle()
    evidence = Evidence(
        machines,
        models,
        measurements,
        failures + unanswered,
        evaluations,
        kept.profiles.all(),
        kept.supports.all(),
        kept.roofs.all(),
        kept.traffic.all(),
        kept.races.all(),
        kept.ways.all(),
        kept.costs,
        _published(
            {m.label for m in measurements} | {e.label for e in evaluations} | {m.label for m in models.values()},
            kept.costs.values(),
        ),
        tuple(name for key, name in begun.items() if key not in known) + asked,
        kept.mixes.all(),
        kept.fronts.all(),
        kept.selected.all(),
    )
    others = (
        evidence.profiles,
        evidence.supports,
        evidence.roofs,
        evidence.ways,
        evidence.mixes,
        evidence.fronts,
        evidence.selected,
    )
    if not (measurements or evaluations or any(others)):
        _refuse(paths, evidence.failures, evidence.unfinished)
    return evidence


@contextmanager
def _at_once(store: Store) -> Iterator[None]:
    """All of it as it is at one moment, though somebody may be writing."""
    with store.guard():
        store.connection.execute("BEGIN")
        try:
            yield
        finally:
            store.connection.execute("ROLLBACK")


def _results(store: Store, into: _Newest, begun: dict[Hashable, str]) -> None:
    with store.guard():
        rows = store.connection.execute("SELECT id, versions FROM results").fetchall()
    versions = {row["id"]: _versions(row["versions"]) for row in rows}
    for study in _STUDIES:
        for number, created_ns, status, result in store.results(study):
            if status in ("complete", "failed"):
                into.add(study, created_ns, versions.get(number, ()), result)
            elif study == "bench":
                name = f"{result.label} on {result.task.placement}, {result.task.scenario}"
                begun[result.task.digest, result.machine] = name


class _Answers:
    """Evaluations by model, target, machine, versions, images and preprocessing: the newest, a failure until then."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[int, Evaluation]] = {}
        self._failed: dict[Hashable, tuple[int, Failure]] = {}
        self._begun: dict[Hashable, str] = {}

    def add(self, store: Store) -> None:
        with store.guard():
            rows = store.connection.execute("SELECT id, versions, data, preprocess FROM evaluations").fetchall()
        asked = {row["id"]: (_versions(row["versions"]), row["data"], row["preprocess"]) for row in rows}
        for number, created_ns, status, record in Evaluations(store).all():
            if isinstance(record, Failure):
                key = (record.task.subject, record.task.placement, record.machine, *asked[number])
                if created_ns >= self._failed.get(key, (0,))[0]:
                    self._failed[key] = (created_ns, record)
                continue
            key = (record.subject, record.placement, record.machine, *asked[number])
            if status != "complete":
                self._begun[key] = f"{record.label} on {record.placement}, {record.data_label}"
            elif record.answered and created_ns >= self._found.get(key, (0,))[0]:
                self._found[key] = (created_ns, record)

    def settle(self) -> tuple[tuple[Evaluation, ...], tuple[Failure, ...], tuple[str, ...]]:
        """What was answered, what failed and was not answered since, what was only begun."""
        found = sorted(self._found.values(), key=lambda pair: pair[0])
        failed = [each for key, each in self._failed.items() if self._found.get(key, (0,))[0] < each[0]]
        failed.sort(key=lambda pair: pair[0])
        begun = tuple(name for key, name in self._begun.items() if key not in self._found)
        return tuple(evaluation for _, evaluation in found), tuple(failure for _, failure in failed), begun


def _versions(text: str) -> Versions:
    return tuple((name, version) for name, version in json.loads(text))


def _profiled(profile: Profile) -> Hashable:
    """How long a load is measured says nothing about a profile, which takes its own time."""
    task, load = profile.task, profile.task.scenario
    return task.subject, task.placement, load.batch, load.input, load.seed, profile.machine, profile.versions


class _Dated(Generic[R]):
    """Records by what they are about, the newest of each."""

    def __init__(self, key: Callable[[R], Hashable]) -> None:
        self._key = key
        self._found: dict[Hashable, tuple[int, R]] = {}

    def add(self, records: Iterable[tuple[int, R]]) -> None:
        for created_ns, record in records:
            key = self._key(record)
            if key not in self._found or created_ns >= self._found[key][0]:
                self._found[key] = (created_ns, record)

    def all(self) -> tuple[R, ...]:
        return tuple(record for _, record in self._found.values())


class _KeptOf:
    """Kept records, the newest of what is about the same; one store's newer one already took the place of its older."""

    def __init__(self) -> None:
        self.profiles = _Dated[Profile](_profiled)
        self.supports = _Dated[Support](lambda s: (s.subject, s.placement, s.machine, s.versions))
        self.roofs = _Dated[Roofs](lambda r: (r.machine, r.device, r.threads))
        self.traffic = _Dated[Traffic](lambda t: (t.subject, t.placement, t.scenario, t.machine, t.source))
        self.races = _Dated[Race](lambda race: (race.label, race.machine, race.wanted))
        self.ways = _Dated[Ways](lambda ways: ways.key)
        self.mixes = _Dated[Mix](lambda mix: (mix.name, mix.machine))
        self.fronts = _Dated[Front](lambda front: front.key)
        self.selected = _Dated[Selected](lambda selected: selected.key)
        self.costs: dict[str, Costed] = {}

    def add(self, kept: Kept) -> None:
        self.profiles.add(kept.dated("profile", Profile))
        self.supports.add(kept.dated("support", Support))
        self.roofs.add(kept.dated("roofs", Roofs))
        self.traffic.add(kept.dated("traffic", Traffic))
        self.races.add(kept.dated("race", Race))
        self.ways.add(kept.dated("ways", Ways))
        self.mixes.add(kept.dated("mix", Mix))
        self.fronts.add(kept.dated("front", Front))
        self.selected.add(kept.dated("selected", Selected))
        for c in kept.all("cost", Costed):
            # By subject: the smallest batch, nearest to what one inference costs.
            if c.subject not in self.costs or c.batch <= self.costs[c.subject].batch:
                self.costs[c.subject] = c


def _published(labels: Iterable[str], costs: Iterable[Costed]) -> dict[str, float]:
    """Top-1 as a share, of the networks whose accuracy was published. A file may carry the name and be another."""
    sizes = {c.label: c.cost.parameters for c in costs if c.label in CATALOG}
    others = {label for label, size in sizes.items() if abs(size / CATALOG[label].parameters - 1) > 0.03}
    found = {label: CATALOG[label].accuracy for label in labels if label in CATALOG and label not in others}
    return {label: accuracy[0] / 100 for label, accuracy in found.items() if accuracy}


def _refuse(paths: Sequence[str], failures: Sequence[Failure], unfinished: Sequence[str]) -> None:
    where = ", ".join(paths)
    hint = f"edgewise bench MODEL --save {paths[0] if paths else 'lab.db'}"
    if failures:
        count = "its one result" if len(failures) == 1 else f"all {len(failures)} results"
        raise StoreError(f"{where} has nothing to report: {count} failed, the last with: {failures[-1].message}", hint)
    begun = f"; {len(unfinished)} begun and not finished" if unfinished else ""
    hint = "the same command again goes on with them (bench and scale: --resume)" if unfinished else hint
    raise StoreError(f"{where} has nothing to report: no complete measurement, evaluation or profile{begun}", hint)
