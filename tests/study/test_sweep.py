"""From what was asked for to one result a cell: completed, derived once, compared with the reference, resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from edgewise.core.errors import InputError, Unsupported
from edgewise.core.text import parse_scenario, parse_target
from edgewise.core.types import Cluster, Failure, Machine, Measurement, Model, Placement, Ran, Result, Round, Start
from edgewise.measure import isolate
from edgewise.measure.cell import Cell, Part
from edgewise.model.load import inspect
from edgewise.store.db import Store
from edgewise.study import home, prepare
from edgewise.study import survey as surveys
from edgewise.study.prepare import Limits, complete, default_targets
from edgewise.study.survey import EngineFacts, survey
from edgewise.study.sweep import sweep

PLAIN = Limits()
QUICK = parse_scenario("single(warmup=1, max_runs=3, min_s=0)")
openvino = pytest.mark.skipif(find_spec("openvino") is None, reason="openvino is not installed")


@pytest.fixture(scope="module")
def model(tiny_onnx: Path) -> Model:
    return inspect(str(tiny_onnx))


@pytest.fixture(scope="module")
def machine() -> Machine:
    return survey(["null"])[0]


@pytest.fixture(scope="module")
def engines() -> dict[str, EngineFacts]:
    names = ["null", "ort", *(["openvino"] if find_spec("openvino") else [])]
    return {facts.name: facts for facts in survey(names)[1]}


@pytest.fixture
def store(tmp_path: Path, machine: Machine) -> Iterator[Store]:
    with Store(tmp_path / "lab.db") as opened:
        opened.save_machine(machine)
        yield opened


@pytest.fixture
def cell(model: Model, machine: Machine, engines: dict[str, EngineFacts]) -> Callable[[str], Cell | Failure]:
    def make(text: str, limits: Limits = PLAIN) -> Cell | Failure:
        target = parse_target(text)
        return prepare.cell(model, Placement.single(target), QUICK, machine, list(engines.values()), limits)

    return make


class Seen:
    """What a sweep told about its progress."""

    def __init__(self) -> None:
        self.cells: list[int] = []
        self.measured: list[int] = []

    def __call__(self, cell: Cell | Failure, number: int, part: Part | None) -> None:
        if part is None:
            self.cells.append(number)
        else:
            self.measured.append(number)


def _one(found: Cell | Failure, store: Store) -> Measurement:
    (result,) = sweep([found], store, Seen())
    assert isinstance(result, Measurement), result
    return result


def _error(result: Result) -> str | None:
    return result.error if isinstance(result, Failure) else None


MIXED = ["null{latency=1ms}", "null{crash=load}", "null:npu", "null{fail=run,at=3}", "null:gpu", "null{refuse=Conv}"]
ERRORS = [None, "WorkerCrashed", None, "EngineFailure", "InputError", "Unsupported"]


def test_every_cell_is_a_result_in_the_order_asked_for(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    seen = Seen()
    results = list(sweep(map(cell, MIXED), store, seen))
    assert [_error(result) for result in results] == ERRORS
    assert [result.task.placement.targets[0].engine for result in results] == ["null"] * len(MIXED)
    assert all(result.message for result in results if isinstance(result, Failure))
    assert [result.stage for result in results if isinstance(result, Failure)] == ["load", "run", "prepare", "load"]
    assert seen.cells == list(range(len(MIXED)))
    # The store has the same, in the same order.
    saved = [record for _, _, _, record in store.results()]
    assert saved == results


def test_one_cell_is_measured_before_the_next_is_prepared(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    prepared: list[str] = []

    def cells() -> Iterator[Cell | Failure]:
        for text in ("null", "null:npu"):
            prepared.append(text)
            yield cell(text)

    results = sweep(cells(), store, Seen())
    next(results)
    assert prepared == ["null"]
    assert len(list(store.results())) == 1
    assert len(list(results)) == 1


def test_resume_runs_only_the_rest(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    cells = [cell(text) for text in MIXED]
    first = list(sweep(cells[:5], store, Seen()))
    seen = Seen()
    again = list(sweep([*cells, cell("null{latency=2ms}")], store, seen, resume=True))
    assert again[:5] == first
    assert [_error(result) for result in again] == [*ERRORS, None]
    # Failures are results too, so they are not tried again. The sixth fails before it has anything to tell.
    assert set(seen.measured) == {6}
    assert len(list(store.results())) == 7


def test_resume_does_not_take_a_comparison_for_a_measurement(
    cell: Callable[[str], Cell | Failure], store: Store
) -> None:
    found = cell("null")
    assert isinstance(found, Cell)
    key = (found.task, found.machine, found.versions, found.inputs, found.label)
    store.finish(store.begin(*key, "compare"))
    seen = Seen()
    (result,) = sweep([found], store, seen, resume=True)
    assert isinstance(result, Measurement)
    assert set(seen.measured) == {0}


def test_resume_goes_on_with_what_a_dead_process_left(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    found = cell("null")
    assert isinstance(found, Cell)
    number = store.begin(found.task, found.machine, found.versions, found.inputs, found.label)
    start = Start(1, 2, 3, None, Ran())
    part = Round(0, False, 1, 2, (5, 6))
    store.add(number, start)
    store.add(number, part)
    # While its owner lives it is left alone, and not shown for finished.
    assert list(sweep([found], store, Seen(), resume=True)) == []
    store.connection.execute("UPDATE results SET owner = '1:0.00'")
    (result,) = sweep([found], store, Seen(), resume=True)
    assert isinstance(result, Measurement)
    assert len(result.samples_ns) == 3
    assert result.rounds[0] == part
    assert result.starts[0] == start
    assert [r.start for r in result.measured] == [0, 1]
    assert [(found, status) for found, _, status, _ in store.results()] == [(number, "complete")]


def test_other_versions_are_measured_again(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    found = cell("null")
    assert isinstance(found, Cell)
    _one(found, store)
    newer = replace(found, versions=(("null", "2"),))
    list(sweep([newer], store, Seen(), resume=True))
    assert len(list(store.results())) == 2


def test_passes_share_the_runs_and_a_failure_ends_them(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    cells = [cell("null{latency=1ms}"), cell("null:npu{crash=load}"), cell("null{latency=2ms}")]
    seen = Seen()
    results = list(sweep(cells, store, seen, passes=3))
    assert [_error(result) for result in results].count("WorkerCrashed") == 1
    for result in results:
        if isinstance(result, Measurement):
            assert (len(result.starts), len(result.samples_ns), result.complete) == (3, 3, True)
            assert result.task.scenario == QUICK
    # Three cells, then two more visits of the two that are left.
    assert seen.cells == list(range(3 + 2 * 2))


def test_nothing_is_prepared_once_it_is_enough(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    prepared: list[str] = []

    def cells() -> Iterator[Cell | Failure]:
        for text in ("null", "null:npu"):
            prepared.append(text)
            yield cell(text)

    results = list(sweep(cells(), store, Seen(), go_on=lambda: not prepared))
    assert (len(results), prepared) == (1, ["null"])


def test_a_server_has_its_time_in_every_pass(
    model: Model, machine: Machine, engines: dict[str, EngineFacts], store: Store
) -> None:
    load = parse_scenario("server(rate_hz=200, warmup=0, min_runs=1, min_s=0.4, max_s=0.4, width=0)")
    found = prepare.cell(
        model, Placement.single(parse_target("null{latency=100us}")), load, machine, [engines["null"]], PLAIN
    )
    (result,) = sweep([found], store, Seen(), passes=2)
    assert isinstance(result, Measurement)
    assert {r.start for r in result.measured} == {0, 1}
    assert {r.start for r in result.measured if r.samples_ns} == {0, 1}


def test_white_inputs_have_a_reference_of_their_own(
    model: Model, machine: Machine, engines: dict[str, EngineFacts], store: Store
) -> None:
    def ready(text: str) -> Cell:
        found = prepare.cell(
            model, Placement.single(parse_target("ort:cpu@1")), parse_scenario(text), machine, [engines["ort"]], PLAIN
        )
        assert isinstance(found, Cell)
        return found

    noise, white = ready("single(max_runs=3, min_s=0)"), ready("single(max_runs=3, min_s=0, input=white)")
    assert noise.inputs != white.inputs
    assert noise.reference != white.reference
    agreement = _one(white, store).starts[0].agreement
    assert agreement is not None
    assert agreement.error < 1e-5


# Targets


def test_what_was_left_open_is_filled_in(engines: dict[str, EngineFacts], machine: Machine, model: Model) -> None:
    def full(text: str) -> str:
        target = parse_target(text)
        return str(complete(target, engines[target.engine], machine, model))

    threads = len(prepare.physical_cores(machine, machine.cores))
    assert full("ort") == f"ort:cpu:fp32@{threads}"
    assert full("ort@1") == "ort:cpu:fp32@1"
    assert full("ort#0") == "ort:cpu:fp32@1#0"
    assert full("null:npu:fp16") == "null:npu:fp16"  # threads are a CPU's
    assert full("null{latency=1ms}") == f"null:cpu:fp32@{threads}{{latency=1ms}}"
    assert full(full("ort")) == full("ort")
    quantized = replace(model, precision="int8")
    assert str(complete(parse_target("ort@1"), engines["ort"], machine, quantized)) == "ort:cpu:int8@1"


def test_an_unknown_device_lists_the_valid_ones(
    engines: dict[str, EngineFacts], machine: Machine, model: Model
) -> None:
    with pytest.raises(InputError, match=r"null has no device 'tpu' here; it has cpu, npu"):
        complete(parse_target("null:tpu"), engines["null"], machine, model)


def test_an_unsupported_precision_lists_the_valid_ones(
    engines: dict[str, EngineFacts], machine: Machine, model: Model
) -> None:
    with pytest.raises(Unsupported, match=r"ort does not run bf16 on cpu here; it runs fp32, int8"):
        complete(parse_target("ort:cpu:bf16"), engines["ort"], machine, model)


def test_a_core_that_is_not_there(cell: Callable[[str], Cell | Failure]) -> None:
    failure = cell("null:cpu@1#4095")
    assert isinstance(failure, Failure)
    assert failure.stage == "prepare"
    assert "usable here: " in failure.message


def test_defaults_are_every_engine_that_computes(
    engines: dict[str, EngineFacts], machine: Machine, model: Model
) -> None:
    targets = list(default_targets(list(engines.values()), machine, model))
    assert {target.engine for target in targets} == set(engines) - {"null"}
    assert {target.precision for target in targets if target.engine == "ort"} == {"fp32", "int8"}
    assert len(set(targets)) == len(targets)
    only_int8 = list(default_targets([engines["ort"]], machine, replace(model, precision="int8")))
    assert {target.precision for target in only_int8} == {"int8"}


def test_clusters_are_devices(monkeypatch: pytest.MonkeyPatch, machine: Machine, model: Model) -> None:
    big, little = Cluster("big", (1,), capacity=1024), Cluster("little", (0,), capacity=400)
    hybrid = replace(machine, clusters=(big, little))
    monkeypatch.setattr(surveys, "machine", lambda: hybrid)
    here, (facts,) = survey(["null"])
    assert here == hybrid
    assert [device.name for device in facts.devices] == ["cpu", "cpu.big", "cpu.little", "npu"]
    assert facts.device("cpu.little").cores == (0,)
    found = prepare.cell(model, Placement.single(parse_target("null:cpu.big")), QUICK, hybrid, [facts], PLAIN)
    assert isinstance(found, Cell)
    assert str(found.task.placement) == "null:cpu.big:fp32@1"
    assert found.cores == (1,)
    with pytest.raises(InputError, match=r"cpu, cpu\.big, cpu\.little, npu"):
        facts.device("cpu.mid")


def test_an_engine_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A package of the same name that cannot be imported stands in for one that is not there.
    (tmp_path / "openvino.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (facts,) = survey(["openvino"])[1]
    assert facts.version is None
    assert "openvino" in facts.reason
    assert facts.hint == "pip install 'edgewise[openvino]'"


# Right answers


def test_ort_agrees_with_the_reference(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    result = _one(cell("ort:cpu:fp32@1"), store)
    agreement = result.starts[0].agreement
    assert agreement is not None
    assert agreement.elements == 10
    assert agreement.error < 1e-5


@openvino
def test_openvino_in_fp32_is_fp32(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    (start,) = _one(cell("openvino:cpu:fp32@1"), store).starts
    assert [name for name, _ in start.ran.precisions] == ["fp32"]
    assert start.agreement is not None
    assert start.agreement.error < 1e-5


def test_null_is_compared_with_nothing(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    (start,) = _one(cell("null"), store).starts
    assert start.agreement is None
    assert start.ran.notes == ("nothing was computed",)


def test_the_reference_is_made_once(cell: Callable[[str], Cell | Failure], monkeypatch: pytest.MonkeyPatch) -> None:
    first = cell("ort:cpu:fp32@1")
    assert isinstance(first, Cell)
    assert first.reference is not None
    made = Path(first.reference).stat().st_ino
    monkeypatch.setattr(prepare, "Session", None)  # asked again, it would fail
    again = cell("ort:cpu:fp32@2")
    assert isinstance(again, Cell)
    assert again.reference == first.reference
    assert Path(first.reference).stat().st_ino == made
    assert not list(home.cache().glob("*.part"))


def test_int8_is_derived_once_and_close(
    cell: Callable[[str], Cell | Failure], store: Store, monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    calls: list[str] = []
    real = isolate.call

    def call(function: str, **keywords: object) -> object:
        calls.append(function)
        return real(function, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(isolate, "call", call)
    first = cell("ort:cpu:int8@1")
    assert isinstance(first, Cell)
    assert calls == ["edgewise.optimize.quantize:quantize_file"]
    (file,) = home.cache().glob("*-int8-*.onnx")
    made = file.stat().st_ino
    second = cell("ort:cpu:int8@2")
    assert isinstance(second, Cell)
    assert calls[1:] == ["edgewise.model.load:inspect"]
    assert file.stat().st_ino == made
    assert second.model == first.model
    assert (first.model.precision, first.model.parent) == ("int8", model.digest)
    # The task is of the model as it was given; what was made of it is in the cell.
    assert first.task.subject == model.digest
    (start,) = _one(first, store).starts
    assert "int8" in dict(start.ran.precisions)
    assert start.agreement is not None
    assert 1e-7 < start.agreement.error < 0.1


@openvino
def test_int8_runs_on_openvino_too(cell: Callable[[str], Cell | Failure], store: Store) -> None:
    (start,) = _one(cell("openvino:cpu:int8@1"), store).starts
    assert "int8" in dict(start.ran.precisions)
    assert start.agreement is not None
    assert start.agreement.error < 0.1


def test_calibration_that_is_not_there(cell: Callable[..., Cell | Failure]) -> None:
    failure = cell("ort:cpu:int8@1", Limits(calibration="/nowhere.npz"))
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.error) == ("prepare", "InputError")
    assert "/nowhere.npz" in failure.message
