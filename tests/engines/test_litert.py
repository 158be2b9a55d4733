"""LiteRT: what the writer of .tflite files promises, and what its options and precisions really do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")

from edgewise.core.errors import EngineFailure, InputError, Unavailable, Unsupported
from edgewise.core.types import Model, Ran, Target, Tensor
from edgewise.engines import litert
from edgewise.engines._litert import fp16
from edgewise.engines._litert.flatbuffer import File, Quant
from edgewise.engines._litert.layout import arranged, reshaped
from edgewise.model.feeds import feeds
from edgewise.model.graph import fixed
from edgewise.model.load import inspect
from edgewise.optimize.quantize import quantize
from processor import VNNI

Nodes = Sequence[tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]]


def on(precision: str | None = None, **options: str) -> Target:
    return Target("litert", "cpu", precision, 1, options=tuple(options.items()))


def tiny(path: Path) -> tuple[Model, dict[str, Any]]:
    model = inspect(str(path))
    shapes = {t.name: tuple(size if isinstance(size, int) else 1 for size in t.shape or ()) for t in model.inputs}
    return fixed(model, shapes), feeds(model, shapes, 0)


def written(model: Model, folder: Path) -> Model:
    return replace(model, path=litert.convert(model, str(folder)))


def made(folder: Path, nodes: Nodes, weights: Mapping[str, Any], x: Sequence[int], out: str = "y") -> Model:
    """An ONNX model of some nodes, from `x` to `out`."""
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, outputs, f"the_{outputs[0]}", **more) for kind, inputs, outputs, more in nodes],
        "made",
        [helper.make_tensor_value_info("x", 1, x)],
        [helper.make_tensor_value_info(out, 1, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), str(folder / "made.onnx"))
    return inspect(str(folder / "made.onnx"))


def kinds(model: Model) -> Counter[str]:
    """The operators of a file, without those a delegate would add."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model.path, experimental_op_resolver_type=kind)
    return Counter(each["op_name"] for each in interpreter._get_ops_details())


def by_ort(path: str, given: Mapping[str, Any]) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(given)))


def error(found: Any, right: Any) -> float:
    return float(np.sqrt(np.square(found - right).mean() / np.square(right).mean()))


def test_interface_is_that_of_the_onnx_model(tiny_onnx: Path, tmp_path: Path) -> None:
    model, given = tiny(tiny_onnx)
    found = litert.inspect(written(model, tmp_path).path)
    assert [(t.name, t.dtype, t.shape) for t in found.inputs] == [(t.name, t.dtype, t.shape) for t in model.inputs]
    assert [t.name for t in found.outputs] == [t.name for t in model.outputs]
    assert found.precision == "fp32"
    executable = litert.load(found, on())
    [answer] = executable.run(given).values()
    assert error(answer, by_ort(model.path, given)[0]) < 1e-5


def test_same_model_same_bytes(tiny_onnx: Path, tmp_path: Path) -> None:
    model, _ = tiny(tiny_onnx)
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    first, second = (Path(litert.convert(model, str(folder))).read_bytes() for folder in folders)
    assert first == second


def test_only_the_input_is_transposed_and_activations_are_built_in(tiny_onnx: Path, tmp_path: Path) -> None:
    model, _ = tiny(tiny_onnx)
    found = kinds(written(model, tmp_path))
    assert found["TRANSPOSE"] == 1
    assert not {"RELU", "RELU6", "MUL", "DEQUANTIZE"} & set(found)


def test_options_choose_the_kernels(tiny_onnx: Path, tmp_path: Path) -> None:
    model, given = tiny(tiny_onnx)
    model = written(model, tmp_path)
    answers = {}
    for options in ({}, {"xnnpack": "off"}, {"kernels": "reference"}):
        executable = litert.load(model, on("fp32", **options))
        [answers[str(options)]] = executable.run(given).values()
        taken, _, total = executable.ran().notes[0].split(" operators")[0].partition(" of ")
        assert taken == ("0" if options else total)
        assert executable.ran().precisions == (("fp32", int(total)),)
    for answer in answers.values():
        assert error(answer, answers["{}"]) < 1e-4
    with pytest.raises(InputError, match="kernels=reference"):
        litert.load(model, on("fp32", xnnpack="on", kernels="reference"))
    with pytest.raises(InputError, match="xnnpack=maybe"):
        litert.load(model, on("fp32", xnnpack="maybe"))
    with pytest.raises(InputError, match="no option 'speed'"):
        litert.load(model, on("fp32", speed="high"))


