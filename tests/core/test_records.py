"""Records survive JSON; errors survive a worker's channel; names in folders are plug-ins."""

from __future__ import annotations

import json

import pytest

from edgewise.core import registry
from edgewise.core.errors import BY_NAME, EngineFailure, InputError, Unsupported, describe, rebuild
from edgewise.core.records import dumps, from_json, to_json
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import Agreement, Failure, Measurement, Ran, Round, Start, Task

TASK = Task("abc", parse_placement("ort:cpu:int8@2#0+1{ep=xnnpack}"), parse_scenario("server(rate_hz=12.5, n=2)"))
START = Start(1, 2, 3, None, Ran(("CPU",), (("fp32", 4),), ("a",)), Agreement(0.1, 2.0, 0.01, 1.0, 0, 10))
ROUND = Round(0, True, 5, 6, (7, 8, 2**62), foreign_ns=9)


@pytest.mark.parametrize(
    "record",
    [
        TASK,
        Measurement(TASK, "m", (("ort", "1.0"),), "inputs", (START,), (ROUND,), False, "net"),
        Failure(TASK, "m", "load", "WorkerCrashed", "died", None, "last words", "net"),
    ],
)
def test_through_json_and_back(record: object) -> None:
    assert from_json(type(record), json.loads(json.dumps(to_json(record)))) == record


def test_json_for_others_has_no_infinity() -> None:
    assert json.loads(dumps({"a": [float("inf"), 1.5], "b": float("nan")})) == {"a": [None, 1.5], "b": None}


def test_a_task_is_named_by_what_it_is() -> None:
    same = Task("abc", parse_placement(str(TASK.placement)), parse_scenario(str(TASK.scenario)))
    other = Task("abc", TASK.placement, parse_scenario("server(rate_hz=12.5, n=3)"))
    assert same.digest == TASK.digest != other.digest


def test_measured_leaves_out_warm_up() -> None:
    later = Round(0, False, 5, 6, (1, 2), peak_bytes=10)
    measurement = Measurement(TASK, "m", (), "", (START,), (ROUND, later))
    assert measurement.samples_ns == (1, 2)
    assert measurement.peak_bytes == 10


@pytest.mark.parametrize("kind", BY_NAME.values())
def test_errors_cross_a_channel(kind: type[EngineFailure]) -> None:
    again = rebuild(json.loads(json.dumps(describe(kind("what", "type this"), "loading"))))
    assert (type(again), again.message, again.hint) == (kind, "what", "type this")


def test_foreign_errors_become_ours_and_stay_short() -> None:
    form = describe(ValueError("x" * 10_000), "loading")
    assert form["error"] == "EngineFailure"
    assert form["message"].startswith("ValueError while loading: xxx")
    assert len(form["message"]) < 500
    assert "out of memory" in describe(MemoryError(), "loading")["message"]


def test_exit_codes_are_those_documented() -> None:
    codes = {"InputError": 2, "Unavailable": 3, "Unsupported": 4, "EngineFailure": 5, "CheckFailed": 6, "StoreError": 7}
    assert {name: BY_NAME[name].exit_code for name in codes} == codes
    assert BY_NAME["WorkerCrashed"].exit_code == BY_NAME["WorkerTimeout"].exit_code == 5
    assert issubclass(Unsupported, Exception)


def test_the_folder_is_the_registry() -> None:
    assert {"null", "ort", "openvino"} <= set(registry.names("engines"))
    assert "conformance" not in registry.names("engines")
    with pytest.raises(InputError, match=r"known: .*ort"):
        registry.find("engines", "nope")
