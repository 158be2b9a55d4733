"""`edgewise profile` and `edgewise support`, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def edgewise(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "edgewise", *arguments], capture_output=True, text=True, timeout=120)


def test_profile_tells_what_looking_costs(tiny_onnx: Path) -> None:
    done = edgewise("profile", str(tiny_onnx), "--on", "ort:cpu@1")
    assert done.returncode == 0, done.stderr
    assert "Conv" in done.stdout and "add up to" in done.stdout and "× as long" in done.stdout


def test_profile_keeps_every_sample(tiny_onnx: Path) -> None:
    done = edgewise("profile", str(tiny_onnx), "--on", "ort:cpu@1", "--json")
    (profile,) = json.loads(done.stdout)["profiles"]
    runs = len(profile["plain_ns"])
    assert runs == len(profile["instrumented_ns"]) >= 10
    assert all(len(op["samples_ns"]) == runs for op in profile["ops"])


def test_an_engine_that_tells_nothing_says_so(tiny_onnx: Path) -> None:
    done = edgewise("profile", str(tiny_onnx), "--on", "null")
    assert done.returncode == 4
    assert "null does not tell what its operators take" in done.stdout


def test_support_has_a_verdict_for_every_operator(tiny_onnx: Path) -> None:
    done = edgewise("support", str(tiny_onnx), "--on", "ort", "--json")
    assert done.returncode == 0, done.stderr
    verdicts = json.loads(done.stdout)["verdicts"]["ort"]
    assert {verdict["verdict"] for verdict in verdicts} == {"supported"}
    assert {"Conv", "Relu", "Gemm"} <= {verdict["operator"] for verdict in verdicts}


def test_support_refuses_what_it_cannot_answer(tiny_onnx: Path) -> None:
    done = edgewise("support", str(tiny_onnx), "--on", "ort", "--on", "null", "--on", "ort:npu")
    assert done.returncode != 0
    assert "null does not tell what it supports" in done.stdout
    assert "ort has no device 'npu' here; it has cpu" in done.stdout
    assert "Conv" in done.stdout
