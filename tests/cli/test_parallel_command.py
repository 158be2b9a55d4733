"""`edgewise parallel` as somebody types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import edgewise

SLOW, QUICK = (f"null:cpu:fp32@1{{latency={each},wait=sleep}}" for each in ("8ms", "4ms"))


@pytest.mark.alone
def test_a_stream_is_dealt_where_that_is_faster_and_becomes_a_plan(tiny_onnx: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "best.plan.json", tmp_path / "lab.db"
    done = edgewise(
        *("parallel", str(tiny_onnx), "--over", SLOW, "--over", QUICK, "--use", "throughput", "--starts", "2"),
        *("--rounds", "2", "-o", str(plan), "--save", str(store), "--json"),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ways = {way["placement"]: way for way in found["ways"]["ways"]}
    dealt = ways[f"deal({SLOW}, {QUICK})"]
    # 1 / (1/8 + 1/4) ms, from what each took alone.
    assert dealt["predicted_ns"] == pytest.approx(8e6 / 3, rel=0.25)
    assert dealt["ratio"][0] > 1
    assert found["plan"]["kind"] == "parallel"
    assert found["plan"]["placement"] == f"deal({SLOW}, {QUICK})"
    assert edgewise("run", str(plan)).returncode == 0
    report = edgewise("report", str(store), "-o", str(tmp_path / "report.html"))
    assert "Ways over several processors" in (tmp_path / "report.html").read_text(), report.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--over", "ort:cpu@1"), "several targets are needed"),
        (("--over", "ort:cpu@1", "--over", "deal(ort, ort)"), "not a target"),
        (("--over", "ort", "--over", "ort", "--competing", "3..1"), "--competing is a number of processes"),
        (("--over", "ort", "--over", "ort", "--use", "speed"), "--use is one of both, latency, throughput"),
        (("--over", "ort", "--over", "ort", "--starts", "1"), "at least two sets of processes"),
        (("--over", "ort", "--over", "ort", "-o", "x.plan.json"), "a plan is for one use"),
        (("--over", "ort", "--over", "ort", "--foreground", "0"), "--foreground is a rate"),
        (("--over", "ort", "--over", "ort", "--cap", "25%"), "there is none"),
        (("--over", "ort", "--over", "ort", "--foreground", "60", "--cap", "half"), "--cap is a share"),
    ],
)
def test_what_makes_no_sense_is_refused(tiny_onnx: Path, argv: tuple[str, ...], said: str) -> None:
    done = edgewise("parallel", str(tiny_onnx), *argv)
    assert done.returncode == 2
    assert said in done.stderr