def test_without_copies_outputs_are_views(tiny_onnx: Path, tmp_path: Path) -> None:
    model, given = tiny(tiny_onnx)
    model = written(model, tmp_path)
    [name] = [t.name for t in model.outputs]
    kept, lent = (litert.load(model, on("fp32", copy=copy)) for copy in ("on", "off"))
    first, view = kept.run(given)[name], lent.run(given)[name]
    assert np.array_equal(first, view)
    other = {key: array + 1 for key, array in given.items()}
    assert np.shares_memory(view, lent.run(other)[name])
    assert not np.array_equal(first, view)
    assert not np.shares_memory(first, kept.run(other)[name])
    lent.close()
    assert np.isfinite(view).all()  # what was lent outlives its executable


def test_quantized_models_run_in_integers_and_agree_with_onnxruntime(tiny_onnx: Path, tmp_path: Path) -> None:
    model, given = tiny(tiny_onnx)
    calibration = {name: np.stack([array * scale for scale in (0.5, 1, 1.5)]) for name, array in given.items()}
    model = fixed(
        quantize(model, calibration, str(tmp_path / "q.onnx"), vnni=VNNI),
        {name: array.shape for name, array in given.items()},
    )
    right = by_ort(model.path, given)[0]
    model = written(model, tmp_path)
    assert litert.inspect(model.path).precision == "int8"
    for options, most in (({}, 0.02), ({"xnnpack": "off"}, 0.1)):
        executable = litert.load(model, on("int8", **options))
        assert [precision for precision, _ in executable.ran().precisions] == ["int8"]
        [answer] = executable.run(given).values()
        assert error(answer, right) < most
    found = kinds(model)
    assert (found["QUANTIZE"], found["DEQUANTIZE"]) == (1, 1)
    with pytest.raises(Unsupported, match="fp32"):
        litert.load(model, on("fp32"))


