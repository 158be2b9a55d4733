"""What is special about MNN: a converter that must be watched, silent fallbacks, options that really do something."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

pytest.importorskip("MNN", reason="the package MNN is not installed")

from edgewise.core.errors import EdgewiseError, EngineFailure, InputError, Unavailable, Unsupported
from edgewise.core.text import parse_target
from edgewise.core.types import Model
from edgewise.engines import converted, mnn
from edgewise.engines._cases import Graph, cases, expected
from edgewise.engines._mnn.forms import chosen
from edgewise.engines._mnn.int8 import unquantized
from edgewise.engines._mnn.session import FORWARD, Mnn
from edgewise.engines._mnn.trial import error as apart
from edgewise.model.graph import fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.quantize import quantize

RANDOM = np.random.default_rng(0)


def noise(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def record(path: Path, model: onnx.ModelProto, feeds: dict[str, Any]) -> Model:
    onnx.save(model, str(path))
    return fixed(inspect(str(path)), {name: array.shape for name, array in feeds.items()})


def network(path: Path, channels: int = 16) -> tuple[Model, dict[str, Any]]:
    """Dense and depthwise convolutions large enough for every kernel to be chosen."""
    g = Graph("network")
    y = g.op("Relu", g.conv(g.input(1, 3, 24, 24), channels, 3, 3))
    y = g.op("Relu", g.conv(y, channels, channels, 3, group=channels))
    y = g.op("Add", y, g.conv(y, channels, channels, 3))
    y = g.op("GlobalAveragePool", g.op("Relu", y))
    case = g.case(g.op("Gemm", g.op("Flatten", y), g.weight(10, channels), g.weight(10), transB=1))
    return record(path, case.model, case.feeds), case.feeds


def one(path: Path, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> Model:
    """A single operator; the first input is the graph's, the others are constants."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(operator, names, ["y"], operator.lower(), domain=domain, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    info = [helper.make_tensor_value_info("x0", kind, inputs[0].shape)]
    weights = [numpy_helper.from_array(array, name) for name, array in zip(names[1:], inputs[1:], strict=True)]
    output = [helper.make_tensor_value_info("y", kind, [f"d{i}" for i in range(inputs[0].ndim)])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)]
    graph = helper.make_graph([node], "one", info, output, weights)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return inspect(str(path))


def answers(model: Model, text: str, feeds: dict[str, Any], folder: Path) -> Any:
    target = parse_target(text)
    folder.mkdir()
    executable = mnn.load(converted("mnn", model, target, str(folder)), target)
    assert isinstance(executable, Mnn)
    try:
        return next(iter(executable.run(feeds).values())).copy(), executable.ran()
    finally:
        executable.close()


def error(found: Any, right: Any) -> float:
    return float(np.sqrt(((found - right) ** 2).mean() / (right**2).mean()))


def test_devices_are_only_those_that_ran() -> None:
    found = {device.name: device for device in mnn.devices()}
    assert found["cpu"].precisions[:2] == ("fp32", "int8")
    missing = set(FORWARD) - set(found)
    assert missing, "no build of MNN has them all"
    for name in missing:
        with pytest.raises(Unavailable, match="it has cpu"):
            mnn.load(Model("", "", (), ()), parse_target(f"mnn:{name}"))


def test_lower_precisions_are_refused_where_they_change_nothing() -> None:
    cpu = mnn.devices()[0]
    for precision in {"fp16", "bf16"} - set(cpu.precisions):
        with pytest.raises(Unsupported, match=precision):
            mnn.load(Model("", "", (), ()), parse_target(f"mnn:cpu:{precision}"))


def test_weights_in_8_bits_and_what_memory_does_to_them(tmp_path: Path) -> None:
    model, feeds = network(tmp_path / "m.onnx", channels=32)
    right, plain = answers(model, "mnn:cpu@1", feeds, tmp_path / "a")
    wide, widened = answers(model, "mnn:cpu@1{weights=int8}", feeds, tmp_path / "b")
    low, dynamic = answers(model, "mnn:cpu@1{memory=low,weights=int8}", feeds, tmp_path / "c")
    whole, _ = answers(model, "mnn:cpu@1{dynamic=1,memory=low,weights=int8}", feeds, tmp_path / "d")
    assert 1e-4 < error(wide, right) < 0.05
    # Quantized inputs add an error of their own: that is how it shows that they were.
    assert 1e-4 < error(low, wide) < 0.05
    assert not np.array_equal(low, whole)
    assert [dict(ran.precisions).get("int8", 0) for ran in (plain, widened)] == [0, 0]
    assert dict(dynamic.precisions)["int8"] >= 2
    sizes = [(tmp_path / folder / "model.mnn").stat().st_size for folder in "ab"]
    assert sizes[1] < sizes[0] / 2


