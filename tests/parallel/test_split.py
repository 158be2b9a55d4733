"""One inference over several parts: the same answers as the whole, whatever the network and the shares."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from split_networks import ORT, in_turn

from edgewise.core.errors import EdgewiseError, Unsupported
from edgewise.core.text import parse_placement
from edgewise.core.types import Model
from edgewise.model import arena
from edgewise.model.graph import graph
from edgewise.model.load import inspect
from edgewise.parallel.split.executable import Split
from edgewise.parallel.split.plan import edges_of, plan
from networks import Network, whole

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_random_networks_with_random_shares(tmp_path: Path, seed: int, optimized: bool) -> None:
    model = Network(seed).save(tmp_path / "m.onnx", layers=8)
    random = np.random.default_rng(seed)
    parts = int(random.choice([2, 2, 3]))
    shares = [list(random.uniform(0.1, 1.0, parts)) for _ in range(int(random.choice([1, 4])))]
    feeds, answers = in_turn(model, ORT, shares, tmp_path, optimized)
    for name, expected in whole(model, feeds).items():
        for answer in answers:
            np.testing.assert_allclose(answer[name], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_edges_are_whole_blocks_and_cover_everything() -> None:
    assert edges_of(64, [1, 1]) == (0, 32, 64)
    assert edges_of(144, [0.6, 0.4]) == (0, 80, 144)
    assert edges_of(1000, [1, 1]) == (0, 496, 1000)
    assert edges_of(8, [1, 1]) in ((0, 0, 8), (0, 8, 8))
    assert edges_of(96, [1, 1], unit=24) == (0, 48, 96)
    assert edges_of(64, [1, 0, 1]) == (0, 32, 32, 64)


def test_memory_is_shared_by_what_is_not_needed_at_once() -> None:
    offsets, whole = arena.place({"a": 100, "b": 100, "c": 100}, {"a": (0, 1), "b": (1, 2), "c": (2, 3)})
    assert offsets["a"] == offsets["c"] != offsets["b"]
    assert whole == 256


def _model(tmp_path: Path, seed: int = 3) -> Model:
    return Network(seed).save(tmp_path / "m.onnx", layers=6)


def _split(model: Model, text: str) -> Split:
    placement = parse_placement(text)
    return Split([(model, ())] * len(placement.parts), placement)


def _feeds(model: Model, seed: int = 1) -> dict[str, Any]:
    return {t.name: np.random.default_rng(seed).standard_normal(t.shape).astype(np.float32) for t in model.inputs}


@pytest.mark.parametrize(
    "text", [f"split({ORT}, {ORT})", f"split({ORT}=0.7, {ORT}=0.3)", f"split({ORT}, {ORT}, {ORT})"]
)
def test_processes_answer_like_the_whole(tmp_path: Path, text: str) -> None:
    model = _model(tmp_path)
    split = _split(model, text)
    try:
        for seed in range(20):
            feeds = _feeds(model, seed)
            for name, expected in whole(model, feeds).items():
                np.testing.assert_allclose(split.run(feeds)[name], expected, rtol=1e-4, atol=1e-4)
    finally:
        split.close()


def test_two_engines_share_one_inference(tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    model = _model(tmp_path)
    split = _split(model, f"split({ORT}=0.5, openvino:cpu:fp32@1=0.5)")
    try:
        feeds = _feeds(model)
        for name, expected in whole(model, feeds).items():
            np.testing.assert_allclose(split.run(feeds)[name], expected, rtol=1e-3, atol=1e-3)
    finally:
        split.close()


def test_a_part_that_dies_is_an_error_with_its_reason(tmp_path: Path) -> None:
    model = _model(tmp_path)
    split = _split(model, f"split({ORT}=0.5, {ORT}=0.5)")
    try:
        split.run(_feeds(model))
        os.kill(split.pids[0], signal.SIGKILL)
        with pytest.raises(EdgewiseError, match="died by SIGKILL"):
            split.run(_feeds(model))
        with pytest.raises(EdgewiseError, match="closed"):
            split.run(_feeds(model))
    finally:
        split.close()


def test_what_cannot_be_split_says_so(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", "y")]
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="r")], "g", info[:1], info[1:])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "r.onnx")
    with pytest.raises(Unsupported, match="nothing in this model can be split"):
        plan(graph(inspect(str(tmp_path / "r.onnx"))), [[1, 1]])
