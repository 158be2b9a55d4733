"""Evidence from stores: the newest of everything, measured alone before raced, over several machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.analyze.evidence import Costed
from edgewise.core.errors import EdgewiseError, StoreError
from edgewise.core.evaluation import Answers, Evaluation
from edgewise.core.profile import Profile
from edgewise.core.roofs import Roof, Roofs
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import Cluster, Failure, Machine, Ran, Round, Start, Task
from edgewise.model.cost import Cost
from edgewise.store.db import Store
from edgewise.store.evaluations import Evaluations
from edgewise.store.kept import Kept
from edgewise.study.evidence import gather

OLD, NEW = (("engine", "1.0"),), (("engine", "2.0"),)


def task(target: str = "null:cpu", label: str = "resnet50") -> Task:
    return Task(f"digest of {label}", parse_placement(target), parse_scenario("single"))


def machine(name: str) -> Machine:
    return Machine(name, f"machine {name}", "Linux", "a CPU", (), (Cluster("cpu", (0,)),))


def put(
    store: Store,
    sample_ns: int | None,
    *,
    of: Task | None = None,
    study: str = "bench",
    on: str = "m",
    versions: tuple[tuple[str, str], ...] = OLD,
    finish: bool = True,
) -> None:
    """A measurement of one sample, or where there is none a failure."""
    of = of or task()
    store.save_machine(machine(on))
    number = store.begin(of, on, versions, "", "resnet50", study)
    if sample_ns is None:
        store.finish(number, Failure.of(StoreError("told to fail"), of, on, "load", "resnet50"))
        return
    store.add(number, Start(0, 1, 1, None, Ran()))
    store.add(number, Round(0, False, 0, sample_ns, (sample_ns,)))
    if finish:
        store.finish(number)


def found(*paths: Path) -> tuple[list[int], list[str]]:
    evidence = gather([str(path) for path in paths])
    return [m.samples_ns[0] for m in evidence.measurements], [f.message for f in evidence.failures]


def test_the_newest_counts_for_each_version(tmp_path: Path) -> None:
    with Store(tmp_path / "a.db") as store:
        put(store, 1)
        put(store, 2)
        put(store, 3, versions=NEW)
        put(store, 4, finish=False)
        put(store, 5, study="compare")
    assert found(tmp_path / "a.db") == ([2, 3], [])


def test_measured_alone_goes_before_raced(tmp_path: Path) -> None:
    with Store(tmp_path / "a.db") as store:
        put(store, 1)
        put(store, 2, study="race")
        put(store, 3, of=task("null:npu"), study="race")
    assert found(tmp_path / "a.db") == ([1, 3], [])


def test_a_failure_counts_until_it_was_measured_since(tmp_path: Path) -> None:
    with Store(tmp_path / "a.db") as store:
        put(store, None)
        put(store, 1)
        put(store, 2, of=task("null:npu"))
        put(store, None, of=task("null:npu"))
    assert found(tmp_path / "a.db") == ([1], ["told to fail"])


def test_a_failure_in_a_race_does_not_undo_what_was_measured_alone(tmp_path: Path) -> None:
    with Store(tmp_path / "a.db") as store:
        put(store, 1)
        put(store, None, study="race")
    assert found(tmp_path / "a.db") == ([1], [])


def test_a_failure_of_another_version_stands_beside_what_was_measured(tmp_path: Path) -> None:
    with Store(tmp_path / "a.db") as store:
        put(store, 1)
        put(store, None, versions=NEW)
    assert found(tmp_path / "a.db") == ([1], ["told to fail"])


def test_several_stores_are_one_evidence(tmp_path: Path) -> None:
    for name in ("here", "there"):
        with Store(tmp_path / f"{name}.db") as store:
            put(store, len(name), on=name)
    paths = [str(tmp_path / "here.db"), str(tmp_path / "there.db"), str(tmp_path / "here.db")]
    evidence = gather(paths)
    assert {m.machine for m in evidence.measurements} == set(evidence.machines) == {"here", "there"}
    assert len(evidence.measurements) == 2
    assert evidence.published == {"resnet50": pytest.approx(0.7613)}


@pytest.mark.parametrize(("parameters", "known"), [(25_530_472, True), (23_528_522, False)])
def test_a_file_that_only_carries_the_name_has_no_published_accuracy(
    tmp_path: Path, parameters: int, known: bool
) -> None:
    """As exported, with normalizations folded; and with ten classes."""
    with Store(tmp_path / "a.db") as store:
        put(store, 1)
        Kept(store).keep("cost", "s 1", Costed("s", "resnet50", 1, Cost((), (), 17, parameters, 0, 0)))
    assert ("resnet50" in gather([str(tmp_path / "a.db")]).published) is known


def test_evaluations_and_kept_records_come_along(tmp_path: Path) -> None:
    with Store(tmp_path / "a.db") as store:
        store.save_machine(machine("m"))
        evaluations = Evaluations(store)
        asked = Evaluation("s", parse_placement("null"), "m", OLD, "d", 1, "p", "unit()", ("a",), (), "net", "data")
        for complete in (True, False, True):
            number = evaluations.begin(asked)
            evaluations.add(number, Answers((0,), ((0,),), (1.0,), 1, 1, 1, 1, 1))
            if complete:
                evaluations.finish(number)
        for batch in (8, 1, 4):
            Kept(store).keep("cost", f"s {batch}", Costed("s", "net", batch, Cost((), (), 17, batch, 0, 0)))
        Kept(store).keep("roofs", "m cpu", Roofs("m", "cpu", 2, (Roof("memory", "DRAM", 1e10, 9e9, "copy"),)))
    evidence = gather([str(tmp_path / "a.db")])
    assert [e.label for e in evidence.evaluations] == ["net"]
    assert evidence.measurements == ()
    assert evidence.costs["s"].batch == 1
    assert [roofs.device for roofs in evidence.roofs] == ["cpu"]


def test_nothing_to_report_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with Store(tmp_path / "empty.db"):
        pass
    with Store(tmp_path / "failed.db") as store:
        put(store, None)
    with Store(tmp_path / "running.db") as store:
        put(store, 1, finish=False)
    (tmp_path / "text.db").write_text("this is not a database at all")
    for name, words in (
        ("empty", "no complete"),
        ("failed", "told to fail"),
        ("running", "no complete"),
        ("text", "not a"),
    ):
        with pytest.raises(StoreError, match=words) as refused:
            gather([str(tmp_path / f"{name}.db")])
        assert refused.value.hint
    with pytest.raises(EdgewiseError, match="no store"):
        gather([str(tmp_path / "none.db")])
    assert not (tmp_path / "none.db").exists()


def test_what_failed_before_any_version_is_forgotten_once_it_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Store(path) as store:
        put(store, None, versions=())
        put(store, 5)
    assert found(path) == ([5], [])
    with Store(path) as store:
        put(store, None, versions=())
    assert found(path) == ([5], ["told to fail"])


def test_a_batch_that_was_not_tried_this_time_does_not_stand_beside_its_measurement(tmp_path: Path) -> None:
    path, of = tmp_path / "a.db", task()
    with Store(path) as store:
        put(store, 5, of=of)
        number = store.begin(of, "m", (), "", "resnet50")
        store.finish(number, Failure(of, "m", "not tried", "WorkerTimeout", "not tried: too long"))
    assert found(path) == ([5], [])


def test_what_is_only_begun_is_named_and_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Store(path) as store:
        put(store, 5, of=task("null:cpu@1"), finish=False)
        put(store, 6, of=task("null:cpu@2"), finish=False)
        with pytest.raises(StoreError, match="2 begun and not finished"):
            gather([str(path)])
        put(store, 7, of=task("null:cpu@2"))
    evidence = gather([str(path)])
    assert [m.samples_ns for m in evidence.measurements] == [(7,)]
    assert evidence.unfinished == ("resnet50 on null:cpu@1, single",)


def test_an_evaluation_that_failed_is_forgotten_once_it_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    about = Evaluation("d", parse_placement("null:cpu"), "m", OLD, "images", 1, "p", "none", (), (), "net", "images")
    with Store(path) as store:
        put(store, 5)
        kept = Evaluations(store)
        failure = Failure.of(StoreError("no memory"), task(), "m", "run", "net")
        kept.finish(kept.begin(about), failure)
        assert found(path) == ([5], ["no memory"])
        number = kept.begin(about)
        kept.add(number, Answers((0,), ((0,),), (0.9,), 0, 0, 1, 1, 1))
        kept.finish(number)
    assert found(path) == ([5], [])


def test_the_newest_record_counts_in_whatever_order_stores_are_named(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("old.db", "new.db")]
    for number, path in enumerate(paths):
        with Store(path) as store:
            put(store, 5)
            Kept(store).keep("roofs", "key", Roofs("m", "cpu", 1, (), (("cpu", f"reason {number}"),)))
    for order in (paths, paths[::-1]):
        assert [roofs.missing for roofs in gather(order).roofs] == [(("cpu", "reason 1"),)]


def test_profiles_of_one_thing_under_two_protocols_are_one(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Store(path) as store:
        for load in ("single", "single(max_s=2)", "single(batch=2)"):
            of = Task("d", parse_placement("null:cpu"), parse_scenario(load))
            profile = Profile(of, "m", OLD, (), (1,), (1,), "net")
            Kept(store).keep("profile", profile.key, profile)
    profiles = gather([str(path)]).profiles
    assert [str(profile.task.scenario) for profile in profiles] == ["single(max_s=2)", "single(batch=2)"]