def test_winograd_changes_the_kernels(tmp_path: Path) -> None:
    model, feeds = network(tmp_path / "m.onnx")
    on, _ = answers(model, "mnn:cpu@1", feeds, tmp_path / "on")
    off, _ = answers(model, "mnn:cpu@1{winograd=off}", feeds, tmp_path / "off")
    assert not np.array_equal(on, off)
    assert error(on, off) < 1e-5


def test_wrong_options_are_named(tmp_path: Path) -> None:
    model, feeds = network(tmp_path / "m.onnx")
    for options in ("winograd=7", "memory=much", "power=some", "dynamic=3", "copy=maybe", "weights=int4", "nosuch=1"):
        with pytest.raises(InputError, match=options.partition("=")[0]):
            answers(model, f"mnn:cpu{{{options}}}", feeds, tmp_path / options)


def test_quantized_models_run_in_8_bits(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    model, feeds = network(tmp_path / "m.onnx")
    calibration = {name: np.stack([noise(*array.shape) for _ in range(8)]) for name, array in feeds.items()}
    made = quantize(model, calibration, str(tmp_path / "q.onnx"), vnni=False)
    sized = fixed(made, {name: array.shape for name, array in feeds.items()})
    found, ran = answers(sized, "mnn:cpu:int8@1", feeds, tmp_path / "int8")
    session = ort.InferenceSession(made.path)
    assert error(found, session.run(None, feeds)[0]) < 0.05
    # Three convolutions, the dense layer, the addition between them.
    assert dict(ran.precisions)["int8"] >= 5
    with pytest.raises(Unsupported, match="quantized already"):
        answers(sized, "mnn:cpu{weights=int8}", feeds, tmp_path / "both")
    with pytest.raises(Unsupported, match="only on a quantized model"):
        answers(model, "mnn:cpu:int8", feeds, tmp_path / "float")
    native = mnn.inspect(str(tmp_path / "int8" / "model.mnn"))
    assert native.precision == "int8"
    np.testing.assert_array_equal(
        next(iter(mnn.load(native, parse_target("mnn:cpu:int8@1")).run(feeds).values())), found
    )
    with pytest.raises(Unsupported, match="is quantized"):
        mnn.load(native, parse_target("mnn:cpu:fp32"))


def qdq(path: Path, change: str) -> Model:
    """A quantized product with a matrix, put so that MNN's scales cannot say it."""
    step, zero = np.float32(0.1), np.uint8(128)
    weights = {"s": step, "z": zero, "other": np.float32(0.3), "w": np.ones((4, 4), np.int8), "zw": np.int8(0)}
    scale = "computed" if change == "scale" else "s"
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["computed"], "largest", keepdims=0),
        helper.make_node("ReduceMax", ["x"], ["row"], "rows", axes=[0], keepdims=0),
        helper.make_node("QuantizeLinear", ["x", scale, "z"], ["q"], "first"),
        helper.make_node("DequantizeLinear", ["q", "other" if change == "pair" else "s", "z"], ["d"], "back"),
        helper.make_node("DequantizeLinear", ["w", "s", "zw"], ["dw"], "weights"),
        helper.make_node("Gemm", ["d", "dw", *(["row"] if change == "bias" else [])], ["y"], "gemm"),
        helper.make_node("QuantizeLinear", ["y", "s", "z"], ["qy"], "last"),
        helper.make_node("DequantizeLinear", ["qy", "s", "z"], ["out"], "end"),
    ]
    if change == "twice":
        nodes.append(helper.make_node("QuantizeLinear", ["x", "other", "z"], ["q2"], "second"))
        nodes.append(helper.make_node("DequantizeLinear", ["q2", "other", "z"], ["more"], "more"))
    outputs = ["out", *{"twice": ["more"], "output": ["q"]}.get(change, [])]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    info = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])]
    types = {"q": onnx.TensorProto.UINT8}
    made = [helper.make_tensor_value_info(n, types.get(n, onnx.TensorProto.FLOAT), [1, 4]) for n in outputs]
    whole = helper.make_graph(nodes, "qdq", info, made, held)
    onnx.save(helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return inspect(str(path))


@pytest.mark.parametrize(
    ("change", "node"),
    [("twice", "second"), ("pair", "back"), ("output", "first"), ("scale", "first"), ("bias", "gemm")],
)
def test_quantization_that_mnn_cannot_say_is_refused(tmp_path: Path, change: str, node: str) -> None:
    assert unquantized(graph(qdq(tmp_path / "plain.onnx", "")))[1]
    with pytest.raises(Unsupported, match=f"'{node}'"):
        mnn.convert(qdq(tmp_path / "m.onnx", change), str(tmp_path))


def test_an_integer_division_survives_being_counted(tmp_path: Path) -> None:
    model = one(tmp_path / "m.onnx", "Div", np.ones(4, np.int32), np.full(4, 12, np.int32))
    proto = onnx.load(model.path)
    proto.graph.node[0].input[:] = ["x1", "x0"]
    onnx.save(proto, model.path)
    found, ran = answers(inspect(model.path), "mnn:cpu@1", {"x0": np.array([1, 2, 3, 5], np.int32)}, tmp_path / "a")
    assert found.tolist() == [12, 6, 4, 2]
    assert sum(count for _, count in ran.precisions) >= 1


def test_trials_that_say_nothing_sensible_offer_nothing() -> None:
    assert mnn._told('noise\n{"device": 0, "precisions": ["fp16"]}\n') == (0, ("fp16",))
    for said in ("", "rubbish", "7", "[]", "{}", '{"device": 0, "precisions": 3}'):
        assert mnn._told(said) == (None, ())
    right = np.array([4.0, 2.0], np.float32)
    assert apart(right + 1, right) == 0.25
    for found in (None, right[:1], right * np.nan):
        assert apart(found, right) == np.inf


@pytest.mark.parametrize("script", ["print('support Ops'); print('Conv'); raise SystemExit('broken')", "print('bye')"])
def test_a_converter_that_lists_nothing_is_a_failure(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(mnn, "_CONVERTER", (sys.executable, "-c", script))
    with pytest.raises(EngineFailure, match=r"broken|bye"):
        mnn._operators.__wrapped__()


def test_unsupported_operators_are_named(tmp_path: Path) -> None:
    model = one(tmp_path / "m.onnx", "Mystery", noise(1, 3), domain="nowhere")
    target = parse_target("mnn:cpu")
    with pytest.raises(Unsupported, match="no operator Mystery"):
        mnn.convert(model, str(tmp_path))
    (verdict,) = mnn.support(model, target)
    assert (verdict.operator, verdict.verdict) == ("Mystery", "rejected")
    pool = one(tmp_path / "p.onnx", "MaxPool", noise(1, 2, 6, 6), kernel_shape=[2, 2], dilations=[2, 2])
    (verdict,) = mnn.support(pool, target)
    assert verdict.verdict == "rejected"
    assert "dilated" in verdict.reason


def test_what_comes_out_wrong_is_refused(tmp_path: Path) -> None:
    scales = np.array([1, 1, 2, 2], np.float32)
    models = {
        "nearest_mode": one(
            tmp_path / "1.onnx", "Resize", noise(1, 2, 4, 4), np.zeros(0, np.float32), scales, nearest_mode="ceil"
        ),
        "three dimensions": one(tmp_path / "2.onnx", "Conv", noise(1, 2, 4, 4, 4), noise(2, 2, 3, 3, 3)),
        "takes away": one(tmp_path / "3.onnx", "Pad", noise(4, 4), np.array([0, -1, 0, 0])),
        "float64": one(tmp_path / "4.onnx", "Relu", noise(3).astype(np.float64)),
    }
    for reason, model in models.items():
        with pytest.raises(Unsupported, match=reason):
            mnn.convert(model, str(tmp_path))


@pytest.mark.parametrize("name", ["group", "missing input", "garbage", "empty"])
def test_hostile_models_give_errors(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.onnx"
    model = one(path, "Conv", noise(1, 3, 4, 4), noise(2, 3, 1, 1))
    proto = onnx.load(str(path))
    if name == "group":
        proto.graph.node[0].attribute.append(helper.make_attribute("group", 0))
    if name == "missing input":
        proto.graph.node[0].input[1] = "nobody"
    path.write_bytes({"garbage": bytes(range(256)) * 9, "empty": b""}.get(name, proto.SerializeToString()))
    with pytest.raises(EdgewiseError):
        mnn.load(converted("mnn", model, parse_target("mnn"), str(tmp_path)), parse_target("mnn"))
    assert not list(tmp_path.glob("*.mnn"))


def test_broken_native_files_give_errors(tmp_path: Path) -> None:
    for content in (b"", b"not a model" * 99):
        path = tmp_path / "m.mnn"
        path.write_bytes(content)
        with pytest.raises(EngineFailure):
            mnn.inspect(str(path))
    with pytest.raises(EngineFailure):
        mnn.inspect(str(tmp_path / "nosuch.mnn"))


def test_native_files_run_as_described(tmp_path: Path) -> None:
    case = next(case for case in cases() if case.name == "two_inputs_two_outputs")
    made = mnn.convert(record(tmp_path / "m.onnx", case.model, case.feeds), str(tmp_path))
    model = mnn.inspect(made)
    assert {tensor.name: tensor.shape for tensor in model.inputs} == {n: a.shape for n, a in case.feeds.items()}
    executable = mnn.load(model, parse_target("mnn:cpu@1"))
    outputs = executable.run(case.feeds)
    for name, right in expected(case).items():
        np.testing.assert_allclose(outputs[name], right, atol=1e-5)
    executable.close()


def test_a_slice_backwards_follows_onnx() -> None:
    assert list(chosen(-1, -100, -2, 7)) == [6, 4, 2, 0]
    assert list(chosen(5, 0, -1, 4)) == [3, 2, 1]
    assert list(chosen(1, 100, 3, 7)) == [1, 4]


def test_integers_beyond_32_bits_are_refused(tmp_path: Path) -> None:
    case = next(case for case in cases() if case.name == "where_equal_cast")
    target = parse_target("mnn:cpu@1")
    model = record(tmp_path / "m.onnx", case.model, case.feeds)
    executable = mnn.load(converted("mnn", model, target, str(tmp_path)), target)
    feeds = dict(case.feeds) | {"x0": case.feeds["x0"] + 2**40}
    with pytest.raises(InputError, match="'x0'"):
        executable.run(feeds)
    executable.close()


def test_without_copies_outputs_are_views(tmp_path: Path) -> None:
    model, feeds = network(tmp_path / "m.onnx")
    target = parse_target("mnn:cpu@1{copy=off}")
    executable = mnn.load(converted("mnn", model, target, str(tmp_path)), target)
    (first,) = executable.run(feeds).values()
    kept = first.copy()
    (second,) = executable.run({name: array * 2 for name, array in feeds.items()}).values()
    assert first.ctypes.data == second.ctypes.data
    assert not np.array_equal(first, kept)
    executable.close()


def test_profile_names_what_ran(tmp_path: Path) -> None:
    model, feeds = network(tmp_path / "m.onnx", channels=32)
    target = parse_target("mnn:cpu@1")
    executable = mnn.profile(converted("mnn", model, target, str(tmp_path)), target)
    took = []
    for _ in range(20):
        begin = time.perf_counter_ns()
        executable.run(feeds)
        took.append(time.perf_counter_ns() - begin)
    ops = executable.ops()
    assert {"Convolution", "ConvolutionDepthwise"} <= {op.operator for op in ops}
    assert all(len(op.samples_ns) == 20 for op in ops)
    assert 0 < sum(min(op.samples_ns) for op in ops) <= min(took)
    executable.close()


def test_the_interpreter_is_free_while_a_session_runs(tmp_path: Path) -> None:
    """The longest time another thread had to wait, against the time the runs took."""
    model, feeds = network(tmp_path / "m.onnx", channels=96)
    big = {name: np.repeat(array, 64, axis=0) for name, array in feeds.items()}
    target = parse_target("mnn:cpu@1")
    sized = fixed(model, {name: array.shape for name, array in big.items()})
    executable = mnn.load(converted("mnn", sized, target, str(tmp_path)), target)
    beats: list[int] = []
    done = threading.Event()

    def beat() -> None:
        while not done.is_set():
            beats.append(time.perf_counter_ns())
            time.sleep(0.001)

    watcher = threading.Thread(target=beat)
    watcher.start()
    begin = time.perf_counter_ns()
    executable.run(big)
    took = time.perf_counter_ns() - begin
    done.set()
    watcher.join()
    inside = [moment for moment in beats if begin < moment < begin + took]
    executable.close()
    assert len(inside) >= 5, f"{len(inside)} beats in {took / 1e6:.0f} ms"


def test_sizes_must_be_known(tmp_path: Path) -> None:
    model, _ = network(tmp_path / "m.onnx")
    made = mnn.convert(model, str(tmp_path))
    opened = replace(model.inputs[0], shape=("batch", 3, 24, 24))
    with pytest.raises(InputError, match="open"):
        mnn.load(replace(model, path=made, inputs=(opened,), parent=model.digest), parse_target("mnn"))
