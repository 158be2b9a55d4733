"""Evidence out of stores: the newest of everything, over several machines."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

from ..analyze.evidence import Costed, Evidence
from ..core.errors import StoreError
from ..core.evaluation import Evaluation
from ..core.profile import Profile
from ..core.race import Race
from ..core.roofs import Roofs, Traffic
from ..core.support import Support
from ..core.types import Failure, Machine, Measurement, Model, Result
from ..store.db import Store
from ..store.evaluations import Evaluations
from ..store.kept import Kept
from ..zoo.catalog import CATALOG

# Results measured alone come before those of a race, where a search gave the target only as long as it needed.
_STUDIES = ("bench", "race")
Versions = tuple[tuple[str, str], ...]


class _Newest:
    """Results by task, machine and versions: the newest measured alone, or else in a race; the newest failure."""

    def __init__(self) -> None:
        self._measured: dict[Hashable, dict[str, tuple[int, Measurement]]] = {}
        self._failed: dict[Hashable, tuple[int, str, Failure]] = {}

    def add(self, study: str, created_ns: int, versions: Versions, result: Result) -> None:
        key = (result.task.digest, result.machine, versions)
        if isinstance(result, Failure):
            if created_ns >= self._failed.get(key, (0,))[0]:
                self._failed[key] = (created_ns, study, result)
            return
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
        in_order = sorted(failed.values(), key=lambda each: each[0])
        return tuple(m for _, m in measured), tuple(failure for _, _, failure in in_order)


def gather(paths: Sequence[str]) -> Evidence:
    """What the stores hold together. Of the same thing in several, the newest counts, or that of the later store."""
    machines: dict[str, Machine] = {}
    models: dict[str, Model] = {}
    results, answers = _Newest(), _Newest()
    evaluations: dict[Hashable, tuple[int, Evaluation]] = {}
    kept = _KeptOf()
    for path in dict.fromkeys(str(Path(path)) for path in paths):
        with Store(path, create=False) as store:
            machines |= store.machines()
            models |= store.models()
            _results(store, results)
            for number, created_ns, status, record in Evaluations(store).all():
                _evaluation(store, (number, created_ns, status, record), evaluations, answers)
            kept.add(Kept(store))
    measurements, failures = results.settle()
    newest = sorted(evaluations.values(), key=lambda pair: pair[0])
    evidence = Evidence(
        machines,
        models,
        measurements,
        failures + answers.settle()[1],
        tuple(evaluation for _, evaluation in newest),
        tuple(kept.profiles.values()),
        tuple(kept.supports.values()),
        tuple(kept.roofs.values()),
        tuple(kept.traffic.values()),
        tuple(kept.races.values()),
        kept.costs,
        _published([m.label for m in measurements] + [e.label for _, e in newest] + [m.label for m in models.values()]),
    )
    if not (measurements or newest or evidence.profiles or evidence.supports or evidence.roofs):
        _refuse(paths, failures)
    return evidence


def _results(store: Store, into: _Newest) -> None:
    with store.guard():
        rows = store.connection.execute("SELECT id, versions FROM results").fetchall()
    versions = {row["id"]: _versions(row["versions"]) for row in rows}
    for study in _STUDIES:
        for number, created_ns, status, result in store.results(study):
            if status in ("complete", "failed"):
                into.add(study, created_ns, versions.get(number, ()), result)


def _evaluation(
    store: Store,
    found: tuple[int, int, str, Evaluation | Failure],
    into: dict[Hashable, tuple[int, Evaluation]],
    failures: _Newest,
) -> None:
    number, created_ns, status, record = found
    if isinstance(record, Failure):
        with store.guard():
            row = store.connection.execute("SELECT versions FROM evaluations WHERE id = ?", (number,)).fetchone()
        failures.add("bench", created_ns, _versions(row["versions"]), record)
    elif status == "complete" and record.answered:
        key = (record.subject, record.placement, record.machine, record.versions, record.data, record.preprocess)
        if created_ns >= into.get(key, (0,))[0]:
            into[key] = (created_ns, record)


def _versions(text: str) -> Versions:
    return tuple((name, version) for name, version in json.loads(text))


class _KeptOf:
    """Kept records by what they are about: one store's newer one already took the place of its older one."""

    def __init__(self) -> None:
        self.profiles: dict[Hashable, Profile] = {}
        self.supports: dict[Hashable, Support] = {}
        self.roofs: dict[Hashable, Roofs] = {}
        self.traffic: dict[Hashable, Traffic] = {}
        self.races: dict[Hashable, Race] = {}
        self.costs: dict[str, Costed] = {}

    def add(self, kept: Kept) -> None:
        for p in kept.all("profile", Profile):
            self.profiles[p.task.digest, p.machine, p.versions] = p
        for s in kept.all("support", Support):
            self.supports[s.subject, s.placement, s.machine, s.versions] = s
        for r in kept.all("roofs", Roofs):
            self.roofs[r.machine, r.device, r.threads] = r
        for t in kept.all("traffic", Traffic):
            self.traffic[t.subject, t.placement, t.scenario, t.machine, t.source] = t
        for race in kept.all("race", Race):
            self.races[race.label, race.machine, race.wanted] = race
        for c in kept.all("cost", Costed):
            # By subject: the smallest batch, nearest to what one inference costs.
            if c.subject not in self.costs or c.batch <= self.costs[c.subject].batch:
                self.costs[c.subject] = c


def _published(labels: Iterable[str]) -> dict[str, float]:
    """Top-1 as a share, of the networks whose accuracy was published."""
    found = {label: CATALOG[label].accuracy for label in labels if label in CATALOG}
    return {label: accuracy[0] / 100 for label, accuracy in found.items() if accuracy}


def _refuse(paths: Sequence[str], failures: Sequence[Failure]) -> None:
    where = ", ".join(paths)
    hint = f"edgewise bench MODEL --save {paths[0] if paths else 'lab.db'}"
    if failures:
        count = "its one result" if len(failures) == 1 else f"all {len(failures)} results"
        raise StoreError(f"{where} has nothing to report: {count} failed, the last with: {failures[-1].message}", hint)
    raise StoreError(f"{where} has nothing to report: no complete measurement, evaluation or profile", hint)
