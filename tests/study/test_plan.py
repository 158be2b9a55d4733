"""Plans: what is written is what is read, and what was tampered with is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise.core import plan as plans
from edgewise.core.errors import InputError, Unavailable
from edgewise.core.plan import Plan, sealed
from edgewise.core.race import Entry, Race, Wanted
from edgewise.core.types import Failure, Machine, Scenario
from edgewise.measure.cell import Cell
from edgewise.study import survey as surveys
from edgewise.study.candidates import Candidate, candidates, ready
from edgewise.study.plans import read, write
from edgewise.study.plans import ready as open_plan
from edgewise.study.prepare import Limits
from edgewise.study.request import Request, request
from edgewise.study.run_plan import run_plan
from edgewise.study.tune import Tuned


def _won(wanted: Request, cell: Cell) -> Tuned:
    entry = Entry(cell.task, cell.label, "won", starts=5, p50_ns=1e6)
    race = Race(cell.label, wanted.machine.id, Wanted(), (entry,), p50_ns=(0.9e6, 1e6, 1.1e6))
    return Tuned(race, cell)


def _make(folder: Path, name: str, target: str) -> tuple[Path, Plan]:
    """A plan as a race won by `target` would leave it."""
    wanted = request((name,), (target,), (), [Scenario()], Limits())
    chosen: list[Candidate] = candidates(wanted, (target,), (), "latency", Scenario())
    (cell,) = ready(chosen, wanted, wanted.limits)
    assert isinstance(cell, Cell)
    path = folder / "best.plan.json"
    return path, write(str(path), _won(wanted, cell), wanted, name, wanted.limits)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, tiny_onnx: Path) -> tuple[Path, Plan]:
    folder = tmp_path_factory.mktemp("planned")
    model = folder / "models" / "tiny.onnx"
    model.parent.mkdir()
    shutil.copy(tiny_onnx, model)
    return _make(folder, str(model), "null@1{latency=100us}")


@cache
def _null() -> tuple[Machine, tuple[surveys.EngineFacts, ...]]:
    return surveys.survey(["null"])


def _survey(names: list[str]) -> tuple[Machine, tuple[surveys.EngineFacts, ...]]:
    return _null() if names == ["null"] else surveys.survey(names)


@pytest.fixture(autouse=True, scope="module")
def _surveyed_once() -> Iterator[None]:
    """The same engines are here for every plan of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgewise.study.plans.survey", _survey)
        yield


@pytest.fixture
def made(tmp_path: Path, original: tuple[Path, Plan]) -> tuple[Path, Plan]:
    """A plan and its model, in a folder of the test's own."""
    shutil.copytree(original[0].parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / original[0].name, original[1]


def _changed(path: Path, change: Callable[[dict[str, Any]], None], *, seal: bool) -> None:
    """The plan with a field changed, by somebody who does or does not know how to seal it."""
    found = json.loads(path.read_text())
    change(found)
    if seal:
        found["digest"] = plans.digest(found)
    path.write_text(json.dumps(found))


def test_what_is_written_is_what_is_read(made: tuple[Path, Plan]) -> None:
    path, plan = made
    assert read(str(path)) == plan
    assert plan == sealed(plan)
    source = plan.model.source
    # The user's own file stays where it is.
    assert (source.kind, source.path) == ("file", "models/tiny.onnx")
    assert not list(path.parent.glob("*.onnx"))
    assert (plan.proof.p50_ns, plan.proof.candidates) == ((0.9e6, 1e6, 1.1e6), 1)


def test_a_plan_runs_where_it_and_its_model_were_moved_to_together(made: tuple[Path, Plan], tmp_path: Path) -> None:
    path, _ = made
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(tmp_path / "models", elsewhere / "models")
    moved = Path(shutil.move(path, elsewhere / "other.json"))
    plan = read(str(moved))
    cell, changed = open_plan(str(moved), plan, Limits())
    assert isinstance(cell, Cell)
    assert changed == []
    (found,) = run_plan(cell, None, [])
    assert found.input == "seeded noise"
    assert found.latency_ns >= 100_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.update(version=99), "a plan of version 99; this edgewise reads 1"),
        (lambda p: p.update(kind="cascade"), "a plan of kind 'cascade'"),
        (lambda p: p.update(placement="nothing:at:all:of:this"), "is not a plan"),
        (lambda p: p["model"]["source"].update(kind="web"), "a model from 'web' is not known"),
        (lambda p: p["model"]["source"].update(kind="beside", path="../tiny.onnx"), "is not beside it"),
        (lambda p: p["model"]["source"].update(path="/etc/passwd"), "is not relative to it"),
        (lambda p: p["model"]["source"].update(sha256="short"), "expected 64 hexadecimal digits"),
        (lambda p: p["model"].update(preprocess="magic"), "unknown preprocessing 'magic'"),
        (lambda p: p["model"].update(shapes=[["input", [-1]]]), "the shape of 'input'"),
        (lambda p: p.pop("scenario"), "is not a plan"),
        (lambda p: p["proof"].update(gain="much"), "'much' is no number"),
        (lambda p: p.update(placement="deal(ort:cpu@1, ort:cpu@1)"), "none of a single plan"),
    ],
)
def test_every_field_is_checked(made: tuple[Path, Plan], change: Callable[[Any], None], message: str) -> None:
    path, _ = made
    _changed(path, change, seal=True)
    with pytest.raises(InputError, match="plan") as raised:
        read(str(path))
    assert message in raised.value.message
    assert raised.value.hint


