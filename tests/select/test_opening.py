"""A plan somebody sends: opened with care, run on pictures that may be none, in the order files lie in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from classifiers import brightness, pictures, quick
from PIL import Image

import edgewise
from edgewise.cli import _main
from edgewise.core import plan as plans
from edgewise.core.errors import InputError
from edgewise.core.plan import digest
from edgewise.select import chooser as choosers
from edgewise.select import drift

HOW = "unit(resize=8, crop=8)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A chooser between two files, on pictures from dark to bright."""
    folder = tmp_path_factory.mktemp("opening")
    with quick(folder):
        models = [str(brightness(folder / "weak.onnx", 4.0)), str(brightness(folder / "strong.onnx", 30.0))]
        pictures(folder / "pictures", count=240)
        asked = ["select", "fit", "--models", *models, "--data", str(folder / "pictures"), "--preprocess", HOW]
        more = ["--method", "two_steps", "-o", str(folder / "my.plan.json"), "--save", str(folder / "lab.db")]
        assert _main([*asked, *more]) == 0
        yield folder


@pytest.fixture
def changed(folder: Path) -> Iterator[Callable[..., str]]:
    """The plan with other fields, its digest right again."""
    path = folder / "other.plan.json"

    def change(**more: Any) -> str:
        fields = json.loads((folder / "my.plan.json").read_text()) | more
        path.write_text(json.dumps(fields | {"digest": digest(fields)}))
        return str(path)

    yield change
    path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"guarantee": {"monitor": 5}}, "the monitor of its guarantee is 5"),
        ({"guarantee": {"monitor": {"alpha": 1}}}, "of a drift monitor"),
        ({"guarantee": {"delta": "small"}}, "delta of its guarantee is 'small'"),
        ({"guarantee": {"images": -1}}, "images of its guarantee is -1"),
        ({"policy": "deferral", "fields": {"candidates": [0]}}, "the thresholds of a deferral"),
        (
            {
                "policy": "deferral",
                "fields": {"candidates": [0], "thresholds": [], "powers": [[1.0]], "temperatures": [1.0], "classes": 9},
            },
            "deferral is of 9 classes, and the plan of 2",
        ),
        ({"policy": "two_steps", "fields": {"first": "a"}}, "two_steps"),
        ({"max_loss": 10**400}, "is not a plan"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changed: Callable[..., str], more: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        edgewise.load(changed(**more))


def test_classes_that_no_model_has_are_refused(changed: Callable[..., str]) -> None:
    with edgewise.load(changed(outputs=3)) as chooser, pytest.raises(InputError, match="tells 2 classes apart"):
        chooser.predict(np.zeros((16, 16, 3), np.uint8))


def test_arrays_that_are_too_large_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosers, "LARGEST_BYTES", 100)
    with pytest.raises(InputError, match="and 100 are the most a plan's arrays have"):
        edgewise.load(str(folder / "my.plan.json"))


def test_arrays_that_unpack_to_too_much_are_not_read(
    folder: Path, changed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgewise.study.plans import sha256

    file = folder / "packed.npz"
    np.savez_compressed(file, threshold=np.zeros(100_000))
    path = changed(arrays={"path": file.name, "sha256": sha256(file)})
    monkeypatch.setattr(choosers, "LARGEST_BYTES", 10_000)
    with pytest.raises(InputError, match="10000 are the most that is read"):
        edgewise.load(path)


def test_one_broken_picture_is_one_answer_less(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (broken := folder / "broken.png").write_text("no picture")
    given = [str(folder / "pictures/dark/000.png"), str(broken), str(folder / "pictures/bright/239.png")]
    path = str(folder / "my.plan.json")
    assert _main(["run", path, *given, "--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    first, second, third = said["results"]
    assert (first["label"], third["label"]) == (0, 1)
    assert second["input"] == str(broken) and "cannot be read as a picture" in second["message"]
    assert [finding["code"] for finding in said["findings"]] == ["images_skipped"]
    assert _main(["run", path, *given]) == 2
    out = capsys.readouterr().out
    assert "no answer" in out and "1 of 3 image was passed over" in out
    assert _main(["run", path, given[0]]) == 0


def test_run_loads_what_it_asks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from edgewise.core.records import to_json
    from edgewise.study.choosers import opened, read
    from edgewise.study.prepare import Limits

    path = str(folder / "my.plan.json")
    ready = to_json(opened(path, read(path), Limits()).ready)
    with choosers.opened(ready, measured=False) as chooser:
        assert not any(held.loaded for held in chooser.memory)
        answer = chooser.predict(np.zeros((16, 16, 3), np.uint8))
        assert {held.name for held in chooser.memory if held.loaded} == set(answer.asked)
    with choosers.opened(ready) as chooser:
        assert all(held.loaded for held in chooser.memory)


def test_files_in_the_order_of_their_names_are_no_drift(
    folder: Path, changed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The very images that the monitor knows, one class after another, from dark to bright."""
    files = sorted((folder / "pictures").rglob("*.png"))
    with edgewise.load(str(folder / "my.plan.json")) as chooser:
        assert chooser.guaranteed is None
        answers = chooser.predict(files)
    signals = [drift.signal(len(answer.asked), answer.confidence or 0.0) for answer in answers]
    path = changed(guarantee={"monitor": drift.Monitor(signals).saved()})
    assert _main(["run", path, "--data", str(folder / "pictures"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["results"]) == 240 and said["findings"] == []
    with edgewise.load(path) as chooser:
        for file in files:
            chooser.predict(file)
        assert chooser.guaranteed is False, "in a process of one's own, the order counts"
    for number in range(60):
        (same := folder / "same").mkdir(exist_ok=True)
        Image.fromarray(np.full((16, 16, 3), 129, np.uint8)).save(same / f"{number}.png")
    assert _main(["run", path, "--data", str(folder / "same"), "--json"]) == 0
    assert [each["code"] for each in json.loads(capsys.readouterr().out)["findings"]] == ["chooser_drift"]


def test_a_plan_of_one_model_with_a_background(tmp_path: Path) -> None:
    """1001 outputs, the first of which is no class of the data."""
    from edgewise.core.plan import Plan, Planned, Proof, sealed
    from edgewise.core.race import Wanted
    from edgewise.core.text import parse_placement
    from edgewise.core.types import Scenario
    from edgewise.study.plans import source
    from edgewise.study.prepare import Limits, find_model

    file = brightness(tmp_path / "wide.onnx", 30.0, outputs=1001, background=True)
    model, path = find_model(str(file), Limits()), tmp_path / "one.plan.json"
    where = source(path, model, model, str(file))
    planned = Planned("wide", where, preprocess="unit(label_offset=1)", classes=())
    proof = Proof(None, "", None, None, None, 1, 0.0, 0.05)
    about = (parse_placement("ort:cpu:fp32@1"), Scenario(), "", "", (), Wanted(), proof)
    path.write_text(plans.dumps(sealed(Plan(plans.VERSION, "single", "", "now", planned, *about))))
    shown = np.stack([np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 255, np.uint8)])
    with edgewise.load(path) as chooser:
        outputs = chooser.run({"images": shown})
        assert outputs["scores"].shape == (2, 1000)
        assert outputs["scores"].argmax(axis=1).tolist() == [0, 1]
        assert [answer.label for answer in chooser.predict(list(shown))] == [0, 1]
