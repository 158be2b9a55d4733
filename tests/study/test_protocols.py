"""The protocols shipped by name carry the numbers of the papers they are from, and a study may have its own."""

from __future__ import annotations

import pytest

from edgewise.core.errors import InputError
from edgewise.core.tables import Table
from edgewise.core.text import parse_placement
from edgewise.engines.coreml import units
from edgewise.study import protocol
from edgewise.study.protocol import Protocol, from_study, named, names


def _own(**content: object) -> Protocol:
    return from_study(content, Table({"protocol": content}, "lab.toml"))


def test_the_ones_there_are() -> None:
    assert names() == ("bound", "compute-units", "edgewise", "embench", "quick", "stream")
    assert all(named(name).about for name in names())


@pytest.mark.parametrize("name", names())
def test_every_one_makes_a_scenario(name: str) -> None:
    found = named(name)
    for text in found.scenarios:
        load = found.scenario(text)
        assert (load.warmup, load.min_runs, load.max_runs) == (found.warmup, found.min_runs, found.max_runs)
        assert (load.max_s, load.width, load.cooldown_s) == (found.max_s, found.width, found.cooldown_s)
        assert load.input == found.input
    for text in found.targets:
        assert parse_placement(text).kind == "single"


def test_compute_units_is_ten_and_a_hundred_runs_of_a_white_image_on_four_sets_of_units() -> None:
    found = named("compute-units")
    assert (found.warmup, found.min_runs, found.max_runs, found.input) == (10, 100, 100, "white")
    # As the engine itself calls them.
    assert [parse_placement(text).targets[0].device for text in found.targets] == [unit.name for unit in units(True)]


def test_embench_is_ten_and_fifty_runs_two_seconds_apart_and_the_minimum() -> None:
    found = named("embench")
    assert (found.warmup, found.min_runs, found.max_runs, found.cooldown_s) == (10, 50, 50, 2)
    assert found.report == "minimum"
    assert found.batch == tuple(2**power for power in range(10))


def test_bound_goes_on_until_the_bound_is_under_five_percent() -> None:
    found = named("bound")
    assert (found.width, found.max_runs, found.energy) == (0.05, None, "active_minus_idle")


def test_stream_is_throughput_and_power_above_idle() -> None:
    found = named("stream")
    assert (found.scenarios, found.report, found.energy) == (("offline",), "throughput", "active_minus_idle")
    assert found.threads == "all"


def test_edgewise_visits_every_cell_more_than_once() -> None:
    assert named("edgewise").passes > 1
    assert named("edgewise").warmup is None
    assert from_study(None, Table({}, "lab.toml")) == named("edgewise")


def test_quick_is_quick() -> None:
    assert named("quick").max_s < 2
    assert named("quick").passes == 1


def test_what_a_scenario_says_itself_goes_first() -> None:
    load = named("embench").scenario("concurrent(n=2, max_runs=5, warmup=1)")
    assert (load.kind, load.n, load.max_runs, load.warmup, load.cooldown_s) == ("concurrent", 2, 5, 1, 2)


def test_a_protocol_of_ones_own() -> None:
    found = _own(warmup=3, max_runs=7, min_s=0, passes=2, report="mean", batch=[4, 1])
    assert (found.warmup, found.max_runs, found.passes, found.report, found.batch) == (3, 7, 2, "mean", (1, 4))
    assert found.scenario("single").max_runs == 7


def test_a_protocol_like_another() -> None:
    found = _own(like="embench", cooldown_s=0, warmup="steady")
    assert (found.cooldown_s, found.warmup, found.max_runs, found.report) == (0, None, 50, "minimum")
    assert found.name == "like embench"


WRONG = [
    ({"warmup": "long"}, r"lab\.toml, \[protocol\]: warmup is text \('long'\), expected 'steady' or a whole number"),
    ({"warmup": -1}, r"warmup is a whole number \(-1\), expected"),
    ({"max_runs": 0}, r"max_runs is a whole number \(0\), expected a whole number, at least 1"),
    ({"passes": 0}, "passes is"),
    ({"passes": True}, r"passes is true or false \(True\)"),
    ({"width": 2}, "width is a fraction such as 0.05, found 2"),
    ({"width": "narrow"}, r"width is text \('narrow'\), expected a number"),
    ({"min_s": 9, "max_s": 1}, r"min_s \(9.0\) must lie between 0 and max_s"),
    ({"max_s": float("nan")}, "max_s is a number"),
    ({"input": "black"}, "unknown input 'black'; known: noise, white"),
    ({"report": "minimun"}, "unknown report 'minimun'; did you mean minimum?"),
    ({"energy": "on"}, "unknown energy 'on'; known: off, active_minus_idle"),
    ({"like": "embensch"}, "unknown like 'embensch'; did you mean embench?"),
    ({"max_run": 3}, "unknown key 'max_run'; did you mean max_runs"),
    ({"batch": [1, 0]}, r"batch\[1\] is a whole number \(0\)"),
    ({"targets": ["Ort"]}, "'Ort' is not a target"),
    ({"scenarios": ["burst"]}, "unknown scenario 'burst'"),
]


@pytest.mark.parametrize(("content", "message"), WRONG, ids=[str(content) for content, _ in WRONG])
def test_what_is_wrong_is_named(content: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _own(**content)


def test_neither_a_name_nor_a_table() -> None:
    with pytest.raises(
        InputError, match=r"lab\.toml: protocol is a whole number \(3\), expected one of bound, compute"
    ):
        from_study(3, Table({"protocol": 3}, "lab.toml"))
    with pytest.raises(InputError, match=r"there is no protocol 'embanch'; did you mean embench\?"):
        protocol.named("embanch")
