"""What `edgewise optimize` cannot do is told at once, as what it is, with what would help."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from command import edgewise
from edgewise.optimize.quantize.static import write
from edgewise.study import optimize as driver

QUICK = ("--starts", "2", "--rounds", "1", "--save", "lab.db")
FEW = ("--calibration", "pocket(split=train, count=10)")


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What computes nothing is steady from the first run."""
    monkeypatch.setattr(driver, "compare", partial(driver.compare, warmup_ns=1_000_000))


@pytest.mark.parametrize("how", [(), ("--recipe", "fuse")], ids=["search", "recipe"])
@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("null:cpu@1{refuse=Conv}", 4, "null was told to refuse Conv"),
        ("null:cpu@1{fail=load}", 5, "null was told to fail at load"),
        ("null:cpu@1{crash=run}", 5, "died by SIGSEGV"),
    ],
)
def test_a_model_the_engine_does_not_run_ends_it_at_once(
    tmp_path: Path, how: tuple[str, ...], target: str, code: int, said: str
) -> None:
    arguments = ("optimize", "pocket/nano", *how, "--data", "pocket(count=50)", *FEW, "--on", target, *QUICK)
    done = edgewise(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr and "making it" not in done.stderr


@pytest.mark.parametrize("how", [(), ("--recipe", "fuse")], ids=["search", "recipe"])
def test_labels_out_of_range_end_it_at_once(tmp_path: Path, how: tuple[str, ...]) -> None:
    images = np.zeros((60, 64, 64, 3), np.uint8)
    np.savez(tmp_path / "wrong.npz", images=images, labels=np.arange(60) + 100)
    arguments = ("optimize", "pocket/nano", *how, "--data", "wrong.npz", *FEW, "--on", "null:cpu@1{over=ort}", *QUICK)
    done = edgewise(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "making it" not in done.stderr
    assert "class" in done.stderr, done.stderr


def test_a_recipe_that_is_refused_says_what_would_help(tmp_path: Path, tiny_onnx: Path) -> None:
    arguments = ("optimize", str(tiny_onnx), "--recipe", "prune(cost=0.5)", "--on", "null:cpu@1", *QUICK)
    done = edgewise(*arguments, cwd=tmp_path)
    assert done.returncode == 6, done.stderr
    assert "there are no inputs to see it by" in done.stdout
    assert "--data FOLDER, or prune(ratio=0.3)" in done.stdout
    told = json.loads(edgewise(*arguments, "--json", cwd=tmp_path).stdout)
    assert told["front"]["points"][-1]["hint"] == "--data FOLDER, or prune(ratio=0.3)"


def test_8_bits_without_data_are_told_to_rest_on_nothing(tmp_path: Path, tiny_onnx: Path) -> None:
    arguments = ("optimize", str(tiny_onnx), "--on", "null:cpu@1", *QUICK)
    done = edgewise(*arguments, "--recipe", "quantize", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "! null:cpu@1: 8 bits were fitted to made-up inputs" in done.stdout
    assert "→ --data FOLDER" in done.stdout
    # Inputs will do.
    np.savez(tmp_path / "inputs.npz", input=np.zeros((4, 3, 32, 32), np.float32))
    done = edgewise(*arguments, "--recipe", "quantize", "--calibration", "inputs.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "made-up" not in done.stdout


@pytest.fixture(scope="module")
def in_8_bits(tmp_path_factory: pytest.TempPathFactory, tiny_onnx: Path) -> Path:
    path = tmp_path_factory.mktemp("quantized") / "small8.onnx"
    write(tiny_onnx, path, [{"input": np.zeros((1, 3, 32, 32), np.float32)}], vnni=True)
    return path


@pytest.mark.parametrize("how", [(), ("--recipe", "fuse | quantize")], ids=["search", "recipe"])
def test_what_is_quantized_already_is_refused_first(tmp_path: Path, in_8_bits: Path, how: tuple[str, ...]) -> None:
    done = edgewise("optimize", str(in_8_bits), *how, "--on", "null:cpu@1", *QUICK, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "small8 is quantized already, and recipes start from floats" in done.stderr
    assert "the file it was made from" in done.stderr and f"edgewise tune {in_8_bits}" in done.stderr
    assert "as it is\n" not in done.stderr


@pytest.mark.parametrize("suffix", ["tflite", "xml", "mnn", "param"])
def test_a_file_of_an_engine_is_refused_by_its_name(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"model.{suffix}").write_bytes(b"whatever is in it")
    done = edgewise("optimize", f"model.{suffix}", "--recipe", "fuse", *QUICK, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"(.{suffix}), and recipes start from ONNX" in done.stderr
    assert "hint: edgewise optimize MODEL.onnx" in done.stderr


def test_a_limit_of_memory_is_kept_to(tmp_path: Path) -> None:
    left_out = ("--without", "prune", "--without", "lowrank", "--without", "quantize")
    arguments = ("optimize", "pocket/nano", *left_out, "--data", "pocket(count=50)", *FEW, "--on", "null:cpu@1", *QUICK)
    done = edgewise(*arguments, "--max-memory", "1MB", cwd=tmp_path)
    assert done.returncode == 6, done.stderr
    assert "within 977 KiB of memory" in done.stdout and "too much memory" in done.stdout
    # What was measured is there; only the limit is another.
    done = edgewise(*arguments, "--max-memory", "10GB", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "making it" not in done.stderr
