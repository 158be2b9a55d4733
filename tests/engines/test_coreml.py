"""Core ML: what it is told, what it refuses, and its own files. Running it takes macOS."""

from __future__ import annotations

import sys
from collections import Counter
from enum import Enum
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgewise.core.errors import InputError, Unavailable, Unsupported
from edgewise.core.text import parse_target
from edgewise.core.types import Model, Target, Tensor
from edgewise.engines import coreml
from edgewise.engines._coreml import native
from edgewise.engines._ort.session import CPU
from edgewise.model.graph import fixed
from edgewise.model.load import inspect
from edgewise.study.survey import survey

BY_NAME = {device.name: device for device in coreml.units(neural_engine=True)}
elsewhere = pytest.mark.skipif(sys.platform == "darwin", reason="this is where Core ML exists")


def model(precision: str = "fp32", path: str = "net.onnx") -> Model:
    x, y = Tensor("x", "float32", (1, 2)), Tensor("y", "float32", (1, 2))
    return Model("digest", path, (x,), (y,), precision, label="net")


@elsewhere
def test_elsewhere_it_says_why_it_is_missing(tiny_onnx: Path) -> None:
    facts = survey(["coreml"])[1][0]
    assert facts.version is None
    assert "macOS only" in facts.reason
    for ask in (coreml.version, coreml.devices, lambda: coreml.load(inspect(str(tiny_onnx)), Target("coreml"))):
        with pytest.raises(Unavailable, match="macOS only"):
            ask()


def test_version_tells_of_coremltools_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(coreml, "_needs_macos", lambda: None)
    monkeypatch.setattr(coreml, "installed", lambda _: "8.3")
    assert coreml.version().endswith(f"onnxruntime {coreml.session.version()}, coremltools 8.3")
    monkeypatch.setattr(coreml, "installed", missing)
    assert coreml.version().endswith(f"onnxruntime {coreml.session.version()}")


def test_devices_are_sets_of_units() -> None:
    assert {name: device.kind for name, device in BY_NAME.items()} == {
        "all": "npu", "cpu_and_gpu": "gpu", "cpu_only": "npu", "cpu_and_ne": "npu",
    }  # fmt: skip
    assert [BY_NAME[name].precisions for name in ("cpu_and_ne", "cpu_only")] == [("fp16",), ("fp32",)]
    assert "cpu_and_ne" not in {device.name for device in coreml.units(neural_engine=False)}
    for name in BY_NAME:
        assert str(parse_target(f"coreml:{name}:fp16")) == f"coreml:{name}:fp16"


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        ("coreml:all", {"MLComputeUnits": "ALL", "ModelFormat": "MLProgram"}),
        ("coreml:cpu_only", {"MLComputeUnits": "CPUOnly", "ModelFormat": "MLProgram"}),
        ("coreml:cpu_and_gpu:fp32", {"MLComputeUnits": "CPUAndGPU", "ModelFormat": "MLProgram"}),
        ("coreml:cpu_and_ne", {"MLComputeUnits": "CPUAndNeuralEngine", "ModelFormat": "NeuralNetwork"}),
        ("coreml:all:fp16", {"MLComputeUnits": "ALL", "ModelFormat": "NeuralNetwork"}),
        (
            "coreml:all{static=on,subgraphs=off,strategy=fast,accumulate=fp16,cache=/tmp/kept}",
            {
                "MLComputeUnits": "ALL",
                "ModelFormat": "MLProgram",
                "RequireStaticInputShapes": "1",
                "EnableOnSubgraphs": "0",
                "SpecializationStrategy": "FastPrediction",
                "AllowLowPrecisionAccumulationOnGPU": "1",
                "ModelCacheDirectory": "/tmp/kept",
            },
        ),
    ],
)
def test_a_target_in_the_words_of_onnxruntime(target: str, settings: dict[str, str]) -> None:
    asked = parse_target(target)
    device = BY_NAME[asked.device or "all"]
    assert coreml.ep_settings(asked, device.name, coreml.format_of(model(), asked, device)) == settings


