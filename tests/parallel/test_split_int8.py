"""Quantized models and batches: eight bits are exchanged as such, samples go to parts whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from split_networks import ORT, in_turn

from edgewise.core.errors import InputError, Unsupported
from edgewise.core.records import to_json
from edgewise.core.text import parse_placement
from edgewise.core.types import Model
from edgewise.model.graph import fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.quantize import quantize_file
from edgewise.parallel.split.cut import cut
from edgewise.parallel.split.executable import Split, asked
from edgewise.parallel.split.plan import plan
from networks import Network, whole
from processor import VNNI

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
INT8 = "ort:cpu:int8@1"


def quantized(tmp_path: Path, seed: int, size: int = 32) -> Model:
    model = Network(seed).save(tmp_path / "m.onnx", layers=5, size=size)
    shapes = {t.name: list(t.shape or ()) for t in model.inputs}
    made = quantize_file(model=to_json(model), shapes=shapes, path=str(tmp_path / "q.onnx"), vnni=VNNI)
    found = inspect(made.path)
    assert found.precision == "int8"
    return found


def near(found: Any, expected: Any) -> None:
    """Equal up to the step of a quantized output: pieces round where the whole does, but not always alike."""
    scale = np.abs(expected).max()
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.02 * scale


@pytest.mark.parametrize("axis", ["channels", "rows"])
@pytest.mark.parametrize("seed", range(4))
def test_quantized_networks(tmp_path: Path, seed: int, axis: str) -> None:
    model = quantized(tmp_path, seed + 10)
    feeds, answers = in_turn(model, INT8, [[0.6, 0.4]], tmp_path, True, axis)
    for name, expected in whole(model, feeds).items():
        for answer in answers:
            near(answer[name], expected)


def test_eight_bits_are_exchanged(tmp_path: Path) -> None:
    network = Network(0)
    network.shapes["x"] = (1, 3, 16, 16)
    y = "x"
    for _ in range(4):
        y = network.add("Relu", [network.conv(y, 32)], (1, 32, 16, 16))
    model = network.saved(tmp_path / "m.onnx", 16, y)
    shapes = {"x": [1, 3, 16, 16]}
    made = quantize_file(model=to_json(model), shapes=shapes, path=str(tmp_path / "q.onnx"), vnni=VNNI)
    pieces = cut(plan(graph(inspect(made.path)), [[1, 1]]), tmp_path)
    inner = [lies for step in pieces.steps[0][1:] for lies in step.inputs]
    assert inner and {lies.dtype for lies in inner} == {"uint8"}


def test_a_quantized_split_runs_in_processes(tmp_path: Path) -> None:
    model = quantized(tmp_path, 11)
    split = Split([(model, ())] * 2, parse_placement(f"split({INT8}, {INT8})"))
    try:
        for seed in range(30):
            feeds = {"x": np.random.default_rng(seed).standard_normal((1, 3, 32, 32)).astype(np.float32)}
            found = split.run(feeds)
            for name, expected in whole(model, feeds).items():
                near(found[name], expected)
    finally:
        split.close()


def any_batch(path: Path, seed: int = 3) -> Model:
    """A network whose batch is open."""
    import onnx

    model = Network(seed).save(path, layers=4)
    loaded = onnx.load(path)
    for each in (*loaded.graph.input, *loaded.graph.output):
        each.type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(loaded, path)
    return inspect(model.path)


@pytest.mark.parametrize(
    "text", [f"split({ORT}=0.5, {ORT}=0.5)", f"split({ORT}=0.8, {ORT}=0.2)", f"split({ORT}=1, {ORT}=0)"]
)
@pytest.mark.parametrize("batch", [2, 5])
def test_a_batch_is_divided_by_samples(tmp_path: Path, batch: int, text: str) -> None:
    model = fixed(any_batch(tmp_path / "m.onnx"), {"x": (batch, 3, 20, 20)})
    split = Split([(model, ())] * 2, parse_placement(text))
    try:
        assert split.ran().notes[0].startswith(f"1 exchange: the {batch} samples")
        for seed in range(30):
            feeds = {"x": np.random.default_rng(seed).standard_normal((batch, 3, 20, 20)).astype(np.float32)}
            found = split.run(feeds)
            for name, expected in whole(model, feeds).items():
                np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-4)
    finally:
        split.close()


def test_rows_of_a_batch(tmp_path: Path) -> None:
    model = fixed(any_batch(tmp_path / "m.onnx"), {"x": (2, 3, 20, 20)})
    feeds, answers = in_turn(model, ORT, [[0.6, 0.4]], tmp_path, True, "rows")
    for name, expected in whole(model, feeds).items():
        np.testing.assert_allclose(answers[1][name], expected, rtol=1e-4, atol=1e-4)


def test_a_batch_that_the_file_fixes_says_so(tmp_path: Path) -> None:
    network = Network(0)
    network.shapes["x"] = (1, 3, 16, 16)
    model = network.saved(tmp_path / "m.onnx", 16, network.conv("x", 32))
    with pytest.raises(Unsupported, match="fixes how many"):
        Split([(fixed(model, {"x": (2, 3, 16, 16)}), ())] * 2, parse_placement(f"split({ORT}, {ORT})"))


def test_how_to_cut_is_an_option_of_the_first_target(tmp_path: Path) -> None:
    axis, targets = asked(parse_placement(f"split({ORT}{{split=rows,spin=off}}, {ORT})"))
    assert axis == "rows" and [str(target) for target in targets] == [f"{ORT}{{spin=off}}", ORT]
    assert asked(parse_placement(f"split({ORT}, {ORT})"))[0] == "auto"
    with pytest.raises(InputError, match="choose from auto, channels, rows"):
        asked(parse_placement(f"split({ORT}{{split=columns}}, {ORT})"))
    with pytest.raises(InputError, match="said once"):
        asked(parse_placement(f"split({ORT}, {ORT}{{split=rows}})"))


@pytest.mark.parametrize("shares", [("0", "0"), ("-0.5", "1.5")])
def test_shares_that_are_none(tmp_path: Path, shares: tuple[str, str]) -> None:
    model = Network(3).save(tmp_path / "m.onnx", layers=1)
    with pytest.raises(InputError, match="parts of a whole"):
        Split([(model, ())] * 2, parse_placement(f"split({ORT}={shares[0]}, {ORT}={shares[1]})"))


@pytest.mark.parametrize(("option", "steps"), [("rows", True), ("channels", False)])
def test_notes_say_how_it_is_cut(tmp_path: Path, option: str, steps: bool) -> None:
    model = Network(3).save(tmp_path / "m.onnx", layers=3, size=32)
    split = Split([(model, ())] * 2, parse_placement(f"split({ORT}{{split={option}}}=0.5, {ORT}=0.5)"))
    try:
        note = split.ran().notes[2]
        assert "steps cut by rows, redundant work" in note
        assert (not note.startswith("0 of")) == steps
        split.run({"x": np.zeros((1, 3, 32, 32), np.float32)})
    finally:
        split.close()
