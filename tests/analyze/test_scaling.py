"""Sweeps with a known knee, a known end and a known exponent inside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted import machine, measured, noise

from edgewise.analyze import scaling
from edgewise.analyze.evidence import Evidence
from edgewise.core.types import Failure, Finding, Measurement, Model, Section, Tensor
from edgewise.report.sentences import remedy, sentence

TARGET = "ort:cpu:fp32@2"


def _batch(batch: int, *, knee: int = 8, label: str = "net", on: str = "m", target: str = TARGET) -> Measurement:
    """1 ms a run up to the knee, and from there on 1 ms for each `knee` images."""
    ns = 1e6 * max(1.0, batch / knee)
    return measured(target, noise(ns, 300, seed=batch), scenario=f"single(batch={batch})", label=label, on=on)


def _failure(batch: int, message: str, *, stage: str = "run", error: str = "EngineFailure") -> Failure:
    return Failure(_batch(batch).task, "m", stage, error, message, label="net")


def _evidence(*measurements: Measurement, failures: tuple[Failure, ...] = ()) -> Evidence:
    return Evidence(machines={"m": machine()}, measurements=measurements, failures=failures)


def _one(section: Section, code: str) -> Finding:
    (found,) = [finding for finding in section.findings if finding.code == code]
    return found


def _column(section: Section, name: str) -> list[object]:
    index = [column.name for column in section.columns].index(name)
    return [row[index] for row in section.rows]


def test_the_knee_is_where_it_was_planted() -> None:
    section = scaling.run(_evidence(*map(_batch, (32, 1, 8, 2, 16, 4))))
    assert _column(section, "batch") == [1, 2, 4, 8, 16, 32]
    found = _one(section, "knee")
    assert (found["batch"], found["first"], found["sure"]) == (8, 8, 8)
    assert found["per_s"] == pytest.approx(8000, rel=0.02)
    outcomes = _column(section, "outcome")
    assert str(outcomes[3]).startswith("knee")
    assert all("knee" not in str(outcome) for index, outcome in enumerate(outcomes) if index != 3)
    gains = _column(section, "gain")
    assert gains[:4] == [None, *(pytest.approx(2, rel=0.02),) * 3]
    assert gains[4:] == [pytest.approx(1, rel=0.02)] * 2
    assert "batch 8 is enough" in sentence(found)


def test_two_charts_show_throughput_and_latency_with_their_intervals() -> None:
    section = scaling.run(_evidence(*map(_batch, (1, 8, 16))))
    throughput, latency = section.charts
    assert (throughput.y.unit, latency.y.unit) == ("rate", "ns")
    (line,) = throughput.series
    assert line.x == (1, 8, 16) and line.labels == ("", "knee", "")
    assert all(low <= y <= high for low, y, high in zip(line.low, line.y, line.high, strict=True))  # type: ignore[operator]


def test_wide_intervals_leave_the_knee_open() -> None:
    shaky = measured(TARGET, noise(1.06e6 / 2, 60, spread=0.4), scenario="single(batch=4)")
    section = scaling.run(_evidence(_batch(1), shaky, _batch(8), _batch(16)))
    found = _one(section, "knee")
    assert found["first"] == 4 and found["sure"] == 8
    assert "between 4 and 8" in sentence(found)


def test_out_of_memory_is_said_with_the_largest_batch_that_ran() -> None:
    failures = (
        _failure(64, "out of memory while round"),
        _failure(128, "not tried: batch 64 ran out of memory", stage=scaling.NOT_TRIED),
    )
    section = scaling.run(_evidence(*map(_batch, (1, 8, 32)), failures=failures))
    found = _one(section, "out_of_memory")
    assert (found["batch"], found["tried"], found["last"]) == (64, True, 32)
    assert "batch 64 runs out of memory; 32 is the largest that ran" in sentence(found)
    assert remedy(found)
    assert _column(section, "outcome")[-1] == "out of memory; not tried: 128"
    assert _column(section, "batch") == [1, 8, 32, 64]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (_failure(2, "RuntimeError while open: std::bad_alloc"), "memory"),
        (_failure(2, "the worker died by SIGKILL during round", error="WorkerCrashed"), "memory"),
        (_failure(2, "[ONNXRuntimeError] : Failed to allocate memory for requested buffer of size 9"), "memory"),
        (_failure(2, "CUDA out of memory. Tried to allocate 2.00 GiB"), "memory"),
        (_failure(2, "open did not come back within 120 s", error="WorkerTimeout"), "time"),
        (_failure(2, "there is no such operator", error="Unsupported"), "other"),
    ],
)
def test_what_stopped_a_cell(failure: Failure, expected: str) -> None:
    assert scaling.limit(failure) == expected


def test_what_was_predicted_is_not_said_to_have_happened() -> None:
    left = _failure(64, "not tried: would be out of memory: about 9 MiB", stage=scaling.NOT_TRIED)
    more = _failure(128, "not tried: batch 64 would be out of memory", stage=scaling.NOT_TRIED)
    section = scaling.run(_evidence(_batch(1), _batch(2), failures=(left, more)))
    assert "was not tried" in sentence(_one(section, "out_of_memory"))
    assert _column(section, "outcome")[-1] == f"{left.message}; nor 128"


def test_what_was_measured_since_it_failed_has_not_failed() -> None:
    section = scaling.run(_evidence(_batch(1), _batch(64), failures=(_failure(64, "out of memory"),)))
    assert not [finding for finding in section.findings if finding.code == "out_of_memory"]
    assert len(section.rows) == 2


def test_a_batch_that_brings_nothing_and_one_that_still_does() -> None:
    flat = scaling.run(_evidence(*(_batch(batch, knee=1) for batch in (1, 2, 4))))
    assert _one(flat, "no_gain")["batch"] == 1
    growing = scaling.run(_evidence(*(_batch(batch, knee=64) for batch in (1, 2, 4))))
    assert _one(growing, "still_growing")["gain"] == pytest.approx(4, rel=0.05)
    assert "still grows" in sentence(_one(growing, "still_growing"))


def test_a_batch_that_is_too_large_costs_throughput() -> None:
    thrashing = measured(TARGET, noise(8e6, 300), scenario="single(batch=32)")
    section = scaling.run(_evidence(_batch(1), _batch(8), _batch(16), thrashing))
    found = _one(section, "batch_too_large")
    assert found["batch"] == 32 and found["loss"] == pytest.approx(0.5, abs=0.02)


def test_protocols_are_not_mixed_in_one_sweep() -> None:
    other = measured(TARGET, noise(1e6), scenario="single(batch=2, max_s=2)")
    section = scaling.run(_evidence(_batch(1), other))
    assert [finding.code for finding in section.findings] == ["absent"]


def _sized(side: int, exponent: float) -> tuple[Model, Measurement]:
    label = "net" if side == 224 else f"net@{side}"
    ns = 1e6 * (side * side / 224**2) ** exponent
    found = measured(TARGET, noise(ns, 300, seed=side), label=label)
    return Model(found.task.subject, "", (Tensor("x", "float32", ("N", 3, side, side)),), (), label=label), found


def test_the_exponent_of_time_against_pixels_is_found() -> None:
    pairs = [_sized(side, 1.3) for side in (224, 288, 352, 416)]
    evidence = Evidence(
        machines={"m": machine()},
        models={model.digest: model for model, _ in pairs},
        measurements=tuple(found for _, found in pairs),
    )
    section = scaling.run(evidence)
    found = _one(section, "size_exponent")
    assert found["exponent"] == pytest.approx(1.3, abs=0.03)
    assert (found["smallest"], found["largest"]) == (224, 416)
    assert "to the power 1.3" in sentence(found)
    assert _column(section, "size") == [224, 288, 352, 416]
    (chart,) = section.charts
    assert chart.series[0].x == (224, 288, 352, 416)
    # Without the records of the models, labels still tell: all but the size the network has by itself.
    bare = scaling.run(replace(evidence, models={}))
    assert _column(bare, "size") == [288, 352, 416]


def test_many_models_share_the_charts_of_their_machine() -> None:
    names = [f"net{number}" for number in range(6)]
    section = scaling.run(_evidence(*(_batch(batch, label=name) for name in names for batch in (1, 8, 16))))
    assert len(section.charts) == 2
    assert len(section.charts[0].series) == 6


@pytest.mark.parametrize("measurements", [(), (_batch(4),), (measured(TARGET, np.array([])),)])
def test_nothing_to_draw_is_said_with_the_command(measurements: tuple[Measurement, ...]) -> None:
    section = scaling.run(_evidence(*measurements))
    assert not section.rows and not section.charts
    assert remedy(section.findings[0]) == "edgewise scale MODEL"


def test_of_two_versions_of_an_engine_the_newer_makes_the_sweep() -> None:
    older = [replace(_batch(batch, knee=64), versions=(("ort", "1"),)) for batch in (1, 2, 4)]
    newer = [replace(_batch(batch, knee=2), versions=(("ort", "2"),)) for batch in (1, 2, 4)]
    section = scaling.run(_evidence(*older, *newer))
    assert _column(section, "batch") == [1, 2, 4]
    assert _one(section, "knee")["batch"] == 2
