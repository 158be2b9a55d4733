"""OpenVINO: its own files, arrays lent instead of copied, operators timed, and what becomes of each node."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgewise import engines
from edgewise.core.errors import InputError, Unsupported
from edgewise.core.protocols import Array, Profiled
from edgewise.core.types import Model, Target, Tensor
from edgewise.engines._cases import cases, expected
from edgewise.model.graph import fixed
from edgewise.model.load import inspect

ov = pytest.importorskip("openvino", reason="openvino is not installed")
openvino = pytest.importorskip("edgewise.engines.openvino")

PLAIN = Target("openvino", "cpu", "fp32", 1)
LENT = Target("openvino", "cpu", "fp32", 1, options=(("copy", "off"),))


def case(name: str, folder: Path) -> tuple[Model, dict[str, Array]]:
    found = next(case for case in cases() if case.name == name)
    path = folder / f"{name}.onnx"
    onnx.save(found.model, str(path))
    return inspect(str(path)), {key: array.copy() for key, array in found.feeds.items()}


def as_xml(name: str, folder: Path, **options: bool) -> tuple[Path, dict[str, Array]]:
    model, feeds = case(name, folder)
    path = folder / f"{name}.xml"
    ov.save_model(ov.Core().read_model(model.path), str(path), **options)
    return path, feeds


def test_an_xml_file_is_described_and_runs(tmp_path: Path) -> None:
    path, feeds = as_xml("two_inputs_two_outputs", tmp_path, compress_to_fp16=False)
    found = next(case for case in cases() if case.name == "two_inputs_two_outputs")
    model = engines.inspect(str(path))
    assert model.inputs == (Tensor("x0", "float32", (None, 3, 4)), Tensor("x1", "float32", (None, 1, 4)))
    assert [tensor.name for tensor in model.outputs] == [out.name for out in found.model.graph.output]
    assert (model.precision, model.label) == ("fp32", "two_inputs_two_outputs")
    for record in (model, fixed(model, {name: array.shape for name, array in feeds.items()})):
        outputs = openvino.load(record, PLAIN).run(feeds)
        for name, right in expected(found).items():
            assert np.allclose(outputs[name], right, atol=1e-5)


def test_the_digest_covers_the_weights(tmp_path: Path) -> None:
    path, _ = as_xml("classifier", tmp_path)
    before = openvino.inspect(str(path))
    weights = bytearray(path.with_suffix(".bin").read_bytes())
    weights[-1] ^= 1
    path.with_suffix(".bin").write_bytes(weights)
    assert openvino.inspect(str(path)).digest != before.digest


def test_the_precision_of_an_xml_file_is_what_it_computes_in(tmp_path: Path) -> None:
    """Weights stored as fp16 are widened before use; a quantized network says so by FakeQuantize."""
    assert openvino.inspect(str(as_xml("classifier", tmp_path, compress_to_fp16=True)[0])).precision == "fp32"
    quantized = openvino.inspect(str(as_xml("qdq_convolution", tmp_path)[0]))
    assert quantized.precision == "int8"
    with pytest.raises(Unsupported, match="quantized"):
        openvino.load(quantized, PLAIN)
    with pytest.raises(Unsupported, match="only on a quantized"):
        openvino.load(openvino.inspect(str(tmp_path / "classifier.xml")), Target("openvino", "cpu", "int8"))


def test_wrong_answers_are_refused_in_either_format(tmp_path: Path) -> None:
    path, _ = as_xml("lrn_fractional_bias", tmp_path)
    for model in (openvino.inspect(str(path)), inspect(str(path.with_suffix(".onnx")))):
        with pytest.raises(Unsupported, match="LRN"):
            openvino.load(model, PLAIN)


def test_an_xml_file_without_its_weights_or_damaged(tmp_path: Path) -> None:
    path, _ = as_xml("classifier", tmp_path)
    weights = path.with_suffix(".bin")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:100])
    with pytest.raises(InputError, match="not a valid OpenVINO model"):
        openvino.inspect(str(path))
    weights.unlink()
    with pytest.raises(InputError, match=r"there is no file .*classifier\.bin"):
        openvino.inspect(str(path))
    weights.write_bytes(whole)
    path.write_text("garbage")
    with pytest.raises(InputError, match="not a valid OpenVINO model"):
        openvino.inspect(str(path))


def test_lent_outputs_are_good_until_the_next_run(tmp_path: Path) -> None:
    model, feeds = case("classifier", tmp_path)
    model = fixed(model, {name: array.shape for name, array in feeds.items()})
    plain, lent = openvino.load(model, PLAIN), openvino.load(model, LENT)
    first = lent.run(feeds)["softmax5_0"]
    kept = first.copy()
    assert np.allclose(kept, plain.run(feeds)["softmax5_0"])
    feeds["x0"][...] = -feeds["x0"]
    second = lent.run(feeds)["softmax5_0"]
    assert np.shares_memory(first, second)
    assert not np.array_equal(kept, second)
    assert np.allclose(second, plain.run(feeds)["softmax5_0"])
    lent.close()
    del lent
    gc.collect()
    assert second.sum() == pytest.approx(len(second))


def test_a_scalar_may_be_fed(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(name, 1, []) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:])
    path = tmp_path / "scalar.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    answer = openvino.load(inspect(str(path)), PLAIN).run({"x": np.array(3, np.float32)})["y"]
    assert (answer.shape, float(answer)) == ((), -3)


def test_the_profile_has_what_ran(tmp_path: Path) -> None:
    model, feeds = case("residual", tmp_path)
    model = fixed(model, {name: array.shape for name, array in feeds.items()})
    timed = openvino.profile(model, PLAIN)
    assert isinstance(timed, Profiled)
    for runs in (1, 6):
        while len(timed.ops()[0].samples_ns if timed.ops() else ()) < runs:
            timed.run(feeds)
        ops = timed.ops()
        assert sum(op.operator == "Convolution" for op in ops) == 3
        assert not any(op.operator == "Relu" for op in ops)  # merged into the convolutions
        assert all(len(op.samples_ns) == runs and op.device == "cpu" and min(op.samples_ns) >= 0 for op in ops)
    assert sum(sum(op.samples_ns) for op in ops) > 0
    timed.close()
    with pytest.raises(InputError, match="closed"):
        timed.ops()


def test_composites_are_not_timed(tmp_path: Path) -> None:
    model, _ = case("residual", tmp_path)
    with pytest.raises(Unsupported, match="HETERO:CPU may be several"):
        openvino.profile(model, Target("openvino", "hetero(cpu)"))


@pytest.mark.parametrize("device", ["cpu", "auto", "hetero(cpu)"])
@pytest.mark.parametrize("name", ["attention", "inverted_residual", "shape_arithmetic", "identity"])
def test_support_has_a_verdict_for_every_node(tmp_path: Path, name: str, device: str) -> None:
    model, feeds = case(name, tmp_path)
    model = fixed(model, {key: array.shape for key, array in feeds.items()})
    found = openvino.support(model, Target("openvino", device))
    nodes = onnx.load(model.path).graph.node
    assert [(verdict.node, verdict.operator) for verdict in found] == [(node.name, node.op_type) for node in nodes]
    on = "auto" if device == "auto" else "cpu"
    assert {(verdict.verdict, verdict.device) for verdict in found} == {("supported", on)}


def test_support_names_the_operators_that_are_missing(tmp_path: Path) -> None:
    model, _ = case("residual", tmp_path)
    proto = onnx.load(model.path)
    for node in (proto.graph.node[1], proto.graph.node[-1]):
        node.op_type, node.domain, node.name = f"Strange{node.op_type}", "nowhere", ""
    proto.opset_import.append(helper.make_opsetid("nowhere", 1))
    onnx.save(proto, model.path)
    found = openvino.support(model, PLAIN)
    rejected = [verdict for verdict in found if verdict.verdict == "rejected"]
    assert [verdict.operator for verdict in rejected] == ["StrangeRelu"] * 2
    assert [verdict.node for verdict in rejected] == ["relu1_0", "relu5_0"]
    with pytest.raises(Unsupported, match="no operator StrangeRelu"):
        openvino.load(model, PLAIN)


def test_what_a_device_does_not_take_is_judged_by_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU without convolutions would be, alone and with the CPU behind it."""
    model, feeds = case("residual", tmp_path)
    model = fixed(model, {name: array.shape for name, array in feeds.items()})
    from edgewise.engines._openvino.model import verdicts

    class Core(ov.Core):  # type: ignore[misc]
        def query_model(self, network: object, device: str) -> dict[str, str]:
            names = super().query_model(network, "CPU")
            convolutions = [name for name in names if "WithoutBiases" in name]
            rest = {name: "GPU" for name in names if name not in convolutions}
            return rest | dict.fromkeys(convolutions, "CPU") if device.startswith("HETERO") else rest

    monkeypatch.setattr(ov, "Core", Core)
    alone = {verdict.verdict for verdict in verdicts(model, "GPU") if verdict.operator == "Conv"}
    assert alone == {"rejected"}
    helped = {(v.operator, v.verdict, v.device) for v in verdicts(model, "HETERO:GPU,CPU")}
    assert helped == {("Conv", "falls back", "cpu"), ("Relu", "supported", "gpu"), ("Add", "supported", "gpu")}


def test_support_of_an_xml_file_goes_by_its_own_operators(tmp_path: Path) -> None:
    path, _ = as_xml("classifier", tmp_path)
    found = openvino.support(openvino.inspect(str(path)), PLAIN)
    assert {"Convolution", "MatMul", "Softmax"} <= {verdict.operator for verdict in found}
    assert {verdict.verdict for verdict in found} == {"supported"}
