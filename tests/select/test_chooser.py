"""A chooser from fitting to running: everything that runs a plan says the same of the same image."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from classifiers import brightness, pictures, quick
from PIL import Image

import edgewise
from edgewise.cli import _main
from edgewise.core.chooser import Choosing
from edgewise.core.errors import InputError
from edgewise.core.plan import digest
from edgewise.study import choosers, plans
from edgewise.study.prepare import Limits

MODELS = ("pocket/nano", "pocket/small")
DATA = "pocket(count=200)"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a chooser between two built-in networks, with a method that is somebody else's."""
    folder = tmp_path_factory.mktemp("fitted")
    with quick(folder):
        asked = ["select", "fit", "--models", *MODELS, "--data", DATA, "--on", "ort:cpu@1", "--method", "two_steps"]
        assert _main([*asked, "-o", str(folder / "chooser.plan.json"), "--save", str(folder / "lab.db")]) == 0
        yield folder


@pytest.fixture(scope="module")
def scenes(fitted: Path) -> Any:
    from edgewise.data import open_dataset
    from edgewise.study.images import place_of

    return open_dataset(place_of(DATA))


@pytest.fixture(scope="module")
def images(fitted: Path, scenes: Any) -> list[Path]:
    """Some of the scenes as files."""
    found = []
    for number in range(12):
        Image.fromarray(scenes.image(number)).save(path := fitted / f"{number}.png")
        found.append(path)
    return found


def test_the_plan_says_everything(fitted: Path) -> None:
    plan = plans.read(str(fitted / "chooser.plan.json"))
    assert isinstance(plan, Choosing)
    assert (plan.kind, plan.policy, plan.outputs) == ("select", "two_steps", len(plan.classes))
    assert [member.model.source.path for member in plan.members] == list(MODELS)
    assert all(member.model.source.kind == "built-in" for member in plan.members)
    assert plan.arrays is not None and (fitted / plan.arrays.path).is_file()
    assert all(member.candidate.run_ns > 0 and member.candidate.prepare_ns > 0 for member in plan.members)
    assert all((member.candidate.memory_bytes or 0) > 0 for member in plan.members)
    told = plan.outcome
    assert told.asked[0] == 1 and 0 < told.asked[1] < 1
    assert told.accuracies[told.best] == told.best_accuracy == max(told.accuracies)
    assert min(told.costs) < told.cost and told.deciding_ns > 0
    assert plan.seen.images == 200 and plan.seen.data == DATA


