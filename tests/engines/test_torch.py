"""PyTorch: options that do something, precisions that are what they say, old forms of operators, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.core import registry
from edgewise.core.errors import InputError, Unavailable, Unsupported
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Model, Scenario, Target, Task
from edgewise.measure.cell import Cell, Session
from edgewise.model.feeds import shapes
from edgewise.model.graph import fixed
from edgewise.model.load import inspect

torch = pytest.importorskip("torch", reason="torch is not installed")
engine: Any = registry.find("engines", "torch")
X = (2, 3, 6, 5)
CPU = parse_target("torch:cpu:fp32@1")


def network(folder: Path, nodes: list[Any], sizes: tuple[int | str, ...] = X, opset: int = 17, **weights: Any) -> Model:
    """Nodes from `x` to `y`; weights by name."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)
    y = helper.make_empty_tensor_value_info("y")
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model)
    del model.graph.output[:]
    model.graph.output.extend(inferred.graph.output)
    path = folder / "network.onnx"
    onnx.save(model, str(path))
    return inspect(str(path))


def noise(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


def one(folder: Path, kind: str, opset: int, sizes: tuple[int, ...], constants: list[Any], **attributes: Any) -> Model:
    weights = {f"c{i}": array for i, array in enumerate(constants) if array is not None}
    names = [f"c{i}" if array is not None else "" for i, array in enumerate(constants)]
    return network(folder, [helper.make_node(kind, ["x", *names], ["y"], **attributes)], sizes, opset, **weights)


def whole(*values: int) -> Any:
    return np.array(values, np.int64)


SCALES = np.array([1, 1, 2, 1.5], np.float32)
FORMS: list[tuple[str, int, tuple[int, ...], list[Any], dict[str, Any]]] = [
    ("Squeeze", 9, (2, 1, 5, 1), [], {"axes": [1, 3]}),
    ("Unsqueeze", 11, X, [], {"axes": [0, 4]}),
    ("ReduceSum", 11, X, [], {"axes": [1, -1], "keepdims": 0}),
    ("ReduceMean", 18, X, [whole(-1, 1)], {}),
    ("Clip", 9, X, [], {"min": -0.5, "max": 0.3}),
    ("Pad", 10, X, [], {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "value": 0.5}),
    ("Pad", 19, X, [whole(0, 0, 1, 2, 0, 0, 0, 1)], {"mode": "wrap"}),
    ("Pad", 18, X, [whole(1, 2), None, whole(-1)], {}),
    ("Slice", 9, X, [], {"starts": [1, -2], "ends": [100, -1], "axes": [2, 3]}),
    ("Slice", 10, X, [whole(-1), whole(-9999), whole(-2), whole(-1)], {}),
    ("Dropout", 9, X, [], {"ratio": 0.3}),
    ("Softmax", 11, X, [], {}),
    ("Hardmax", 11, X, [], {"axis": 1}),
    ("Upsample", 9, X, [np.array([1, 1, 2, 3], np.float32)], {"mode": "linear"}),
    ("Resize", 10, X, [np.array([1, 1, 0.5, 1.7], np.float32)], {}),
    ("Resize", 13, X, [None, SCALES], {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}),
    ("Resize", 13, X, [None, SCALES], {"mode": "cubic", "coordinate_transformation_mode": "half_pixel"}),
    ("Resize", 13, X, [None, np.array([1, 1, 0.5, 0.6], np.float32)], {"nearest_mode": "ceil"}),
    ("Resize", 18, X, [None, None, whole(9, 4)], {"mode": "linear", "axes": [2, 3]}),
    ("AveragePool", 17, (1, 2, 8, 7), [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 0]}),
    ("AveragePool", 17, (1, 2, 8, 7), [], {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ("AveragePool", 17, (1, 2, 8, 7), [], {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", 17, (1, 2, 8, 7), [], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [2, 0, 1, 1]}),
    *(
        (kind, 22, (1, 2, 4, 4), [], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": pads, "ceil_mode": 1})
        for kind in ("MaxPool", "AveragePool")
        for pads in ([0, 0, 1, 1], [1, 0, 0, 1])
    ),
    ("ConvTranspose", 11, X, [noise(3, 2, 3, 3)], {"strides": [2, 2], "pads": [0, 1, 1, 0], "group": 3}),
    ("ConvTranspose", 11, X, [noise(3, 2, 3, 3)], {"strides": [2, 2], "output_shape": [12, 11]}),
    ("Gather", 13, X, [whole(0, -1)], {"axis": -1}),
    ("PRelu", 9, X, [noise(5)], {}),
]


@pytest.mark.parametrize(
    "kind,opset,sizes,constants,attributes", FORMS, ids=lambda v: v if isinstance(v, str) else None
)
def test_forms_of_operators(
    tmp_path: Path, kind: str, opset: int, sizes: tuple[int, ...], constants: list[Any], attributes: dict[str, Any]
) -> None:
    """Attributes that became inputs, pads that torch has not, coordinates that torch has not."""
    import onnxruntime

    model = one(tmp_path, kind, opset, sizes, constants, **attributes)
    feeds = {"x": noise(*sizes)}
    session = onnxruntime.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    found = engine.load(model, CPU).run(feeds)["y"]
    np.testing.assert_allclose(found, session.run(None, feeds)[0], rtol=1e-4, atol=1e-5)


REFUSED: list[tuple[str, int, tuple[int, ...], list[Any], dict[str, Any], str]] = [
    ("NonZero", 13, X, [], {}, "no operator NonZero"),
    (
        "MaxPool",
        12,
        X,
        [],
        {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [2, 1, 1, 2], "ceil_mode": 1},
        "MaxPool",
    ),
    ("Resize", 19, X, [None, SCALES], {"mode": "linear", "antialias": 1}, "Resize"),
    ("Resize", 13, X, [None, np.array([1, 1, 1, 1.4], np.float32)], {"mode": "linear"}, "Resize"),
]


@pytest.mark.parametrize("kind,opset,sizes,constants,attributes,said", REFUSED)
def test_refusals_name_the_operator(
    tmp_path: Path, kind: str, opset: int, sizes: tuple[int, ...], constants: list[Any], attributes: Any, said: str
) -> None:
    model = one(tmp_path, kind, opset, sizes, constants, **attributes)
    with pytest.raises(Unsupported, match=said):
        engine.load(model, CPU)
    (verdict,) = engine.support(model, CPU)
    assert verdict.verdict == "rejected" and kind in verdict.reason


def test_equal_values_come_in_order(tmp_path: Path) -> None:
    """torch.topk makes no promise; ONNX does: the lower position first."""
    nodes = [helper.make_node("TopK", ["x", "k"], ["values", "y"], axis=-1)]
    model = network(tmp_path, nodes, (4, 64), k=whole(5))
    feeds = {"x": np.repeat(np.array([0, 1], np.float32), 32)[None].repeat(4, 0)}
    assert (engine.load(model, CPU).run(feeds)["y"] == np.arange(32, 37)).all()


def test_lower_precisions_are_proven(tiny_onnx: Path) -> None:
    """In a worker, with what this processor needs for them: bf16 kills the process on some that advertise AMX."""
    model = inspect(str(tiny_onnx))
    sized = fixed(model, shapes(model))
    defaults = engine.defaults()
    for precision in ("bf16", "fp16"):
        options = ",".join(f"{key}={value}" for key, value in defaults.get(precision, ()))
        on = f"torch:cpu:{precision}@1" + (f"{{{options}}}" if options else "")
        task = Task(model.digest, parse_placement(on), Scenario())
        with Session(Cell(task, sized, "", (), "", "tiny", timeout_s=60)) as session:
            ran = session.open().ran
        assert {name for name, _ in ran.precisions} == {precision}
        assert ran.devices == ("cpu",)


def test_fp16_is_fp16_and_masks_stay_finite(tmp_path: Path) -> None:
    """0 × -3e38 is nothing, unless -3e38 has become infinite on the way."""
    nodes = [helper.make_node("Mul", ["x", "mask"], ["m"]), helper.make_node("Softmax", ["m"], ["y"], axis=-1)]
    model = network(tmp_path, nodes, (2, 4), mask=np.array([0, 0, -3e38, 1 / 3], np.float32))
    found = engine.load(model, parse_target("torch:cpu:fp16@1")).run({"x": np.ones((2, 4), np.float32)})["y"]
    exact = engine.load(model, CPU).run({"x": np.ones((2, 4), np.float32)})["y"]
    assert found.dtype == np.float32
    error = np.abs(found - exact).max()
    assert 1e-6 < error < 1e-2


def conv(folder: Path, sizes: tuple[int | str, ...] = (1, 16, 12, 12)) -> Model:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    return network(folder, [node], sizes, w=noise(16, 16, 3, 3))


def kernels(executable: Any, feeds: Any) -> set[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        executable.run(feeds)
    return {event.key for event in profile.key_averages()}


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch is built without oneDNN")
def test_onednn_off_takes_other_kernels_and_does_not_stick(tmp_path: Path) -> None:
    """A batch, since a single small image goes to torch's own kernels either way."""
    model, feeds = conv(tmp_path, (16, 16, 12, 12)), {"x": noise(16, 16, 12, 12)}
    on, off = engine.load(model, CPU), engine.load(model, parse_target("torch:cpu:fp32@1{onednn=off}"))
    np.testing.assert_allclose(on.run(feeds)["y"], off.run(feeds)["y"], atol=1e-3)
    assert "aten::mkldnn_convolution" in kernels(on, feeds)
    assert "aten::mkldnn_convolution" not in kernels(off, feeds)
    assert "aten::mkldnn_convolution" in kernels(on, feeds)
    assert [any("oneDNN" in note for note in each.ran().notes) for each in (on, off)] == [True, False]


def test_notes_say_what_was_not_observed(tmp_path: Path) -> None:
    """TF32 and graphs take a GPU; what is told of them does not."""
    executable = engine.load(conv(tmp_path), CPU)
    unseen = {"tf32 as set, not observed", "counted before compiling"}
    assert not unseen & set(executable.ran().notes)
    executable._wants = replace(executable._wants, precision="tf32", mode="graph")
    assert unseen <= set(executable.ran().notes)


def test_layout_and_threads_are_taken(tmp_path: Path) -> None:
    model, feeds = conv(tmp_path), {"x": noise(1, 16, 12, 12)}
    plain, last = engine.load(model, CPU), engine.load(model, parse_target("torch:cpu:fp32@2{layout=channels_last}"))
    wanted = plain.run(feeds)["y"]
    assert torch.get_num_threads() == 1
    found = last.run(feeds)["y"]
    assert torch.get_num_threads() == 2
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    (weights,) = last._network.module.buffers()
    assert weights.is_contiguous(memory_format=torch.channels_last)


def test_options_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = conv(tmp_path)
    for options, said in {
        "mode=graph": "CUDA graph",
        "freeze=on": "mode=compile",
        "cudnn_benchmark=on": "on cuda",
        "isa=sse41": "environment",
    }.items():
        with pytest.raises(Unsupported, match=said):
            engine.load(model, parse_target(f"torch:cpu:fp32@1{{{options}}}"))
    with pytest.raises(InputError, match="no option 'speed'"):
        engine.load(model, parse_target("torch:cpu{speed=high}"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(Unavailable, match="no compiler"):
        engine.load(model, parse_target("torch:cpu{mode=compile}"))
    assert engine.variants(engine.devices()[0]) == ()


def test_copy_off_lends_an_output_that_is_an_input(tmp_path: Path) -> None:
    model = network(tmp_path, [helper.make_node("Identity", ["x"], ["y"])])
    feeds = {"x": noise(*X)}
    assert not np.shares_memory(engine.load(model, CPU).run(feeds)["y"], feeds["x"])
    lent = engine.load(model, Target("torch", "cpu", "fp32", 1, options=(("copy", "off"),)))
    assert np.shares_memory(lent.run(feeds)["y"], feeds["x"])


def test_each_size_has_a_network_and_all_share_the_weights(tmp_path: Path) -> None:
    executable = engine.load(conv(tmp_path, ("batch", 16, "h", "w")), CPU)
    for batch in range(1, 12):
        assert executable.run({"x": noise(batch, 16, 6, 7)})["y"].shape == (batch, 16, 6, 7)
    networks = executable._networks.values()
    assert 1 < len(networks) <= 8
    assert len({buffer.data_ptr() for each in networks for buffer in each.module.buffers()}) == 1


def test_a_feed_that_was_copied_is_not_remembered(tmp_path: Path) -> None:
    executable = engine.load(network(tmp_path, [helper.make_node("Relu", ["x"], ["y"])]), CPU)
    feeds = {"x": np.asfortranarray(np.abs(noise(*X)))}
    executable.run(feeds)
    feeds["x"][...] = 7
    assert (executable.run(feeds)["y"] == 7).all()
    with pytest.raises(InputError, match="stranger"):
        executable.run({"stranger": feeds["x"]})


def test_profile_adds_up(tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = inspect(str(tiny_onnx))
    sized = fixed(model, shapes(model))
    feeds = {t.name: noise(*shapes(model)[t.name]) for t in model.inputs}
    profiled, plain = engine.profile(sized, CPU), engine.load(sized, CPU)
    for _ in range(5):
        found = profiled.run(feeds)
    for name, array in plain.run(feeds).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6)
    ops = profiled.ops()
    assert all(len(op.samples_ns) == 5 and min(op.samples_ns) >= 0 for op in ops)
    # By medians: one run may meet whatever else the machine does.
    assert max(ops, key=lambda op: sorted(op.samples_ns)[len(op.samples_ns) // 2]).operator in (
        "Conv",
        "Gemm",
        "MatMul",
    )
    sums = tuple(sum(run) for run in zip(*(op.samples_ns for op in ops), strict=True))
    assert profiled.spans().executor_ns == sums
    monkeypatch.setattr("shutil.which", lambda name: name)
    with pytest.raises(Unsupported, match="mode=compile"):
        engine.profile(sized, parse_target("torch:cpu{mode=compile}"))


def test_quantized_models_are_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    model = network(tmp_path, nodes, s=np.float32(0.1), z=np.int8(0))
    for target in ("torch:cpu", "torch:cpu:fp32@1", "torch:cpu:int8@1"):
        with pytest.raises(Unsupported, match="QuantizeLinear"):
            engine.load(model, parse_target(target))


@pytest.mark.slow
@pytest.mark.skipif(not engine._compiler(), reason="there is no C++ compiler")
def test_compiled_answers_the_same(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])]
    model, feeds = network(tmp_path, nodes), {"x": noise(*X)}
    compiled = engine.load(model, parse_target("torch:cpu:fp32@1{mode=compile}"))
    first = compiled.run(feeds)["y"]
    kept = first.copy()
    np.testing.assert_allclose(first, engine.load(model, CPU).run(feeds)["y"], rtol=1e-5)
    compiled.run({"x": noise(*X, seed=1)})
    assert (first == kept).all()
    assert {"compiled by inductor", "counted before compiling"} <= set(compiled.ran().notes)
    made = list(tmp_path_factory.getbasetemp().rglob("edgewise/inductor/**/*"))
    assert made and not [path for path in made if path.suffix == ".pkl"]
