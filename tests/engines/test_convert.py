"""Conversions: made once, kept by what they depend on; converters that die, fail or only pretend are reported."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from edgewise.core.errors import EngineFailure
from edgewise.core.text import parse_target
from edgewise.core.types import Failure, Placement, Scenario
from edgewise.engines import formats
from edgewise.engines._convert import run_converter
from edgewise.measure.cell import Cell
from edgewise.study import home
from edgewise.study.prepare import Limits, cell, find_model
from edgewise.study.survey import survey


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_converter_that_works(tmp_path: Path) -> None:
    said = run_converter("some", python("print('fine'); open('made', 'w').write('x')"), tmp_path / "made")
    assert said.strip() == "fine"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os; os.kill(os.getpid(), 11)", "died by SIGSEGV"),
        ("import sys; print('bad weights'); sys.exit(3)", "exit code 3: bad weights"),
        ("print('Converted Success!')", "wrote no made: Converted Success!"),
        ("open('made', 'w')", "wrote no made"),
    ],
)
def test_a_converter_that_does_not(tmp_path: Path, code: str, says: str) -> None:
    (tmp_path / "made").write_text("left by an earlier one")
    with pytest.raises(EngineFailure, match=says):
        run_converter("some", python(code), tmp_path / "made")


def prepared(path: Path, on: str, batch: int = 1) -> Cell | Failure:
    target, limits = parse_target(on), Limits(60.0)
    machine, engines = survey([target.engine])
    model = find_model(str(path), limits)
    return cell(model, Placement.single(target), Scenario(batch=batch), machine, engines, limits)


@pytest.mark.skipif(not importlib.util.find_spec("ai_edge_litert"), reason="ai-edge-litert is not installed")
def test_a_conversion_is_kept_by_what_it_depends_on(tiny_onnx: Path) -> None:
    first, again, larger = (prepared(tiny_onnx, "litert:cpu@1", batch) for batch in (1, 1, 2))
    assert isinstance(first, Cell) and isinstance(again, Cell) and isinstance(larger, Cell)
    assert first.model.path == again.model.path != larger.model.path
    assert first.model.parent == first.task.subject != first.model.digest
    assert not [each for each in home.cache().iterdir() if each.name.startswith("tmp")], "nothing half made is left"


@pytest.mark.skipif(not importlib.util.find_spec("ai_edge_litert"), reason="ai-edge-litert is not installed")
def test_a_file_of_one_engine_is_refused_by_the_others(tiny_onnx: Path) -> None:
    made = prepared(tiny_onnx, "litert:cpu@1")
    assert isinstance(made, Cell)
    for on in ("ort:cpu@1", "litert:cpu@1"):
        result = prepared(Path(made.model.path), on)
        if on.startswith("litert"):
            assert isinstance(result, Cell) and result.model.path == made.model.path
        else:
            assert isinstance(result, Failure) and result.error == "Unsupported"
            assert ".tflite" in result.message and ".onnx" in result.message


def test_formats_have_readers() -> None:
    assert formats()[".tflite"] == "litert"
    assert {".param", ".mnn", ".xml", ".mlpackage"} <= set(formats())
