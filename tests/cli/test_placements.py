"""Several targets at once, as somebody types them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from command import edgewise

QUICK = "single(warmup=2, max_runs=40, min_s=0, width=0)"


def bench(model: Path, store: Path, *on: str) -> dict[str, Any]:
    targets = [word for each in on for word in ("--on", each)]
    done = edgewise("bench", str(model), *targets, "--scenario", QUICK, "--save", str(store), "--json")
    assert done.returncode == 0, done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_stream_is_dealt_and_its_shares_are_told(tiny_onnx: Path, tmp_path: Path) -> None:
    quick, slow = (f"null:cpu:fp32@1{{latency={each},wait=sleep}}" for each in ("2ms", "8ms"))
    found = bench(tiny_onnx, tmp_path / "lab.db", quick, slow, f"deal({quick}, {slow})")
    names = [column["name"] for column in found["dealt"]["columns"]]
    rows = {row[names.index("target")]: dict(zip(names, row, strict=True)) for row in found["dealt"]["rows"]}
    assert rows[quick]["frames"] > rows[slow]["frames"] > 0
    assert rows["together"]["frames"] == sum(rows[each]["frames"] for each in (quick, slow))
    assert rows["together"]["alone"] == pytest.approx(sum(rows[each]["alone"] for each in (quick, slow)))
    # What a store holds is what was measured.
    shown = edgewise("show", str(tmp_path / "lab.db"), "--json")
    assert f"deal({quick}, {slow})" in shown.stdout


def test_one_inference_is_split_and_right(tiny_onnx: Path, tmp_path: Path) -> None:
    found = bench(tiny_onnx, tmp_path / "lab.db", "split(ort:cpu@1=0.5, ort:cpu@1=0.5)")
    (start,) = found["results"][0]["starts"]
    names = [column["name"] for column in found["section"]["columns"]]
    assert found["section"]["rows"][0][names.index("error")] < 1e-5
    assert any("operators are split" in note for note in start["ran"]["notes"])


def test_parts_of_a_split_have_precisions_of_their_own(tiny_onnx: Path, tmp_path: Path) -> None:
    found = bench(tiny_onnx, tmp_path / "lab.db", "split(ort:cpu@1=0.5, ort:cpu:int8@1=0.5)")
    (start,) = found["results"][0]["starts"]
    names = [column["name"] for column in found["section"]["columns"]]
    assert 1e-5 < found["section"]["rows"][0][names.index("error")] < 0.1
    assert any("in 8 bits" in note for note in start["ran"]["notes"])
    assert "disagrees" not in json.dumps(found["section"]["findings"])


def test_a_model_is_cut_into_stages_and_right(tiny_onnx: Path, tmp_path: Path) -> None:
    found = bench(tiny_onnx, tmp_path / "lab.db", "stages(ort:cpu@1, ort:cpu@1)")
    (result,) = found["results"]
    assert result["task"]["scenario"].startswith("offline")
    names = [column["name"] for column in found["section"]["columns"]]
    assert found["section"]["rows"][0][names.index("error")] < 1e-5
    assert any("cuts tried" in note for note in result["starts"][0]["ran"]["notes"])
    assert not any(each["shares"] for each in result["rounds"])


def test_branches_run_side_by_side_and_right(tmp_path: Path) -> None:
    model = tmp_path / "fires.onnx"
    assert edgewise("zoo", "export", "squeezenet1_1", "-o", str(model), "--size", "64").returncode == 0
    found = bench(model, tmp_path / "lab.db", "branches(ort:cpu@1, ort:cpu@1)")
    (result,) = found["results"]
    assert result["task"]["scenario"].startswith("single")
    names = [column["name"] for column in found["section"]["columns"]]
    assert found["section"]["rows"][0][names.index("error")] < 1e-5
    assert "8 regions with branches" in result["starts"][0]["ran"]["notes"]


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_sides_of_a_comparison_may_be_placements(tiny_onnx: Path, tmp_path: Path) -> None:
    done = edgewise(
        *("compare", str(tiny_onnx), "--on", "ort:cpu@1#0", "--on", "split(ort:cpu@1#0, ort:cpu@1#1)"),
        *("--starts", "2", "--rounds", "4", "--save", str(tmp_path / "lab.db")),
    )
    assert done.returncode == 0, done
    assert "split(ort:cpu:fp32@1#0, ort:cpu:fp32@1#1)" in done.stdout


@pytest.mark.parametrize(
    ("on", "says"),
    [
        ("stages(ort:cpu@1, ort:cpu:int8@1)", "the same file"),
        ("stages(ort:cpu@1=0.5, ort:cpu@1)", "share above 0"),
        ("branches(ort:cpu@1, ort:cpu@1)", "has no branches"),
        ("split(ort:cpu@1{split=inputs}, ort:cpu:int8@1)", "exchanged in floating point"),
        ("deal(ort:cpu@1, null:cpu{fail=load})", "told to fail at load"),
        ("deal(ort:cpu@1#0, ort:cpu@1#4095)", "core 4095"),
    ],
)
def test_what_cannot_be_done_is_a_failure_with_a_reason(tiny_onnx: Path, tmp_path: Path, on: str, says: str) -> None:
    done = edgewise("bench", str(tiny_onnx), "--on", on, "--scenario", QUICK, "--save", str(tmp_path / "lab.db"))
    assert done.returncode not in (0, 1)
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_other_commands_take_one_target_at_a_time(tiny_onnx: Path) -> None:
    for command in ("profile", "tune", "scale", "roofline"):
        done = edgewise(command, str(tiny_onnx), "--on", "deal(ort:cpu@1, ort:cpu@1)")
        assert done.returncode == 2, (command, done)
        assert "one target at a time" in done.stderr
        assert "--on 'ort:cpu@1'" in done.stderr
