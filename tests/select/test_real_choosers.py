"""From `select fit` to running, with the methods edgewise has: what was replayed is what happens."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from classifiers import brightness, pictures, quick

import edgewise
from edgewise.cli import _main
from edgewise.study import choosers

DATA = "pocket(count=150)"
MODELS = ("pocket/nano", "pocket/small")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("lab")
    with quick(folder):
        yield folder


def fit(lab: Path, name: str, *more: str, data: str = DATA, models: Sequence[str] = MODELS) -> str:
    path = str(lab / f"{name}.plan.json")
    asked = ["select", "fit", "--models", *models, "--data", data, "--on", "ort:cpu@1", "-o", path]
    assert _main([*asked, "--save", str(lab / "lab.db"), *more]) == 0
    return path


def scenes() -> list[Any]:
    from edgewise.data import open_dataset
    from edgewise.study.images import place_of

    dataset = open_dataset(place_of(DATA))
    return [dataset.image(number) for number in range(len(dataset.labels))]


@pytest.mark.parametrize("method", ["cascade", "deferral", "premodel"])
def test_what_was_replayed_is_what_happens(lab: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = fit(lab, method, "--method", method, "--max-loss", "5")
    plan = choosers.read(path)
    assert plan.policy == method and plan.guarantee is None
    with edgewise.load(path) as chooser:
        answers = chooser.predict(scenes())
        assert chooser.guaranteed is None
    names = [member.candidate.name for member in plan.members]
    shares = [sum(name in answer.asked for answer in answers) / len(answers) for name in names]
    assert shares == pytest.approx(plan.outcome.asked)
    capsys.readouterr()
    asked = ["bench", path, "--save", str(lab / "lab.db"), "--json", "--scenario"]
    assert _main([*asked, "single(warmup=2, max_runs=10, min_s=0, width=0)"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["task"]["placement"] == "select(ort:cpu:fp32@1)"
    asked = ["select", "evaluate", path, "--folds", "2", "--live", "30", "--save", str(lab / "lab.db"), "--json"]
    assert _main(asked) == 0
    live = json.loads(capsys.readouterr().out)["selected"]["live"]
    assert (live["same"], live["alike"], live["distinct"]) == (1, 1, 30)


def test_networks_at_the_levels_run_as_they_were_replayed(lab: Path) -> None:
    from edgewise.select.features import THUMBNAIL

    path = fit(lab, "networks", "--method", "premodel(levels=cnn)")
    plan = choosers.read(path)
    assert plan.fields["features"] == [THUMBNAIL] and set(plan.fields["levels"]) == {"cnn"}
    with edgewise.load(path) as chooser:
        answers = chooser.predict(scenes())
    names = [member.candidate.name for member in plan.members]
    shares = [sum(name in answer.asked for answer in answers) / len(answers) for name in names]
    assert shares == pytest.approx(plan.outcome.asked)


def test_a_promise_is_watched_when_it_runs(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Enough images that something can be shown, and models so far apart that asking the small one first is worth it
    # whatever they are measured to cost this time.
    more = ("--max-loss", "10", "--risk", "0.2")
    path = fit(lab, "promise", *more, data="pocket(count=600)", models=("pocket/nano", "pocket/large"))
    assert "with a probability of 80" in " ".join(capsys.readouterr().out.split())
    plan = choosers.read(path)
    assert plan.guarantee is not None and plan.guarantee["images"] > 0
    with edgewise.load(path) as chooser:
        assert chooser.guaranteed is True
        chooser.predict(scenes()[:20])
        assert chooser.guaranteed is True
        for _ in range(60):
            chooser.predict([np.random.default_rng(3).integers(0, 256, scenes()[0].shape, np.uint8)] * 5)
        assert chooser.guaranteed is False


@pytest.mark.slow
def test_evaluate_looks_into_the_premodel(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = fit(lab, "looked", "--method", "premodel")
    capsys.readouterr()
    asked = ["select", "evaluate", path, "--premodel", "--folds", "3", "--live", "0", "--save", str(lab / "lab.db")]
    assert _main(asked) == 0
    out = capsys.readouterr().out
    assert "The premodel, by what decides at its levels" in out and "it was fitted on" in out
    kept = list(Path(os.environ["XDG_CACHE_HOME"], "edgewise").glob("*-features.npz"))
    assert len(kept) == 1, "what images look like is found once for fitting and evaluating"


def test_a_plan_that_saves_energy_is_evaluated_by_it(
    lab: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from edgewise.measure import energy
    from edgewise.system.energy import Meter

    package = Meter("rapl", "package-0", True, step=1, update_ns=1_000_000, value=lambda: time.perf_counter_ns() // 500)
    monkeypatch.setattr(energy, "IDLE_S", 0.05)
    monkeypatch.setattr(energy.system, "meters", lambda: [package])
    path = fit(lab, "energy", "--objective", "energy")
    capsys.readouterr()
    asked = ["select", "evaluate", path, "--folds", "2", "--live", "0", "--save", str(lab / "lab.db"), "--json"]
    assert _main(asked) == 0
    assert json.loads(capsys.readouterr().out)["outcome"]["objective"] == "energy"
    monkeypatch.setattr(energy.system, "meters", lambda: [])
    assert _main(asked) == 3
    assert "no energy meter" in capsys.readouterr().err


def test_images_of_calibration_are_not_asked_about(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user's model has no calibration of its own: some images are held out for int8, and stay so."""
    model = brightness(lab / "weak.onnx", 4.0)
    pictures(lab / "pictures", count=60)
    path = str(lab / "held.plan.json")
    asked = [
        "select",
        "fit",
        "--models",
        str(model),
        "--data",
        str(lab / "pictures"),
        "--preprocess",
        "unit(resize=8, crop=8)",
    ]
    more = ["--on", "ort:cpu@1", "ort:cpu:int8@1", "--method", "two_steps", "--save", str(lab / "lab.db")]
    assert _main([*asked, *more, "--limit", "40", "-o", path]) == 0
    plan = choosers.read(path)
    assert (plan.seen.held, plan.seen.images, plan.seen.limit) == (6, 40, 40)
    calibrated, fitted = choosers.drawn(plan.seen, 60)
    assert len(calibrated) == 6 and len(fitted) == 40 and not set(calibrated) & set(fitted)
    capsys.readouterr()
    evaluate = ["select", "evaluate", path, "--folds", "2", "--live", "0", "--save", str(lab / "lab.db"), "--json"]
    assert _main([*evaluate, "--seed", "5"]) == 0
    said = json.loads(capsys.readouterr().out)
    (found,) = [each for each in said["section"]["findings"] if each["code"] == "chooser_fitted"]
    assert dict(found["values"]) == {"images": 54, "fitted": 40}


