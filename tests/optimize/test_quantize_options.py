"""Options of quantize: what they are, that they do what they say, that engines load what comes out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgewise import zoo
from edgewise.core.errors import InputError, Unsupported
from edgewise.core.preprocess import parse_preprocess
from edgewise.core.records import to_json
from edgewise.core.types import Cluster, Machine, Model, Target
from edgewise.data import scenes
from edgewise.data.preprocess import prepare
from edgewise.engines import openvino, ort
from edgewise.model import feeds, load
from edgewise.optimize.quantize import quantize, quantize_file
from edgewise.optimize.quantize.options import PLAIN, quantizing, saturates, unprofitable
from edgewise.optimize.quantize.ranges import Histogram, chosen, squared_error
from edgewise.zoo import pocket
from processor import VNNI

CALIBRATORS = ("minmax", "percentile", "entropy", "mse")
SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture(scope="module")
def model() -> Model:
    return load.inspect(pocket.path("pocket/micro"))


def images(model: Model, split: Any, count: int) -> np.ndarray[Any, Any]:
    assert model.preprocess is not None
    return prepare(list(scenes.scenes(split, 0, count)[0]), model.preprocess)


@pytest.fixture(scope="module")
def calibration(model: Model) -> dict[str, np.ndarray[Any, Any]]:
    return {model.inputs[0].name: images(model, "train", 64)[:, None]}


@pytest.fixture(scope="module")
def asked(model: Model) -> np.ndarray[Any, Any]:
    return images(model, "validation", 128)


@pytest.fixture(scope="module")
def made(
    model: Model, calibration: Mapping[str, np.ndarray[Any, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Model]:
    """What options make of the model, each once."""
    folder, known = tmp_path_factory.mktemp("quantized"), dict[str, Model]()

    def make(**given: str) -> Model:
        how = quantizing(given)
        if str(how) not in known:
            path = str(folder / f"{len(known)}.onnx")
            known[str(how)] = quantize(model, calibration, path, vnni=VNNI, options=how)
        return known[str(how)]

    return make


def answers(model: Model, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    loaded = ort.load(model, Target("ort", "cpu", threads=1))
    try:
        runs = (loaded.run({model.inputs[0].name: x[at : at + 50]}) for at in range(0, len(x), 50))
        return np.concatenate([next(iter(run.values())).copy() for run in runs])
    finally:
        loaded.close()


def error(have: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> float:
    return float(np.square(have - want).mean() / want.var())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bits": "8"}, "quantize has no 'bits'; it has precision, form, calibrate, correct, equalize, keep"),
        ({"calibrate": "best"}, "calibrate of quantize is one of minmax, percentile, entropy, mse, found 'best'"),
        ({"precision": "int4"}, "precision of quantize is one of int8, fp16, found 'int4'"),
        ({"precision": "bf16"}, "bf16 is no form of a file"),
        ({"correct": "yes"}, "correct of quantize is one of none, bias, found 'yes'"),
        ({"keep": "some"}, r"keep of quantize is a number of layers .*, found 'some'"),
        ({"keep": "-1"}, r"keep of quantize is a number of layers .*, found '-1'"),
        ({"keep": "1.5"}, r"keep of quantize is a number of layers .*, found '1.5'"),
        ({"form": "dynamic", "calibrate": "mse"}, "calibrate has no meaning for form=dynamic"),
        ({"precision": "fp16", "correct": "bias"}, "correct has no meaning for precision=fp16"),
        ({"precision": "fp16", "form": "dynamic"}, "form has no meaning for precision=fp16"),
    ],
)
def test_a_wrong_option_says_what_is_allowed(given: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        quantizing(given)
    if given == {"precision": "bf16"}:
        assert caught.value.hint == "--on openvino:cpu:bf16"


def test_what_differs_from_the_default_is_what_is_written() -> None:
    assert quantizing({}) == PLAIN
    assert str(PLAIN) == "quantize(precision=int8)"
    how = quantizing({"keep": "3", "calibrate": "mse", "equalize": "no"})
    assert str(how) == "quantize(precision=int8, calibrate=mse, keep=3)"
    assert quantizing(how.given) == how
    assert str(quantizing({"keep": "0.015"})) == "quantize(precision=int8, keep=0.015)"
    assert quantizing({"keep": "0"}) == PLAIN


@pytest.mark.parametrize("how", CALIBRATORS)
def test_every_calibrator_gives_a_model_that_mostly_agrees(
    how: str, made: Callable[..., Model], model: Model, asked: np.ndarray[Any, Any]
) -> None:
    have, want = answers(calibrated(made, how), asked), answers(model, asked)
    assert np.isfinite(have).all()
    assert (have.argmax(1) == want.argmax(1)).mean() > 0.9
    for tensor in onnx.load(calibrated(made, how).path).graph.initializer:
        if tensor.name.endswith("_scale"):
            scale = onnx.numpy_helper.to_array(tensor)
            assert np.isfinite(scale).all()
            assert (scale > 0).all()


def calibrated(made: Callable[..., Model], how: str) -> Model:
    """`equalize` so that minmax, too, goes the long way."""
    return made(equalize="yes") if how == "minmax" else made(calibrate=how)


def test_openvino_runs_what_every_calibrator_gives(
    made: Callable[..., Model], model: Model, asked: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    options = openvino.defaults().get("int8", ())
    target = Target("openvino", "cpu", "int8", threads=1, options=options)
    script = (
        "import sys, numpy\n"
        "from edgewise.core.text import parse_target\n"
        "from edgewise.engines import openvino\n"
        "from edgewise.model.load import inspect\n"
        "x = numpy.load(sys.argv[2])\n"
        "for number, path in enumerate(sys.argv[3:]):\n"
        "    loaded = openvino.load(inspect(path), parse_target(sys.argv[1]))\n"
        "    rows = [next(iter(loaded.run({NAME: row[None]}).values())).copy() for row in x]\n"
        "    numpy.save(f'{sys.argv[2]}.{number}.npy', numpy.concatenate(rows))\n"
    ).replace("NAME", repr(model.inputs[0].name))
    np.save(tmp_path / "x.npy", asked)
    paths = [calibrated(made, how).path for how in CALIBRATORS]
    # In a process of its own: its ceiling of instructions is read when it is imported.
    environment = {**os.environ, **openvino.environment(target)}
    command = [sys.executable, "-c", script, str(target), str(tmp_path / "x.npy"), *paths]
    subprocess.run(command, env=environment, check=True, timeout=120)
    want = answers(model, asked).argmax(1)
    for number in range(len(paths)):
        have = np.load(tmp_path / f"x.npy.{number}.npy")
        assert np.isfinite(have).all()
        assert (have.argmax(1) == want).mean() > 0.9


def test_known_ranges_are_the_ones_written(made: Callable[..., Model], calibration: Mapping[str, Any]) -> None:
    """The input's, which is easily checked: all of it, or all but the rarest."""

    def scale(of: Model) -> float:
        tensors = {tensor.name: tensor for tensor in onnx.load(of.path).graph.initializer}
        return float(onnx.numpy_helper.to_array(tensors[f"{of.inputs[0].name}_scale"]))

    (x,) = calibration.values()
    assert scale(made()) == pytest.approx((max(x.max(), 0) - min(x.min(), 0)) / 255, rel=1e-4)
    assert scale(made(equalize="yes")) == pytest.approx(scale(made()), rel=1e-4)


