"""Parts that do each other's shares: answers stay right whoever is late, and it is chosen where cores are wanted."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from split_networks import ORT
from test_split_int8 import any_batch

from edgewise.core.errors import EdgewiseError, InputError, Unsupported
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Model
from edgewise.model.graph import graph
from edgewise.parallel.split import crew as crew_module
from edgewise.parallel.split import search
from edgewise.parallel.split.balance import Balance, Way
from edgewise.parallel.split.cover import Covering
from edgewise.parallel.split.executable import Split
from edgewise.parallel.split.kept import Found, keep, recall
from edgewise.parallel.split.source import Source
from edgewise.parallel.split.ways import Ways
from networks import Network, whole

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

EQUAL = Way("split", ((0.5, 0.5),))
HALVES = Way("covered", ((0.5, 0.5),), axis="channels")


def _model(tmp_path: Path, seed: int = 3, layers: int = 6) -> Model:
    return Network(seed).save(tmp_path / "m.onnx", layers=layers)


@contextmanager
def _covered(model: Model, *shares: float, options: str = "") -> Iterator[Split]:
    first, *others = [f"={share}" for share in shares]
    parts = [f"{ORT}{{cover=on{options}}}{first}", *(f"{ORT}{share}" for share in others)]
    split = Split([(model, ())] * len(shares), parse_placement(f"split({', '.join(parts)})"))
    try:
        yield split
    finally:
        split.close()


def _right(split: Split, model: Model, seed: int) -> None:
    feeds = {t.name: np.random.default_rng(seed).standard_normal(t.shape).astype(np.float32) for t in model.inputs}
    found = split.run(feeds)
    for name, expected in whole(model, feeds).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("shares", "options"),
    [((0.5, 0.5), ""), ((0.3, 0.7), ",split=rows"), ((0.9, 0.1), ",split=channels"), ((0.4, 0.3, 0.3), "")],
)
def test_random_networks_answer_like_the_whole(
    tmp_path: Path, seed: int, shares: tuple[float, ...], options: str
) -> None:
    model = _model(tmp_path, seed, layers=8)
    with _covered(model, *shares, options=options) as split:
        assert split.way.kind == "covered"
        for frame in range(10):
            _right(split, model, frame)


def _deep(tmp_path: Path, layers: int = 8) -> Model:
    """Shares of a quarter of a millisecond and more, so that somebody can be stopped within one."""
    network = Network(0)
    network.shapes["x"] = (1, 3, 32, 32)
    y = "x"
    for _ in range(layers):
        y = network.conv(y, 128)
    return network.saved(tmp_path / "m.onnx", 32, y)


@contextmanager
def _standing(pid: int, seed: int) -> Iterator[None]:
    """Again and again, for moments, wherever it happens to be."""
    random, over = np.random.default_rng(seed), threading.Event()

    def stop() -> None:
        while not over.wait(random.uniform(0, 0.004)):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(random.uniform(0.0005, 0.01))
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("options", [",split=channels", ",split=rows", ",split=auto", ""])
def test_who_stands_still_is_not_waited_for_and_spoils_nothing_when_it_goes_on(tmp_path: Path, options: str) -> None:
    model = _deep(tmp_path)
    all_ = [{"x": np.random.default_rng(seed).standard_normal((1, 3, 32, 32)).astype(np.float32)} for seed in range(7)]
    expected = [whole(model, feeds) for feeds in all_]
    # The first one leads; then the second, which is waited for when it stands; then there are three.
    shares = {"": (0.4, 0.3, 0.3), ",split=auto": (0.4, 0.6)}.get(options, (0.6, 0.4))
    with _covered(model, *shares, options=options) as split, _standing(split.pids[-1], 0):
        for frame in range(400 if shares[0] > 0.5 else 150):
            found = split.run(all_[frame % 7])
            for name, right in expected[frame % 7].items():
                np.testing.assert_allclose(found[name], right, rtol=1e-3, atol=1e-3 * np.abs(right).max())


def test_frames_come_while_another_part_stands_still(tmp_path: Path) -> None:
    model = _model(tmp_path)
    with _covered(model, 0.6, 0.4) as split:
        for frame in range(5):
            _right(split, model, frame)
        (pid,) = split.pids
        os.kill(pid, signal.SIGSTOP)
        # One that had to be waited for would hang here until the end of the test.
        ended = threading.Timer(60, os.kill, (pid, signal.SIGKILL))
        ended.start()
        try:
            for frame in range(20):
                _right(split, model, frame)
        finally:
            ended.cancel()
            os.kill(pid, signal.SIGCONT)


def test_the_first_part_may_be_the_one_that_is_late(tmp_path: Path) -> None:
    model = _model(tmp_path)
    random = np.random.default_rng(1)

    def late(run: Callable[[], object]) -> Callable[[], object]:
        def slowly() -> None:
            if random.random() < 0.3:
                time.sleep(0.02)
            run()
            if random.random() < 0.2:
                time.sleep(0.02)

        return slowly

    # The second one has more to do, so that it leads.
    with _covered(model, 0.3, 0.7) as split:
        own = split._loaded[split.way].own
        assert isinstance(own, Covering)
        own._shares = [{share: (late(run), brings) for share, (run, brings) in step.items()} for step in own._shares]
        for frame in range(30):
            _right(split, model, frame)


def test_a_way_is_forgotten_when_nobody_is_at_work_in_it_any_more(tmp_path: Path) -> None:
    """Its memory is used again: whoever comes late would write into another way's."""
    model = _deep(tmp_path, layers=4)
    with _covered(model, 0.6, 0.4) as split:
        crew, first = split._crew, split.way
        assert crew is not None
        for frame in range(6):
            with _standing(split.pids[0], frame):
                for more in range(8):
                    _right(split, model, 100 * frame + more)
                old = split._loaded[first]
                crew.forget(old)
            # As if it had been another way's.
            os.pwrite(crew._fd, b"\x7f" * old.bytes_, old.at)
            split._loaded[first] = split._load(first)
            assert split._loaded[first].at == old.at


