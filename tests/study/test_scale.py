"""Ranges as people type them, models at other sizes, and the climb that stops where memory or time end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from edgewise.analyze import scaling
from edgewise.cli import _main
from edgewise.core.errors import InputError
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import (
    Cluster,
    Device,
    Failure,
    Machine,
    Measurement,
    Model,
    Placement,
    Ran,
    Round,
    Start,
    Target,
    Task,
)
from edgewise.model.load import inspect
from edgewise.store.db import Store
from edgewise.study import scale
from edgewise.study.prepare import Limits
from edgewise.study.request import Request
from edgewise.study.scale import Climb
from edgewise.study.survey import EngineFacts

QUICK = "single(warmup=1, max_runs=3, min_s=0)"


@pytest.mark.parametrize(
    ("text", "what", "expected"),
    [
        ("8", "batch", (8,)),
        ("1..8", "batch", (1, 2, 4, 8)),
        ("3..20", "batch", (3, 6, 12)),
        ("8..24:8", "batch", (8, 16, 24)),
        ("1..4, 3,16", "batch", (1, 2, 3, 4, 16)),
        ("224..320", "size", (224, 256, 288, 320)),
        ("224..448:112", "size", (224, 336, 448)),
        ("160,224", "size", (160, 224)),
    ],
)
def test_ranges(text: str, what: str, expected: tuple[int, ...]) -> None:
    assert scale.steps(text, what) == expected


@pytest.mark.parametrize("text", ["", "a", "1..", "..8", "8..1", "0..8", "1..8:0", "-1", "1.5", "1..999999999", "1,,2"])
def test_ranges_that_are_none(text: str) -> None:
    with pytest.raises(InputError) as found:
        scale.steps(text, "batch")
    assert "batch" in found.value.message


def test_too_many_steps_are_refused() -> None:
    with pytest.raises(InputError, match="larger steps"):
        scale.steps("1..5000:1", "size")


@pytest.fixture(scope="module")
def tiny(tiny_onnx: Path) -> Model:
    return replace(inspect(str(tiny_onnx)), label="tiny")


def test_a_built_in_network_is_built_for_the_size(tiny: Model) -> None:
    own, other = scale.variants("tiny", tiny, (32, 48), Limits())
    # At its own size it is the network everybody else measures.
    assert own is tiny
    assert other.label == "tiny@48" and other.digest != tiny.digest
    assert other.inputs[0].shape is not None and other.inputs[0].shape[1:] == (3, 48, 48)
    assert (scaling.base(other.label), scaling.side(other.label, other)) == ("tiny", 48)


def test_a_file_with_open_sizes_runs_at_any_and_is_another_subject_at_each(tiny: Model) -> None:
    opened = replace(tiny, label="mine.onnx", inputs=(replace(tiny.inputs[0], shape=("N", 3, "H", "W")),))
    small, large = scale.variants("mine.onnx", opened, (64, 96), Limits())
    assert small.inputs[0].shape == ("N", 3, 64, 64)
    assert len({small.digest, large.digest, opened.digest}) == 3 and len(small.digest) == len(opened.digest)
    assert large.parent == opened.digest and large.label == "mine.onnx@96"


def test_a_file_with_fixed_sizes_says_so(tiny: Model, tiny_onnx: Path) -> None:
    with pytest.raises(InputError) as found:
        scale.variants(str(tiny_onnx), tiny, (64,), Limits())
    assert "fixed" in found.value.message and "Nx3x32x32" in found.value.message.replace("batch", "N")
    assert found.value.hint and "--size" in found.value.hint
    fixed = replace(tiny, inputs=(replace(tiny.inputs[0], shape=(4, 3, 32, 32)),))
    scale.check_batches(fixed, (4,))
    with pytest.raises(InputError, match="fixed at 4"):
        scale.check_batches(fixed, (1, 4))


def _task(batch: int) -> Task:
    return Task("s", parse_placement("ort:cpu:fp32@2"), parse_scenario(f"single(batch={batch})"))


def _took(batch: int, seconds: float, peak_bytes: int | None) -> Measurement:
    took = int(seconds * 1e9)
    part = Round(0, False, 0, took, (took,), peak_bytes=peak_bytes)
    return Measurement(_task(batch), "m", (), "", (Start(0, 1, 1, None, Ran()),), (part,))


def test_memory_is_predicted_from_its_growth() -> None:
    climb = Climb(memory_bytes=1000 << 20, longest_s=100)
    # 100 MiB, and 10 MiB an image: 64 fit, 128 do not.
    for batch in (1, 2, 4, 8, 16, 32):
        assert climb.refuse(batch) is None
        climb.add(_took(batch, 0.001, (100 + 10 * batch) << 20))
    assert climb.refuse(64) is None
    refused = climb.refuse(128)
    assert refused is not None
    error, message = refused
    assert (error, message.partition(":")[0]) == ("EngineFailure", scaling.NOT_TRIED)
    assert "1,380 MiB" in message and "1,000 MiB are allowed" in message
    failure = Failure(_task(128), "m", scaling.NOT_TRIED, error, message)
    assert scaling.limit(failure) == "memory"
    climb.add(failure)
    again = climb.refuse(256)
    assert again is not None and "batch 128 would be out of memory" in again[1]


def test_time_is_predicted_from_the_batch_before() -> None:
    climb = Climb(memory_bytes=None, longest_s=2)
    climb.add(_took(1, 0.1, None))
    climb.add(_took(8, 0.6, None))
    assert climb.refuse(16) is None
    refused = climb.refuse(32)
    assert refused is not None and refused[0] == "WorkerTimeout"
    assert "2.4 s" in refused[1] and "2 s are allowed" in refused[1]


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Failure(_task(8), "m", "run", "EngineFailure", "out of memory while round"), "ran out of memory"),
        (Failure(_task(8), "m", "run", "WorkerTimeout", "round did not come back"), "took too long"),
        (Failure(_task(8), "m", "load", "Unsupported", "no such thing"), "failed"),
    ],
)
def test_after_a_failure_nothing_larger_is_tried(failure: Failure, said: str) -> None:
    climb = Climb(memory_bytes=None, longest_s=2)
    climb.add(_took(4, 0.1, None))
    climb.add(failure)
    refused = climb.refuse(16)
    assert refused == (failure.error, f"not tried: batch 8 {said}")


def _scale(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = _main(["scale", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_measures_saves_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "lab.db")
    argv = ("tiny", "--batch", "1..2", "--size", "32,48", "--on", "null{latency=1ms}", "--scenario", QUICK)
    code, out, err = _scale(capsys, *argv, "--save", store, "--json")
    assert code == 0, err
    said: dict[str, Any] = json.loads(out)
    # Batches at the first size, the other size at the smallest batch.
    found = [(r["label"], r["task"]["scenario"]) for r in said["results"]]
    assert [(label, "batch=2" in text) for label, text in found] == [
        ("tiny", False),
        ("tiny", True),
        ("tiny@48", False),
    ]
    code, out, err = _scale(capsys, *argv, "--save", store, "--resume")
    assert code == 0 and "throughput still grows" in out
    with Store(store, create=False) as opened:
        assert len(list(opened.results())) == 3
        assert {"tiny", "tiny@48"} <= {model.label for model in opened.models().values()}


def test_batches_are_swept_at_the_models_own_size_where_it_is_among_them(tiny: Model) -> None:
    here = Machine("m", "", "Linux", "", (), (Cluster("cpu", (0, 1)),))
    wanted = Request((tiny,), (Placement.single(Target("null")),), (parse_scenario("single"),), here, (), Limits())

    def planned(sizes: tuple[int, ...], grid: bool = False) -> list[tuple[str, tuple[int, ...]]]:
        return [(each.model.label, each.batches) for each in scale.ladders(wanted, ("tiny",), (1, 2, 4), sizes, grid)]

    assert planned(()) == [("tiny", (1, 2, 4))]
    assert planned((16, 32)) == [("tiny@16", (1,)), ("tiny", (1, 2, 4))]
    assert planned((16,)) == [("tiny@16", (1, 2, 4))]
    assert planned((16, 32), grid=True) == [("tiny@16", (1, 2, 4)), ("tiny", (1, 2, 4))]


def test_a_worker_that_runs_out_of_memory_ends_the_climb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("tiny", "--batch", "1..4", "--on", "null{leak=100000000}", "--memory", "300MB", "--scenario", QUICK)
    code, out, _ = _scale(capsys, *argv, "--save", str(tmp_path / "lab.db"), "--json")
    assert code == 5
    first, second, third = json.loads(out)["results"]
    assert "out of memory" in first["message"]
    assert second["stage"] == third["stage"] == "not tried"
    assert second["message"] == "not tried: batch 1 ran out of memory"


def test_a_run_that_takes_too_long_ends_the_climb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 30 ms whatever the batch; but that a batch of 2 takes no longer cannot be known before.
    argv = ("tiny", "--batch", "1..4", "--on", "null{latency=30ms,wait=sleep}", "--scenario", QUICK)
    code, out, _ = _scale(capsys, *argv, "--longest", "0.05", "--save", str(tmp_path / "lab.db"))
    assert code == 0
    assert "not tried: a run would take about 0.1 s" in out and "allowed; nor 4" in out


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("tiny", "--batch", "x"), "is not a batch"),
        (("tiny", "--size", "9..1"), "is no range of sizes"),
        (("tiny", "--longest", "0"), "--longest"),
        (("tiny", "--scenario", "offline"), "single runs"),
        (("no_such_network",), "no built-in network"),
    ],
)
def test_bad_input_is_named(
    argv: tuple[str, ...], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _scale(capsys, *argv, "--on", "null", "--save", str(tmp_path / "lab.db"))
    assert code == 2 and expected in err and not out


def test_a_file_that_cannot_scale_is_refused_before_anything_is_measured(
    tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = onnx.load(tiny_onnx)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(proto, tmp_path / "fixed.onnx")
    code, out, err = _scale(capsys, str(tmp_path / "fixed.onnx"), "--on", "null", "--save", str(tmp_path / "lab.db"))
    assert code == 2 and "fixed at 1" in err and "hint:" in err and not out


def test_the_default_is_every_engine_in_the_models_precision_on_all_threads(tiny: Model) -> None:
    here = Machine("m", "", "Linux", "", (), (Cluster("cpu", (0, 1)),))
    cpu = Device("cpu", "cpu", cores=(0, 1), precisions=("fp32", "int8"))
    gpu = Device("gpu", "gpu", precisions=("fp16", "fp32"))
    soft = Device("vulkan.0", "gpu", precisions=("fp32",), emulated=True)
    facts = (EngineFacts("ort", "1", (cpu,)), EngineFacts("openvino", "2", (cpu, gpu, soft)), EngineFacts("mnn"))
    wanted = Request((tiny,), (), (parse_scenario("single"),), here, facts, Limits())
    found = [str(target) for target in scale.targets(wanted, tiny)]
    most = max(target.threads or 0 for target in scale.targets(wanted, tiny))
    assert found == [f"ort:cpu:fp32@{most}", f"openvino:cpu:fp32@{most}", "openvino:gpu:fp32"]
    asked = replace(wanted, placements=(Placement.single(Target("ort")),))
    assert scale.targets(asked, tiny) == [Target("ort")]
