"""Whatever is typed or handed over: the right exit code, a sentence that helps, never a traceback."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from command import edgewise
from edgewise.cli import _main

QUICK = ["--scenario", "single(warmup=0, max_runs=2, min_s=0)"]
Save = Callable[..., str]


def _refused(code: int, *argv: str, says: str = "", hint: str = "") -> str:
    """An error before anything is measured: nothing on stdout, the reason on stderr."""
    done = edgewise(*argv)
    assert done.returncode == code, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert says in done.stderr
    assert "error: " in done.stderr
    if hint:
        assert hint in done.stderr.split("hint: ", 1)[1]
    return done.stderr


def _failed(code: int, *argv: str, says: str = "", hint: str = "") -> str:
    """A cell that cannot be measured: a row with the reason, where results are shown."""
    done = edgewise("bench", *argv, COLUMNS="1000")
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr + done.stdout
    shown = " ".join(done.stdout.split())
    assert "Did not run" in shown
    assert says in shown
    assert hint in shown
    return shown


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write a model of one node and say where."""

    def write(
        *nodes: Any, shape: tuple[int | str, ...] = (1, 3, 8, 8), weights: Any = (), domains: tuple[str, ...] = ()
    ) -> str:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))
        graph = helper.make_graph(nodes or [helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y], weights)
        opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
        path = tmp_path / "model.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
        return str(path)

    return write


def _one_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros((2, 1, 3, 32, 32), np.float32))
    return file.getvalue()


# Files


@pytest.mark.parametrize("content", [b"", b"not a model at all\n" * 50, b"\x00" * 64, b"\x89PNG\r\n\x1a\n" + bytes(99)])
def test_not_a_model(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.onnx"
    file.write_bytes(content)
    _refused(2, "bench", str(file), "--on", "null", says=str(file), hint="export the model again")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_cut_short(tiny_onnx: Path, tmp_path: Path, share: float) -> None:
    whole = tiny_onnx.read_bytes()
    file = tmp_path / "cut.onnx"
    file.write_bytes(whole[: int(len(whole) * share)])
    _refused(2, "bench", str(file), "--on", "null", says="cut", hint="export the model again")


def test_a_folder(tmp_path: Path) -> None:
    _refused(2, "bench", str(tmp_path), "--on", "null", says="is not a file")


@pytest.mark.parametrize("name", ["resnet5000", "no/such/file.onnx", "x" * 300, "y/" * 3000, "tiny\n"])
def test_neither_a_file_nor_a_network(name: str) -> None:
    _refused(2, "bench", name, "--on", "null", says="no built-in network of that name")


def test_an_operator_nobody_has(save: Save) -> None:
    file = save(helper.make_node("Frobnicate", ["x"], ["y"]))
    _refused(2, "bench", file, "--on", "ort", says="Frobnicate")


def test_an_operator_of_another_domain(save: Save) -> None:
    """Valid ONNX that this engine cannot run: a result, not an error."""
    file = save(helper.make_node("Frobnicate", ["x"], ["y"], domain="com.example"), domains=("com.example",))
    _failed(4, file, "--on", "ort", *QUICK, says="Frobnicate")


def test_one_failure_among_successes_is_no_error(save: Save) -> None:
    file = save(helper.make_node("Frobnicate", ["x"], ["y"], domain="com.example"), domains=("com.example",))
    shown = _failed(0, file, "--on", "ort", "--on", "null", *QUICK, says="Frobnicate")
    assert "null:cpu" in shown


def test_an_operator_the_engine_refuses(tiny_onnx: Path) -> None:
    _failed(4, str(tiny_onnx), "--on", "null{refuse=Conv}", *QUICK, says="told to refuse Conv")


@pytest.mark.parametrize("shape", [(1, 0, 8, 8), (0,), (1, 3, -4, 8)])
def test_empty_dimensions(save: Save, shape: tuple[int, ...]) -> None:
    _refused(2, "bench", save(shape=shape), "--on", "null", says="'x'")


def test_symbolic_sizes_need_a_shape(save: Save) -> None:
    file = save(shape=("n", 3, "height", "width"))
    _failed(2, file, "--on", "ort@1", *QUICK, says="nx3xheightxwidth", hint="--shape x=")
    done = edgewise("bench", file, "--on", "ort@1", "--shape", "x=1x3x20x30", *QUICK)
    assert done.returncode == 0, done
    assert "ort:cpu:fp32@1" in done.stdout


def test_shapes_that_do_not_fit(save: Save) -> None:
    file = save(shape=("n", 3, "height", "width"))
    _failed(2, file, "--on", "null", "--shape", "x=1x4x20x30", *QUICK, says="does not fit input 'x'")
    _failed(2, file, "--on", "null", "--shape", "x=1x3x20", *QUICK, says="does not fit input 'x'")
    _failed(2, file, "--on", "null", "--shape", "z=1", *QUICK, says="has no input 'z'")
    _failed(2, file, "--on", "null", "--shape", "x=1x3x99999999x99999999", *QUICK, says="too large")
    _failed(2, save(), "--on", "null", "--batch", "4", *QUICK, says="fixed at 1")


@pytest.mark.parametrize(
    ("location", "says"), [("w.bin", "missing"), ("../w.bin", "outside"), ("/etc/passwd", "outside")]
)
def test_external_data(save: Save, tmp_path: Path, location: str, says: str) -> None:
    weight = numpy_helper.from_array(np.ones(8, np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    file = save(helper.make_node("Add", ["x", "w"], ["y"]), weights=[weight])
    _refused(2, "bench", file, "--on", "null", says=says, hint="copy" if says == "missing" else "beside")
    if says == "missing":
        (tmp_path / location).write_bytes(np.ones(8, np.float32).tobytes())
        done = edgewise("bench", file, "--on", "ort@1", *QUICK)
        assert done.returncode == 0, done


def test_a_model_without_outputs(tmp_path: Path) -> None:
    file = tmp_path / "none.onnx"
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], []))
    file.write_bytes(model.SerializeToString())
    _refused(2, "bench", str(file), "--on", "null")


