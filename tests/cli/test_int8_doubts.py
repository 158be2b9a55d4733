"""A processor without instructions for 8 bits: every command that quantizes says so once, before it converts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgewise.cli import _main
from edgewise.core.types import Machine
from edgewise.measure import isolate
from edgewise.study import prepare, race, request, tune
from edgewise.study.survey import EngineFacts, survey

SAID = "note: An Old One has no instructions for products of 8 bits (VNNI or AMX)"
EIGHT, FLOATS = "null:cpu:int8@1{latency=300us,wait=sleep}", "null:cpu:fp32@1{latency=2ms,wait=sleep}"
QUICK = ("--scenario", "single(warmup=0, max_runs=2, min_s=0, width=0)")
TURNS = ("--starts", "2", "--save", "lab.db")


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was said on an old machine by the time something was quantized."""

    def surveyed(asked: Sequence[str] | None = None) -> tuple[Machine, tuple[EngineFacts, ...]]:
        machine, engines = survey(asked)
        return replace(machine, cpu="An Old One", isa=("avx2", "sse4_2")), engines

    quantized: list[str] = []
    real = isolate.call

    def call(function: str, **given: Any) -> Any:
        if function.endswith("quantize_file"):
            quantized.extend(prepare._DOUBTED)
        return real(function, **given)

    monkeypatch.setattr(request, "survey", surveyed)
    monkeypatch.setattr(prepare, "_DOUBTED", set())
    monkeypatch.setattr(isolate, "call", call)
    monkeypatch.setattr(race, "WARMUP_NS", 5_000_000)
    monkeypatch.setattr(tune, "CLOSE_TURNS", 8)
    monkeypatch.chdir(tmp_path)
    return quantized


@pytest.mark.parametrize(
    "argv",
    [
        ("bench", "MODEL", "--on", EIGHT, "--on", "null:cpu:int8@2", *QUICK, "--save", "lab.db"),
        ("tune", "MODEL", "--on", EIGHT, "--on", FLOATS, "--against", FLOATS, "-o", "p.plan.json", *TURNS),
        ("optimize", "MODEL", "--recipe", "quantize", "--on", "null:cpu@1", "--rounds", "2", *TURNS),
        ("select", "fit", "--models", "pocket/nano", "--on", EIGHT, "--on", FLOATS, "--data", "pocket(count=20)"),
    ],
    ids=lambda argv: argv[0],
)
def test_it_is_said_once_and_first(
    argv: tuple[str, ...], old: list[str], tiny_onnx: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _main([str(tiny_onnx) if word == "MODEL" else word for word in argv])
    assert capsys.readouterr().err.count(SAID) == 1
    assert old and "An Old One" in old[0], "nothing was quantized before it was said"


def test_nobody_who_stays_with_floats_is_told(
    old: list[str], tiny_onnx: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(["bench", str(tiny_onnx), "--on", FLOATS, *QUICK, "--save", "lab.db"]) == 0
    assert "An Old One" not in capsys.readouterr().err
    assert not old
