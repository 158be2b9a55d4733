"""`edgewise profile`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

from command import edgewise
from edgewise.core.profile import Profile
from edgewise.store.db import Store
from edgewise.store.kept import Kept


def test_profile_shows_types_layers_and_the_account(tiny_onnx: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "lab.db")
    done = edgewise("profile", str(tiny_onnx), "--on", "ort:cpu@1", "--save", store)
    assert done.returncode == 0, done.stderr
    assert "Conv" in done.stdout and "add up to" in done.stdout and "× as long" in done.stdout
    assert all(f"({part})" in done.stdout for part in ("dispatch", "copy", "other", "looking", "latency"))
    assert "position" in done.stdout


def test_profile_keeps_every_sample(tiny_onnx: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "lab.db")
    done = edgewise("profile", str(tiny_onnx), "--on", "ort:cpu@1", "--save", path, "--json")
    (profile,) = json.loads(done.stdout)["profiles"]
    runs = len(profile["plain_ns"])
    assert runs == len(profile["instrumented_ns"]) >= 20
    assert runs == len(profile["spans"]["engine_ns"]) == len(profile["spans"]["executor_ns"])
    assert all(len(op["samples_ns"]) == runs for op in profile["ops"])
    for i, (whole, engine, executor) in enumerate(
        zip(profile["instrumented_ns"], profile["spans"]["engine_ns"], profile["spans"]["executor_ns"], strict=True)
    ):
        # Whole microseconds, each rounded down: a sum of them may be a little below, never above what contains it.
        assert sum(op["samples_ns"][i] for op in profile["ops"]) <= executor + 1000 <= engine + 2000 <= whole + 3000
    with Store(path) as store:
        (kept,) = Kept(store).all("profile", Profile)
        assert list(kept.plain_ns) == profile["plain_ns"]
        assert [model.label for model in store.models().values()] == [tiny_onnx.stem]


def test_layers_alone_are_asked_for_by_name(tiny_onnx: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "lab.db")
    done = edgewise("profile", str(tiny_onnx), "--on", "ort:cpu@1", "--save", store, "--by", "layer", "--all")
    assert done.returncode == 0, done.stderr
    assert "position" in done.stdout and "(dispatch)" not in done.stdout
    wrong = edgewise("profile", str(tiny_onnx), "--by", "moon")
    assert wrong.returncode == 2
    assert "--by is type or layer, found 'moon'" in wrong.stderr


def test_an_engine_that_tells_nothing_says_so(tiny_onnx: Path, tmp_path: Path) -> None:
    done = edgewise("profile", str(tiny_onnx), "--on", "null", "--save", str(tmp_path / "lab.db"))
    assert done.returncode == 4
    assert "null does not tell what its operators take" in done.stdout
