"""A user's own files and folder, as large as ImageNet: 1000 classes and 1001, other sizes, other ways to prepare."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from classifiers import brightness, quick
from PIL import Image

import edgewise
from edgewise.cli import _main
from edgewise.study import choosers

WAYS = ("unit(resize=256, crop=224)", "inception(resize=220, crop=192, label_offset=1)")


def photographs(folder: Path, count: int = 36) -> Path:
    """As large as those of ImageNet, upright and lying, from dark to bright, with noise on them."""
    random = np.random.default_rng(0)
    for number in range(count):
        value = 255 * (number + 0.5) / count
        shape = (375, 500, 3) if number % 2 else (500, 333, 3)
        kind = folder / ("bright" if value > 127.5 else "dark")
        kind.mkdir(parents=True, exist_ok=True)
        pixels = np.clip(value + random.normal(0, 2, shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(kind / f"{number:03d}.jpg")
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("thousand")
    with quick(folder):
        weak = brightness(folder / "weak.onnx", 4.0, outputs=1000, size=224)
        # From minus one to one: half is nothing.
        strong = brightness(folder / "strong.onnx", 15.0, outputs=1001, size=192, background=True, middle=0.0)
        photographs(folder / "photographs")
        (folder / "names.txt").write_text("\n".join(["dark", "bright", *(f"class {n}" for n in range(2, 1000))]))
        asked = ["select", "fit", "--models", str(weak), str(strong), "--data", str(folder / "photographs")]
        more = ["--labels", str(folder / "names.txt"), "--preprocess", *WAYS, "--method", "two_steps"]
        assert _main([*asked, *more, "-o", str(folder / "my.plan.json"), "--save", str(folder / "lab.db")]) == 0
        yield folder


def test_they_are_chosen_between_and_answer_in_the_same_classes(own: Path) -> None:
    plan = choosers.read(str(own / "my.plan.json"))
    assert (plan.outputs, plan.seen.images) == (1000, 36)
    assert plan.outcome.accuracies == (1.0, 1.0), "one class further in one of them, and found all the same"
    assert len({member.candidate.preprocess for member in plan.members}) == 2
    with edgewise.load(str(own / "my.plan.json")) as chooser:
        answers = chooser.predict([own / "photographs/dark/000.jpg", own / "photographs/bright/035.jpg"])
        assert [(answer.label, answer.name) for answer in answers] == [(0, "dark"), (1, "bright")]
        assert all(len(answer.asked) == 1 for answer in answers), "the first one is sure at the ends"
        middle = chooser.predict(own / "photographs/bright/018.jpg")
        assert len(middle.asked) == 2 and middle.name == "bright"


def test_it_is_evaluated_as_it_runs(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["select", "evaluate", str(own / "my.plan.json"), "--folds", "2", "--live", "12", "--json"]
    assert _main([*asked, "--save", str(own / "lab.db")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["selected"]["live"]["same"] == 1 and said["outcome"]["accuracy"] == 1


def test_a_background_that_nobody_spoke_of_is_refused(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = [str(own / "weak.onnx"), str(own / "strong.onnx")]
    asked = ["select", "fit", "--models", *models, "--data", str(own / "photographs")]
    ways = ["--preprocess", WAYS[0], "inception(resize=220, crop=192)", "--labels", str(own / "names.txt")]
    assert _main([*asked, *ways, "-o", str(own / "no.plan.json"), "--save", str(own / "lab.db")]) == 2
    told = capsys.readouterr().err
    assert "has 1000 classes and strong has 1001" in told and "label_offset=1" in told


def test_bench_says_what_a_chooser_takes_in_energy(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By a declared power, where no meter is: the models, preparing and deciding together."""
    quickly = ["--scenario", "single(warmup=2, max_runs=20, min_s=0, width=0)", "--save", str(own / "lab.db")]
    asked = ["bench", str(own / "my.plan.json"), "--power", "15W", "--json", *quickly]
    assert _main(asked) == 0
    said = json.loads(capsys.readouterr().out)
    columns = [column["name"] for column in said["energy"]["columns"]]
    (row,) = [dict(zip(columns, each, strict=True)) for each in said["energy"]["rows"] if "estimate" in each]
    assert row["target"].startswith("select(")
    (result,) = said["results"]
    (used,) = [each for each in result["energies"] if each["source"] == "estimate"]
    seconds = used["elapsed_ns"] / 1e9
    assert used["runs"] > 0 and used["energy_uj"] == pytest.approx(15e6 * seconds, rel=0.01)
