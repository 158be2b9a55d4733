"""`edgewise roofline`, as a user calls it: roofs are measured once and kept; what is not known has a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise.cli import _main
from edgewise.core.roofs import Roof, Roofs
from edgewise.store.db import Store
from edgewise.store.kept import Kept
from edgewise.system.peaks import cpu


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Roofs that take no time to measure; the cores each was asked for."""
    asked: list[tuple[int, ...]] = []

    def roofs(machine: object, cores: tuple[int, ...], *, device: str, threads: int | None) -> Roofs:
        asked.append(tuple(cores))
        found = (Roof("compute", "fp32", 100e9, 99e9, "planted"), Roof("memory", "memory", 10e9, 9e9, "planted"))
        return Roofs(machine.id, device, threads, found)  # type: ignore[attr-defined]

    monkeypatch.setattr(cpu, "roofs", roofs)
    return asked


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = _main(list(arguments))
    return code, capsys.readouterr().out


def test_roofs_are_measured_once_and_kept(
    tiny_onnx: Path, tmp_path: Path, planted: list[tuple[int, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "lab.db")
    command = ("roofline", str(tiny_onnx), "--on", "ort:cpu@1", "--save", store)
    code, text = _run(capsys, *command)
    assert code == 0 and "(whole network)" in text and "fp32 100 GFLOP/s" in text
    assert "known by name" in text and "bytes really moved are not known" in text
    code, text = _run(capsys, *command, "--json")
    answer = json.loads(text)
    assert len(planted) == 1 and len(planted[0]) == 1
    assert answer["section"]["charts"] and answer["roofs"][0]["device"] == "cpu"
    with Store(store) as opened:
        (kept,) = Kept(opened).all("roofs", Roofs)
        assert kept.threads == 1
    _run(capsys, *command, "--fresh")
    assert len(planted) == 2


def test_an_engine_that_tells_no_operator_times_still_has_its_network(
    tiny_onnx: Path, tmp_path: Path, planted: list[tuple[int, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    places = ("--on", "null:cpu:fp32@1", "--on", "null:npu", "--save", str(tmp_path / "db"))
    code, text = _run(capsys, "roofline", str(tiny_onnx), *places)
    assert code == 0 and text.count("(whole network)") == 1
    assert "no roof was measured for fp32 on npu" in text
    answer = json.loads(_run(capsys, "roofline", str(tiny_onnx), *places, "--json")[1])
    assert [each["source"] for each in answer["traffic"]] == ["perf", "none"]
    assert "no counters of npu" in answer["traffic"][1]["reason"]


def test_what_cannot_be_run_is_told(tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = _run(capsys, "roofline", str(tiny_onnx), "--on", "ort:gpu7", "--save", str(tmp_path / "db"))
    assert code == 2 and "no device 'gpu7'" in text and "whole network" not in text
    assert _main(["roofline", str(tiny_onnx), "--layers", "-1"]) == 2