def test_changes_of_scale_are_exact_unless_asked_otherwise(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = {
        name: random.standard_normal((4, 3, 1, 1)).astype(np.float32) * scale for name, scale in (("a", 1), ("b", 3))
    }
    nodes: Nodes = [
        ("Conv", ["x", "a"], ["p"], {}),
        ("Conv", ["x", "b"], ["q"], {}),
        ("Concat", ["p", "q"], ["y"], {"axis": 1}),
    ]
    given = {"x": random.standard_normal((1, 3, 16, 16)).astype(np.float32)}
    plain = made(tmp_path, nodes, weights, (1, 3, 16, 16))
    model = quantize(plain, {"x": given["x"][None]}, str(tmp_path / "q.onnx"), vnni=False)
    right = by_ort(model.path, given)[0]
    errors = {}
    for how, most in (("exact", 1), ("direct", 0)):
        file = replace(model, path=litert.convert(model, str(tmp_path), requantize=how))
        assert kinds(file)["DEQUANTIZE"] - 1 == most  # the one at the end is always there
        [answer] = litert.load(file, on("int8")).run(given).values()
        errors[how] = error(answer, right)
    assert errors["exact"] <= errors["direct"]
    assert errors["exact"] < 0.002
    with pytest.raises(InputError, match="requantize=roughly"):
        litert.convert(model, str(tmp_path), requantize="roughly")


def test_fp16_is_proven_or_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    model, given = tiny(tiny_onnx)
    model = written(model, tmp_path)
    if "fp16" not in litert.devices()[0].precisions:
        with pytest.raises(Unsupported, match="fp16"):
            litert.load(model, on("fp16"))
        return
    whole, half = litert.load(model, on("fp32")), litert.load(model, on("fp16"))
    [right], [answer] = whole.run(given).values(), half.run(given).values()
    assert 1e-5 < error(answer, right) < 0.02  # fp32 would be nearer, and wrong would be farther
    assert [name for name, _ in half.ran().precisions] == ["fp16"]
    assert "not as reported" in half.ran().notes[-1]
    half.close()
    with pytest.raises(InputError, match="closed"):
        half.run(given)
    with pytest.raises(InputError, match="no options in fp16"):
        litert.load(model, on("fp16", xnnpack="off"))


class _Buffer:
    """As LiteRT's TensorBuffer."""

    def get_tensor_details(self) -> dict[str, Any]:
        return {"shape": [1, 4], "dtype": "float32"}

    def write(self, array: Any) -> None: ...


class _Compiled:
    """As LiteRT's CompiledModel, for a file of 1x4, which breaks when it runs."""

    def get_signature_by_index(self, _: int) -> dict[str, list[str]]:
        return {"inputs": ["x"], "outputs": ["y"]}

    def create_input_buffers(self, _: int) -> list[_Buffer]:
        return [_Buffer()]

    create_output_buffers = create_input_buffers

    def run_by_index(self, *_: Any) -> None:
        raise RuntimeError("broken")


def test_fp16_keeps_to_the_sizes_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fp16, "_compile", lambda *_: _Compiled())
    plan = Ran(("cpu",), (("fp16", 1),))

    def record(batch: int | None) -> Model:
        return Model("digest", "net.tflite", (Tensor("x", "float32", (batch, 4)),), (Tensor("y", "float32", None),))

    for batch in (2, None):
        with pytest.raises(Unsupported, match="input 'x'"):
            fp16.Half(record(batch), on("fp16"), plan)
    with pytest.raises(EngineFailure, match="broken"):
        fp16.Half(record(1), on("fp16"), plan).run({"x": np.zeros((1, 4), np.float32)})


def test_operators_without_a_kernel_are_named(tmp_path: Path) -> None:
    nodes: Nodes = [("Relu", ["x"], ["r"], {}), ("Det", ["r"], ["y"], {})]
    model = made(tmp_path, nodes, {}, (2, 3, 3))
    with pytest.raises(Unsupported, match="no operator Det"):
        litert.convert(model, str(tmp_path))
    verdicts = litert.support(model, on())
    assert [(v.operator, v.verdict) for v in verdicts] == [("Relu", "supported"), ("Det", "rejected")]
    assert "Det" in verdicts[1].reason


def test_what_became_part_of_another_shares_its_verdict(tmp_path: Path) -> None:
    nodes: Nodes = [("Conv", ["x", "w"], ["c"], {}), ("Relu", ["c"], ["r"], {}), ("Neg", ["r"], ["y"], {})]
    model = made(tmp_path, nodes, {"w": np.ones((2, 1, 2, 2, 2), np.float32)}, (1, 1, 3, 3, 3))
    conv, relu, neg = litert.support(model, on())
    assert [(v.node, v.operator) for v in (conv, relu, neg)] == [
        ("the_c", "Conv"), ("the_r", "Relu"), ("the_y", "Neg"),
    ]  # fmt: skip
    assert (conv.verdict, relu.verdict, neg.verdict) == ("rejected", "rejected", "supported")
    assert conv.reason == relu.reason != ""
    with pytest.raises(InputError, match="no option 'speed'"):
        litert.support(model, on(speed="high"))
    with pytest.raises(Unavailable, match="no device 'gpu'"):
        litert.support(model, Target("litert", "gpu"))


def test_huge_constants_are_not_stored(tmp_path: Path) -> None:
    nodes: Nodes = [("ConstantOfShape", ["sizes"], ["h"], {}), ("Add", ["x", "h"], ["y"], {})]
    model = made(tmp_path, nodes, {"sizes": np.array([1 << 13, (1 << 11) + 1])}, (1,))
    with pytest.raises(Unsupported, match=r"ConstantOfShape\) makes 16785408 numbers"):
        litert.convert(model, str(tmp_path))
    assert [v.verdict for v in litert.support(model, on())] == ["rejected", "supported"]