# What is typed. Checked before anything runs, so in this process.


def _typed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    try:
        code = _main(argv)
    except SystemExit as left:  # argparse
        code = int(left.code or 0)
    out, errors = capsys.readouterr()
    assert out == ""
    assert "error: " in errors
    return code, errors


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--on", "nonesuch"], "known: coreml, litert, mnn, ncnn, null, openvino, ort"),
        (["--on", "ort:cpu:fp9"], "known: fp32, tf32, fp16, bf16, int8"),
        (["--on", "ort@0"], "at least one thread"),
        (["--on", "ort#1+1"], "named twice"),
        (["--on", "ORT!"], "is not a target"),
        (["--on", ""], "is not a target"),
        (["--on", "null{latency}"], "is not key=value"),
        (["--on", "null{latency=1ms,latency=2ms}"], "twice"),
        (["--on", f"null@{'9' * 5000}"], "is not a target"),
        (["--on", f"null#{'9' * 5000}"], "is not a target"),
        (["--on", "deal(ort)"], "makes no sense"),
        (["--scenario", "sprint"], "known: single, concurrent, server, offline"),
        (["--scenario", "single(speed=9)"], "it has batch, n, rate_hz"),
        (["--scenario", "single(batch=many)"], "whole number"),
        (["--scenario", "single(batch=-1)"], "whole number"),
        (["--scenario", "single(rate_hz=5)"], "server"),
        (["--scenario", "server"], "rate_hz"),
        (["--scenario", "server(rate_hz=nan)"], "finite"),
        (["--scenario", "server(rate_hz=0)"], "rate_hz"),
        (["--scenario", "single(n=2)"], "concurrent"),
        (["--scenario", "single(min_s=9, max_s=1)"], "max_s"),
        (["--scenario", "single(contention=2*gaming)"], "known: compute, memory, cache"),
        (["--scenario", "single("], "is not a scenario"),
        (["--batch", "0"], "at least 1"),
        (["--batch", "two"], "invalid int value"),
        (["--shape", "input"], "is not a shape"),
        (["--shape", "input=3x"], "is not a shape"),
        (["--shape", f"input={'9' * 5000}"], "is not a shape"),
        (["--memory", "lots"], "is not a size"),
        (["--memory", "0"], "is not a size"),
        (["--memory", "1.2.3GB"], "is not a size"),
        (["--memory", "9" * 400], "is not a size"),
        (["--memory", "99999999999GB"], "is not a size"),
        (["--timeout", "soon"], "invalid float value"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_flags(capsys: pytest.CaptureFixture[str], argv: list[str], says: str) -> None:
    engine = [] if "--on" in argv else ["--on", "null"]
    code, errors = _typed(capsys, "bench", "tiny", *engine, *argv)
    assert code == 2
    assert says in errors


@pytest.mark.parametrize("argv", [[], ["bench"], ["compare"], ["engines"], ["engines", "check"], ["fly"], ["--fly"]])
def test_incomplete_commands(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    assert _typed(capsys, *argv)[0] == 2


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["compare", "tiny", "--on", "null"], 2, "two sides"),
        (["compare", "tiny", "--on", "null", "--on", "null:npu", "--starts", "1"], 2, "at least two"),
        (["compare", "tiny", "--on", "null", "--on", "null:tpu"], 2, "it has cpu, npu"),
        (["compare", "tiny", "--on", "ort", "--on", "ort:cpu:bf16"], 4, "it runs fp32, int8"),
        (["engines", "check", "nonesuch"], 2, "known: coreml, litert"),
        (["engines", "mend", "null"], 2, "it has check"),
        (["engines", "check", "null", "--device", "tpu"], 2, "it has cpu, npu"),
        (["show", "/nowhere/lab.db"], 7, "there is no store"),
        (["show"], 7, "there is no store"),
    ],
)
def test_other_commands(capsys: pytest.CaptureFixture[str], argv: list[str], code: int, says: str) -> None:
    found, errors = _typed(capsys, *argv)
    assert found == code
    assert says in errors


