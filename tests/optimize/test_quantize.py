"""int8: a smaller model, close to the original, really run in 8 bits, cached, refused with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgewise.core.errors import InputError, Unsupported
from edgewise.core.records import to_json
from edgewise.core.types import Target
from edgewise.engines import ort
from edgewise.model import feeds, load
from edgewise.model.equal import agreement
from edgewise.optimize.quantize import quantize_file


def test_quantized_is_int8_and_close(tiny_onnx: Path, tmp_path: Path) -> None:
    model = load.inspect(str(tiny_onnx))
    shapes = feeds.shapes(model)
    made = quantize_file(to_json(model), {k: list(v) for k, v in shapes.items()}, str(tmp_path / "q.onnx"), vnni=True)
    assert (made.precision, made.parent, made.recipe) == ("int8", model.digest, "quantize(precision=int8)")
    assert Path(made.path).stat().st_size < tiny_onnx.stat().st_size
    inputs = feeds.feeds(model, shapes)
    whole, small = ort.load(model, Target("ort")), ort.load(made, Target("ort", precision="int8"))
    assert 1e-4 < agreement(small.run(inputs), whole.run(inputs)).error < 0.1
    assert dict(small.ran().precisions)["int8"] > 0  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="already"):
        quantize_file(to_json(made), {k: list(v) for k, v in shapes.items()}, str(tmp_path / "again.onnx"), vnni=True)


def test_calibration_data_is_used_and_checked(tiny_onnx: Path, tmp_path: Path) -> None:
    model = load.inspect(str(tiny_onnx))
    shapes = {k: list(v) for k, v in feeds.shapes(model).items()}
    random = np.random.default_rng(0)
    np.savez(tmp_path / "good.npz", input=random.standard_normal((4, 3, 32, 32)))
    np.savez(tmp_path / "other.npz", image=np.zeros((4, 3, 32, 32)))
    (tmp_path / "bad.npz").write_bytes(b"no")
    path = str(tmp_path / "q.onnx")
    good = quantize_file(to_json(model), shapes, path, vnni=True, calibration=str(tmp_path / "good.npz"))
    assert good.precision == "int8"
    with pytest.raises(InputError, match="lacks the input 'input'"):
        quantize_file(to_json(model), shapes, path, vnni=True, calibration=str(tmp_path / "other.npz"))
    with pytest.raises(InputError, match="not a calibration file"):
        quantize_file(to_json(model), shapes, path, vnni=True, calibration=str(tmp_path / "bad.npz"))


def test_a_model_without_floats_is_refused(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.INT64, [1, 4])
    out = helper.make_tensor_value_info("y", TensorProto.INT64, [1, 4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [value], [out])
    path = tmp_path / "ints.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    model = load.inspect(str(path))
    with pytest.raises(Unsupported, match="float32"):
        quantize_file(to_json(model), {"x": [1, 4]}, str(tmp_path / "q.onnx"), vnni=True)
