"""ncnn: what pnnx gets wrong and edgewise sets right, batches row by row, precisions that are run, its own files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from edgewise import engines
from edgewise.core.errors import EngineFailure, InputError, Unavailable, Unsupported
from edgewise.core.protocols import Array
from edgewise.core.types import Model, Target
from edgewise.engines._cases import cases, expected
from edgewise.engines._ncnn import convert as conversion
from edgewise.engines._ncnn.param import batch_axes, parse, without_gelu, write
from edgewise.engines._ncnn.rows import Mixed, separate
from edgewise.engines._ncnn.trial import rounded
from edgewise.model.graph import fixed, graph
from edgewise.model.load import inspect

pytest.importorskip("ncnn", reason="ncnn is not installed")
ncnn = pytest.importorskip("edgewise.engines.ncnn")

PLAIN = Target("ncnn", "cpu", "fp32", 1)
needs_pnnx = pytest.mark.skipif(
    conversion.util.find_spec("pnnx") is None, reason="pnnx is not installed: pip install --no-deps pnnx"
)
noise = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return noise.standard_normal(shape).astype(np.float32)


def one_node(
    folder: Path,
    operator: str,
    feeds: Sequence[Array],
    weights: Sequence[Array] = (),
    opset: int = 17,
    **attributes: Any,
) -> tuple[Model, dict[str, Array]]:
    """A model of a single operator, its first dimension open."""
    given = {f"x{i}": array for i, array in enumerate(feeds)}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), ["n", *array.shape[1:]])
        for name, array in given.items()
    ]
    constants = [numpy_helper.from_array(array, f"w{i}") for i, array in enumerate(weights)]
    outputs = [f"y{i}" for i in range(attributes.pop("outputs", 1))]
    node = helper.make_node(operator, [*given, *(c.name for c in constants)], outputs, **attributes)
    untyped = [onnx.ValueInfoProto(name=name) for name in outputs]
    made = helper.make_model(
        helper.make_graph([node], "g", inputs, untyped, constants),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=8,
    )
    inferred = onnx.shape_inference.infer_shapes(made)
    del made.graph.output[:]
    made.graph.output.extend(inferred.graph.output)
    path = folder / f"{operator}.onnx"
    onnx.save(made, str(path))
    return fixed(inspect(str(path)), {name: array.shape for name, array in given.items()}), given


def case(name: str, folder: Path) -> tuple[Model, dict[str, Array], dict[str, Array]]:
    """A conformance case: the record at the sizes of its feeds, those feeds, and the right answers."""
    found = next(case for case in cases() if case.name == name)
    path = folder / f"{name}.onnx"
    onnx.save(found.model, str(path))
    feeds = {key: array.copy() for key, array in found.feeds.items()}
    return fixed(inspect(str(path)), {k: a.shape for k, a in feeds.items()}), feeds, expected(found)


def converted(model: Model, folder: Path) -> Model:
    place = folder / "converted"
    place.mkdir()
    return engines.converted("ncnn", model, PLAIN, str(place))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, dict[str, Array], dict[str, Array]]:
    folder = tmp_path_factory.mktemp("classifier")
    model, feeds, right = case("classifier", folder)
    return converted(model, folder), feeds, right


WRONG = (
    ("Softmax", [floats(2, 7, 3, 2)], [], {"opset": 11}),
    ("Softmax", [floats(2, 7, 1, 1)], [], {"opset": 11}),
    ("PRelu", [floats(2, 5, 8)], [floats(8)], {}),
    ("Pow", [floats(2, 5, 8)], [np.float32(3)], {}),
    ("MaxPool", [floats(2, 3, 9, 8)], [], {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("MaxPool", [floats(2, 3, 9, 8)], [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]}),
    ("AveragePool", [floats(2, 3, 9, 8)], [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]}),
    ("Split", [floats(2, 4, 5)], [], {"axis": 1, "outputs": 2, "opset": 11}),
    ("LayerNormalization", [floats(2, 5, 8)], [floats(5, 8), floats(5, 8)], {"axis": 1}),
    ("ReduceSum", [floats(2, 5, 8)], [np.array([-1])], {}),
    ("ReduceMax", [floats(2, 5, 8)], [np.array([1])], {"opset": 18, "keepdims": 0}),
)


@needs_pnnx
@pytest.mark.parametrize(("operator", "feeds", "weights", "attributes"), WRONG)
def test_forms_that_pnnx_gets_wrong_come_out_right(
    tmp_path: Path, operator: str, feeds: list[Array], weights: list[Array], attributes: dict[str, Any]
) -> None:
    model, given = one_node(tmp_path, operator, feeds, [np.asarray(w) for w in weights], **attributes)
    # Not ONNX's own evaluator, which knows only the Softmax of opset 13 on.
    right = onnxruntime.InferenceSession(model.path).run(None, given)
    outputs = ncnn.load(converted(model, tmp_path), PLAIN).run(given)
    for found, wanted in zip(outputs.values(), right, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-4)


@needs_pnnx
def test_only_the_network_is_left_behind(classifier: tuple[Model, Any, Any]) -> None:
    left = sorted(path.name for path in Path(classifier[0].path).parent.iterdir())
    assert left == ["model.ncnn.bin", "model.ncnn.param", "plan.json"]


@needs_pnnx
def test_a_batch_is_run_row_by_row_and_says_so(classifier: tuple[Model, dict[str, Array], dict[str, Array]]) -> None:
    model, feeds, right = classifier
    executable = ncnn.load(model, PLAIN)
    for name, answer in executable.run(feeds).items():
        np.testing.assert_allclose(answer, right[name], atol=1e-5)
    assert any("2 rows" in note for note in executable.ran().notes)
    assert executable.ran().devices == ("cpu",)


@pytest.mark.parametrize(
    ("operator", "weights", "attributes"),
    [
        ("Softmax", [], {"axis": 0}),
        ("ReduceMean", [], {"axes": [0]}),
        ("Transpose", [], {"perm": [1, 0, 2]}),
        ("Reshape", [np.array([5, -1])], {}),
        ("Slice", [np.array([-1]), np.array([-9]), np.array([0]), np.array([-1])], {}),
        ("CumSum", [np.array(0)], {}),
        ("Add", [np.arange(2, dtype=np.float32).reshape(2, 1, 1)], {}),
    ],
)
def test_rows_that_meet_are_found(
    tmp_path: Path, operator: str, weights: list[Array], attributes: dict[str, Any]
) -> None:
    model, _ = one_node(tmp_path, operator, [floats(2, 5, 8)], weights, **attributes)
    one = fixed(model, {"x0": (1, 5, 8)})
    with pytest.raises(Mixed):
        separate(graph(model), graph(one), 2, {"x0"})


@needs_pnnx
def test_a_batch_whose_rows_meet_is_refused(tmp_path: Path) -> None:
    model, _ = one_node(tmp_path, "InstanceNormalization", [floats(2, 4, 3, 5)], [floats(4), floats(4)])
    proto = onnx.load(model.path)
    proto.graph.node.append(helper.make_node("ReduceMean", ["y0"], ["z"], axes=[0]))
    proto.graph.output[0].name = "z"
    onnx.save(proto, model.path)
    model = replace(inspect(model.path), inputs=model.inputs)
    with pytest.raises(Unsupported, match="ReduceMean mixes rows"):
        converted(model, tmp_path)


@needs_pnnx
def test_bf16_is_run_and_says_where(classifier: tuple[Model, dict[str, Array], dict[str, Array]]) -> None:
    model, feeds, _ = classifier
    if "bf16" not in ncnn.devices()[0].precisions:
        pytest.skip("ncnn has no bf16 on this processor")
    plain = ncnn.load(model, PLAIN).run(feeds)
    stored = ncnn.load(model, replace(PLAIN, precision="bf16"))
    (name,) = plain
    apart = np.abs(stored.run(feeds)[name] - plain[name]).max()
    assert 1e-6 < apart < 1e-2
    assert dict(stored.ran().precisions)["bf16"] > 0


def test_a_grouped_convolution_in_bf16_is_refused(tmp_path: Path) -> None:
    """ncnn would hand bf16 to the convolutions inside, which read floats as pairs of it; a depthwise one is right."""
    if "bf16" not in ncnn.devices()[0].precisions:
        pytest.skip("ncnn has no bf16 on this processor")
    path = tmp_path / "net.param"
    answers: list[Array] = []
    for groups in (32, 4):
        weights = 32 * 32 // groups
        layer = f"ConvolutionDepthWise g 1 1 x y 0=32 1=1 5=1 6={weights} 7={groups}"
        path.write_text(f"7767517\n3 3\nInput x 0 1 x\n{layer}\nReLU r 1 1 y z\n")
        path.with_suffix(".bin").write_bytes(bytes(4) + floats(weights + 32).tobytes())
        model = fixed(ncnn.inspect(str(path)), {"x": (32, 9, 9)})
        if groups == 4 and not conversion.has("ConvolutionDepthWise", "support_bf16_storage"):
            with pytest.raises(Unsupported, match="grouped"):
                ncnn.load(model, replace(PLAIN, precision="bf16"))
            continue
        x = {"x": floats(32, 9, 9)}
        answers = [ncnn.load(model, replace(PLAIN, precision=p)).run(x)["z"] for p in ("fp32", "bf16")]
        np.testing.assert_allclose(*answers, atol=0.2)


@needs_pnnx
def test_support_tries_what_it_converted_in_the_precision_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = one_node(tmp_path, "Conv", [floats(1, 8, 5, 5)], [floats(8, 2, 1, 1)], group=4)
    (plain,) = ncnn.support(model, PLAIN)
    assert plain.verdict == "supported"
    wrong = not conversion.has("ConvolutionDepthWise", "support_bf16_storage")
    if "bf16" in ncnn.devices()[0].precisions and wrong:
        (verdict,) = ncnn.support(model, replace(PLAIN, precision="bf16"))
        assert verdict.verdict == "rejected"
        assert "grouped" in verdict.reason

    def fail(*arguments: Any) -> None:
        raise EngineFailure("it does not run")

    monkeypatch.setattr("edgewise.engines._ncnn.run.Network.run", fail)
    (verdict,) = ncnn.support(model, PLAIN)
    assert (verdict.verdict, verdict.reason) == ("rejected", "it does not run")


def test_only_answers_that_rounding_explains_prove_a_precision() -> None:
    right = floats(4, 5)
    assert rounded(right.astype(np.float16).astype(np.float32), right)
    for found in (None, right, right * 2, right * np.nan, right[:1], floats(0)):
        assert not rounded(found, right)
    assert not rounded(right, None)


def test_single_precision_is_loaded_without_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.param"
    path.write_text("7767517\n2 2\nInput x 0 1 x 0=8\nReLU r 1 1 x y\n")
    path.with_suffix(".bin").write_bytes(b"")
    monkeypatch.setattr(ncnn, "precisions", lambda gpu: pytest.fail("a trial"))
    for precision in (None, "fp32"):
        ncnn.load(ncnn.inspect(str(path)), replace(PLAIN, precision=precision)).close()


@pytest.mark.parametrize(
    ("layer", "precision"),
    [
        ("Convolution c 1 1 x y 0=1 1=1 6=1 8=2", "int8"),
        ("ConvolutionDepthWise c 1 1 x y 0=1 1=1 6=1 7=1 8=1", "int8"),
        ("InnerProduct c 1 1 x y 0=1 2=1 8=2", "int8"),
        ("InnerProduct c 1 1 x y 0=1 2=1 8=0", "fp32"),
        ("Pooling c 1 1 x y 0=1 8=1", "fp32"),
    ],
)
def test_networks_quantized_by_its_own_tools_are_told_and_refused(tmp_path: Path, layer: str, precision: str) -> None:
    path = tmp_path / "net.param"
    path.write_text(f"7767517\n2 2\nInput x 0 1 x 0=8 1=8 2=1\n{layer}\n")
    path.with_suffix(".bin").write_bytes(b"")
    model = ncnn.inspect(str(path))
    assert model.precision == precision
    if precision == "int8":
        with pytest.raises(Unsupported, match="is quantized"):
            ncnn.load(model, replace(PLAIN, precision=None))


def test_a_precision_without_effect_is_not_offered() -> None:
    x86 = os.uname().machine == "x86_64"
    assert ("fp16" in ncnn.devices()[0].precisions) is not x86


@needs_pnnx
def test_quantized_models_and_missing_operators_are_refused(tmp_path: Path) -> None:
    for name, reason in (("qdq_convolution", "quantized"), ("argmax", "ArgMax"), ("topk", "TopK")):
        model, _, _ = case(name, tmp_path)
        with pytest.raises(Unsupported, match=reason):
            ncnn.convert(model, str(tmp_path))


@needs_pnnx
def test_options_reach_the_kernels(tmp_path: Path) -> None:
    model, feeds = one_node(tmp_path, "Conv", [floats(1, 16, 20, 20)], [floats(16, 16, 3, 3)], pads=[1, 1, 1, 1])
    made = converted(model, tmp_path)
    answers = [
        ncnn.load(made, replace(PLAIN, options=(("winograd", value),))).run(feeds)["y0"] for value in ("on", "off")
    ]
    assert not np.array_equal(*answers)
    np.testing.assert_allclose(*answers, atol=1e-3)
    for key, value in (("winograd", "maybe"), ("stranger", "on"), ("subgroup", "on"), ("powersave", "huge")):
        with pytest.raises(InputError, match=key):
            ncnn.load(made, replace(PLAIN, options=((key, value),)))


@needs_pnnx
@pytest.mark.parametrize("name", ["classifier", "relu", "swish"])
def test_lent_arrays_are_only_read(tmp_path: Path, name: str) -> None:
    """A layer that works in place would write into them, or crash."""
    model, feeds, right = case(name, tmp_path)
    one = {key: array[:1].copy() for key, array in feeds.items()}
    made = converted(fixed(model, {key: array.shape for key, array in one.items()}), tmp_path)
    executable = ncnn.load(made, replace(PLAIN, options=(("copy", "off"),)))
    before = {key: array.copy() for key, array in one.items()}
    first = executable.run(one)
    kept = {key: array.copy() for key, array in first.items()}
    executable.run({key: array + 1 for key, array in one.items()})
    for key, answer in first.items():
        np.testing.assert_allclose(answer, right[key][:1], atol=1e-5)
        np.testing.assert_array_equal(answer, kept[key])
    for key, array in one.items():
        np.testing.assert_array_equal(array, before[key])


@needs_pnnx
def test_indices_are_wrapped_and_checked(tmp_path: Path) -> None:
    model, feeds, right = case("embedding", tmp_path)
    executable = ncnn.load(converted(model, tmp_path), PLAIN)
    (name,) = right
    np.testing.assert_array_equal(executable.run({"x0": feeds["x0"] - 11})[name], right[name])
    with pytest.raises(InputError, match="x0"):
        executable.run({"x0": feeds["x0"] + 11})


@needs_pnnx
def test_profile_has_each_layer_in_each_run(classifier: tuple[Model, dict[str, Array], dict[str, Array]]) -> None:
    model, feeds, right = classifier
    with_times = ncnn.profile(model, PLAIN)
    for _ in range(3):
        outputs = with_times.run(feeds)
    for name, answer in outputs.items():
        np.testing.assert_allclose(answer, right[name], atol=1e-5)
    ops = with_times.ops()
    assert [op.operator for op in ops] == ["Convolution", "Pooling", "Flatten", "InnerProduct", "Softmax"]
    assert all(len(op.samples_ns) == 3 and min(op.samples_ns) > 0 and op.device == "cpu" for op in ops)


@needs_pnnx
def test_support_names_what_is_rejected(tmp_path: Path) -> None:
    model, _, _ = case("swish", tmp_path)
    assert {v.verdict for v in ncnn.support(model, PLAIN)} == {"supported"}
    proto = onnx.load(model.path)
    proto.graph.node.append(helper.make_node("ArgMax", [proto.graph.output[0].name], ["best"], axis=1))
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("best", onnx.TensorProto.INT64, ["n", 1, 6, 5]))
    onnx.save(proto, model.path)
    verdicts = ncnn.support(replace(inspect(model.path), inputs=model.inputs), PLAIN)
    assert {v.operator: v.verdict for v in verdicts} == {
        "Conv": "supported", "Sigmoid": "supported", "Mul": "supported", "ArgMax": "rejected",
    }  # fmt: skip


@needs_pnnx
def test_a_file_of_its_own_is_described_and_runs(
    classifier: tuple[Model, dict[str, Array], dict[str, Array]], tmp_path: Path
) -> None:
    made, feeds, right = classifier
    for suffix in (".param", ".bin"):
        (tmp_path / f"net{suffix}").write_bytes(Path(made.path).with_suffix(suffix).read_bytes())
    model = engines.inspect(str(tmp_path / "net.param"))
    assert [(t.name, t.dtype, t.shape) for t in model.inputs] == [("in0", "float32", None)]
    assert [t.name for t in model.outputs] == ["out0"]
    with pytest.raises(InputError, match="in0"):
        ncnn.load(model, PLAIN)
    executable = ncnn.load(fixed(model, {"in0": (3, 8, 6)}), PLAIN)
    found = executable.run({"in0": feeds["x0"][1]})["out0"]
    np.testing.assert_allclose(found, next(iter(right.values()))[1], atol=1e-5)
    (tmp_path / "net.bin").write_bytes(b"\0\0\0\0")
    with pytest.raises(EngineFailure, match=r"net\.bin"):
        ncnn.load(fixed(model, {"in0": (3, 8, 6)}), PLAIN)
    (tmp_path / "net.bin").unlink()
    with pytest.raises(InputError, match=r"net\.bin"):
        ncnn.inspect(str(tmp_path / "net.param"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "7767517\n",
        "7767517\n2 2\nInput x 0 1 x\n",
        "7767517\n1 1\nInput x 0 9 x\n",
        "7767517\n1 1\nInput\n",
        "7767517\n1 1\nReLU r 1 1 x y\n",
        "7767517\n1 1\nInput x 0 1 x nonsense\n",
        "7767517\n1 1\nInput x -1 2 x y\n",
    ],
)
def test_damaged_files_are_input_errors(tmp_path: Path, text: str) -> None:
    path = tmp_path / "net.param"
    path.write_text(text)
    with pytest.raises(InputError, match=r"net\.param"):
        parse(path)


def test_an_input_layer_may_tell_its_size(tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.write_text("7767517\n2 2\nInput x 0 1 x 0=8 1=6 2=3\nReLU r 1 1 x y\n")
    path.with_suffix(".bin").write_bytes(b"")
    (tensor,) = ncnn.inspect(str(path)).inputs
    assert tensor.shape == (3, 6, 8)


@pytest.mark.parametrize(
    ("script", "what"),
    [("kill -SEGV $$", "SIGSEGV"), ("echo no; exit 3", "exit code 3"), ("exit 0", "wrote no model.ncnn.param")],
)
def test_a_converter_that_fails_is_an_engine_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, what: str
) -> None:
    program = tmp_path / "pnnx"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(conversion, "program", lambda: str(program))
    model, _, _ = case("relu", tmp_path)
    with pytest.raises(EngineFailure, match=what):
        ncnn.convert(model, str(tmp_path))


def test_a_missing_converter_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable) as missing:
        conversion.program()
    assert missing.value.hint == "pip install --no-deps pnnx"


def test_the_batch_axis_is_read_from_either_kind_of_script() -> None:
    new = 'ex.input("in0", ncnn.Mat(in0.numpy(), batch_index=0).clone())\nncnn.Mat(in1.numpy(), batch_index=233)'
    old = 'ex.input("in0", ncnn.Mat(in0.squeeze(1).numpy()).clone())\nncnn.Mat(in1.numpy()).clone()'
    assert batch_axes(new, 2) == [0, None]
    assert batch_axes(old, 2) == [1, None]
    with pytest.raises(ValueError, match="input 2"):
        batch_axes(new, 3)


def test_gelu_is_spelled_out_for_vulkan(tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.write_text("7767517\n3 3\nInput x 0 1 x\nGELU g 1 1 x y 0=0\nGELU f 1 1 y z 0=1\n")
    path.with_suffix(".bin").write_bytes(b"")
    model = fixed(ncnn.inspect(str(path)), {"x": (4, 6)})
    x = {"x": floats(4, 6)}
    right = ncnn.load(model, PLAIN).run(x)["z"]
    path.write_text(write(without_gelu(parse(path))))
    assert [layer.kind for layer in parse(path)].count("GELU") == 1
    np.testing.assert_allclose(ncnn.load(model, PLAIN).run(x)["z"], right, atol=1e-6)


@needs_pnnx
def test_vulkan_runs_what_it_says(classifier: tuple[Model, dict[str, Array], dict[str, Array]]) -> None:
    gpus = [device for device in ncnn.devices() if device.kind == "gpu"]
    if not gpus:
        pytest.skip("ncnn sees no Vulkan device here")
    model, feeds, right = classifier
    assert all(("software" in gpu.label) == gpu.emulated for gpu in gpus)
    answers = {}
    for precision in gpus[0].precisions:
        executable = ncnn.load(model, Target("ncnn", gpus[0].name, precision, 1))
        (answers[precision],) = executable.run(feeds).values()
        assert executable.ran().devices[0] == gpus[0].name
        assert (f"emulated: {gpus[0].label}" in executable.ran().notes) is gpus[0].emulated
        executable.close()
    np.testing.assert_allclose(answers["fp32"], next(iter(right.values())), atol=1e-5)
    if "fp16" in answers:
        assert 0 < np.abs(answers["fp16"] - answers["fp32"]).max() < 1e-2