def test_all_that_runs_it_agrees(
    fitted: Path, images: list[Path], scenes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(fitted / "chooser.plan.json")
    assert _main(["run", path, *map(str, images), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["results"]
    with edgewise.load(path) as chooser:
        assert not any(held.loaded for held in chooser.memory), "models wait until they are asked"
        answers = [chooser.predict(path) for path in images]
        together = chooser.predict([scenes.image(number) for number in range(len(images))])
        assert all(held.loaded for held in chooser.memory)
    with edgewise.load(path, batch=5) as chooser:
        batched = chooser.predict(images)
    plan = choosers.read(path)
    for one, alike, other, told in zip(answers, together, batched, said, strict=True):
        assert (one.label, one.asked, one.why) == (alike.label, alike.asked, alike.why)
        assert (one.label, one.asked, one.why) == (other.label, other.asked, other.why)
        assert one.confidence == alike.confidence == pytest.approx(other.confidence, rel=1e-4)
        assert (told["label"], tuple(told["asked"]), told["why"]) == (one.label, one.asked, one.why)
        assert told["confidence"] == one.confidence
        assert one.model == one.asked[-1]
        assert one.name == plan.classes[one.label or 0]
        assert one.ranked[0] == (one.label, pytest.approx(one.confidence, rel=1e-5))
        assert one.time_ns > 0
    assert {len(one.asked) for one in answers} == {1, 2}, "some are sure at once, others are not"


def test_run_says_who_answered_and_why(fitted: Path, images: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = str(fitted / "chooser.plan.json")
    assert _main(["run", path, *map(str, images), "--top", "1"]) == 0
    out = capsys.readouterr().out
    assert "pocket/nano on ort:cpu:fp32@1 answered, confidence" in out and "it was sure enough" in out
    assert "asked in turn: pocket/nano on ort:cpu:fp32@1, pocket/small on ort:cpu:fp32@1" in out
    assert _main(["run", path]) == 2
    assert "a chooser takes images" in capsys.readouterr().err
    assert _main(["run", path, str(images[0]), "--preprocess", "unit"]) == 2


def test_bench_measures_it_on_images(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", str(fitted / "chooser.plan.json"), "--save", str(fitted / "lab.db"), "--json", "--scenario"]
    assert _main([*asked, "single(warmup=3, max_runs=40, min_s=0, width=0)"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["task"]["placement"] == "select(ort:cpu:fp32@1)"
    assert result["starts"][0]["peak_bytes"] > 0
    samples = [s for part in result["rounds"] if not part["warmup"] for s in part["samples_ns"]]
    assert len(samples) == 40
    assert _main([*asked, "concurrent(n=2, warmup=3, max_runs=10, min_s=0, width=0)", "--batch", "4"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert "batch=4" in result["task"]["scenario"]
    assert _main(["bench", str(fitted / "chooser.plan.json"), "--on", "ort"]) == 2
    assert _main(["bench", "pocket/nano", "--data", "pocket"]) == 2


def test_evaluate_replays_it_and_runs_it_live(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["select", "evaluate", str(fitted / "chooser.plan.json"), "--save", str(fitted / "lab.db"), "--live", "60"]
    assert _main([*asked, "--data", "pocket(split=validation, count=120)", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["selected"]["live"]["images"] == 60
    assert said["selected"]["live"]["same"] == 1
    assert said["selected"]["live"]["live_ns"] > 0 and said["selected"]["live"]["replayed_ns"] > 0
    assert (said["selected"]["live"]["alike"], said["selected"]["live"]["distinct"]) == (1, 60)
    assert said["outcome"]["asked"][0] == 1
    assert "chooser_fitted" not in {finding["code"] for finding in said["section"]["findings"]}


def test_images_it_was_fitted_on_are_known_again(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["select", "evaluate", str(fitted / "chooser.plan.json"), "--save", str(fitted / "lab.db"), "--folds", "2"]
    assert _main([*asked, "--live", "40", "--limit", "30", "--seed", "7", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (found,) = [each for each in said["section"]["findings"] if each["code"] == "chooser_fitted"]
    assert dict(found["values"]) == {"images": 30, "fitted": 30}
    assert (said["selected"]["live"]["images"], said["selected"]["live"]["distinct"]) == (40, 30)


def test_what_was_answered_is_not_asked_again(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgewise.core.types import Scenario
    from edgewise.study import scores
    from edgewise.study.contenders import contenders
    from edgewise.study.images import Question
    from edgewise.study.request import request

    wanted = request(MODELS, ("ort:cpu@1",), (), [Scenario()], Limits())
    asked, failures = contenders(wanted, MODELS, Question(DATA))
    assert not failures
    before = scores.gather(asked, lambda who, count, done: None)
    # As if it had been interrupted before its last part.
    folder = scores._folder(asked[0])
    sorted(folder.glob("*.npz"))[-1].unlink()
    assert len(scores._kept(folder, 200)) == len(list(folder.glob("*.npz")))
    after = scores.gather(asked, lambda who, count, done: None)
    assert sum(len(part.reasons) for part in scores._kept(folder, 200)) == 200
    for one, other in zip(before, after, strict=True):
        assert isinstance(one, scores.Scored) and isinstance(other, scores.Scored)
        assert np.array_equal(one.rows, other.rows)
        assert len(one.reasons) == 200 and not any(one.reasons)

    def nobody(*_: object) -> None:
        raise AssertionError("a worker was started for what is there")

    monkeypatch.setattr(scores, "Session", nobody)
    scores.gather(asked, lambda who, count, done: None)


def test_candidates_are_looked_at_in_one_process(fitted: Path) -> None:
    from edgewise.core.types import Scenario
    from edgewise.report.sentences import sentence
    from edgewise.select.table import Table
    from edgewise.study.company import company
    from edgewise.study.contenders import contenders
    from edgewise.study.images import Question
    from edgewise.study.prices import some
    from edgewise.study.request import request
    from edgewise.study.select import Gathered

    wanted = request(MODELS, ("ort:cpu@1",), (), [Scenario()], Limits())
    asked, _ = contenders(wanted, MODELS, Question(DATA))
    shown = some(asked[0].exam, asked[0].exam.indices, 20)
    found = company(asked, 10, (False, False), shown, for_s=0.2)
    assert [len(row) for row in found.after_ns] == [2, 2] and len(found.since_ns) == 2
    assert found.after_ns[0][0] == found.after_ns[1][1] == 0
    assert set(found.deciding_ns) == {"agreement", "cascade", "deferral"} and min(found.deciding_ns.values()) > 0
    assert found.cold >= 1
    spread = company(asked, 10, (False, False), shown, stands={0: 1, 1: 1}, for_s=0.2)
    assert spread.after_ns == ((0, 0), (0, 0)), "one candidate, which two are taken for, has no company"
    with pytest.raises(InputError, match="tells 10 classes apart, and the plan 7"):
        company(asked, 7, (False, False), shown, for_s=0.2)
    apart = Gathered(Table((), np.zeros(0, np.int64), ()), tuple(asked), (False, False), (), (), (), "no memory left")
    (told,) = apart.findings
    assert "could not be tried in one process: no memory left" in sentence(told)


def test_a_chooser_takes_files_and_arrays_and_nothing_else(fitted: Path, images: list[Path]) -> None:
    chooser = edgewise.load(str(fitted / "chooser.plan.json"))
    with pytest.raises(InputError, match="height x width x 3"):
        chooser.predict(np.zeros((4, 4), np.uint8))
    with pytest.raises(InputError, match="uint8"):
        chooser.predict(np.zeros((4, 4, 3), np.float32))
    with pytest.raises(InputError, match="there is no picture"):
        chooser.predict("nowhere.png")
    with pytest.raises(InputError, match="takes"):
        chooser.predict(np.zeros((4, 4, 3), np.uint8))
    assert chooser.predict([]) == []
    chooser.close()
    chooser.close()
    with pytest.raises(InputError, match="closed"):
        chooser.predict(images[0])


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A chooser between a user's own files, of different input sizes, on pictures one of which is none."""
    folder = tmp_path_factory.mktemp("own")
    with quick(folder):
        weak = brightness(folder / "weak.onnx", 4.0)
        strong = brightness(folder / "strong.onnx", 30.0, outputs=3, size=16, background=True)
        (pictures(folder / "pictures") / "dark" / "broken.png").write_text("no picture")
        asked = ["select", "fit", "--models", str(weak), str(strong), "--data", str(folder / "pictures")]
        ways = ["--preprocess", "unit(resize=8, crop=8)", "unit(label_offset=1)", "--method", "two_steps"]
        assert _main([*asked, *ways, "-o", str(folder / "my.plan.json"), "--save", str(folder / "lab.db")]) == 0
        yield folder


def test_models_of_different_sizes_and_a_background(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = choosers.read(str(own / "my.plan.json"))
    assert plan.outputs == 2 and plan.classes == ("bright", "dark")
    # The folders in their order are bright and dark, and the models say 1 for bright: all are wrong but for the two
    # pictures that lie wrong.
    assert plan.outcome.accuracies == pytest.approx((2 / 24, 2 / 24))
    assert plan.seen.images == 24 and plan.seen.skipped == 1
    with edgewise.load(str(own / "my.plan.json")) as chooser:
        first, last = chooser.predict([own / "pictures/dark/000.png", own / "pictures/bright/023.png"])
        assert (first.label, last.label) == (0, 1)
        assert len(first.asked) == 1
        middle = chooser.predict(np.full((16, 16, 3), 130, np.uint8))
        assert len(middle.asked) == 2


def test_a_picture_that_is_none_is_passed_over_and_named(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["select", "evaluate", str(own / "my.plan.json"), "--live", "0", "--save", str(own / "lab.db")]
    assert _main(asked) == 0
    out = capsys.readouterr().out
    assert "1 of 25 image was passed over" in out and "broken.png" in out


def changed(folder: Path, tmp_path: Path, change: Any) -> str:
    """A copy of the plan and all it has, its fields changed, its digest right again."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("XDG*", "*.db*"))
    path = copy / "my.plan.json"
    fields = json.loads(path.read_text())
    change(fields)
    fields["digest"] = digest(fields)
    path.write_text(json.dumps(fields))
    return str(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.update(kind="cascade"), "a plan of kind 'cascade'"),
        (lambda p: p.update(kind="single"), "is not a plan"),
        (lambda p: p.update(version=99), "of version 99"),
        (lambda p: p.update(members=[]), "it has no candidate"),
        (lambda p: p.update(outputs="two"), "expected the number of classes"),
        (lambda p: p.update(policy=7), "expected a text"),
        (lambda p: p.update(policy="magic"), "which is not known here"),
        (lambda p: p.update(fields=[]), "fields is"),
        (lambda p: p["fields"].update(second=5), "chooses candidate 5"),
        (lambda p: p["members"][0]["candidate"].update(target="ort:"), "is not a target"),
        (lambda p: p["members"][0]["candidate"].update(run_ns="fast"), "is no time"),
        (lambda p: p["members"][0]["candidate"].update(preprocess="x y"), "not a preprocessing"),
        (lambda p: p["members"][0]["model"]["source"].update(path="/etc/passwd"), "is not relative"),
        (lambda p: p["members"][1]["model"]["source"].update(sha256="0" * 64), "its SHA-256 differs"),
        (lambda p: p["arrays"].update(path="../x.npz"), "are not beside it"),
        (lambda p: p["arrays"].update(sha256="0" * 64), "its SHA-256 differs"),
        (lambda p: p["arrays"].update(path="other.npz"), "are not there"),
        (lambda p: p["outcome"].update(objective="beauty"), "unknown objective"),
        (lambda p: p["outcome"].update(asked=[1]), "figures are of 2 candidates"),
        (lambda p: p["outcome"].update(best=9), "the best candidate is 9"),
    ],
)
def test_a_plan_that_was_tampered_with_is_refused(own: Path, tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        edgewise.load(changed(own, tmp_path, change))


def test_a_changed_digest_model_or_array_is_noticed(own: Path, tmp_path: Path) -> None:
    path = Path(changed(own, tmp_path, lambda p: None))
    edgewise.load(str(path)).close()
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"outputs": 3}))
    with pytest.raises(InputError, match="was changed after it was written"):
        edgewise.load(str(path))
    path.write_text(json.dumps(fields))
    np.savez(path.with_name("my.plan.npz"), threshold=np.array([0.1]))
    with pytest.raises(InputError, match=r"my\.plan\.npz is not what the plan was written with"):
        edgewise.load(str(path))
    brightness(path.with_name("weak.onnx"), 5.0)
    with pytest.raises(InputError, match=r"weak\.onnx is not the model the plan was made for"):
        edgewise.load(str(path))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--models", "weak.onnx"), "there is nothing to choose between"),
        (("--models", "weak.onnx", "other.onnx"), "they do not answer the same question"),
        (("--models", "weak.onnx", "strong.onnx", "--data", "flat"), "has no folder per class"),
        (("--models", "weak.onnx", "strong.onnx", "--preprocess", "unit", "unit", "unit"), "one for each"),
        (("--models", "weak.onnx", "strong.onnx", "--method", "magic"), "unknown method 'magic'"),
        (("--models", "weak.onnx", "strong.onnx", "--objective", "beauty"), "--objective is one of"),
        (("--models", "weak.onnx", "strong.onnx", "--max-loss", "-1"), "--max-loss is a number of points"),
        (("--models", "weak.onnx", "strong.onnx", "--risk", "2"), "--risk is a probability"),
        (("--models", "weak.onnx", "nothing.onnx"), "there is no file nothing.onnx"),
    ],
)
def test_what_cannot_be_chosen_between_is_refused(
    own: Path, argv: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(own)
    if not (own / "other.onnx").exists():
        brightness(own / "other.onnx", outputs=3)
        (own / "flat").mkdir()
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(own / "flat" / "a.png")
    data = () if "--data" in argv else ("--data", "pictures")
    how = () if "--preprocess" in argv else ("--preprocess", "unit(resize=8, crop=8)")
    method = () if "--method" in argv else ("--method", "two_steps")
    assert _main(["select", "fit", *argv, *data, *how, *method, "-o", "no.plan.json", "--save", "lab.db"]) == 2
    assert message in capsys.readouterr().err
    assert not Path("no.plan.json").exists()


def test_a_candidate_that_fails_is_left_out(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(own)
    asked = ["select", "fit", "--models", "weak.onnx", "--data", "pictures", "--preprocess", "unit(resize=8, crop=8)"]
    how = ["--method", "single", "-o", "some.plan.json", "--save", "lab.db"]
    on = ["ort:cpu@1", "null:cpu@1{over=ort}", "null:cpu@1{fail=run}"]
    assert _main([*asked, *how, "--on", *on]) == 0
    assert "null was told to fail at run" in capsys.readouterr().out
    assert len(choosers.read("some.plan.json").members) == 2
    assert _main([*asked, *how, "--on", on[0], on[2]]) == 5
    assert "null was told to fail at run" in capsys.readouterr().err