def test_a_part_that_dies_is_an_error_with_its_reason(tmp_path: Path) -> None:
    model = _model(tmp_path)
    with _covered(model, 0.6, 0.4) as split:
        _right(split, model, 0)
        os.kill(split.pids[0], signal.SIGKILL)
        with pytest.raises(EdgewiseError, match="died by SIGKILL"):
            for frame in range(1000):
                _right(split, model, frame)


def test_what_cannot_be_covered_says_so(tmp_path: Path) -> None:
    model = _model(tmp_path)
    with pytest.raises(InputError, match="there is no cover=maybe; choose from auto, on, off"):
        Split([(model, ())] * 2, parse_placement(f"split({ORT}{{cover=maybe}}, {ORT})"))
    for text in (f"split({ORT}{{cover=on}}, ort:cpu:fp32@2)", f"split({ORT}{{cover=on,split=inputs}}, {ORT})"):
        with pytest.raises(Unsupported, match="where their targets are alike"):
            Split([(model, ())] * 2, parse_placement(text))


def test_samples_of_a_batch_are_not_covered(tmp_path: Path) -> None:
    batch = any_batch(tmp_path / "b.onnx")
    two = replace(batch, inputs=tuple(replace(each, shape=(2, *(each.shape or ())[1:])) for each in batch.inputs))
    with pytest.raises(Unsupported, match="parts do not do each other's"):
        Split([(two, ())] * 2, parse_placement(f"split({ORT}{{cover=on}}, {ORT})"))


