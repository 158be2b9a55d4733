"""Helpers that do not help: who rests is decided by the stream with and without them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.analyze.dealt import RESTS
from edgewise.core.errors import InputError
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Model
from edgewise.model import feeds
from edgewise.model.graph import fixed
from edgewise.model.load import inspect
from edgewise.parallel.deal import gate
from edgewise.parallel.deal.stream import Deal

GPU, CORE = "torch:cuda.0:fp16", "ort:cpu:fp32@1"
FAST, SLOW = "null:cpu@1{latency=3ms,over=ort,wait=sleep,gate=on}", "null:cpu@1{latency=12ms,over=ort,wait=sleep}"


def test_alike_ones_are_asked_together_and_the_least_first() -> None:
    targets = [parse_target(text) for text in (GPU, f"{CORE}#0", f"{CORE}#1", "ort:cpu:int8@1#2")]
    assert gate.groups(targets, [1.0, 8.0, 8.0, 2.0]) == [(1, 2), (3,), (0,)]
    assert gate.groups(targets[1:3], [8.0, 7.0]) == [(0,), (1,)]


def test_one_that_costs_more_than_it_does_rests() -> None:
    """The GPU does 100 alone and loses 5 with every core that works; a core does 2."""

    def rate(resting: frozenset[int]) -> float:
        cores = 4 - len(resting & {1, 2, 3, 4})
        return (0 if 0 in resting else 100 - 5 * cores) + 2 * cores

    found = gate.resting([(1, 2, 3, 4), (0,)], rate)
    assert set(found) == {1, 2, 3, 4}
    assert found[1] == pytest.approx(88 / 100)


@given(st.lists(st.floats(0.1, 100.0), min_size=2, max_size=6), st.floats(0.2, 1.5))
def test_somebody_works_whatever_the_rates(rates: list[float], together: float) -> None:
    def rate(resting: frozenset[int]) -> float:
        working = [each for who, each in enumerate(rates) if who not in resting]
        assert working
        return sum(working) * (together if len(working) > 1 else 1.0)

    found = gate.resting([(who,) for who in range(len(rates))], rate)
    assert len(found) < len(rates)


@pytest.fixture
def model(tiny_onnx: Path) -> Model:
    found = inspect(str(tiny_onnx))
    return fixed(found, feeds.shapes(found))


@pytest.fixture
def deal(model: Model) -> Iterator[Callable[[str, str], Deal]]:
    opened: list[Deal] = []

    def make(*targets: str) -> Deal:
        opened.append(Deal([(model, ())] * len(targets), parse_placement(f"deal({', '.join(targets)})"), 30.0))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def workers(stream: Deal, model: Model, kill: int | None = None) -> list[int]:
    blank = feeds.feeds(model, feeds.shapes(model), 0)
    found: list[int] = []
    for out in stream.stream(repeat(blank, 120)):
        assert out.number == len(found)
        found.append(out.who)
        if out.number == 40 and kill is not None:
            os.kill(stream.parts[kill].process.pid, signal.SIGKILL)  # type: ignore[union-attr]
    assert len(found) == 120
    return found


def test_one_that_helps_works(deal: Callable[[str, str], Deal], model: Model) -> None:
    stream = deal(FAST, SLOW)
    assert not stream.resting and not stream.lost
    assert set(workers(stream, model)) == {0, 1}


def test_one_that_adds_too_little_rests_until_it_is_needed(
    deal: Callable[[str, str], Deal], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "LEAST_GAIN", 1.6)
    stream = deal(FAST, SLOW)
    # A quarter more frames is not enough here; of both, the quicker one goes on.
    assert list(stream.resting) == [1]
    assert any(RESTS in note for note in stream.ran().notes)
    assert set(workers(stream, model)) == {0}
    who = workers(stream, model, kill=0)
    assert who[0] == 0 and who[-1] == 1
    assert not stream.resting


def test_what_is_said_of_it_must_be_known(deal: Callable[[str, str], Deal]) -> None:
    with pytest.raises(InputError, match="there is no gate=maybe; choose from off, on"):
        deal(FAST.replace("gate=on", "gate=maybe"), SLOW)


def test_one_for_whom_memory_would_fill_up_with_waiting_frames_rests(
    deal: Callable[..., Deal], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred frames while the slow one is at one, and room for ten."""
    blank = feeds.feeds(model, feeds.shapes(model), 0)
    frame_bytes = sum(array.nbytes for array in blank.values())
    monkeypatch.setattr("edgewise.parallel.deal.stream._MOST_BYTES", 10 * frame_bytes)
    slow = "null:cpu@1{latency=300ms,over=ort,wait=sleep}"
    stream = deal("null:cpu@1{latency=3ms,over=ort,wait=sleep,gate=on}", slow, slow)
    assert set(stream.resting) == {1, 2}
    assert len(stream.inputs) <= 10
    (note,) = (note for note in stream.ran().notes if RESTS in note)
    assert "(and 1 more)" in note and "frames there is room for" in note
    assert set(workers(stream, model)) == {0}