def test_other_images_for_int8_leave_all_of_the_data(lab: Path) -> None:
    """They need no labels, and none of the others is held out."""
    model = brightness(lab / "own.onnx", 4.0)
    asked_about = pictures(lab / "asked", count=40)
    others = lab / "others"
    for number, path in enumerate(sorted(pictures(lab / "labelled", count=30).rglob("*.png"))):
        others.mkdir(exist_ok=True)
        path.rename(others / f"{number}.png")
    path = str(lab / "other.plan.json")
    asked = ["select", "fit", "--models", str(model), "--data", str(asked_about), "--calibration", str(others)]
    how = ["--preprocess", "unit(resize=8, crop=8)", "--on", "ort:cpu@1", "ort:cpu:int8@1", "--method", "two_steps"]
    assert _main([*asked, *how, "--save", str(lab / "lab.db"), "-o", path]) == 0
    plan = choosers.read(path)
    assert (plan.seen.held, plan.seen.images) == (0, 40)
    assert _main([*asked[:-1], str(asked_about), *how, "--save", str(lab / "lab.db"), "-o", path]) == 2


def test_an_image_is_looked_at_only_for_what_is_used() -> None:
    from edgewise.select.features import NAMES, PAPER, extract

    random = np.random.default_rng(0)
    for only in (PAPER, ("hue3",), ("contrast", "edge_angle2"), ("aspect_ratio",)):
        image = random.integers(0, 256, (40, 50, 3), np.uint8)
        places = [NAMES.index(name) for name in only]
        assert np.array_equal(extract(image, only=only)[places], extract(image)[places])


def test_files_in_an_engine_s_own_format_are_candidates(lab: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT writes and runs .tflite files")
    from edgewise.engines import litert
    from edgewise.model.graph import fixed
    from edgewise.model.load import inspect

    models = []
    for name, gain in (("weak", 4.0), ("strong", 30.0)):
        model = inspect(str(brightness(lab / f"{name}.onnx", gain)))
        written = litert.convert(fixed(model, {"image": (1, 3, 8, 8)}), str(lab))
        models.append(str(Path(written).rename(lab / f"{name}.tflite")))
    path = str(lab / "tflite.plan.json")
    shown = pictures(lab / "shown")
    asked = ["select", "fit", "--models", *models, "--data", str(shown), "--preprocess", "unit(resize=8, crop=8)"]
    more = ["--on", "litert:cpu@1", "--method", "two_steps", "-o", path, "--save", str(lab / "lab.db")]
    assert _main([*asked, *more]) == 0
    assert [member.model.source.path for member in choosers.read(path).members] == ["weak.tflite", "strong.tflite"]
    with edgewise.load(path) as chooser:
        dark, bright = chooser.predict([np.zeros((16, 16, 3), np.uint8), np.full((16, 16, 3), 255, np.uint8)])
    assert (dark.label, bright.label) == (0, 1)
