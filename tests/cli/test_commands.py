"""What each command prints: results on stdout, progress on stderr, everything as JSON when asked for."""

from __future__ import annotations

import csv
import io
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from edgewise.cli import _main
from edgewise.core import registry

FAST, SLOW = "null:cpu:fp32@1{latency=500us}", "null:cpu:fp32@1{latency=1ms}"
SCENARIO = "single(warmup=2, max_runs=40, min_s=0, width=0)"


def _edgewise(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "edgewise", *argv], capture_output=True, text=True, timeout=120)


def _out(*argv: str) -> str:
    done = _edgewise(*argv)
    assert done.returncode == 0, done
    assert "Traceback" not in done.stderr
    return done.stdout


def _bench(model: Path, store: Path, *more: str) -> str:
    return _out("bench", str(model), "--on", SLOW, "--on", FAST, "--scenario", SCENARIO, "--save", str(store), *more)


@pytest.fixture(scope="module")
def stored(tiny_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store, and what `bench --json` said while filling it: two measurements and a failure."""
    store = tmp_path_factory.mktemp("stored") / "lab.db"
    said = json.loads(_bench(tiny_onnx, store, "--on", "null:cpu:fp32@1{fail=load}", "--json"))
    return store, said


def _samples(result: dict[str, Any]) -> list[int]:
    return [sample for part in result["rounds"] for sample in part["samples_ns"]]


def test_bench_as_json_has_the_raw_samples(stored: tuple[Path, dict[str, Any]]) -> None:
    said = stored[1]
    slow, fast, failed = said["results"]
    assert (slow["task"]["placement"], fast["task"]["placement"]) == (SLOW, FAST)
    for result, ns in ((slow, 1_000_000), (fast, 500_000)):
        measured = [s for part in result["rounds"] if not part["warmup"] for s in part["samples_ns"]]
        assert len(measured) == 40
        assert all(isinstance(sample, int) and sample >= ns for sample in measured)
        assert statistics.median(measured) == pytest.approx(ns, rel=0.2)
        assert result["task"]["scenario"] == "single(warmup=2, min_runs=40, max_runs=40, min_s=0, width=0)"
        assert result["versions"] == [["null", "1"]]
        assert result["starts"][0]["load_ns"] > 0
    assert (failed["error"], failed["stage"]) == ("EngineFailure", "load")
    assert said["machine"]["id"] == slow["machine"]
    # The table that would have been drawn is there too, the fastest first.
    assert [row[3] for row in said["section"]["rows"]] == [FAST, SLOW]


@pytest.mark.alone
def test_bench_draws_a_table(tiny_onnx: Path, tmp_path: Path) -> None:
    out = _bench(tiny_onnx, tmp_path / "lab.db")
    lines = [line for line in out.splitlines() if "null:cpu" in line]
    assert FAST in lines[0]
    assert SLOW in lines[1]
    assert "p50" in out
    assert "fastest" in out
    assert "Next: edgewise compare" in out
    assert str(tmp_path / "lab.db") in out.replace("\n", "")


def test_bench_of_a_built_in_network(tmp_path: Path) -> None:
    answer = json.loads(
        _out("bench", "tiny", "--on", "null", "--batch", "1", "--batch", "2", "--scenario", SCENARIO, "--json")
    )
    assert [result["label"] for result in answer["results"]] == ["tiny", "tiny"]
    assert "batch=2" in answer["results"][1]["task"]["scenario"]
    # Without --save it went to the user's own store, which `show` shows.
    assert len(json.loads(_out("show", "--json"))["results"]) == 2


def test_bench_measures_a_target_named_twice_once(tiny_onnx: Path) -> None:
    answer = json.loads(_out("bench", str(tiny_onnx), "--on", "null", "--on", "null", "--scenario", SCENARIO, "--json"))
    assert len(answer["results"]) == 1


def _compare(*targets: str) -> dict[str, Any]:
    flags = [flag for target in targets for flag in ("--on", target)]
    answer: dict[str, Any] = json.loads(_out("compare", "tiny", *flags, "--rounds", "4", "--json"))
    return answer


@pytest.mark.alone
def test_compare_finds_a_difference() -> None:
    answer = _compare("null:cpu@1{latency=1ms}", "null:cpu@1{latency=1.3ms}")
    baseline, other = answer["section"]["rows"]
    columns = [column["name"] for column in answer["section"]["columns"]]
    first, second = dict(zip(columns, baseline, strict=True)), dict(zip(columns, other, strict=True))
    assert first["verdict"] == "baseline"
    assert second["verdict"] == "slower"
    assert 1 / second["speed"] == pytest.approx(1.3, rel=0.03)
    low, high = second["interval"]
    assert low <= second["speed"] <= high < 1
    assert [len(result["starts"]) for result in answer["results"]] == [5, 5]
    assert "faster" in [finding["code"] for finding in answer["section"]["findings"]]


@pytest.mark.alone
def test_compare_finds_none_where_there_is_none() -> None:
    # The same work under two names: a difference would be an artefact of the order or of the process.
    answer = _compare("null:cpu@1{latency=1ms}", "null:npu{latency=1ms}")
    row = answer["section"]["rows"][1]
    columns = [column["name"] for column in answer["section"]["columns"]]
    found = dict(zip(columns, row, strict=True))
    assert found["speed"] == pytest.approx(1, rel=0.02)
    # One time in twenty chance alone may look like a difference; then it is a small one.
    assert found["verdict"] == "no difference" or abs(found["speed"] - 1) < 0.005


def test_compare_goes_on_when_one_side_fails(tiny_onnx: Path, tmp_path: Path) -> None:
    sides = ["--on", "null{latency=1ms}", "--on", "null{crash=run,at=30}", "--on", "null:npu"]
    done = _edgewise(
        "compare", str(tiny_onnx), *sides, "--starts", "2", "--rounds", "2", "--save", str(tmp_path / "l.db"), "--json"
    )
    assert done.returncode == 5
    assert [result.get("error") for result in json.loads(done.stdout)["results"]] == [None, "WorkerCrashed", None]
    assert "Traceback" not in done.stderr


def test_show_lists_what_there_is(stored: tuple[Path, dict[str, Any]]) -> None:
    out = _out("show", str(stored[0]))
    assert FAST in out
    assert SLOW in out
    assert "failed" in out
    assert "told to fail" in out
    assert "3 results from 1 machine" in out


def test_show_exports_every_sample(stored: tuple[Path, dict[str, Any]]) -> None:
    store, said = stored
    expected = [sample for result in said["results"] if "rounds" in result for sample in _samples(result)]
    records = json.loads(_out("show", str(store), "--json"))["results"]
    assert [record["result"] for record in records] == said["results"]
    assert [record["status"] for record in records] == ["complete", "complete", "failed"]
    rows = list(csv.DictReader(io.StringIO(_out("show", str(store), "--csv"))))
    assert [int(row["sample_ns"]) for row in rows] == expected
    assert len(rows) == 84  # two times two to warm up and forty
    assert sum(row["warmup"] == "1" for row in rows) == 4
    assert {row["target"] for row in rows} == {FAST, SLOW}


def test_devices_lists_the_engines() -> None:
    out = _out("devices")
    for engine in registry.names("engines"):
        assert engine in out
    answer = json.loads(_out("devices", "--json"))
    assert {engine["name"] for engine in answer["engines"]} == set(registry.names("engines"))
    assert answer["machine"]["clusters"]


def test_the_null_engine_passes_its_check() -> None:
    out = _out("engines", "check", "null")
    assert "pass" in out
    answer = json.loads(_out("engines", "check", "null", "--json"))
    assert answer["outcomes"]
    assert {outcome["verdict"] for outcome in answer["outcomes"]} <= {"pass", "refused", "skip"}


@pytest.mark.parametrize(
    "command",
    [(name,) for name in registry.names("cli") if name != "select"] + [("select", "fit"), ("select", "evaluate")],
)
def test_every_command_speaks_json_and_explains_itself(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        _main([*command, "--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    assert "--json" in out
    assert len(out.splitlines()) > 5


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _main(["--version"])
    assert capsys.readouterr().out.startswith("edgewise ")


@pytest.mark.alone
def test_help_is_quick_and_imports_no_library() -> None:
    def seconds() -> float:
        begin = time.perf_counter()
        assert _edgewise("--help").returncode == 0
        return time.perf_counter() - begin

    assert min(seconds() for _ in range(5)) < 0.3
    code = "import sys; from edgewise.cli._parser import build; build(); print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
    heavy = {"numpy", "onnx", "onnx_ir", "onnxruntime", "openvino", "psutil", "rich", "sqlite3", "asyncio"}
    assert "edgewise.cli.bench" in loaded
    assert not heavy & loaded