@pytest.mark.parametrize(
    "attributes",
    [{"mode": "cubic"}, {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}],
)
def test_resize_refuses_by_name(attributes: dict[str, str], tmp_path: Path) -> None:
    weights = {"roi": np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    model = made(tmp_path, [("Resize", ["x", "roi", "scales"], ["y"], attributes)], weights, (1, 2, 4, 4))
    with pytest.raises(Unsupported, match="|".join(attributes.values())):
        litert.convert(model, str(tmp_path))


def test_float16_and_open_sizes_are_refused(tmp_path: Path) -> None:
    model = made(tmp_path, [("Cast", ["x"], ["h"], {"to": 10}), ("Cast", ["h"], ["y"], {"to": 1})], {}, (2, 3))
    with pytest.raises(Unsupported, match="float16"):
        litert.convert(model, str(tmp_path))
    model = made(tmp_path, [("NonZero", ["x"], ["n"], {}), ("Cast", ["n"], ["y"], {"to": 1})], {}, (2, 3))
    with pytest.raises(Unsupported, match="NonZero"):
        litert.convert(model, str(tmp_path))


def test_gelu_and_hard_swish_are_recognized(tmp_path: Path) -> None:
    nodes: Nodes = [
        ("Div", ["x", "root"], ["a"], {}),
        ("Erf", ["a"], ["b"], {}),
        ("Add", ["b", "one"], ["c"], {}),
        ("Mul", ["x", "c"], ["d"], {}),
        ("Mul", ["d", "half"], ["g"], {}),
        ("HardSigmoid", ["g"], ["s"], {"alpha": 1 / 6, "beta": 0.5}),
        ("Mul", ["s", "g"], ["y"], {}),
    ]
    numbers = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    model = made(tmp_path, nodes, numbers, (3, 4))
    given = {"x": np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4)}
    right = by_ort(model.path, given)[0]
    model = written(model, tmp_path)
    assert kinds(model) == {"GELU": 1, "HARD_SWISH": 1}
    assert error(litert.load(model, on()).run(given)["y"], right) < 1e-5


