"""A stream over threads of one process: the same rules as over processes; errors hand on what was held."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise.core.errors import EngineFailure, InputError, Unsupported
from edgewise.core.protocols import Feeds, Streams
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Model
from edgewise.model import feeds
from edgewise.model.graph import fixed
from edgewise.model.load import inspect
from edgewise.parallel.build import build
from edgewise.parallel.deal.stream import Deal
from edgewise.parallel.deal.thread import PartThread, alike
from edgewise.parallel.memory import Slots, create, fill

FAST = "null:cpu@1{latency=3ms,over=ort,wait=sleep,workers=threads}"
SLOW = "null:cpu@1{latency=12ms,over=ort,wait=sleep}"
FRAMES = 200


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
def expected(model: Model) -> list[Any]:
    whole = build(model, parse_placement("ort:cpu@1"))
    answers = [next(iter(whole.run(frame(model, number)).values())).copy() for number in range(FRAMES)]
    whole.close()
    return answers


def check(model: Model, stream: Deal, expected: list[Any]) -> list[int]:
    """All frames came out, in order, each with its own answer; who worked on them."""
    who = []
    for number, out in enumerate(stream.stream(frame(model, each) for each in range(FRAMES))):
        assert out.number == number
        np.testing.assert_allclose(next(iter(out.outputs.values())), expected[number], rtol=1e-5, atol=1e-6)
        who.append(out.who)
    assert len(who) == FRAMES
    return who


def test_frames_come_out_in_order_and_all_take_part(
    deal: Callable[..., Deal], model: Model, expected: list[Any]
) -> None:
    before = threading.active_count()
    stream = deal(FAST, SLOW)
    assert isinstance(stream, Streams)
    # No process beside this one, and what it takes is counted with this one.
    assert stream.pids == [] and stream.peak_bytes == 0
    assert all(isinstance(part, PartThread) for part in stream.parts)
    who = check(model, stream, expected)
    assert who.count(0) > who.count(1) > 0
    check(model, stream, expected)
    stream.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("faulty", [0, 1])
def test_what_a_failing_engine_held_is_done_by_another(
    deal: Callable[..., Deal], model: Model, expected: list[Any], faulty: int
) -> None:
    targets = [FAST, SLOW]
    targets[faulty] = targets[faulty].replace("{", "{at=20,fail=run,")
    stream = deal(*targets)
    check(model, stream, expected)
    (lost,) = stream.lost
    assert isinstance(lost, EngineFailure) and "told to fail at run" in lost.message
    # The next stream does without it.
    assert set(check(model, stream, expected)) == {1 - faulty}


def test_one_that_comes_back_too_late_writes_no_answer(model: Model) -> None:
    """Its slot may be another frame's by then."""
    fds = [create(), create()]
    quick_when_tried = "+".join(["1ms"] * 6)
    part = PartThread(model, parse_target(f"null:cpu@1{{latency={quick_when_tried}+500ms,over=ort,wait=sleep}}"), fds)
    part.opened(30.0)
    inputs, outputs = (
        Slots(fd, forms, 1, grow=True) for fd, forms in zip(fds, (part.inputs, part.outputs), strict=True)
    )
    part.attach(part.inputs, part.outputs, 1, 30.0)
    fill(inputs[0], frame(model, 5))
    (answer,) = outputs[0].values()
    answer[...] = 7
    part.give([0])
    time.sleep(0.1)
    part.kill()
    with pytest.raises(EngineFailure, match="nobody waited for it any more"):
        part.answers()
    assert np.all(answer == 7)
    part.close()
    for slots, fd in zip((inputs, outputs), fds, strict=True):
        slots.close()
        os.close(fd)


def test_where_nobody_is_left_it_is_said_why(deal: Callable[..., Deal], model: Model) -> None:
    stream = deal(FAST.replace("{", "{at=10,fail=run,"), SLOW.replace("{", "{at=10,fail=run,"))
    with pytest.raises(EngineFailure, match="told to fail"):
        list(stream.stream(frame(model, number) for number in range(FRAMES)))


def test_an_engine_that_cannot_load_refuses_the_whole(deal: Callable[..., Deal]) -> None:
    before = threading.active_count()
    with pytest.raises(EngineFailure, match="told to fail at load"):
        deal(FAST, "null:cpu@1{fail=load}")
    assert threading.active_count() == before


def test_one_who_has_seen_enough_leaves_nothing_to_the_next(
    deal: Callable[..., Deal], model: Model, expected: list[Any]
) -> None:
    stream = deal(FAST, SLOW)
    outputs = stream.stream(frame(model, number) for number in count(50))
    for _ in islice(outputs, 7):
        pass
    outputs.close()  # type: ignore[attr-defined]
    check(model, stream, expected)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this operating system has no affinities")
def test_a_thread_sits_on_its_cores_and_the_others_where_they_were(deal: Callable[..., Deal]) -> None:
    mine = os.sched_getaffinity(0)
    core = min(mine)
    stream = deal("null:cpu@1{workers=threads}".replace("@1", f"@1#{core}"), "null:cpu@1")
    first, second = (part._thread.native_id for part in stream.parts if isinstance(part, PartThread))
    assert os.sched_getaffinity(first or 0) == {core}
    assert os.sched_getaffinity(second or 0) == mine == os.sched_getaffinity(0)


def test_a_hanging_thread_does_not_hold_up_the_end(deal: Callable[..., Deal], model: Model) -> None:
    stream = deal(FAST, SLOW.replace("{", "{at=9,hang=run,"), timeout_s=2.0)
    assert len(list(stream.stream(frame(model, number) for number in range(60)))) == 60
    begin = time.monotonic()
    stream.close()
    assert time.monotonic() - begin < 30


def test_who_works_is_said_once_and_engines_do_not_see_it(deal: Callable[..., Deal]) -> None:
    stream = deal("null:cpu@1{workers=processes}", "null:cpu@1")
    assert len(stream.pids) == 2 and [str(part.target) for part in stream.parts] == ["null:cpu@1"] * 2
    with pytest.raises(InputError, match="choose from processes, threads"):
        deal("null:cpu@1{workers=fibres}", "null:cpu@1")
    with pytest.raises(InputError, match="said once"):
        deal("null:cpu@1", "null:cpu@1{workers=threads}")


def test_what_cannot_be_set_up_twice_in_a_process_is_refused() -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    targets = [parse_target("openvino:cpu{isa=avx2}"), parse_target("openvino:cpu")]
    with pytest.raises(Unsupported, match="set up in different ways"):
        alike(targets)
    alike(targets[:1] * 2)


def test_each_target_is_compared_with_itself_alone() -> None:
    placement = parse_placement("deal(ort:cpu@1{spin=off,workers=threads}, ort:cpu@1)")
    assert [str(target) for target in placement.alone] == ["ort:cpu@1{spin=off}", "ort:cpu@1"]
