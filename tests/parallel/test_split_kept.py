"""Shares that an earlier run found: begun with, checked, and no harm where the file holds anything else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from split_networks import ORT

from edgewise.core.errors import EngineFailure, InputError
from edgewise.core.records import to_json
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Model, Scenario
from edgewise.measure.cell import Cell, Session
from edgewise.parallel.split import executable
from edgewise.parallel.split.balance import Balance, Way
from edgewise.parallel.split.executable import Split
from edgewise.parallel.split.kept import Found, about, keep, recall
from edgewise.study.prepare import Limits, cell, find_model
from edgewise.study.survey import survey
from networks import Network, whole

EQUAL, UNEVEN = Way("split", ((0.5, 0.5),)), Way("split", ((0.75, 0.25),))
AXES = ("auto", "channels", "rows", "inputs")
STEP_NS = 1_000_000


def _recalled(path: Path, about: str = "this", parts: int = 2) -> Found | None:
    return recall(path, about, EQUAL, AXES, parts)


@pytest.mark.parametrize(
    "found",
    [
        Found("this", UNEVEN, UNEVEN, 1e6),
        Found("this", Way("single", part=1), UNEVEN, 1e6),
        Found("this", *[Way("split", ((0.5, 0.5), (0.2, 0.8)), axis="rows")] * 2, 3e6),
    ],
)
def test_what_is_kept_is_found_again_and_nothing_else_lies_there(tmp_path: Path, found: Found) -> None:
    path = tmp_path / "shares.json"
    assert _recalled(path) is None
    keep(path, found)
    assert _recalled(path) == found
    assert _recalled(path, "that") is None
    assert _recalled(path, parts=3) is None
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "change",
    [
        {"form": 2},
        {"frame_ns": 0},
        {"frame_ns": float("nan")},
        {"frame_ns": "1"},
        {"way": {"kind": "single", "part": 2}},
        {"way": {"kind": "single", "part": "x"}},
        {"way": to_json(EQUAL)},
        {"split": {"kind": "batch", "shares": [[0.5, 0.5]]}},
        {"split": {"kind": "split", "shares": []}},
        {"split": {"kind": "split", "shares": [[0.5, -0.5]]}},
        {"split": {"kind": "split", "shares": [[0, 0]]}},
        {"split": {"kind": "split", "shares": [[0.5, None]]}},
        {"split": {"kind": "split", "shares": [["0.5", "0.5"]]}},
        {"split": {"kind": "split", "shares": [[0.5, 0.5]], "axis": "depth"}},
        {"split": None},
    ],
)
def test_a_file_that_is_not_of_this_split_is_as_good_as_none(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "shares.json"
    path.write_text(json.dumps(to_json(Found("this", Way("single"), UNEVEN, 1e6)) | change))
    assert _recalled(path) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["way", "form", "x"]), inner),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.binary(max_size=50) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_file_does_harm(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "shares.json"
    path.write_bytes(content)
    assert _recalled(path) is None


def test_a_folder_that_is_not_there_keeps_nothing(tmp_path: Path) -> None:
    keep(tmp_path / "gone" / "shares.json", Found("this", EQUAL, EQUAL, 1.0))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("frame_ns", "looks"), [(10e6, False), (11e6, False), (13e6, True), (7e6, True)])
def test_a_way_that_takes_what_it_took_is_not_looked_beyond(frame_ns: float, looks: bool) -> None:
    balance, now = Balance(UNEVEN, 10e6), 0
    for _ in range(25):
        now += int(frame_ns)
        balance.note(frame_ns, now)
    assert balance.due(now) is looks
    assert balance.calm is not looks
    # Only once: from then on, what changes is a matter of the frames since.
    assert balance.due(now + 1) is (looks and not balance.calm)


def test_what_was_confirmed_is_still_left_when_frames_change() -> None:
    balance, now, looked = Balance(UNEVEN, 10e6), 0, False
    for frame_ns in (*[10e6] * 30, *[20e6] * 1000):
        now += int(frame_ns)
        balance.note(frame_ns, now)
        looked |= balance.due(now)
    assert looked


def _model(tmp_path: Path) -> Model:
    return Network(3).save(tmp_path / "m.onnx", layers=2)


def _clock(step_ns: int = STEP_NS) -> Callable[[], int]:
    """Every frame takes as long as every other one, in any way."""
    ticks: Iterator[int] = count(step_ns, step_ns)
    return lambda: next(ticks)


def _plant(path: Path, model: Model, way: Way) -> None:
    keep(path, Found(about([model] * 2, [parse_target(ORT)] * 2, "auto"), way, UNEVEN, STEP_NS))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends before it has tried anything."""
    monkeypatch.setattr(executable, "_SETTLING_NS", 70 * STEP_NS)


def _split(model: Model, path: Path, first: str = ORT, step_ns: int = STEP_NS) -> Split:
    placement = parse_placement(f"split({first}, {ORT})")
    return Split([(model, ())] * 2, placement, now=_clock(step_ns), kept=str(path))


def _answers_are_right(split: Split, model: Model) -> None:
    feeds = {t.name: np.random.default_rng(1).standard_normal(t.shape).astype(np.float32) for t in model.inputs}
    for name, expected in whole(model, feeds).items():
        np.testing.assert_allclose(split.run(feeds)[name], expected, rtol=1e-4, atol=1e-4)