@pytest.mark.parametrize(
    ("target", "precision", "reason"),
    [
        ("coreml:cpu_and_ne{format=mlprogram}", "fp32", "Neural Engine computes in fp16 only"),
        ("coreml:cpu_only:fp16", "fp32", "in fp32 on cpu_only, not in fp16"),
        ("coreml:all:fp32{format=neuralnetwork}", "fp32", "in fp16 on all, not in fp32"),
        ("coreml:all:fp32", "fp16", "in fp16 on all, not in fp32"),
        ("coreml:all{format=neuralnetwork}", "fp16", "no fp16 tensors"),
        ("coreml:all", "int8", "is int8"),
    ],
)
def test_a_precision_that_would_not_be_run_is_refused(target: str, precision: str, reason: str) -> None:
    asked = parse_target(target)
    with pytest.raises(Unsupported, match=reason):
        coreml.format_of(model(precision), asked, BY_NAME[asked.device or "all"])


def test_unknown_options_and_values(monkeypatch: pytest.MonkeyPatch, tiny_onnx: Path) -> None:
    monkeypatch.setattr(coreml, "_needs_macos", lambda: None)
    monkeypatch.setattr(coreml.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(coreml, "EP", CPU)
    record = inspect(str(tiny_onnx))
    for options, says in {"{colour=red}": "format", "{format=most}": "mlprogram", "{strategy=slow}": "fast"}.items():
        with pytest.raises(InputError, match=says):
            coreml.load(record, parse_target(f"coreml:all{options}"))
    with pytest.raises(Unavailable, match="cpu_and_ne"):
        coreml.load(record, parse_target("coreml:gpu"))


def test_sizes_of_symbolic_dimensions(tiny_onnx: Path) -> None:
    record = inspect(str(tiny_onnx))
    assert coreml.sizes(record) == {}
    name = record.inputs[0].shape[0] if record.inputs[0].shape else None
    shape = tuple(size if isinstance(size, int) else 4 for size in record.inputs[0].shape or ())
    assert coreml.sizes(fixed(record, {record.inputs[0].name: shape})) == {name: 4}


def test_a_session_counts_what_core_ml_took(monkeypatch: pytest.MonkeyPatch, tiny_onnx: Path) -> None:
    """With onnxruntime's CPU in Core ML's place, which takes everything, and then with nothing taken."""
    monkeypatch.setattr(coreml, "EP", CPU)
    record, target = inspect(str(tiny_onnx)), parse_target("coreml:all")
    shape = tuple(size if isinstance(size, int) else 1 for size in record.inputs[0].shape or ())
    session = coreml.OnCoreML(record, target, {}, {}, "fp16")
    session.run({record.inputs[0].name: np.zeros(shape, np.float32)})
    ran = session.ran()
    assert [name for name, _ in ran.precisions] == ["fp16"]
    assert native.CHOICE in ran.notes
    monkeypatch.setattr(coreml, "placed", lambda _: [])
    with pytest.raises(Unsupported, match="takes no operator"):
        coreml.OnCoreML(record, target, {}, {}, "fp16")


def test_without_the_execution_provider() -> None:
    if coreml.EP in coreml.session.offered():
        pytest.skip("this onnxruntime has it")
    with pytest.raises(Unavailable, match="CoreMLExecutionProvider"):
        coreml._ep()


class _Units(Enum):
    ALL, CPU_ONLY = 1, 2


class _Network:
    """As coremltools' MLModel: it writes into what it is given, and answers in its own types."""

    def __init__(self, path: str, compute_units: _Units, optimization_hints: dict[str, Any]) -> None:
        self.told = (path, compute_units.name, optimization_hints)

    def predict(self, feeds: dict[str, Any]) -> dict[str, Any]:
        answer = {"y": feeds["x"].astype(np.float64) + 1}
        feeds.clear()
        return answer


def test_a_file_of_its_own_format(monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = ModuleType("coremltools")
    fake.ComputeUnit, fake.SpecializationStrategy = _Units, SimpleNamespace(Default="D", FastPrediction="F")
    fake.models = SimpleNamespace(MLModel=_Network)
    monkeypatch.setitem(sys.modules, "coremltools", fake)
    monkeypatch.setattr(coreml, "_needs_macos", lambda: None)
    monkeypatch.setattr(coreml, "form_of", lambda _: "neuralnetwork")
    monkeypatch.setattr(coreml.platform, "mac_ver", lambda: ("13.0", ("", "", ""), ""))
    record = model(path="net.mlmodel")
    native: Any = coreml.load(record, parse_target("coreml:cpu_only{strategy=fast,accumulate=fp16}"))
    hints = {"specializationStrategy": "F", "allowLowPrecisionAccumulationOnGPU": True}
    assert native._network.told == ("net.mlmodel", "CPU_ONLY", hints)
    feeds = {"x": np.zeros((1, 2), np.float32)}
    for _ in range(2):
        answer = native.run(feeds)["y"]
        assert (answer.dtype, answer.tolist()) == (np.float32, [[1, 1]])
    with pytest.raises(InputError, match="'x' is float32, found int64"):
        native.run({"x": np.zeros((1, 2), np.int64)})
    ran = native.ran()
    assert (ran.devices, ran.precisions) == (("cpu_only",), (("fp32", 1),))
    native.close()
    native.close()
    with pytest.raises(InputError, match="closed"):
        native.run(feeds)
    with pytest.raises(InputError, match=r"format= is for \.onnx"):
        coreml.load(record, parse_target("coreml:all{format=mlprogram}"))
    with pytest.raises(Unsupported, match="in fp16 on all, not in fp32"):
        coreml.load(record, parse_target("coreml:all:fp32"))
    with pytest.raises(Unsupported, match="own format"):
        coreml.support(record, parse_target("coreml:all"))


def test_a_plan_is_counted_by_unit() -> None:
    class MLNeuralEngineComputeDevice: ...

    class MLCPUComputeDevice: ...

    where = {"conv": MLNeuralEngineComputeDevice(), "relu": MLNeuralEngineComputeDevice(), "topk": MLCPUComputeDevice()}
    block = SimpleNamespace(operations=["const", "conv", "relu", "topk"])
    program = SimpleNamespace(functions={"main": SimpleNamespace(block=block)})

    def usage(operation: str) -> Any:
        return SimpleNamespace(preferred_compute_device=where[operation]) if operation in where else None

    plan = SimpleNamespace(
        model_structure=SimpleNamespace(program=program), get_compute_device_usage_for_mlprogram_operation=usage
    )
    assert native.planned(plan) == Counter({"Neural Engine": 2, "CPU": 1})


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ML program in fp16, one in fp32, one with an open batch; saved as coremltools saves them."""
    ct = pytest.importorskip("coremltools", reason="coremltools is not installed")
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    folder = tmp_path_factory.mktemp("coreml")
    for name, batch in (("half", 1), ("single", 1), ("open", ct.RangeDim(1, 8, symbol="batch"))):
        size = batch if isinstance(batch, int) else batch.symbol

        @mb.program(input_specs=[mb.TensorSpec(shape=(size, 4), dtype=types.fp32)])
        def program(x: Any) -> Any:
            return mb.tanh(x=mb.relu(x=x), name="y")

        precision = ct.precision.FLOAT32 if name == "single" else ct.precision.FLOAT16
        inputs = None if isinstance(batch, int) else [ct.TensorType(name="x", shape=(batch, 4))]
        made = ct.convert(program, inputs=inputs, compute_precision=precision, convert_to="mlprogram")
        made.save(str(folder / f"{name}.mlpackage"))
    return folder


@pytest.mark.filterwarnings("ignore")
def test_a_package_is_described(packages: Path) -> None:
    half, single, loose = (coreml.inspect(str(packages / f"{n}.mlpackage")) for n in ("half", "single", "open"))
    assert single.inputs == (Tensor("x", "float32", (1, 4)),)
    assert [tensor.name for tensor in single.outputs] == ["y"]
    assert (half.precision, single.precision) == ("fp16", "fp32")
    assert loose.inputs[0].shape == (None, 4)
    assert half.digest == coreml.inspect(str(packages / "half.mlpackage")).digest != single.digest
    assert coreml.form_of(half.path) == "mlprogram"


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_package(packages: Path, tmp_path: Path) -> None:
    for name, content in {"empty.mlmodel": b"", "garbage.mlmodel": b"garbage"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            coreml.inspect(str(tmp_path / name))
    (tmp_path / "hollow.mlpackage").mkdir()
    with pytest.raises(InputError, match=r"hollow\.mlpackage is not a valid"):
        coreml.inspect(str(tmp_path / "hollow.mlpackage"))
    with pytest.raises(InputError, match="there is no file"):
        coreml.inspect(str(tmp_path / "none.mlpackage"))
