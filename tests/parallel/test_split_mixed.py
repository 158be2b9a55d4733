"""Parts of one inference in precisions of their own: each rounds as it would alone, and floats are exchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from split_networks import ORT, in_turn

from edgewise.analyze.trust import coarsest
from edgewise.core import registry
from edgewise.core.errors import Unsupported
from edgewise.core.records import to_json
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Model, Tensor
from edgewise.model.graph import graph
from edgewise.model.load import inspect
from edgewise.optimize.quantize import quantize_file
from edgewise.parallel.split.cut import cut
from edgewise.parallel.split.eight import eight, multiplies
from edgewise.parallel.split.executable import Split
from edgewise.parallel.split.plan import plan
from edgewise.parallel.split.source import source_for
from networks import Network, whole
from processor import VNNI

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

INT8 = "ort:cpu:int8@1"


def quantized(model: Model, path: Path) -> Model:
    shapes = {t.name: list(t.shape or ()) for t in model.inputs}
    return inspect(quantize_file(model=to_json(model), shapes=shapes, path=str(path), vnni=VNNI).path)


def both(folder: Path, seed: int, layers: int = 5, size: int = 32) -> tuple[Model, Model]:
    """A random network, and its 8-bit form."""
    model = Network(seed).save(folder / "m.onnx", layers=layers, size=size)
    return model, quantized(model, folder / "q.onnx")


def error(found: Any, expected: Any) -> float:
    return float(np.sqrt(np.mean((found - expected) ** 2)) / np.sqrt(np.mean(expected**2)))


@pytest.mark.parametrize("axis", ["channels", "rows"])
@pytest.mark.parametrize("seed", range(5))
def test_a_part_in_eight_bits_costs_no_more_than_all_in_eight_bits(tmp_path: Path, seed: int, axis: str) -> None:
    model, small = both(tmp_path, seed + 20)
    targets, models = ([ORT, INT8], [model, small]) if seed % 2 else ([INT8, ORT], [small, model])
    feeds, answers = in_turn(model, targets, [[0.5, 0.5]], tmp_path, True, axis, models=models)
    (expected,), (rough,) = whole(model, feeds).values(), whole(small, feeds).values()
    for answer in answers:
        (found,) = answer.values()
        assert 1e-6 < error(found, expected) < max(0.02, 1.3 * error(rough, expected))


def test_all_of_it_in_the_part_of_eight_bits_is_the_quantized_model(tmp_path: Path) -> None:
    model, small = both(tmp_path, 31)
    feeds, answers = in_turn(model, [ORT, INT8], [[0.0, 1.0]], tmp_path, True, models=[model, small])
    (expected,), (rough,) = whole(model, feeds).values(), whole(small, feeds).values()
    (found,) = answers[0].values()
    # What is between convolutions is not rounded here: not the same numbers, but the same distance.
    assert 0.3 * error(rough, expected) < error(found, expected) < 1.3 * error(rough, expected)


def pair(folder: Path) -> tuple[Model, Model]:
    """Three convolutions with activations, one of them a residual."""
    network = Network(0)
    network.shapes["x"] = (1, 3, 16, 16)
    first = network.add("Relu", [network.conv("x", 32)], (1, 32, 16, 16))
    second = network.add("Relu", [network.conv(first, 32)], (1, 32, 16, 16))
    y = network.add("Add", [network.conv(second, 32), first], (1, 32, 16, 16))
    model = network.saved(folder / "m.onnx", 16, y)
    return model, quantized(model, folder / "q.onnx")


def test_engines_compute_the_pieces_in_eight_bits_and_floats_are_exchanged(tmp_path: Path) -> None:
    model, small = pair(tmp_path)
    targets = [parse_target(ORT), parse_target(INT8)]
    source = source_for([model, small], targets, tmp_path)
    pieces = cut(plan(source.graph, [[1, 1]]), tmp_path, source.blocks, source.eights)
    assert {lies.dtype for steps in pieces.steps for s in steps for lies in (*s.inputs, *s.outputs)} == {"float32"}
    ort = registry.find("engines", "ort")
    ran = []
    for step in pieces.steps[1]:
        inputs, outputs = (
            tuple(Tensor(each.name, each.dtype, each.shape) for each in all_) for all_ in (step.inputs, step.outputs)
        )
        ran.append(dict(ort.load(Model("d", step.path, inputs, outputs, "int8"), targets[1]).ran().precisions))
    assert sum(each.get("int8", 0) for each in ran) >= 3
    assert not any(each.get("fp32") for each in ran)
    # The part in floats has nothing of it.
    operators = {node.operator for step in pieces.steps[0] for node in graph(inspect(step.path)).nodes}
    assert "QuantizeLinear" not in operators and "Conv" in operators


def test_the_quantized_file_knows_all_that_multiplies(tmp_path: Path) -> None:
    model, small = both(tmp_path, 40, layers=8)
    source = source_for([model, small], [parse_target(ORT), parse_target(INT8)], tmp_path)
    known = eight(graph(small))
    nodes = [node for node in source.graph.nodes if multiplies(node)]
    assert nodes and all(map(known.knows, nodes))


@pytest.mark.parametrize("second", [INT8, "openvino:cpu:int8@1", "openvino:cpu:bf16@1"])
def test_precisions_of_their_own_in_processes(tmp_path: Path, second: str) -> None:
    target = parse_target(second)
    if target.engine == "openvino":
        engine = pytest.importorskip("edgewise.engines.openvino")
        pytest.importorskip("openvino", reason="openvino is not installed")
        if not any(d.name == "cpu" and target.precision in d.precisions for d in engine.devices()):
            pytest.skip(f"openvino has no {target.precision} here")
        options = engine.defaults().get(target.precision, ())
        second = second + "".join(f"{{{key}={value}}}" for key, value in options)
    model, small = pair(tmp_path)
    other = small if target.precision == "int8" else model
    split = Split([(model, ()), (other, ())], parse_placement(f"split({ORT}=0.5, {second}=0.5)"))
    try:
        feeds = {"x": np.random.default_rng(3).standard_normal((1, 3, 16, 16)).astype(np.float32)}
        (expected,), (found,) = whole(model, feeds).values(), split.run(feeds).values()
        assert 1e-6 < error(found, expected) < 0.05
        # The first part computes in floats: of the last convolution its channels come out unrounded.
        assert ("3 of 3 convolutions and products in 8 bits" in str(split.ran().notes)) == (other is small)
    finally:
        split.close()


def test_shares_are_found_between_precisions(tmp_path: Path) -> None:
    model, small = pair(tmp_path)
    split = Split([(model, ()), (small, ())], parse_placement(f"split({ORT}, {INT8})"))
    try:
        feeds = {"x": np.random.default_rng(3).standard_normal((1, 3, 16, 16)).astype(np.float32)}
        (expected,) = whole(model, feeds).values()
        for _ in range(10):
            (found,) = split.run(feeds).values()
            assert error(found, expected) < 0.05
    finally:
        split.close()


def test_files_that_are_not_forms_of_each_other_are_refused(tmp_path: Path) -> None:
    model, _ = pair(tmp_path)
    other = Network(5).save(tmp_path / "other.onnx", layers=2)
    with pytest.raises(Unsupported, match=r"found m\.onnx for .*, other\.onnx for"):
        Split([(model, ()), (other, ())], parse_placement(f"split({ORT}, {ORT})"))


def test_a_quantized_file_of_another_network_is_refused(tmp_path: Path) -> None:
    import onnx

    model, small = pair(tmp_path)
    loaded = onnx.load(model.path)
    for node in loaded.graph.node:
        for names in (node.input, node.output):
            names[:] = [f"other {name}" for name in names]
    for each in (*loaded.graph.initializer, *loaded.graph.input, *loaded.graph.output):
        each.name = f"other {each.name}"
    onnx.save(loaded, tmp_path / "renamed.onnx")
    renamed = inspect(str(tmp_path / "renamed.onnx"))
    with pytest.raises(Unsupported, match="nothing of renamed is found again"):
        source_for([renamed, small], [parse_target(ORT), parse_target(INT8)], tmp_path)


def test_the_error_is_judged_by_the_roughest_precision() -> None:
    assert coarsest(parse_placement(f"split({ORT}, {INT8})")) == "int8"
    assert coarsest(parse_placement(f"split({ORT}, {ORT})")) == "fp32"
    assert coarsest(parse_placement("split(ort:cpu, openvino:cpu:bf16)")) == "bf16"
