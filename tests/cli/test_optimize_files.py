"""The files `edgewise optimize` reads and writes: the original stays what it was, and what is written is whole."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import onnx
import onnxruntime
import pytest

from command import edgewise
from edgewise.measure import isolate
from edgewise.study import optimize as driver

QUICK = ("--on", "null:cpu@1", "--starts", "2", "--rounds", "1", "--save", "lab.db")


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What computes nothing is steady from the first run."""
    monkeypatch.setattr(driver, "compare", partial(driver.compare, warmup_ns=1_000_000))


def digests(folder: Path) -> dict[str, str]:
    files = [each for each in sorted(folder.rglob("*")) if each.is_file() and ".db" not in each.name]
    return {str(each.relative_to(folder)): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


@pytest.fixture
def outside(tmp_path: Path, tiny_onnx: Path) -> Path:
    """A model whose weights lie in a file beside it."""
    path = tmp_path / "outside.onnx"
    onnx.save(onnx.load(tiny_onnx), str(path), save_as_external_data=True, location="outside.bin", size_threshold=0)
    return path


@pytest.mark.parametrize("named", ["outside.onnx", "./outside.onnx", "link.onnx", "twin.onnx", "outside.bin"])
def test_the_original_is_not_written_over_by_any_name(tmp_path: Path, outside: Path, named: str) -> None:
    (tmp_path / "link.onnx").symlink_to(outside)
    os.link(outside, tmp_path / "twin.onnx")
    before = digests(tmp_path)
    done = edgewise("optimize", outside.name, "--recipe", "reorder", "-o", named, *QUICK, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"{named} is where outside lies itself" in done.stderr and "hint: -o ANOTHER.onnx" in done.stderr
    assert "making it" not in done.stderr
    assert digests(tmp_path) == before


@pytest.mark.parametrize(
    ("named", "said"), [(".", "is a folder"), ("nowhere/small.onnx", "there is no folder nowhere")]
)
def test_a_place_that_nothing_can_be_written_to_is_told_first(
    tmp_path: Path, tiny_onnx: Path, named: str, said: str
) -> None:
    done = edgewise("optimize", str(tiny_onnx), "--recipe", "reorder", "-o", named, *QUICK, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr and "making it" not in done.stderr


def test_weights_beside_the_model_come_along(tmp_path: Path, outside: Path) -> None:
    done = edgewise("optimize", outside.name, "--recipe", "none", "-o", "copy.onnx", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    away = tmp_path / "away"
    away.mkdir()
    for name in ("copy.onnx", "copy.onnx.data"):
        shutil.move(tmp_path / name, away / name)
    sessions = [onnxruntime.InferenceSession(str(path)) for path in (outside, away / "copy.onnx")]
    feeds = {
        each.name: np.ones([size if isinstance(size, int) else 1 for size in each.shape], np.float32)
        for each in sessions[0].get_inputs()
    }
    first, second = (session.run(None, feeds)[0] for session in sessions)
    assert np.array_equal(first, second)
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".copy")]


@pytest.mark.parametrize(
    ("recipe", "target"), [("fuse", "null:cpu@1"), ("quantize", "null:cpu@1"), ("lowrank(cost=0.5)", "ort:cpu@1")]
)
def test_the_original_stays_what_it_was(tmp_path: Path, recipe: str, target: str) -> None:
    """Two products with thin ones inside, in which every pass finds something to do."""
    wide, thin, random = 1024, 16, np.random.default_rng(0)
    constants = [
        onnx.numpy_helper.from_array(
            (random.standard_normal((wide, thin)) @ random.standard_normal((thin, wide))).astype(np.float32), name
        )
        for name in ("v", "w")
    ]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "v"], ["a"]),
        onnx.helper.make_node("Identity", ["a"], ["b"]),
        onnx.helper.make_node("Relu", ["b"], ["c"]),
        onnx.helper.make_node("MatMul", ["c", "w"], ["y"]),
    ]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, wide]) for name in ("x", "y")]
    network = onnx.helper.make_graph(nodes, "network", ends[:1], ends[1:], constants)
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(network, opset_imports=[opset], ir_version=8), str(tmp_path / "m.onnx"))
    before = digests(tmp_path)
    arguments = ("--recipe", recipe, "-o", "small.onnx", *QUICK, "--on", target)
    done = edgewise("optimize", "m.onnx", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    after = digests(tmp_path)
    assert after.pop("small.onnx") not in before.values()
    assert after == before


def test_what_was_chosen_is_written_before_layers_are_looked_at(
    tmp_path: Path, tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(function: str, **arguments: Any) -> Any:
        if function == "edgewise.study.passes:sensitivity_of":
            raise KeyboardInterrupt
        return isolate.call(function, **arguments)

    monkeypatch.setattr(driver, "isolate", MagicMock(wraps=isolate, call=interrupted))
    np.savez(tmp_path / "inputs.npz", input=np.zeros((4, 3, 32, 32), np.float32))
    arguments = ("--recipe", "quantize", "--calibration", "inputs.npz", "-o", "small.onnx")
    done = edgewise("optimize", str(tiny_onnx), *arguments, *QUICK, cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    assert "saved in lab.db, and small.onnx is written" in done.stderr
    assert any(node.op_type == "QuantizeLinear" for node in onnx.load(tmp_path / "small.onnx").graph.node)
