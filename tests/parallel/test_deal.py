"""A stream over several processes: in order, each frame once, whoever dies, hangs or is slow."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest

from edgewise.core.errors import EngineFailure, Unsupported, WorkerCrashed
from edgewise.core.protocols import Feeds
from edgewise.core.text import parse_placement
from edgewise.core.types import Model
from edgewise.model import feeds
from edgewise.model.graph import fixed
from edgewise.model.load import inspect
from edgewise.parallel.build import build
from edgewise.parallel.deal.stream import Deal

FAST, SLOW = "null:cpu@1{latency=3ms,over=ort,wait=sleep}", "null:cpu@1{latency=12ms,over=ort,wait=sleep}"
FRAMES = 300


@pytest.fixture(scope="module")
def model(tiny_onnx: Path) -> Model:
    found = inspect(str(tiny_onnx))
    return fixed(found, feeds.shapes(found))


@pytest.fixture
def deal(model: Model) -> Iterator[Callable[..., Deal]]:
    opened: list[Deal] = []

    def make(*targets: str, timeout_s: float = 30.0) -> Deal:
        placement = parse_placement(f"deal({', '.join(targets)})")
        opened.append(Deal([(model, ())] * len(targets), placement, timeout_s))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def frame(model: Model, number: int) -> Feeds:
    (tensor,) = model.inputs
    return {tensor.name: np.full(tensor.shape, number % 97 / 97, np.float32)}  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def expected(model: Model) -> list[np.ndarray]:  # type: ignore[type-arg]
    whole = build(model, parse_placement("ort:cpu@1"))
    answers = [next(iter(whole.run(frame(model, number)).values())).copy() for number in range(FRAMES)]
    whole.close()
    return answers


def check(model: Model, stream: Deal, expected: list[np.ndarray], kill: int | None = None) -> list[int]:  # type: ignore[type-arg]
    """All frames came out, in order, each with its own answer; who worked on them."""
    who = []
    for number, out in enumerate(stream.stream(frame(model, each) for each in range(FRAMES))):
        assert out.number == number
        np.testing.assert_allclose(next(iter(out.outputs.values())), expected[number], rtol=1e-5, atol=1e-6)
        who.append(out.who)
        if number == FRAMES // 3 and kill is not None:
            os.kill(stream.parts[kill].process.pid, signal.SIGKILL)
    assert len(who) == FRAMES
    return who


def test_frames_come_out_in_order_and_all_take_part(
    deal: Callable[..., Deal],
    model: Model,
    expected: list[np.ndarray],  # type: ignore[type-arg]
) -> None:
    stream = deal(FAST, SLOW)
    who = check(model, stream, expected)
    assert who.count(0) > who.count(1) > 0
    # And again: a stream that has ended leaves nothing behind.
    check(model, stream, expected)


@pytest.mark.parametrize("kill", [0, 1])
def test_what_a_dead_process_held_is_done_by_another(
    deal: Callable[..., Deal],
    model: Model,
    expected: list[np.ndarray],
    kill: int,  # type: ignore[type-arg]
) -> None:
    stream = deal(FAST, SLOW)
    check(model, stream, expected, kill)
    (lost,) = stream.lost
    assert isinstance(lost, WorkerCrashed) and "died by SIGKILL" in lost.message
    # The next stream does without it.
    assert set(check(model, stream, expected)) == {1 - kill}


@pytest.mark.parametrize("fault", ["crash=run", "fail=run", "hang=run"])
def test_faults_of_an_engine_cost_the_stream_nothing(
    deal: Callable[..., Deal],
    model: Model,
    expected: list[np.ndarray],
    fault: str,  # type: ignore[type-arg]
) -> None:
    stream = deal(FAST, SLOW.replace("{", "{at=9," + fault + ","), timeout_s=8.0)
    check(model, stream, expected)
    assert len(stream.lost) == 1


def test_where_nobody_is_left_it_is_said_why(deal: Callable[..., Deal], model: Model) -> None:
    faulty = FAST.replace("{", "{at=10,fail=run,")
    stream = deal(faulty, faulty)
    with pytest.raises(EngineFailure, match="told to fail"):
        list(stream.stream(frame(model, number) for number in range(FRAMES)))


def test_an_engine_that_cannot_load_refuses_the_whole(deal: Callable[..., Deal]) -> None:
    with pytest.raises(EngineFailure, match="told to fail at load"):
        deal(FAST, "null:cpu@1{fail=load}")


def test_no_more_is_read_than_has_room(deal: Callable[..., Deal], model: Model) -> None:
    stream = deal(FAST, SLOW)
    read = 0

    def source() -> Iterator[Feeds]:
        nonlocal read
        for number in count():
            read += 1
            yield frame(model, number)

    outputs = stream.stream(source())
    for delivered, _ in enumerate(islice(outputs, 40), 1):
        time.sleep(0.001)
        assert read <= delivered + stream.window
    outputs.close()  # type: ignore[attr-defined]


def test_one_who_has_seen_enough_leaves_nothing_to_the_next(
    deal: Callable[..., Deal],
    model: Model,
    expected: list[np.ndarray],  # type: ignore[type-arg]
) -> None:
    stream = deal(FAST, SLOW)
    outputs = stream.stream(frame(model, number) for number in count(50))
    for _ in islice(outputs, 7):
        pass
    outputs.close()  # type: ignore[attr-defined]
    check(model, stream, expected)


def test_targets_that_answer_in_other_forms_are_refused(model: Model, tmp_path: Path) -> None:
    placement = parse_placement(f"deal({FAST}, {SLOW})")
    other = fixed(model, {model.inputs[0].name: (2, 3, 32, 32)})
    with pytest.raises(Unsupported, match="must look alike"):
        Deal([(model, ()), (other, ())], placement)


def test_who_stops_asking_costs_nobody(model: Model, deal: Callable[..., Deal]) -> None:
    """Answers come in several at a time: those that were read and not handed out are not waited for."""
    quick = "null:cpu@1{latency=300us,wait=sleep}"
    stream = deal(quick, quick, timeout_s=5.0)
    for taken in range(1, 25):
        frames = stream.stream(frame(model, 0) for _ in count())
        assert [each.number for each in islice(frames, taken)] == list(range(taken))
        frames.close()  # type: ignore[attr-defined]
    assert stream.lost == []
    assert len(list(stream.stream(frame(model, 0) for _ in range(40)))) == 40