def test_who_is_late_and_reads_what_was_not_meant_for_it_does_no_harm(tmp_path: Path) -> None:
    """Engines raise what they like then."""
    model = _model(tmp_path)
    with _covered(model, 0.3, 0.7) as split:
        own = split._loaded[split.way].own
        assert isinstance(own, Covering)
        board, raised = own._board, 0

        def late(run: Callable[[], object], step: int, share: int) -> Callable[[], object]:
            def fails() -> None:
                nonlocal raised
                for _ in range(500):
                    if board.brought(step, share, split._crew._frames):  # type: ignore[union-attr]
                        raised += 1
                        raise RuntimeError("an index that is out of range")
                    time.sleep(0.001)
                run()

            return fails

        own._shares = [
            {share: (late(run, step, share), brings) for share, (run, brings) in shares.items()}
            for step, shares in enumerate(own._shares)
        ]
        for frame in range(3):
            _right(split, model, frame)
        assert raised


def test_what_failed_to_load_is_no_answer_to_the_next_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model(tmp_path)
    with _covered(model, 0.6, 0.4) as split:

        def fails(*_: Any, **__: Any) -> Any:
            raise RuntimeError("no memory")

        with monkeypatch.context() as patch:
            patch.setattr(crew_module, "Covering", fails)
            with pytest.raises(RuntimeError, match="no memory"):
                split._load(HALVES)
        split._loaded[split.way] = split._load(split.way)
        for frame in range(20):
            _right(split, model, frame)


@pytest.fixture
def ways(tmp_path: Path) -> Ways:
    targets = [parse_target(ORT)] * 2
    model = _model(tmp_path)
    return Ways([model] * 2, Source(graph(model), targets), targets, ["auto", "channels"], covers=True)


def _busy(ways: Ways, way: Way, speed: tuple[float, float]) -> list[list[float]]:
    return [[work / rate for work, rate in zip(step, speed, strict=True)] for step in ways.loads(way)]


@pytest.mark.parametrize(("speed", "offered"), [((1.0, 1.0), False), ((1.0, 0.4), True), ((0.4, 1.0), True)])
def test_it_is_a_choice_where_parts_wait_for_each_other(ways: Ways, speed: tuple[float, float], offered: bool) -> None:
    found = search.expected(ways, EQUAL, EQUAL, _busy(ways, EQUAL, speed), 1e6)
    covered = [way for way in found if way.kind == "covered"]
    assert bool(covered) == offered
    # Whoever gets on leads, and has the larger share where they are not equal.
    assert all(way.part == speed.index(max(speed)) for way in covered)
    assert all(step[way.part] == max(step) for way in covered for step in way.shares)
    ways.covers = False
    found = search.expected(ways, EQUAL, EQUAL, _busy(ways, EQUAL, speed), 1e6)
    assert not any(way.kind == "covered" for way in found)


def test_it_is_tried_before_one_part_alone_is_left_at_that(ways: Ways) -> None:
    alone = Way("single", part=1)
    found = search.expected(ways, alone, EQUAL, [[0.0, 1.0]], 1e6)
    assert [way.kind for way in found][:3] == ["split", "covered", "split"]
    assert all(way.part == 1 for way in found if way.kind == "covered")


@pytest.mark.parametrize(("step_ns", "leaders"), [(1e6, 0.5), (5e6, 2 / 3)])
def test_the_leader_has_more_where_steps_are_long(ways: Ways, step_ns: float, leaders: float) -> None:
    steps = len(ways.loads(EQUAL))
    (way,) = search.covered(ways, 1, steps * step_ns)
    assert [step[1] for step in way.shares] == [pytest.approx(leaders)] and sum(way.shares[0]) == 1
    # As others write it, so that it is the same.
    assert leaders == 0.5 or way.shares[0] in search.nearby((1, 2))