def test_normalization_and_bias_become_weights(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = {
        "k": random.standard_normal((4, 3, 3, 3)).astype(np.float32),
        **{name: random.uniform(0.5, 2, 4).astype(np.float32) for name in ("scale", "shift", "mean", "variance")},
        "m": random.standard_normal((5, 6)).astype(np.float32),
        "b": random.standard_normal(6).astype(np.float32),
    }
    nodes: Nodes = [
        ("Conv", ["x", "k"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"], {}),
        ("Relu", ["n"], ["r"], {}),
        ("MatMul", ["r", "m"], ["p"], {}),
        ("Add", ["b", "p"], ["y"], {}),
    ]
    model = made(tmp_path, nodes, weights, (1, 3, 6, 5))
    given = {"x": random.standard_normal((1, 3, 6, 5)).astype(np.float32)}
    right = by_ort(model.path, given)[0]
    model = written(model, tmp_path)
    found = kinds(model)
    assert not {"MUL", "ADD", "RELU"} & set(found)
    assert (found["CONV_2D"], found["FULLY_CONNECTED"]) == (1, 1)
    assert error(litert.load(model, on()).run(given)["y"], right) < 1e-5


def test_a_reshaped_value_keeps_what_others_read(tmp_path: Path) -> None:
    """LiteRT lets Softmax overwrite what a RESHAPE before it shares with another reader."""
    nodes: Nodes = [
        ("Neg", ["x"], ["n"], {}),
        ("Mul", ["n", "two"], ["a"], {}),
        ("Reshape", ["a", "flat"], ["r"], {}),
        ("Softmax", ["r"], ["s"], {"axis": -1}),
        ("Reshape", ["s", "back"], ["t"], {}),
        ("Transpose", ["a"], ["u"], {"perm": [0, 2, 1]}),
        ("MatMul", ["t", "u"], ["y"], {}),
    ]
    weights = {"two": np.float32(2), "flat": np.array([2, 12]), "back": np.array([2, 3, 4])}
    model = made(tmp_path, nodes, weights, (2, 3, 4))
    given = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}
    right = by_ort(model.path, given)[0]
    model = written(model, tmp_path)
    for options in ({}, {"xnnpack": "off"}):
        assert error(litert.load(model, on("fp32", **options)).run(given)["y"], right) < 1e-5


def test_reshape_moves_only_what_it_must() -> None:
    """Shuffling channels: the maps stay NHWC, and only the two parts of the channels change places."""
    assert reshaped((2, 8, 5, 4), (0, 2, 3, 1), (2, 2, 4, 5, 4)) == ((0, 2, 3, 1), (0, 3, 4, 1, 2))
    assert reshaped((2, 8, 1, 1), (0, 2, 3, 1), (2, 8)) == ((0, 2, 3, 1), (0, 1))
    assert reshaped((2, 8, 5, 4), (0, 2, 3, 1), (2, 160))[0] == (0, 1, 2, 3)


def test_reshape_is_right_in_any_order() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        before = tuple(int(size) for size in random.choice([1, 2, 3, 4], random.integers(1, 5)))
        order = tuple(int(axis) for axis in random.permutation(len(before)))
        factors = [p for size in before for p in {1: (), 2: (2,), 3: (3,), 4: (2, 2)}[size]] + [1]
        random.shuffle(factors)
        cuts = sorted(random.choice(len(factors) + 1, 2))
        after = tuple(int(np.prod(part)) for part in np.split(np.array(factors), cuts))
        value = np.arange(np.prod(before)).reshape(before)
        needed, order_after = reshaped(before, order, after)
        memory = value.transpose(needed).reshape(arranged(after, order_after))
        assert np.array_equal(memory, value.reshape(after).transpose(order_after))


def quantized_file(path: Path) -> Path:
    """Somebody's own file: unsigned in and out, and no ONNX model behind it."""
    file, quant = File(), Quant((0.5,), (10,))
    x, y = (file.tensor(name, (1, 4), "uint8", quant) for name in ("image:0", "scores:0"))
    file.operator("MAXIMUM", [x, file.constant("c", np.full((1, 1), 20, np.uint8), quant)], [y], "MaximumMinimum")
    file.write(path, [("image", x)], [("scores", y)])
    return path


def test_files_of_others_are_fed_as_they_are(tmp_path: Path) -> None:
    model = litert.inspect(str(quantized_file(tmp_path / "own.tflite")))
    assert [(t.name, t.dtype, t.shape) for t in model.inputs] == [("image:0", "uint8", (1, 4))]
    assert (model.precision, model.label, len(model.digest)) == ("int8", "own", 32)
    executable = litert.load(model, on("int8"))
    answer = executable.run({"image:0": np.array([[0, 19, 20, 255]], np.uint8)})["scores:0"]
    assert answer.tolist() == [[20, 20, 20, 255]]
    assert executable.ran().precisions == (("int8", 1),)
    with pytest.raises(InputError, match="image:0"):
        executable.run({"image:0": np.zeros((3, 4), np.uint8)})
    with pytest.raises(InputError, match="'image:0' is 1x4 in its file, found 3x4"):
        litert.load(fixed(model, {"image:0": (3, 4)}), on("int8"))


def test_what_is_no_tflite_file_is_refused(tmp_path: Path) -> None:
    whole = quantized_file(tmp_path / "own.tflite").read_bytes()
    for name, content in {"empty": b"", "garbage": bytes(range(256)) * 8, "cut": whole[: len(whole) // 2]}.items():
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(content)
        with pytest.raises(InputError, match=name):
            litert.inspect(str(path))
    with pytest.raises(InputError, match="no file"):
        litert.inspect(str(tmp_path / "missing.tflite"))


def test_large_weights_are_refused_by_size(tmp_path: Path) -> None:
    file = File()
    x = file.tensor("x", (1,), "float32")
    huge = np.broadcast_to(np.float32(1), (1 << 30,))
    file.constant("w", huge)
    with pytest.raises(Unsupported, match="2 GB"):
        file.write(tmp_path / "huge.tflite", [("x", x)], [("x", x)])
