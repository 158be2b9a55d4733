"""Passes that look at a network at work, and time its pieces where it is to run."""

from pathlib import Path

import numpy as np
import pytest

from edgewise.core.errors import InputError, Unsupported
from edgewise.core.records import to_json
from edgewise.core.text import parse_target
from edgewise.core.types import Target, Tensor
from edgewise.data import scenes
from edgewise.data.preprocess import prepare
from edgewise.model.feeds import shapes
from edgewise.model.graph import Graph, Node, fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.eight import eight
from edgewise.optimize.prune.widths import narrowed
from edgewise.study import passes
from edgewise.study.distill import distill_file
from edgewise.study.passes import apply_file, timer
from edgewise.zoo import pocket

TARGETS = ("ort:cpu:fp32@1", "ort:cpu:int8@1")


def conv(taken: int, made: int, size: int = 16, groups: int = 1) -> Graph:
    weight = np.random.default_rng(0).standard_normal((made, taken // groups, 3, 3)).astype(np.float32)
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": groups}
    values = {name: Tensor(name, "float32", (1, count, size, size)) for name, count in (("x", taken), ("y", made))}
    node = Node("conv", "Conv", ("x", "w", "b"), ("y",), attributes)
    return Graph((node,), {"w": weight, "b": np.zeros(made, np.float32)}, values, ("x",), ("y",), 17)


def samples(path: Path, count: int) -> str:
    """Scenes as inputs of the pocket models."""
    model = inspect(pocket.path("pocket/small"))
    assert model.preprocess is not None
    images, _ = scenes.scenes("train", 0, count)
    file = path / "samples.npz"
    np.savez(file, **{model.inputs[0].name: prepare(list(images), model.preprocess)})
    return str(file)


def small(name: str = "pocket/small") -> dict[str, object]:
    model = inspect(pocket.path(name))
    return to_json(fixed(model, shapes(model, 1, {})))


@pytest.mark.parametrize("target", TARGETS)
def test_more_work_takes_more_time(target: str) -> None:
    timed = timer(parse_target(target))
    assert timed(conv(256, 256, 32)) > 4 * timed(conv(16, 16, 32))


def test_what_has_the_same_sizes_is_timed_once() -> None:
    timed = timer(parse_target("ort:cpu:fp32@1"))
    assert timed(conv(8, 8)) == timed(conv(8, 8))


def test_a_piece_in_eight_bits_is_one() -> None:
    made = eight(conv(8, 16))
    assert [node.operator for node in made.nodes].count("DequantizeLinear") == 2
    assert {made.values[name].dtype for name in (*made.inputs, *made.outputs)} == {"uint8"}
    assert made.values[made.outputs[0]].shape == (1, 16, 16, 16)


@pytest.mark.parametrize("groups", [1, 32])
def test_a_layer_with_fewer_channels(groups: int) -> None:
    made = 24 if groups == 1 else 16
    found = narrowed(conv(32, 32, groups=groups), 16, made)
    assert found.values["x"].shape == (1, 16, 16, 16)
    assert found.values["y"].shape == (1, made, 16, 16)
    assert timer(parse_target("ort:cpu:fp32@1"))(found) > 0


@pytest.mark.parametrize("name", ["prune", "lowrank"])
def test_less_work_by_what_it_takes_here(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "made.onnx")
    data = samples(tmp_path, 64)
    # So small a network has layers that are no quicker for being thinner, by a clock that others use too.
    target, cost = ("ort:cpu:fp32@1", 0.85) if name == "prune" else (None, 0.7)
    made = apply_file(small(), name, {"cost": cost}, path, True, data, target)
    weights = [sum(array.size for array in graph(each).constants.values()) for each in _both(made.path)]
    assert weights[1] < weights[0]
    assert made.inputs[0].shape[0] == "batch"


@pytest.mark.parametrize("name", ["prune", "lowrank"])
def test_a_network_is_looked_at_once_for_all_costs(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made is the same as if it had been looked at again."""
    monkeypatch.setattr(passes, "_SEEN", {})
    data = samples(tmp_path, 64)
    made = [
        Path(apply_file(small(), name, {"cost": cost}, str(tmp_path / f"{cost}.onnx"), True, data).path).read_bytes()
        for cost in (0.9, 0.7)
    ]
    assert len(passes._SEEN) == 1
    monkeypatch.setattr(passes, "_SEEN", {})
    again = apply_file(small(), name, {"cost": 0.7}, str(tmp_path / "again.onnx"), True, data)
    assert Path(again.path).read_bytes() == made[1] != made[0]


def test_calling_an_engine_is_no_work_of_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a network with nothing to do takes is not counted; yet no layer costs nothing."""
    takes = {64: 100.0, 8: 20.5}

    def least_s(found: Graph, target: Target) -> float:
        return takes[_channels(found)] if found.constants else 20.0

    monkeypatch.setattr(passes, "_least_s", least_s)
    timed = timer.__wrapped__(parse_target("ort:cpu:fp32@1"))
    assert timed(conv(64, 64)) == 80.0
    assert timed(conv(8, 8)) == pytest.approx(0.05 * 20.5)


def _channels(found: Graph) -> int:
    """How many channels come out of it."""
    shape = found.values[found.outputs[0]].shape
    assert shape is not None and isinstance(shape[1], int)
    return shape[1]


def _both(path: str) -> list[object]:
    found = [inspect(pocket.path("pocket/small")), inspect(path)]
    return [fixed(model, shapes(model, 1, {})) for model in found]


def test_prune_by_cost_needs_something_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="no inputs to see it by"):
        apply_file(small(), "prune", {"cost": 0.7}, str(tmp_path / "made.onnx"), True)
    with pytest.raises(InputError, match="found both"):
        apply_file(small(), "prune", {"cost": 0.7, "ratio": 0.3}, str(tmp_path / "made.onnx"), True)


def test_a_pruned_network_learns_to_answer_as_before(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="distill needs torch")
    data = samples(tmp_path, 128)
    pruned = apply_file(small("pocket/nano"), "prune", {"ratio": 0.2}, str(tmp_path / "pruned.onnx"), True)
    whole = inspect(pocket.path("pocket/nano"))
    learned = distill_file(
        to_json(pruned), to_json(whole), data, str(tmp_path / "learned.onnx"), True, epochs=5, rate=1e-3
    )
    assert _alike(learned.path, data) > _alike(pruned.path, data)


def _alike(path: str, data: str) -> float:
    """How often it answers as the whole network does."""
    import onnxruntime

    ((name, images),) = np.load(data).items()
    answers = []
    for each in (pocket.path("pocket/nano"), path):
        session = onnxruntime.InferenceSession(each, providers=["CPUExecutionProvider"])
        answers.append(session.run(None, {name: images})[0])
    return float((answers[0].argmax(1) == answers[1].argmax(1)).mean())