class Machine:
    """What frames take in each way, and a search that goes on until it has nothing left to try."""

    def __init__(self, ways: Ways, first: Way = EQUAL, split: Way | None = None) -> None:
        self.ways, self.now, self.balance = ways, 0, Balance(first, split=split)
        self.tried: list[Way] = []
        # How many of them before it was calm for the first time.
        self.searched = 0

    def run(self, frame_ns: Callable[[Way], float], frames: int = 3000, speed: tuple[float, float] = (1.0, 0.5)) -> Way:
        balance = self.balance
        for number in range(frames):
            took = frame_ns(balance.way) * (1 + 0.001 * (number % 3))
            self.now += int(took)
            balance.note(took, self.now)
            if not balance.due(self.now):
                continue
            busy = _busy(self.ways, balance.current, speed)
            found = search.expected(
                self.ways, balance.current, balance.split, busy, balance.mean_ns(), fine=not balance.calm
            )
            if (way := balance.choose(found, self.now)) is not None:
                self.tried.append(way)
                self.searched += not balance.calm
                balance.begin(way)
        return balance.current


def _beside(competitor: int) -> Callable[[Way], float]:
    """Steps of some length, with somebody on one of the cores: two thirds for the free one are the best that there is,
    and better if they are covered."""

    def frame_ns(way: Way) -> float:
        if way.kind == "single":
            return 200e6 if way.part == competitor else 100e6
        free = way.shares[0][1 - competitor] / sum(way.shares[0])
        alone = 100e6 * max(free, 2 * (1 - free))
        if way.kind == "covered":
            return 74e6 if free > 0.6 else 83e6 if free > 0.4 and way.part != competitor else 150e6
        return 1.15 * alone

    return frame_ns


def test_it_is_found_among_others_and_they_are_few(ways: Ways) -> None:
    machine = Machine(ways)
    found = machine.run(_beside(1))
    assert (found.kind, found.part) == ("covered", 0) and found.shares[0][0] > 0.6
    assert machine.searched < 16


def test_when_the_competitor_moves_another_part_leads(ways: Ways) -> None:
    machine = Machine(ways)
    machine.run(_beside(1))
    found = machine.run(_beside(0), 30_000, (0.5, 1.0))
    assert (found.kind, found.part) == ("covered", 1) and found.shares[0][1] > 0.6


@pytest.mark.parametrize("first", [HALVES, Way("single")])
def test_on_cores_that_are_free_again_everybody_does_its_own_share(ways: Ways, first: Way) -> None:
    def free(way: Way) -> float:
        if way.kind == "single":
            return 100e6
        return 105e6 if way.kind == "covered" else 100e6 * max(max(step) / sum(step) for step in way.shares)

    machine = Machine(ways, first, EQUAL)
    machine.run(_beside(1), 100)
    found = machine.run(free, 30_000, (1.0, 1.0))
    assert found.kind == "split" and free(found) <= 60e6


def test_one_that_was_covered_when_it_was_kept_looks_again_before_the_first_frame(ways: Ways) -> None:
    """Whoever was on the cores may have gone, and nothing in what frames take would tell."""
    machine = Machine(ways, HALVES, EQUAL)
    machine.balance = Balance(HALVES, 105e6, EQUAL)
    machine.run(lambda way: {"covered": 105e6, "single": 100e6}.get(way.kind, 50e6), 100)
    assert machine.balance.current == EQUAL


def test_it_is_tried_though_nothing_says_that_it_is_quicker() -> None:
    balance = Balance(EQUAL)
    for number in range(30):
        balance.note(1e6, number)
    assert balance.choose({HALVES: 2e6}, 30) == HALVES


@pytest.mark.parametrize(
    ("way", "covers", "found"),
    [
        (HALVES, True, True),
        (HALVES, False, False),
        (Way("covered", ((0.4, 0.6),), 1), True, True),
        (Way("covered", ((0.4, 0.6),), 2), True, False),
        (Way("covered", ((0.4, 0.3, 0.3),), 1), True, False),
    ],
)
def test_what_was_found_is_begun_with_where_it_still_fits(tmp_path: Path, way: Way, covers: bool, found: bool) -> None:
    keep(tmp_path / "kept.json", Found("this", way, EQUAL, 1e6))
    recalled: Any = recall(tmp_path / "kept.json", "this", EQUAL, ("auto", "channels"), 2, covers=covers)
    assert (recalled is not None) == found