def _begun(split: Split) -> bool:
    return any(note.startswith("began with the shares") for note in split.ran().notes)


def test_the_next_one_does_not_search_again_unless_it_takes_longer(tmp_path: Path) -> None:
    model, path = _model(tmp_path), tmp_path / "shares.json"
    first = _split(model, path)
    try:
        assert not _begun(first)
        # Where no way is quicker than the one it began with, that one stays, and one part alone was tried.
        assert first.way == EQUAL and len(first._loaded) > 1
    finally:
        first.close()
    written = path.read_text()
    second = _split(model, path)
    try:
        assert _begun(second) and list(second._loaded) == [EQUAL]
        _answers_are_right(second, model)
    finally:
        second.close()
    assert path.read_text() == written
    slower = _split(model, path, step_ns=2 * STEP_NS)
    try:
        assert _begun(slower) and len(slower._loaded) > 1
    finally:
        slower.close()
    assert path.read_text() != written


# What one part alone takes tells nothing of the others: all of them together get one try.
@pytest.mark.parametrize(("way", "tried"), [(UNEVEN, []), (Way("single", part=1), [UNEVEN])])
def test_it_begins_with_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way, tried: list[Way]
) -> None:
    # As if these shares kept both parts busy.
    monkeypatch.setattr(executable, "uneven", lambda busy_ns: 0.0)
    model, path = _model(tmp_path), tmp_path / "shares.json"
    _plant(path, model, way)
    split = _split(model, path)
    try:
        assert split.way == way and list(split._loaded) == [way, *tried]
        _answers_are_right(split, model)
    finally:
        split.close()


def test_frames_that_come_seldom_are_seldom_spent_on_trials(tmp_path: Path) -> None:
    """Seconds may pass between frames: it is of their own time that trials may take a little."""
    model, path = _model(tmp_path), tmp_path / "shares.json"
    alone = Way("single", part=0)
    _plant(path, model, alone)
    now = 0

    def clock() -> int:
        nonlocal now
        now += STEP_NS
        return now

    split = Split([(model, ())] * 2, parse_placement(f"split({ORT}, {ORT})"), now=clock, kept=str(path))
    try:
        for _ in range(50):
            now += 10_000_000_000
            assert split.way == alone
            _answers_are_right(split, model)
    finally:
        split.close()


@pytest.mark.usefixtures("short")
def test_unless_it_is_told_to_begin_afresh(tmp_path: Path) -> None:
    model, path = _model(tmp_path), tmp_path / "shares.json"
    _plant(path, model, UNEVEN)
    afresh = _split(model, path, f"{ORT}{{shares=afresh}}")
    try:
        assert not _begun(afresh) and afresh.way == EQUAL
    finally:
        afresh.close()
    # It ended in something else, and that is what the next one begins with.
    assert json.loads(path.read_text())["way"] == to_json(EQUAL)


@pytest.mark.usefixtures("short")
def test_a_kept_way_that_cannot_be_loaded_any_more_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = _model(tmp_path), tmp_path / "shares.json"
    _plant(path, model, UNEVEN)
    load = Split._load

    def refused(self: Split, way: Way) -> Any:
        if way == UNEVEN:
            raise EngineFailure("no memory")
        return load(self, way)

    monkeypatch.setattr(Split, "_load", refused)
    split = _split(model, path)
    try:
        assert not _begun(split)
        _answers_are_right(split, model)
    finally:
        split.close()


def test_the_option_is_one_of_two_and_stands_with_the_first_target(tmp_path: Path) -> None:
    model = _model(tmp_path)
    with pytest.raises(InputError, match="there is no shares=never; choose from kept, afresh"):
        _split(model, tmp_path / "shares.json", f"{ORT}{{shares=never}}")
    with pytest.raises(InputError, match="where shares come from is said once"):
        Split([(model, ())] * 2, parse_placement(f"split({ORT}, {ORT}{{shares=afresh}})"))
    with pytest.raises(InputError, match="where shares come from"):
        Split([(model, ())] * 2, parse_placement(f"split({ORT}=0.5, {ORT}{{shares=afresh}}=0.5)"))


NULL = "null{latency=100us}"


def test_cells_of_the_same_split_share_a_file_in_the_cache(tmp_path: Path, tiny_onnx: Path) -> None:
    machine, engines = survey(["null"])
    model = find_model(str(tiny_onnx), Limits())

    def of(text: str, scenario: Scenario | None = None) -> Cell:
        made = cell(model, parse_placement(text), scenario or Scenario(), machine, engines, Limits())
        assert isinstance(made, Cell)
        return made

    plain = of(f"split({NULL}, {NULL})")
    afresh = of(f"split(null{{latency=100us,shares=afresh}}, {NULL})")
    assert plain.kept is not None and plain.kept == afresh.kept
    others = [
        of(f"split({NULL}, null{{latency=300us}})"),
        of("split(null@1#0{latency=100us}, null@1#0{latency=100us})"),
        of(f"split({NULL}, {NULL})", Scenario(batch=2)),
    ]
    assert len({plain.kept, *(other.kept for other in others)}) == 4
    assert of(NULL).kept is None
    begun = []
    for each in (plain, plain, afresh):
        with Session(each) as session:
            begun.append(any("an earlier run" in note for note in session.open().ran.notes))
    assert begun == [False, True, False]
    assert Path(plain.kept).parent.name == "edgewise"
