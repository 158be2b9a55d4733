"""The engines installed here: conformance, precision that means what it says, options, refusals."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.core import registry
from edgewise.core.errors import EdgewiseError, InputError, Unavailable, Unsupported
from edgewise.core.text import parse_placement
from edgewise.core.types import Scenario, Task
from edgewise.engines.conformance import Outcome, operators
from edgewise.measure.cell import Cell, Session
from edgewise.model import feeds, load
from edgewise.study.conformance import conformance
from edgewise.study.survey import survey

needs_openvino = pytest.mark.skipif(not importlib.util.find_spec("openvino"), reason="openvino is not installed")


# Every case is converted, most of them for nothing else.
LONG = ("mnn", "ncnn")


@pytest.fixture(scope="module")
def outcomes_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Outcome]]:
    """Two suites at a time: each sits in a worker of its own, and some spend their time in converters."""
    pool = ThreadPoolExecutor(2)
    installed = [facts.name for facts in survey()[1] if facts.version]
    running = {name: pool.submit(lambda each: list(conformance(each)), name) for name in installed if name not in LONG}
    return lambda name: running[name].result() if name in running else list(conformance(name))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in registry.names("engines")]
)
def test_conformance(name: str, outcomes_of: Callable[[str], list[Outcome]]) -> None:
    facts = survey([name])[1][0]
    if facts.version is None:
        pytest.skip(facts.reason)
    outcomes = outcomes_of(name)
    assert [f"{o.check}: {o.reason}" for o in outcomes if o.verdict == "fail"] == []
    assert all(o.reason for o in outcomes if o.verdict == "refused")
    if facts.computes:
        assert len([word for word in operators(outcomes).values() if word == "yes"]) >= 60


def cell(path: Path, on: str) -> Cell:
    model = load.inspect(str(path))
    shapes = feeds.shapes(model)
    fixed = replace(model, inputs=tuple(replace(t, shape=shapes[t.name]) for t in model.inputs))
    return Cell(Task(model.digest, parse_placement(on), Scenario()), fixed, "", (), "", "tiny", timeout_s=60)


@needs_openvino
def test_openvino_fp32_is_fp32(tiny_onnx: Path) -> None:
    """Its own default is bf16 on processors that have it."""
    with Session(cell(tiny_onnx, "openvino:cpu:fp32@1")) as session:
        ran = session.open().ran
    assert ran.devices == ("CPU",)
    assert {name for name, _ in ran.precisions} <= {"fp32", "i32", "i64"}


@needs_openvino
def test_openvino_lower_precisions_are_proven_or_refused(tiny_onnx: Path) -> None:
    facts = survey(["openvino"])[1][0]
    defaults = dict(facts.defaults)
    for precision in ("bf16", "fp16"):
        if precision not in facts.device("cpu").precisions:
            continue
        options = ",".join(f"{k}={v}" for k, v in defaults.get(precision, ()))
        on = f"openvino:cpu:{precision}@1" + (f"{{{options}}}" if options else "")
        with Session(cell(tiny_onnx, on)) as session:
            assert dict(session.open().ran.precisions)[precision] > 0


@needs_openvino
@pytest.mark.parametrize("device", ["auto", "multi(cpu)", "hetero(cpu)"])
def test_openvino_composites_run(tiny_onnx: Path, device: str) -> None:
    with Session(cell(tiny_onnx, f"openvino:{device}:fp32")) as session:
        assert any("CPU" in name for name in session.open().ran.devices)


@needs_openvino
def test_openvino_names_the_part_that_is_missing(tiny_onnx: Path) -> None:
    with Session(cell(tiny_onnx, "openvino:hetero(gpu+cpu):fp32")) as session, pytest.raises(Unavailable, match="gpu"):
        session.open()


@pytest.mark.parametrize(
    "on",
    [
        "ort:cpu{optimize=none}",
        "ort:cpu{spin=off}",
        "ort:cpu@2{spin=run}",
        "ort:cpu{arena=off}",
        "ort:cpu{inter=2}",
        "ort:cpu{session.x=1}",
    ],
)
def test_ort_options(tiny_onnx: Path, on: str) -> None:
    with Session(cell(tiny_onnx, on)) as session:
        assert session.open().ran.devices == ("CPUExecutionProvider",)


@pytest.mark.parametrize(
    ("on", "kind", "names"),
    [
        ("ort:cpu{colour=red}", InputError, "optimize"),
        ("ort:cpu{optimize=most}", InputError, "extended"),
        ("ort:cpu{ep=nothing}", InputError, "xnnpack"),
        ("ort:cpu{ep=xnnpack}", Unavailable, "CPUExecutionProvider"),
        ("ort:cuda.0", Unavailable, "cpu"),
        ("ort:cpu:bf16", Unsupported, "fp32, int8"),
        ("ort:cpu:int8", Unsupported, "quantized"),
        ("null{refuse=Conv}", Unsupported, "Conv"),
        ("null{latency=soon}", InputError, "2ms"),
    ],
)
def test_refusals_say_what_is_valid(tiny_onnx: Path, on: str, kind: type[EdgewiseError], names: str) -> None:
    with Session(cell(tiny_onnx, on)) as session, pytest.raises(kind, match=names):
        session.open()


def test_a_pinned_worker_sits_on_its_core(tiny_onnx: Path) -> None:
    with Session(replace(cell(tiny_onnx, "ort:cpu@1#0"), cores=(0,))) as session:
        session.open()
        status = Path(f"/proc/{session.worker.process.pid}/status")
        if not status.exists():
            pytest.skip("this system does not show a process's affinity")
        assert "Cpus_allowed_list:\t0\n" in status.read_text()