def test_an_unknown_device_lists_the_valid_ones(tiny_onnx: Path) -> None:
    _failed(2, str(tiny_onnx), "--on", "null:tpu", *QUICK, says="it has cpu, npu", hint="edgewise devices")


def test_a_precision_the_engine_does_not_have(tiny_onnx: Path) -> None:
    _failed(4, str(tiny_onnx), "--on", "ort:cpu:bf16", *QUICK, says="it runs fp32, int8")


def test_an_option_the_engine_does_not_have(tiny_onnx: Path) -> None:
    _failed(2, str(tiny_onnx), "--on", "null{colour=red}", *QUICK, says="it has at, chatter")


def test_a_core_that_is_not_there(tiny_onnx: Path) -> None:
    _failed(2, str(tiny_onnx), "--on", "null@1#4095", *QUICK, says="usable here: ")


def test_no_place_for_the_store(tiny_onnx: Path, tmp_path: Path) -> None:
    for place in (tiny_onnx / "lab.db", tmp_path, Path("/proc/lab.db"), tiny_onnx, tmp_path / ("x" * 300)):
        _refused(7, "bench", str(tiny_onnx), "--on", "null", "--save", str(place), says=str(place), hint="--save")
    onnx.checker.check_model(str(tiny_onnx))  # not written over


def test_no_place_for_the_cache(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = edgewise("bench", "tiny", "--on", "null", XDG_CACHE_HOME=str(file))
    assert (done.returncode, done.stdout) == (7, "")
    assert "XDG_CACHE_HOME" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", [None, b"not an archive", b"", b"PK\x03\x04 cut", _one_array()])
def test_calibration_that_cannot_be_used(tiny_onnx: Path, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "calibration.npz"
    if content is not None:
        file.write_bytes(content)
    argv = [str(tiny_onnx), "--on", "ort:cpu:int8@1", "--calibration", str(file), *QUICK]
    _failed(2, *argv, says="calibration")


def test_a_pickle_is_not_calibration(tiny_onnx: Path, tmp_path: Path) -> None:
    """Loading it would run whatever it says."""
    file = tmp_path / "calibration.npz"
    np.savez(file, input=np.array([{"a": 1}], dtype=object))
    argv = [str(tiny_onnx), "--on", "ort:cpu:int8@1", "--calibration", str(file), *QUICK]
    _failed(2, *argv, says="calibration")


def test_a_reader_that_has_seen_enough(tiny_onnx: Path) -> None:
    command = f"{sys.executable} -m edgewise devices --json | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
