"""A mix file: what it may say, and what is said of what it may not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise.cli._mix import run_mix
from edgewise.core.errors import InputError, Unsupported
from edgewise.store.db import Store
from edgewise.study.evidence import gather
from edgewise.study.mix import block_seconds
from edgewise.study.mix_file import read

NETWORK = '[[network]]\nmodel = "mobilenet_v2"\nrate_hz = 30\ndeadline_ms = 33\n'
OVER = 'over = ["ort:cpu@1#0", "openvino:cpu@1#1"]\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cameras.toml"


def test_all_of_it(file: Path, tiny_onnx: Path) -> None:
    (file.parent / "own.onnx").write_bytes(tiny_onnx.read_bytes())
    file.write_text(
        'name = "two cameras"\nseconds = 2.5\nseed = 3\nschedulers = ["band", "latency-aware"]\n'
        + OVER
        + NETWORK
        + '[[network]]\nmodel = "own.onnx"\nrate_hz = 7.5\ndeadline_ms = 0.5\narrivals = "poisson"\n'
    )
    asked = read(str(file))
    assert (asked.name, asked.seconds, asked.seed, asked.schedulers) == (
        "two cameras",
        2.5,
        3,
        ("band", "latency-aware"),
    )
    assert [str(target) for target in asked.over] == ["ort:cpu@1#0", "openvino:cpu@1#1"]
    first, second = asked.networks
    assert (first.model, first.deadline_ns, first.arrivals) == ("mobilenet_v2", 33_000_000, "periodic")
    assert (second.model, second.rate_hz, second.deadline_ns) == (str(file.parent / "own.onnx"), 7.5, 500_000)
    assert second.arrivals == "poisson"


def test_what_may_be_left_out(file: Path) -> None:
    file.write_text(OVER + NETWORK)
    asked = read(str(file))
    assert (asked.name, asked.seconds, asked.schedulers) == ("cameras", 10.0, ("fifo", "band", "latency-aware"))
    assert block_seconds(asked) == (10, 1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("over = [", "is not TOML"),
        (OVER, "names no networks"),
        (OVER + "network = 3", "names no networks"),
        (NETWORK, "over is missing, expected a list of targets"),
        ("over = []\n" + NETWORK, "over is a list, expected a list of targets"),
        ('over = ["ort", "nope:cpu"]\n' + NETWORK, r"over\[1\]: unknown engine 'nope'"),
        ('over = ["deal(ort, ort)"]\n' + NETWORK, r"over\[0\]: every entry is one target"),
        ("over = [3]\n" + NETWORK, r"over\[0\]: '' is not a target"),
        ("second = 3\n" + OVER + NETWORK, "unknown key 'second'; did you mean seconds"),
        ("seconds = 0\n" + OVER + NETWORK, "seconds is a whole number \\(0\\), expected a number above 0"),
        ('schedulers = ["edf"]\n' + OVER + NETWORK, "unknown scheduler 'edf'; known: fifo, band"),
        ('schedulers = ["latency"]\n' + OVER + NETWORK, "did you mean latency-aware"),
        (
            OVER + NETWORK.replace("mobilenet_v2", "mobilnet_v2"),
            "network 1: there is no file .*did you mean mobilenet_v2",
        ),
        (OVER + NETWORK.replace("rate_hz = 30\n", ""), "network 1 has no rate_hz"),
        (OVER + NETWORK.replace("30", "0"), "rate_hz is a whole number \\(0\\), expected a number above 0"),
        (OVER + NETWORK.replace("33", "-1"), "deadline_ms is a whole number \\(-1\\), expected a number that is not"),
        (OVER + NETWORK.replace("33", "inf"), "deadline_ms is a number \\(inf\\)"),
        (OVER + NETWORK + "arrivals = 'random'", "arrivals is 'random'|'random'.*known: periodic, poisson"),
        (OVER + NETWORK + "period = 3", "network 1 has an unknown key 'period'"),
    ],
)
def test_what_is_wrong_is_named(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        read(str(file))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(str(tmp_path / "mix.toml"))


def run(file: Path, *, scheduler: str | None = None, seconds: float | None = None, json_: bool = True) -> int:
    save = str(file.parent / "lab.db")
    return run_mix(str(file), scheduler=scheduler, seconds=seconds, save=save, timeout=30.0, memory=None, json_=json_)


def write(file: Path, tiny_onnx: Path, over: str) -> None:
    networks = f'[[network]]\nmodel = "{tiny_onnx}"\nrate_hz = 40\ndeadline_ms = 50\n'
    file.write_text(f"over = [{over}]\nseconds = 2\n{networks}{networks.replace('40', '20')}")


QUICK, SLOW = '"null:cpu@1{latency=3ms,wait=sleep}"', '"null:npu{latency=6ms,wait=sleep}"'


def test_a_run_is_told_and_kept(file: Path, tiny_onnx: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(file, tiny_onnx, f"{QUICK}, {SLOW}")
    assert run(file, scheduler="latency-aware, fifo", seconds=1.0) == 0
    told = json.loads(capsys.readouterr().out)
    mix = told["mix"]
    assert [network["label"] for network in mix["networks"]] == ["tiny (1)", "tiny (2)"]
    assert mix["schedulers"] == ["latency-aware", "fifo"]
    assert all(len(service["samples_ns"]) >= 5 for service in mix["services"])
    arrivals = [[served["job"] for served in block["served"]] for block in mix["blocks"]]
    assert len(arrivals) == 2 and arrivals[0] == arrivals[1]
    names = [column["name"] for column in told["section"]["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in told["section"]["rows"]]
    assert [row["network"] for row in rows] == ["tiny (1)", "tiny (2)", "all"] * 2
    (kept,) = gather([str(file.parent / "lab.db")]).mixes
    assert kept.name == "cameras" and len(kept.blocks) == len(kept.predicted) == 2
    with Store(str(file.parent / "lab.db")) as store:
        assert kept.machine in store.machines()


def test_a_network_that_nobody_serves_is_an_error_with_its_reasons(file: Path, tiny_onnx: Path) -> None:
    write(file, tiny_onnx, '"null:cpu@1{fail=load}", "null:npu{refuse=Conv}"')
    with pytest.raises(Unsupported, match=r"no target serves tiny .*told to fail at load.*told to refuse"):
        run(file)


def test_wrong_options(file: Path, tiny_onnx: Path) -> None:
    write(file, tiny_onnx, QUICK)
    with pytest.raises(InputError, match="--scheduler: unknown scheduler 'edf'"):
        run(file, scheduler="edf")
    with pytest.raises(InputError, match="--seconds is a number above 0"):
        run(file, seconds=-1.0)
