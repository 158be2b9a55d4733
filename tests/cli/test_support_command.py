"""`edgewise support`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import edgewise


def test_every_operator_has_a_verdict_and_the_engine_keeps_its_word(tiny_onnx: Path) -> None:
    done = edgewise("support", str(tiny_onnx), "--on", "ort", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["supports"]
    assert {verdict["verdict"] for verdict in found["verdicts"]} == {"supported"}
    assert {"Conv", "Relu", "Gemm"} <= {verdict["operator"] for verdict in found["verdicts"]}
    assert len(found["partitions"]) == 1 and found["ran_on"] and found["error"] < 1e-6


@pytest.mark.slow
def test_an_imitated_npu_fragments_the_model_and_a_wrong_operator_is_found(tiny_onnx: Path) -> None:
    wrong = "null:cpu:fp32{over=ort,wrong=Gemm}"
    done = edgewise("support", str(tiny_onnx), "--on", "null:npu{refuse=Relu}", "--on", wrong)
    assert done.returncode == 0, done.stderr
    assert "9 pieces" in done.stdout and "did not run, as told" in done.stdout
    assert "Gemm (gemm_12) is computed wrongly" in done.stdout


def test_a_device_that_is_not_there_is_one_failure_among_answers(tiny_onnx: Path) -> None:
    done = edgewise("support", str(tiny_onnx), "--on", "ort", "--on", "ort:npu")
    assert done.returncode != 0
    assert "ort has no device 'npu' here; it has cpu" in done.stdout
    assert "Conv" in done.stdout


def test_a_split_says_what_cutting_the_graph_adds_and_who_runs_that(tiny_onnx: Path) -> None:
    npu = "null:npu{leave=Concat}"
    done = edgewise("support", str(tiny_onnx), "--on", f"split(ort:cpu=0.5, {npu}=0.5)", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (added,) = found["added"]
    rows = {row[0]: row for row in added["rows"]}
    assert rows["Concat"][3] > 0
    assert rows["Concat"][4:] == ["supported", "falls back"]
    assert rows["Conv"][2] == rows["Conv"][1] + rows["Conv"][3]
    # As one file it is the same model still.
    whole = [each for each in found["supports"] if each["label"].endswith("| split") and "ort" in each["placement"]]
    assert whole[0]["error"] < 1e-5


def test_how_a_split_cuts_is_not_asked_of_engines(tiny_onnx: Path) -> None:
    done = edgewise("support", str(tiny_onnx), "--on", "split(ort:cpu{split=inputs}, ort:cpu)", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (added,) = found["added"]
    rows = {row[0]: row for row in added["rows"]}
    assert rows["Conv"][3] > 0
    whole = [each for each in found["supports"] if each["label"].endswith("| split")]
    assert [each["error"] < 1e-5 for each in whole] == [True]
