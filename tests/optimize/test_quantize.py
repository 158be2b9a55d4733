"""int8: a smaller model, close to the original, really run in 8 bits, cached, refused with a reason."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgewise import zoo
from edgewise.core.errors import InputError, Unsupported
from edgewise.core.records import to_json
from edgewise.core.types import Target
from edgewise.engines import ort
from edgewise.model import feeds, load
from edgewise.model.equal import agreement
from edgewise.optimize.quantize import quantize_file
from processor import VNNI


def test_quantized_is_int8_and_close(tiny_onnx: Path, tmp_path: Path) -> None:
    model = load.inspect(str(tiny_onnx))
    shapes = feeds.shapes(model)
    made = quantize_file(to_json(model), {k: list(v) for k, v in shapes.items()}, str(tmp_path / "q.onnx"), vnni=VNNI)
    assert (made.precision, made.parent, made.recipe) == ("int8", model.digest, "quantize(precision=int8)")
    assert Path(made.path).stat().st_size < tiny_onnx.stat().st_size
    inputs = feeds.feeds(model, shapes)
    whole, small = ort.load(model, Target("ort")), ort.load(made, Target("ort", precision="int8"))
    assert 1e-4 < agreement(small.run(inputs), whole.run(inputs)).error < 0.1
    assert dict(small.ran().precisions)["int8"] > 0  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="already"):
        quantize_file(to_json(made), {k: list(v) for k, v in shapes.items()}, str(tmp_path / "again.onnx"), vnni=VNNI)


def test_weights_may_lie_in_a_file_beside_the_model(tiny_onnx: Path, tmp_path: Path) -> None:
    made = {}
    for place in ("inside", "outside"):
        path = tmp_path / place / "m.onnx"
        path.parent.mkdir()
        outside = place == "outside"
        onnx.save(onnx.load(tiny_onnx), str(path), save_as_external_data=outside, location="m.bin", size_threshold=0)
        model = load.inspect(str(path))
        shapes = {name: list(shape) for name, shape in feeds.shapes(model).items()}
        made[place] = quantize_file(to_json(model), shapes, str(tmp_path / f"{place}.onnx"), vnni=VNNI)
    first, second = (ort.load(each, Target("ort", precision="int8")) for each in made.values())
    inputs = feeds.feeds(made["inside"], feeds.shapes(made["inside"]))
    assert agreement(first.run(inputs), second.run(inputs)).error == 0


def test_calibration_data_is_used_and_checked(tiny_onnx: Path, tmp_path: Path) -> None:
    model = load.inspect(str(tiny_onnx))
    shapes = {k: list(v) for k, v in feeds.shapes(model).items()}
    random = np.random.default_rng(0)
    np.savez(tmp_path / "good.npz", input=random.standard_normal((4, 3, 32, 32)))
    np.savez(tmp_path / "other.npz", image=np.zeros((4, 3, 32, 32)))
    (tmp_path / "bad.npz").write_bytes(b"no")
    path = str(tmp_path / "q.onnx")
    good = quantize_file(to_json(model), shapes, path, vnni=VNNI, calibration=str(tmp_path / "good.npz"))
    assert good.precision == "int8"
    with pytest.raises(InputError, match="lacks the input 'input'"):
        quantize_file(to_json(model), shapes, path, vnni=VNNI, calibration=str(tmp_path / "other.npz"))
    with pytest.raises(InputError, match="cannot be read as arrays"):
        quantize_file(to_json(model), shapes, path, vnni=VNNI, calibration=str(tmp_path / "bad.npz"))


def test_a_damaged_calibration_file_is_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    """Its first packed byte says that what follows is packed in a way that there is none of."""
    model = load.inspect(str(tiny_onnx))
    shapes = {k: list(v) for k, v in feeds.shapes(model).items()}
    file = tmp_path / "damaged.npz"
    np.savez_compressed(file, input=np.random.default_rng(0).standard_normal((4, 3, 32, 32)))
    content = bytearray(file.read_bytes())
    content[30 + sum(struct.unpack_from("<HH", content, 26))] = 0xFF  # past the head, a name and what comes with it
    file.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as arrays"):
        quantize_file(to_json(model), shapes, str(tmp_path / "q.onnx"), vnni=VNNI, calibration=str(file))


@pytest.mark.parametrize("count", [20, 3])
def test_a_fixed_batch_is_calibrated_in_whole_batches(count: int, tmp_path: Path) -> None:
    """Samples that fill no batch, or not the last one, are still all seen."""
    zoo.export("tiny", str(tmp_path / "eight.onnx"), batch=8)
    model = load.inspect(str(tmp_path / "eight.onnx"))
    shapes = {k: list(v) for k, v in feeds.shapes(model).items()}
    images = np.random.default_rng(0).standard_normal((count, 3, 32, 32))
    images[-1] *= 100
    np.savez(tmp_path / "c.npz", input=images)
    path = str(tmp_path / "q.onnx")
    made = quantize_file(to_json(model), shapes, path, vnni=VNNI, calibration=str(tmp_path / "c.npz"))
    assert (made.precision, made.inputs[0].shape) == ("int8", (8, 3, 32, 32))
    scales = {tensor.name: tensor for tensor in onnx.load(path).graph.initializer}
    scale = float(onnx.numpy_helper.to_array(scales["input_scale"]))
    assert scale == pytest.approx((images.max() - images.min()) / 255, rel=0.01)


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (np.zeros((4, 3, 16, 16)), "is 4 x 3 x 16 x 16, expected n x 3 x 32 x 32"),
        (np.zeros((3, 32, 32)), "is 3 x 32 x 32, expected n x 3 x 32 x 32"),
        (np.zeros((0, 3, 32, 32)), "expected numbers"),
        (np.array("a text"), "expected numbers"),
        (np.array(1.0), "is a single value, expected n x 3 x 32 x 32"),
    ],
)
def test_samples_of_another_shape_are_refused(tiny_onnx: Path, tmp_path: Path, samples: Any, said: str) -> None:
    model = load.inspect(str(tiny_onnx))
    shapes = {k: list(v) for k, v in feeds.shapes(model).items()}
    np.savez(tmp_path / "c.npz", input=samples)
    with pytest.raises(InputError, match=said):
        quantize_file(to_json(model), shapes, str(tmp_path / "q.onnx"), vnni=VNNI, calibration=str(tmp_path / "c.npz"))


def test_a_model_without_floats_is_refused(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.INT64, [1, 4])
    out = helper.make_tensor_value_info("y", TensorProto.INT64, [1, 4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [value], [out])
    path = tmp_path / "ints.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    model = load.inspect(str(path))
    with pytest.raises(Unsupported, match="float32"):
        quantize_file(to_json(model), {"x": [1, 4]}, str(tmp_path / "q.onnx"), vnni=VNNI)
