"""`edgewise.load` of plans that choose nothing, and what a store and a report make of those that do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from classifiers import quick

import edgewise
from edgewise.cli import _main
from edgewise.core import plan as plans
from edgewise.core.errors import InputError, Unsupported
from edgewise.core.plan import Plan, Planned, Proof, sealed
from edgewise.core.race import Wanted
from edgewise.core.text import parse_placement
from edgewise.core.types import Scenario
from edgewise.study.choosers import read
from edgewise.study.plans import source
from edgewise.study.prepare import Limits, find_model


def written(folder: Path, placement: str, preprocess: str | None = "unit") -> str:
    """A plan of one built-in network, as `tune` writes it."""
    model, path = find_model("pocket/nano", Limits()), folder / "one.plan.json"
    where = source(path, model, model, "pocket/nano")
    place = parse_placement(placement)
    plan = Plan(
        plans.VERSION,
        "single" if place.kind == "single" else "parallel",
        "",
        "now",
        Planned("pocket/nano", where, preprocess=preprocess, classes=("zero", "one")),
        place,
        Scenario(),
        "",
        "",
        (),
        Wanted(),
        Proof(None, "", None, None, None, 1, 0.0, 0.05),
    )
    path.write_text(plans.dumps(sealed(plan)))
    return str(path)


def test_a_plan_of_one_model_is_a_choice_of_one(tmp_path: Path) -> None:
    model = find_model("pocket/nano", Limits())
    path = written(tmp_path, "ort:cpu:fp32@1", str(model.preprocess))
    side = next(size for size in (model.inputs[0].shape or ())[2:] if isinstance(size, int))
    with edgewise.load(path) as chooser:
        answer = chooser.predict(np.zeros((side, side, 3), np.uint8))
    assert answer.why == "only" and answer.asked == ("pocket/nano on ort:cpu:fp32@1",)
    assert answer.label is not None and answer.confidence is not None
    assert answer.name in ("zero", "one", f"class {answer.label}")


def test_what_takes_processes_or_does_not_say_how_is_left_to_run(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="takes processes"):
        edgewise.load(written(tmp_path, "deal(ort:cpu:fp32@1, ort:cpu:fp32@2)"))
    with pytest.raises(Unsupported, match="does not say how an image becomes"):
        edgewise.load(written(tmp_path, "ort:cpu:fp32@1", None))
    with pytest.raises(InputError, match="cannot be read"):
        edgewise.load(str(tmp_path / "nothing.plan.json"))


def test_bench_of_a_plan_of_one_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "ort:cpu:fp32@1")
    asked = ["bench", path, "--save", str(tmp_path / "lab.db"), "--scenario", "single(warmup=2, max_runs=20, min_s=0)"]
    assert _main([*asked, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["task"]["placement"] == "ort:cpu:fp32@1"
    assert _main([*asked, "--data", "pocket"]) == 2
    assert "a plan of one model" in capsys.readouterr().err


def test_only_a_chooser_runs_on_a_placement_that_chooses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", "pocket/nano", "--on", "select(ort:cpu@1)", "--save", str(tmp_path / "lab.db")]
    assert _main(asked) == 2
    assert "is where a chooser runs" in capsys.readouterr().out


def test_an_interruption_keeps_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from edgewise.study import select

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    asked = ["select", "fit", "--models", "pocket/nano", "pocket/micro", "--data", "pocket(count=20)"]
    more = ["--method", "single", "-o", str(tmp_path / "c.plan.json"), "--save", str(tmp_path / "lab.db")]
    with quick(tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr(select, "prices", interrupted)
            assert _main([*asked, *more]) == 130
        assert "is not asked again" in capsys.readouterr().err
        monkeypatch.setattr("edgewise.study.scores.Session", interrupted)
        assert _main([*asked, *more]) == 0
        out = capsys.readouterr().out
    assert "answers all images" in out and "20 images of pocket(count=20)" in out


def test_a_model_may_be_chosen_in_another_precision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What edgewise made of it is copied beside the plan, and found there when the cache is gone."""
    path = tmp_path / "c.plan.json"
    asked = ["select", "fit", "--models", "pocket/nano", "--data", "pocket(count=60)", "--on", "ort:cpu@1"]
    with quick(tmp_path):
        assert (
            _main(
                [*asked, "ort:cpu:int8@1", "--method", "two_steps", "-o", str(path), "--save", str(tmp_path / "lab.db")]
            )
            == 0
        )
        shutil.rmtree(tmp_path / "XDG_CACHE_HOME")
        plan = read(str(path))
        assert [member.model.source.path for member in plan.members] == ["pocket/nano", "c.plan.1.onnx"]
        assert plan.members[1].model.recipe is not None
        with edgewise.load(path) as chooser:
            assert len(chooser.candidates) == 2
            chooser.load()
            assert all(held.loaded for held in chooser.memory)
