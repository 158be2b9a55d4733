"""The cases are sound, and the suite notices what it is there to notice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from edgewise.core import registry
from edgewise.core.errors import InputError, Unsupported
from edgewise.core.types import Device, Model, Target
from edgewise.engines import conformance
from edgewise.engines._cases import IR_VERSION, OPSET, Case, cases, expected

Arrays = Mapping[str, np.ndarray[Any, Any]]


def _plain(path: str | bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_reference_agrees_with_onnxruntime_unoptimized(case: Case) -> None:
    onnx.checker.check_model(case.model, full_check=True)
    answers = _plain(case.model.SerializeToString()).run(None, case.feeds)
    wanted = expected(case)
    for answer, (name, right) in zip(answers, wanted.items(), strict=True):
        assert np.isfinite(right).all(), name
        assert right.min() < right.max(), name
        assert (answer.dtype, answer.shape) == (right.dtype, right.shape)
        # One step where rounding decides (quantized), else what single precision allows.
        tolerance = case.tolerance if "QuantizeLinear" in case.operators else 1e-5
        scale = float(np.abs(right).max()) if right.dtype.kind == "f" else 0.0
        assert np.abs(answer.astype(float) - right.astype(float)).max() <= tolerance * scale


def test_cases_are_many_named_and_the_same_each_time() -> None:
    found = cases()
    assert len(found) >= 45
    assert len({case.name for case in found}) == len(found)
    cases.cache_clear()
    assert [case.model.SerializeToString() for case in cases()] == [c.model.SerializeToString() for c in found]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_case_is_well_formed(case: Case) -> None:
    assert case.model.ir_version == IR_VERSION
    assert [opset.version for opset in case.model.opset_import] == [OPSET]
    assert all(node.name for node in case.model.graph.node)
    assert {node.op_type for node in case.model.graph.node} == set(case.operators)
    for value in case.model.graph.input:
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"


# An engine without faults, and the same with one fault each: the suite must tell them apart.


class _Executable:
    def __init__(self, model: Model, fault: str) -> None:
        self.model, self.fault, self.session = model, fault, _plain(model.path)
        self.kept: list[Any] = []
        self.last: dict[str, Any] = {}

    def run(self, feeds: Arrays) -> dict[str, Any]:
        if self.session is None:
            raise (RuntimeError if self.fault == "closes badly" else InputError)("it is closed")
        for tensor in self.model.inputs:
            if tensor.name not in feeds:
                raise InputError("an input is missing" if self.fault == "vague" else f"{tensor.name} is missing")
        unknown = set(feeds) - {tensor.name for tensor in self.model.inputs}
        if unknown and self.fault != "takes anything":
            raise InputError(f"unknown: {unknown}")
        ready = {tensor.name: feeds[tensor.name] for tensor in self.model.inputs}
        if self.fault == "ignores strides":
            ready = {k: np.lib.stride_tricks.as_strided(v, strides=np.empty(v.shape, v.dtype).strides)
                     if min(v.strides) > 0 else v for k, v in ready.items()}  # fmt: skip
        try:
            answers = self.session.run(None, ready)
        except Exception as error:  # noqa: BLE001  onnxruntime has many kinds
            raise InputError(f"one of {sorted(ready)}: {error}") from None
        outputs = dict(zip([tensor.name for tensor in self.model.outputs], answers, strict=True))
        if self.fault == "wrong":
            outputs = {name: array * 1.001 for name, array in outputs.items()}
        if self.fault == "writes feeds":
            next(iter(feeds.values()))[:] = 0
        if self.fault == "leaks runs":
            self.kept.append(np.repeat(next(iter(feeds.values())), 3, axis=0))
        if self.fault == "one row":
            outputs = {name: np.repeat(array[:1], len(array), axis=0) for name, array in outputs.items()}
        if self.fault == "drifts" and self.last:
            outputs = {name: (array * np.float32(1 + 1e-5)) for name, array in outputs.items()}
        if self.fault == "aliases":
            for name, array in outputs.items():
                if self.last.get(name, np.empty(0)).shape == array.shape:
                    self.last[name][...] = array
                    outputs[name] = self.last[name]
        self.last = outputs
        return outputs

    def close(self) -> None:
        if self.session is None and self.fault == "closes once":
            raise RuntimeError("closed already")
        if self.fault != "stays open":
            self.session = None


LEAKED: list[bytes] = []


def _engine(fault: str) -> Any:
    device = Device("cpu", "cpu", precisions=("fp32", "fp8") if fault == "strange precision" else ("fp32", "int8"))

    def load(model: Model, target: Target) -> _Executable:
        if target.device not in (None, "cpu"):
            raise InputError("no such device" if fault == "vague" else "no such device; there is cpu")
        if target.precision not in (None, "fp32", "int8"):
            raise Unsupported(f"no {target.precision}; there are fp32, int8")
        if fault == "refuses" and "conv" in model.path:
            raise Unsupported("no convolutions today")
        if fault == "leaks models":
            # Eight copies: more than this process, with all the tests before, may have free to give again.
            LEAKED.append(Path(model.path).read_bytes() * 8)
        return _Executable(model, fault)

    devices = [device, device] if fault == "devices twice" else [device]
    return SimpleNamespace(version=lambda: "" if fault == "no version" else "1", devices=lambda: devices, load=load)


@pytest.fixture
def outcomes(request: pytest.FixtureRequest, monkeypatch: Any, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setattr(registry, "find", lambda package, name: _engine(request.param))
    yield list(conformance.check("scripted", scratch=tmp_path))
    LEAKED.clear()


@pytest.mark.parametrize("outcomes", ["none"], indirect=True)
def test_a_sound_engine_passes(outcomes: list[conformance.Outcome]) -> None:
    # What it could also do, and does not have to.
    assert [outcome.check for outcome in outcomes if outcome.verdict != "pass"] == ["zero_copy", "profile", "support"]
    assert {outcome.verdict for outcome in outcomes} == {"pass", "skip"}
    assert [outcome.check for outcome in outcomes] == [check.name for check in conformance.CHECKS]
    table = conformance.operators(outcomes)
    assert set(table.values()) == {"yes"}
    assert {"Conv", "Gemm", "Softmax", "QuantizeLinear"} <= set(table)


FAULTS = {
    "wrong": "operator.relu", "one row": "dynamic_batch", "drifts": "repeated_runs",
    "aliases": "outputs_are_kept", "writes feeds": "feeds_are_untouched", "vague": "wrong_feeds",
    "ignores strides": "non_contiguous_feeds",
    "takes anything": "wrong_feeds", "closes badly": "close_ends_it", "closes once": "close_ends_it",
    "stays open": "close_ends_it", "leaks runs": "leaks", "leaks models": "leaks", "no version": "version",
    "devices twice": "devices", "strange precision": "devices",
}  # fmt: skip


@pytest.mark.parametrize(("outcomes", "check"), FAULTS.items(), indirect=["outcomes"], ids=list(FAULTS))
def test_a_fault_is_noticed(outcomes: list[conformance.Outcome], check: str) -> None:
    (found,) = (outcome for outcome in outcomes if outcome.check == check)
    assert found.verdict == "fail"
    assert found.reason


@pytest.mark.parametrize("outcomes", ["refuses"], indirect=True)
def test_a_refusal_is_not_a_failure(outcomes: list[conformance.Outcome]) -> None:
    assert {outcome.verdict for outcome in outcomes} == {"pass", "refused", "skip"}
    assert conformance.operators(outcomes)["Conv"] == "refused: no convolutions today"
    assert conformance.operators(outcomes)["Relu"] == "yes"