def test_a_plan_that_was_changed_is_refused(made: tuple[Path, Plan]) -> None:
    path, _ = made
    _changed(path, lambda p: p.update(placement="null@1{latency=1us}"), seal=False)
    with pytest.raises(InputError, match="was changed after it was written"):
        read(str(path))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', "not json", "[" * 100_000])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "no.plan.json"
    path.write_text(text)
    with pytest.raises(InputError, match="not a plan"):
        read(str(path))
    with pytest.raises(InputError, match="cannot be read"):
        read(str(tmp_path / "nowhere.json"))


def test_another_model_at_the_same_place_is_refused(made: tuple[Path, Plan]) -> None:
    path, plan = made
    with (path.parent / "models" / "tiny.onnx").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(InputError, match="SHA-256 differs"):
        open_plan(str(path), plan, Limits())
    (path.parent / "models" / "tiny.onnx").unlink()
    with pytest.raises(InputError, match="is not there"):
        open_plan(str(path), plan, Limits())


def test_another_machine_or_engine_version_is_a_caution(made: tuple[Path, Plan]) -> None:
    path, plan = made
    other = sealed(replace(plan, machine="another", machine_label="a phone", versions=(("null", "0.1"),)))
    path.write_text(plans.dumps(other))
    cell, changed = open_plan(str(path), read(str(path)), Limits())
    assert isinstance(cell, Cell)
    assert [finding.code for finding in changed] == ["other_machine", "other_versions"]


def test_a_missing_engine_says_how_to_get_it(made: tuple[Path, Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    path, plan = made
    missing = surveys.EngineFacts("null", reason="null is not installed", hint="pip install null")
    monkeypatch.setattr("edgewise.study.plans.survey", lambda names: (surveys.machine(), (missing,)))
    cell, _ = open_plan(str(path), plan, Limits())
    assert isinstance(cell, Failure)
    assert (cell.error, cell.hint) == (Unavailable.__name__, "pip install null")


def test_a_quantized_model_is_copied_beside_its_plan(tmp_path: Path) -> None:
    path, plan = _make(tmp_path, "pocket/nano", "ort:cpu:int8@1")
    source = plan.model.source
    assert (source.kind, source.path) == ("beside", "best.plan.onnx")
    assert (tmp_path / "best.plan.onnx").is_file()
    assert plan.model.recipe == "quantize(precision=int8)"
    assert plan.model.parent != source.digest
    picture = tmp_path / "grey.png"
    from PIL import Image

    Image.fromarray(np.full((64, 64, 3), 128, np.uint8)).save(picture)
    cell, _ = open_plan(str(path), read(str(path)), Limits())
    assert isinstance(cell, Cell)
    (found,) = run_plan(cell, plan.model.preprocess, [str(picture)], output=str(tmp_path / "out.npz"))
    assert len(found.ranked) == 5
    assert 0 < sum(share for _, share in found.ranked) <= 1 + 1e-9
    with np.load(tmp_path / "out.npz") as kept:
        assert kept[kept.files[0]].shape == (1, 10)
