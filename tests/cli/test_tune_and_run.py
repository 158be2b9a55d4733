"""`edgewise tune` and `edgewise run` as a user types them."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgewise.cli import _main
from edgewise.core.plan import Plan
from edgewise.model.load import inspect
from edgewise.study import race, tune
from edgewise.study.plans import read

FAST, SLOW = "null:cpu:fp32@1{latency=300us,wait=sleep}", "null:cpu:fp32@1{latency=2ms,wait=sleep}"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, tiny_onnx: Path) -> tuple[Path, str, Plan]:
    """A folder, what `tune` printed in it, and the plan it left there."""
    folder = tmp_path_factory.mktemp("tuned")
    on = ("--on", FAST, "--on", SLOW, "--on", "null@1{fail=load}", "--against", SLOW, "--starts", "2")
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr(race, "WARMUP_NS", 5_000_000)
        patch.setattr(tune, "CLOSE_TURNS", 8)
        assert _main(["tune", str(tiny_onnx), *on, "-o", "best.plan.json", "--save", "lab.db"]) == 0
    return folder, said.getvalue(), read(str(folder / "best.plan.json"))


def test_tune_says_who_won_how_surely_and_what_was_not_tried(tuned: tuple[Path, str, Plan]) -> None:
    _, out, plan = tuned
    assert str(plan.placement) == FAST
    lines = [line for line in out.splitlines() if "null:cpu" in line]
    assert FAST in lines[0] and " won " in lines[0]
    assert SLOW in lines[1] and "slower, heat " in lines[1]
    assert "error rate 5.0 %" in out
    assert f"as fast as {SLOW}" in out and "as installed" not in out
    assert "not tried: " in out
    assert "Did not run" in out and "null was told to fail at load" in out
    assert "Plan written to best.plan.json" in out


def test_run_executes_the_plan(
    tuned: tuple[Path, str, Plan], tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, *_ = tuned
    plan, kept_in = str(folder / "best.plan.json"), str(tmp_path / "out.npz")
    picture, feeds = tmp_path / "picture.png", tmp_path / "feeds.npz"
    Image.fromarray(np.full((40, 60, 3), 99, np.uint8)).save(picture)
    sizes = [1, *(inspect(str(tiny_onnx)).inputs[0].shape or ())[1:]]
    np.savez(feeds, input=np.zeros(sizes, np.float32))
    ways = ("--preprocess", f"unit(resize={sizes[2]}, crop={sizes[3]})")
    assert _main(["run", plan, str(picture), str(feeds), *ways, "-o", kept_in, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [Path(each["input"]).name for each in said["results"]] == ["picture.png", "feeds.npz"]
    assert all(each["latency_ns"] >= 300_000 for each in said["results"])
    assert said["findings"] == []
    with np.load(kept_in) as kept:
        assert all(kept[name].shape[0] == 2 for name in kept.files)
    assert _main(["run", plan]) == 0
    assert "seeded noise: " in capsys.readouterr().out


def test_run_refuses_what_it_cannot_run(
    tuned: tuple[Path, str, Plan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, *_ = tuned
    text, feeds = tmp_path / "picture.png", tmp_path / "feeds.npy"
    text.write_text("not a picture")
    np.save(feeds, np.zeros((2, 2), np.float32))
    plan = str(folder / "best.plan.json")
    for given, message in (
        ((str(text), "--preprocess", "unit"), "cannot be read as a picture"),
        ((str(feeds),), "and tiny takes float32"),
        ((str(tmp_path / "nothing.png"),), "there is no file"),
        (("--data", str(feeds)), "is not a folder"),
        (("-o", str(tmp_path / "nowhere" / "out.npz")), "is no folder to write to"),
    ):
        assert _main(["run", plan, *given]) == 2
        said = capsys.readouterr().err
        assert message in said
        assert "Traceback" not in said


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--prefer", "beauty"), "--prefer is one of latency, throughput, energy, memory"),
        (("--max-p90", "10ms", "--max-p99", "20ms"), "one percentile can be bounded at a time"),
        (("--max-p90", "soon"), "is not a bound"),
        (("--max-loss", "0"), "--max-loss is a number of points"),
        (("--starts", "1"), "at least two sets of processes"),
    ],
)
def test_bad_wishes_are_refused_before_anything_runs(
    argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(["tune", "tiny", *argv]) == 2
    assert message in capsys.readouterr().err


def test_a_loss_cannot_be_bounded_without_images(
    tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["tune", str(tiny_onnx), "--on", FAST, "--against", SLOW, "--max-loss", "1", "--save", str(tmp_path / "s")]
    assert _main(asked) == 2
    assert "--max-loss needs labelled images" in capsys.readouterr().err


def test_no_winner_is_no_plan(tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["tune", str(tiny_onnx), "--on", FAST, "--against", SLOW, "--max-memory", "1MB", "--starts", "2"]
    assert _main([*asked, "-o", str(tmp_path / "p.json"), "--save", str(tmp_path / "lab.db")]) == 6
    assert "no candidate runs, answers right and keeps every bound" in capsys.readouterr().out
    assert not (tmp_path / "p.json").exists()


@pytest.mark.slow
def test_recipes_join_the_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pruned by a third without data it answers nearly at random, so however quick it is, it must not win."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(race, "WARMUP_NS", 5_000_000)
    monkeypatch.setattr(tune, "CLOSE_TURNS", 8)
    monkeypatch.setattr("edgewise.study.images.STATISTICS_IMAGES", 200)
    monkeypatch.setattr("edgewise.cli.tune._recipes", lambda *_: ("fuse", "prune(ratio=0.35)", "lowrank(cost=0.01)"))
    data = ("--data", "pocket(count=300)", "--max-loss", "10", "--starts", "3")
    assert _main(["tune", "pocket/nano", "--optimize", *data, "--on", "ort:cpu:fp32@1", "--save", "lab.db"]) == 0
    out = capsys.readouterr().out
    assert "pocket/nano | fuse" in out
    assert "pocket/nano | prune(ratio=0.35)" in out
    assert "lowrank(cost=0.01) of pocket/nano" in out, "what could not be made is told"
    (winner,) = [line for line in out.splitlines() if " won " in line]
    assert "prune" not in winner
    plan = read(str(tmp_path / "pocket-nano.plan.json"))
    assert (plan.model.recipe == "fuse") == ("| fuse" in winner)


@pytest.mark.slow
def test_the_recipes_that_are_built_in_join_the_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that `--optimize` makes of a model: each is there, and was made, or the reason is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(race, "WARMUP_NS", 5_000_000)
    monkeypatch.setattr(tune, "CLOSE_TURNS", 8)
    monkeypatch.setattr("edgewise.study.images.STATISTICS_IMAGES", 200)
    data = ("--data", "pocket(count=300)", "--max-loss", "10", "--starts", "3")
    asked = ["tune", "pocket/micro", "--optimize", *data, "--on", "ort:cpu:fp32@1", "--save", "lab.db", "--json"]
    assert _main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    names = {entry["label"] for entry in found["race"]["entries"]}
    made = ("fuse", *(f"fuse | prune(cost={cost})" for cost in ("0.85", "0.7", "0.55")))
    assert names >= {"pocket/micro", *(f"pocket/micro | {recipe}" for recipe in made)}
    assert not any("of pocket/micro" in missed for missed in found["race"]["not_tried"])
    # What is written down runs, whichever of them it is.
    plan = read(str(tmp_path / "pocket-micro.plan.json"))
    assert plan.model.recipe in (None, *made)
    assert _main(["run", "pocket-micro.plan.json"]) == 0
