"""`edgewise optimize` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from command import edgewise
from edgewise.zoo import pocket

# Short turns: what is checked here is not how quick it is.
QUICK = ("--starts", "2", "--rounds", "2")
REORDER = ("--recipe", "reorder", "--calibration", "pocket(split=train, count=10)")
DATA = ("--data", "pocket(count=250)", "--calibration", "pocket(split=train, count=100)")


@pytest.mark.slow
def test_a_recipe_step_by_step(tmp_path: Path) -> None:
    arguments = ("optimize", "pocket/nano", "--recipe", "prune(ratio=0.2) | quantize", *DATA, *QUICK)
    done = edgewise(*arguments, "--save", "lab.db", "-o", "small.onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "prune(ratio=0.2) | quantize" in done.stdout
    assert "written" in done.stdout
    assert "Wrote small.onnx" in done.stdout
    made = onnx.load(str(tmp_path / "small.onnx"))
    assert any(node.op_type == "QuantizeLinear" for node in made.graph.node)

    again = edgewise(*arguments, "--save", "lab.db", "-o", "small.onnx", "--json", cwd=tmp_path)
    points = json.loads(again.stdout)["front"]["points"]
    assert [point["recipe"] for point in points] == ["none", "prune(ratio=0.2)", "prune(ratio=0.2) | quantize"]
    assert all(point["reported"]["pair"]["count"] == 200 for point in points)
    assert all(point["decided"]["pair"]["count"] == 50 for point in points)
    # What the store has is not made again.
    assert "making it" not in again.stderr

    drawn = edgewise("report", "lab.db", "-o", "report.json", "--format", "json", cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    titles = [section["title"] for section in json.loads((tmp_path / "report.json").read_text())["sections"]]
    assert "Optimized models" in titles


@pytest.mark.slow
def test_where_nothing_helps_it_says_so_and_writes_no_other_model(tmp_path: Path) -> None:
    """Only `fuse` is left to try, which does nothing to a network that is fused already."""
    left_out = ("--without", "prune", "--without", "lowrank", "--without", "quantize")
    arguments = ("optimize", "pocket/nano", *left_out, *DATA, *QUICK, "--save", "lab.db")
    done = edgewise(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nothing helps here: of 1 recipes none" in done.stdout
    assert "Nothing was written" in done.stdout and "best here" in done.stdout
    assert not list(tmp_path.glob("*.onnx"))
    # Whoever names a file finds one.
    again = edgewise(*arguments, "-o", "nano.onnx", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert found["front"]["chosen"] == "none" and found["path"] == "nano.onnx"
    assert (tmp_path / "nano.onnx").read_bytes() == Path(pocket.path("pocket/nano")).read_bytes()


def test_a_network_without_data_takes_a_recipe_and_says_nothing_of_answers(tmp_path: Path, tiny_onnx: Path) -> None:
    arguments = ("optimize", str(tiny_onnx), "--recipe", "reorder", *QUICK, "--save", "lab.db", "--json")
    done = edgewise(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [point["decided"] for point in json.loads(done.stdout)["front"]["points"]] == [None, None]
    assert (tmp_path / "tiny.small.onnx").exists()


def test_a_budget_ends_a_search_and_the_same_command_goes_on(tmp_path: Path) -> None:
    left_out = ("--without", "prune", "--without", "lowrank", "--without", "quantize")
    few = ("--data", "pocket(count=50)", "--calibration", "pocket(split=train, count=10)")
    arguments = ("optimize", "pocket/nano", *left_out, *few, "--on", "null:cpu@1", *QUICK, "--save", "lab.db")
    ended = edgewise(*arguments, "--budget", "0.001s", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "the time was up before the search was → the same command again goes on where it was" in ended.stdout
    assert "making it" not in ended.stderr and "Nothing was written" in ended.stdout
    again = edgewise(*arguments, "--budget", "1h", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "the time was up" not in again.stdout
    assert "fuse: making it" in again.stderr and "the model as it is\n" not in again.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pocket/small", "--recipe", "prune | magic"), "unknown step 'magic'"),
        (("pocket/small", "--recipe", "prune(ratio=2)"), "a number between 0 and 1"),
        (("pocket/small", "--recipe", "distill(epochs=0)"), "a whole number from 1 to 1000"),
        (("pocket/small", *REORDER, "--data", "/nothere"), "there is no data at /nothere"),
        (("pocket/small", *REORDER, "--data", "pocket(count=50)", "--labels", "/nothere"), "/nothere"),
        (("tiny",), "a search needs labelled images"),
        (("pocket/small", "--without", "magic"), "--without is one of"),
        (("pocket/small", "--max-loss", "-1"), "--max-loss is a number of points"),
        (("pocket/small", "--starts", "1"), "at least two sets"),
    ],
)
def test_wrong_input_is_told_before_anything_is_made(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = edgewise("optimize", *arguments, "--save", "lab.db", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_a_step_that_cannot_be_applied_writes_nothing(tmp_path: Path) -> None:
    arguments = ("--recipe", "quantize | prune(ratio=0.2)", *DATA, *QUICK, "--save", "lab.db")
    done = edgewise("optimize", "pocket/nano", *arguments, cwd=tmp_path)
    assert done.returncode not in (0, 2), done.stderr
    assert "prune comes before quantize" in done.stdout
    assert not list(tmp_path.glob("*.small.onnx"))