def test_a_range_is_found_that_errs_least() -> None:
    """Many small values and a few huge ones: the huge ones are not worth the precision of the others."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal(1_000_000), [40.0]])
    counts, _ = np.histogram(x, 2048, (x.min(), x.max()))
    histogram = Histogram(float(x.min()), float(x.max()), counts)
    errors = {}
    for how in ("percentile", "entropy", "mse"):
        low, high = chosen(histogram, how)
        assert x.min() <= low < 0 < high < 20
        errors[how] = squared_error(histogram, low, high)
    assert errors["mse"] <= min(errors.values())
    assert errors["mse"] < 0.5 * squared_error(histogram, histogram.low, histogram.high)
    with pytest.raises(InputError, match="found 'best'"):
        chosen(histogram, "best")


def test_corrected_biases_take_the_mean_error_out(
    made: Callable[..., Model], model: Model, asked: np.ndarray[Any, Any]
) -> None:
    want = answers(model, asked)
    plain, better = (np.abs((answers(each, asked) - want).mean(0)).mean() for each in (made(), made(correct="bias")))
    assert better < 0.6 * plain


def test_a_corrected_bias_is_in_units_of_its_scales(made: Callable[..., Model]) -> None:
    proto = onnx.load(made(correct="bias").path)
    held = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    by_output = {name: node for node in proto.graph.node for name in node.output}
    checked = 0
    for node in proto.graph.node:
        if node.op_type == "Conv":
            x, weights, bias = (by_output[name] for name in node.input)
            np.testing.assert_allclose(held[bias.input[1]], held[x.input[1]] * held[weights.input[1]], rtol=1e-5)
            assert held[bias.input[0]].dtype == np.int32
            checked += 1
    assert checked


def test_what_is_kept_stays_in_float_and_the_error_is_less(
    made: Callable[..., Model], model: Model, asked: np.ndarray[Any, Any]
) -> None:
    want = answers(model, asked)
    counts, errors = [], []
    for small in (made(), made(keep="2"), made(keep="5")):
        proto = onnx.load(small.path)
        weights = {tensor.name for tensor in proto.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT}
        layers = [node for node in proto.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
        counts.append(sum(node.input[1] in weights for node in layers))
        errors.append(error(answers(small, asked), want))
    assert counts == [0, 2, 5]
    assert errors[2] < errors[1] < errors[0]


def test_as_many_are_kept_as_the_error_takes(
    made: Callable[..., Model],
    model: Model,
    calibration: Mapping[str, Any],
    asked: np.ndarray[Any, Any],
    tmp_path: Path,
) -> None:
    (x,) = calibration.values()
    plain = error(answers(made(), x[:, 0]), answers(model, x[:, 0]))
    wanted = plain / 2
    small = quantize(model, calibration, str(tmp_path / "q.onnx"), vnni=VNNI, options=quantizing({"keep": f"{wanted}"}))
    assert error(answers(small, x[:, 0]), answers(model, x[:, 0])) < 1.2 * wanted
    with pytest.raises(Unsupported, match="still"):
        quantize(model, calibration, str(tmp_path / "q.onnx"), vnni=VNNI, options=quantizing({"keep": "1e-9"}))
    with pytest.raises(InputError, match="keep=500 leaves nothing to quantize"):
        quantize(model, calibration, str(tmp_path / "q.onnx"), vnni=VNNI, options=quantizing({"keep": "500"}))


def test_all_together(made: Callable[..., Model], model: Model, asked: np.ndarray[Any, Any]) -> None:
    small = made(calibrate="percentile", correct="bias", equalize="yes", keep="1")
    assert small.recipe == "quantize(precision=int8, calibrate=percentile, correct=bias, equalize=yes, keep=1)"
    assert (small.precision, small.parent) == ("int8", model.digest)
    assert small.inputs == model.inputs
    have, want = answers(small, asked), answers(model, asked)
    assert (have.argmax(1) == want.argmax(1)).mean() > 0.9


def test_sixteen_bits_halve_the_file(made: Callable[..., Model], model: Model, asked: np.ndarray[Any, Any]) -> None:
    half = made(precision="fp16")
    assert (half.precision, half.recipe) == ("fp16", "quantize(precision=fp16)")
    assert [t.dtype for t in (*half.inputs, *half.outputs)] == ["float32"] * 2
    assert Path(half.path).stat().st_size < 0.6 * Path(model.path).stat().st_size
    assert error(answers(half, asked[:16]), answers(model, asked[:16])) < 1e-3
    with pytest.raises(InputError, match="already"):
        quantize(half, {}, half.path, vnni=VNNI, options=quantizing({"precision": "fp16"}))


@pytest.mark.parametrize("name", ["vit_tiny_patch16", "mobilevit_xxs"])
def test_a_transformer_is_quantized_as_it_runs(name: str, tmp_path: Path) -> None:
    source = load.inspect(zoo.export(name, str(tmp_path / "model.onnx")))
    shapes = {k: list(v) for k, v in feeds.shapes(source).items()}
    given = {"form": "dynamic"}
    small = quantize_file(to_json(source), shapes, str(tmp_path / "q.onnx"), vnni=VNNI, given=given)
    assert (small.precision, small.recipe) == ("int8", "quantize(precision=int8, form=dynamic)")
    kinds = {node.op_type for node in onnx.load(small.path).graph.node}
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= kinds
    x = feeds.feeds(source, feeds.shapes(source))
    whole, less = (ort.load(each, Target("ort")).run(x) for each in (source, small))
    (want,), (have,) = whole.values(), less.values()
    assert error(have, want) < 0.1


def test_a_network_without_products_has_nothing_to_quantize_as_it_runs(tmp_path: Path) -> None:
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), str(tmp_path / "relu.onnx"))
    source = load.inspect(str(tmp_path / "relu.onnx"))
    with pytest.raises(Unsupported, match="no operator that could be quantized"):
        quantize(source, {}, str(tmp_path / "q.onnx"), vnni=VNNI, options=quantizing({"form": "dynamic"}))


@pytest.mark.parametrize(
    ("isa", "saturated", "doubt"),
    [
        (("avx512f", "avx2", "avx512_vnni"), False, None),
        (("avx2", "avx_vnni"), False, None),
        (("avx512f", "avx2", "avx512_vnni", "amx_int8"), False, None),
        (("avx2", "sse4_2"), True, "VNNI or AMX"),
        (("asimd", "asimddp"), False, None),
        (("asimd", "i8mm"), False, None),
        (("asimd",), False, "dot products or I8MM"),
        ((), False, None),
    ],
)
def test_what_a_processor_gains_is_known_before(isa: tuple[str, ...], saturated: bool, doubt: str | None) -> None:
    machine = Machine("m", "m", "Linux", "A Processor", isa, (Cluster("all", (0,)),))
    assert saturates(machine) is saturated
    found = unprofitable(machine)
    assert (found is None) == (doubt is None)
    assert found is None or (doubt is not None and doubt in found and found.startswith("A Processor"))


@pytest.mark.skipif(not (SHARED / "models/cifar100").is_dir(), reason="the CIFAR-100 models are not here")
def test_real_images_are_answered_as_well(tmp_path: Path) -> None:
    source = load.inspect(str(SHARED / "models/cifar100/resnet8.onnx"))
    how = parse_preprocess("cifar100")
    with (
        np.load(SHARED / "data/cifar100/train_sample.npz") as train,
        np.load(SHARED / "data/cifar100/test.npz") as test,
    ):
        seen = prepare(list(train["images"][:64]), how)
        x, labels = prepare(list(test["images"][:300]), how), test["labels"][:300]
    right: dict[int, float] = {}
    for given in ({}, {"calibrate": "mse", "correct": "bias"}):
        calibration = {source.inputs[0].name: seen[:, None]}
        small = quantize(source, calibration, str(tmp_path / "q.onnx"), vnni=VNNI, options=quantizing(given))
        right[len(given)] = (answers(small, x).argmax(1) == labels).mean()
    assert right[2] >= right[0] - 0.02
