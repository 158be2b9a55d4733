"""`edgewise simulate`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise.cli import _main

OWN = """
label = "My board"
source = "edgewise bench on it"
notes = ["Measured in winter."]
[components.cpu]
kind = "cpu"
[components.gpu]
kind = "gpu"
[networks.resnet50]
frame_ms = { cpu = 100, gpu = 20 }
"""


def test_every_published_case_beside_its_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(["simulate", "--frames", "900", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["forecasts"]) == len(found["section"]["rows"]) == 14
    names = [column["name"] for column in found["section"]["columns"]]
    for row in found["section"]["rows"]:
        cells = dict(zip(names, row, strict=True))
        assert cells["error"] == pytest.approx(cells["predicted"] / cells["published"] - 1)
        assert abs(cells["error"]) < 0.2 and abs(cells["error_without_it"]) < 0.2
    (errors,) = (each for each in found["section"]["findings"] if each["code"] == "sim_errors")
    assert dict(errors["values"])["cases"] == 14


def test_one_network_on_one_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(["simulate", "--soc", "kirin970", "--network", "resnet50", "--frames", "600"]) == 0
    out = capsys.readouterr().out
    for part in (
        "Cortex-A53 cluster",
        "together",
        "30.9/s",
        "without npu",
        "fitted to 9 published figures of this chip",
    ):
        assert part in out


def test_the_same_seed_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for seed in ("1", "1", "2"):
        argv = ["--soc", "exynos5422", "--network", "alexnet", "--frames", "200", "--seed", seed, "--json"]
        assert _main(["simulate", *argv]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_a_component_that_dies_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--soc", "kirin970", "--network", "alexnet", "--over", "gpu", "--over", "npu", "--frames", "500"]
    assert _main(["simulate", *argv, "--die", "npu@2s", "--slow", "gpu=2@1s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    workers = found["forecast"]["streamed"]["workers"]
    assert sum(worker["frames"] for worker in workers) == 500
    assert [worker["alive"] for worker in workers] == [True, False]
    assert _main(["simulate", *argv, "--die", "npu@2s"]) == 0
    assert "npu dies after 2.00 s; what it held went to the others, and all 500 frames" in capsys.readouterr().out
    assert _main(["simulate", *argv, "--die", "npu@1h"]) == 0
    assert "nothing happens to npu" in capsys.readouterr().out


def test_a_chip_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "board.toml"
    path.write_text(OWN)
    assert _main(["simulate", "--soc", str(path), "--network", "resnet50", "--jitter", "0"]) == 0
    out = capsys.readouterr().out
    for part in ("My board", "Measured in winter.", "10.0/s", "50.0/s", "other chips, since nothing was published"):
        assert part in out
    assert _main(["simulate", "--soc", str(path)]) == 0
    assert "cpu+gpu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["--soc", "kirin97"], 2, "did you mean kirin970?"),
        (["--soc", "kirin970", "--network", "resnet"], 2, "no figures for 'resnet'; did you mean resnet50"),
        (["--soc", "kirin970", "--network", "resnet50", "--over", "dsp"], 2, "no component 'dsp'"),
        (["--soc", "kirin970", "--network", "mobilenet", "--over", "npu"], 4, "no figure for mobilenet on npu"),
        (["--soc", "kirin970", "--over", "gpu"], 2, "about one network on one chip"),
        (["--network", "alexnet", "--die", "gpu@1s"], 2, "about one network on one chip"),
        (["--soc", "kirin970", "--network", "alexnet", "--slow", "gpu"], 2, "expected such as gpu=2@10s"),
        (["--soc", "kirin970", "--network", "alexnet", "--slow", "gpu=2@soon"], 2, "expected such as 90s"),
        (["--soc", "kirin970", "--network", "alexnet", "--die", "gpu"], 2, "expected such as gpu@10s"),
        (["--soc", "kirin970", "--network", "alexnet", "--die", "gpu@1s", "--slow", "gpu=2@1s"], 2, "more than once"),
        (["--soc", "kirin970", "--network", "alexnet", "--over", "gpu", "--die", "gpu@1s"], 2, "nobody is left after"),
        (["--soc", "kirin970", "--network", "alexnet", "--frames", "0"], 2, "from 1 to 1,000,000 frames, found 0"),
        (["--soc", "kirin970", "--network", "alexnet", "--jitter", "nan"], 2, "from 0 to 2, found nan"),
        (["--contention", "feedin"], 2, "did you mean feeding?"),
        (["--soc", "nowhere.toml"], 2, "nowhere.toml cannot be read: No such file"),
    ],
)
def test_what_cannot_be_simulated_is_said(
    argv: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(["simulate", *argv]) == code
    captured = capsys.readouterr()
    assert says in captured.err and captured.out == ""


def test_a_file_that_is_no_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "board.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert _main(["simulate", "--soc", str(path)]) == 2
    assert "is not TOML" in capsys.readouterr().err
