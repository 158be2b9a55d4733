"""What recipes make of a model is chosen as any candidate is, and found where the plan is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from classifiers import brightness, pictures, quick

import edgewise
from edgewise.cli import _main
from edgewise.study.choosers import read


def test_what_recipes_make_is_a_candidate_and_lies_beside_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.plan.json"
    kept = ["--save", str(tmp_path / "lab.db")]
    asked = ["select", "fit", "--models", "pocket/nano", "--data", "pocket(count=60)", "--method", "two_steps"]
    with quick(tmp_path):
        assert (
            _main([*asked, *kept, "-o", str(path), "--recipe", "fuse | quantize", "none", "quantize | quantize"]) == 0
        )
        out = capsys.readouterr().out
        assert "pocket/nano | fuse | quantize" in out
        assert "pocket/nano | quantize | quantize" in out and "Did not run" in out, "what cannot be made is named"
        shutil.rmtree(tmp_path / "XDG_CACHE_HOME")
        plan = read(str(path))
        assert [member.candidate.label for member in plan.members] == ["pocket/nano", "pocket/nano | fuse | quantize"]
        assert [member.model.recipe for member in plan.members] == [None, "fuse | quantize"]
        assert [member.model.source.path for member in plan.members] == ["pocket/nano", "c.plan.1.onnx"]
        with edgewise.load(path) as chooser:
            chooser.load()
            answer = chooser.predict(np.zeros((64, 64, 3), np.uint8))
            assert answer.asked[0].startswith("pocket/nano")
        evaluate = ["select", "evaluate", str(path), "--folds", "2", "--live", "20", *kept, "--json"]
        assert _main(evaluate) == 0
        said = json.loads(capsys.readouterr().out)
        assert any("fuse | quantize" in name for name in said["selected"]["selection"]["candidates"])
        assert said["selected"]["live"]["same"] == 1


def test_a_recipe_goes_with_every_target_and_is_asked_about_once(tmp_path: Path) -> None:
    """`quantize` is what the int8 target makes of the model by itself; of a user's model images are held out for it."""
    model, data = brightness(tmp_path / "weak.onnx", 4.0), pictures(tmp_path / "pictures", count=40)
    path = str(tmp_path / "c.plan.json")
    asked = ["select", "fit", "--models", str(model), "--data", str(data), "--preprocess", "unit(resize=8, crop=8)"]
    more = ["--on", "ort:cpu@1", "ort:cpu:int8@1", "--recipe", "quantize", "--method", "two_steps", "-o", path]
    with quick(tmp_path):
        assert _main([*asked, *more, "--save", str(tmp_path / "lab.db")]) == 0
    plan = read(path)
    assert [member.candidate.name for member in plan.members] == [
        "weak on ort:cpu:fp32@1",
        "weak on ort:cpu:int8@1",
    ]
    assert plan.seen.held == 4


def test_recipes_alone_leave_no_image_out_and_are_checked_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = brightness(tmp_path / "weak.onnx", 4.0), pictures(tmp_path / "pictures", count=40)
    asked = ["select", "fit", "--models", str(model), "--data", str(data), "--preprocess", "unit(resize=8, crop=8)"]
    more = ["--save", str(tmp_path / "lab.db"), "-o", str(tmp_path / "c.plan.json")]
    with quick(tmp_path):
        assert _main([*asked, *more, "--recipe", "fuze"]) == 2
        assert "did you mean fuse" in capsys.readouterr().err
        assert _main([*asked, *more, "--recipe", "none"]) == 2
        assert "is the only candidate" in capsys.readouterr().err
        assert _main([*asked, *more, "--recipe", "quantize(form=dynamic)", "--method", "two_steps"]) == 0
    assert read(str(tmp_path / "c.plan.json")).seen.held == 0
