"""`edgewise study` as a user types it: before, during, after, and once more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import edgewise
from edgewise.store.db import Store
from edgewise.store.evaluations import Evaluations
from edgewise.store.kept import Kept

SHORT = "[protocol]\nwarmup = 1\nmax_runs = 6\nmin_s = 0\nwidth = 0\n"


@pytest.fixture
def study(tmp_path: Path, tiny_onnx: Path) -> Path:
    file = tmp_path / "lab.toml"
    file.write_text(
        f'models = ["{tiny_onnx}"]\non = ["null{{latency=1ms}}", "null:npu", "null{{fail=load}}"]\nbatch = [1, 2]\n'
        f"{SHORT}report = 'minimum'\n"
    )
    return file


def test_a_study_from_beginning_to_end(study: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "lab.db")
    dry = edgewise("study", str(study), "--save", store, "--dry-run")
    assert dry.returncode == 0
    assert dry.stdout.count("to measure") == 6
    assert "lab: 6 cells of 1 model by the protocol own" in dry.stderr
    assert "perhaps " in dry.stderr
    assert not Path(store).exists()

    done = edgewise("study", str(study), "--save", store)
    assert done.returncode == 0
    assert "[6/6] tiny on null" in done.stderr
    assert " left)" in done.stderr
    assert "reports the minimum: column min" in done.stdout
    assert "single(batch=2)" in done.stdout
    assert "Did not run" in done.stdout
    assert done.stdout.rstrip().endswith(f"Next: edgewise report {store} -o report.html")
    with Store(store) as opened:
        assert len(list(opened.results())) == 6
        assert len(list(Kept(opened).all("cost", dict))) == 1

    again = edgewise("study", str(study), "--save", store, "--json")
    assert again.returncode == 0
    assert "6 of them in the store already" in again.stderr
    told = json.loads(again.stdout)
    assert (told["known"], told["not_measured"], len(told["results"])) == (6, [], 6)
    assert told["protocol"]["report"] == "minimum"
    assert json.loads(edgewise("study", str(study), "--save", store, "--dry-run", "--json").stdout)["most_s"] == 0

    anew = json.loads(edgewise("study", str(study), "--save", store, "--again", "--json").stdout)
    assert anew["known"] == 0


def test_a_budget_that_is_too_small_is_said_before_and_after(study: Path, tmp_path: Path) -> None:
    done = edgewise("study", str(study), "--save", str(tmp_path / "lab.db"), "--budget", "0.01s")
    assert done.returncode == 0
    assert "a budget of 0 s may leave out: batch 1 (3 cells), batch 2 (3 cells)" in done.stderr
    assert "not finished within 0 s: 6 of 6 cells: batch 1 (3 cells), batch 2 (3 cells)" in done.stdout
    assert f"→ edgewise study {study}" in done.stdout


def test_a_wrong_budget_and_a_wrong_file(study: Path) -> None:
    done = edgewise("study", str(study), "--budget", "soon")
    assert done.returncode == 2
    assert "--budget: 'soon' is not a time" in done.stderr
    study.write_text('models = ["tiny"]\nprotocol = "embnech"\n')
    done = edgewise("study", str(study))
    assert done.returncode == 2
    assert f"error: {study}: unknown protocol 'embnech'; did you mean embench?" in done.stderr
    assert done.stdout == ""


def test_a_study_in_which_all_fails_fails(study: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    study.write_text(f'models = ["{tiny_onnx}"]\non = ["null{{fail=load}}"]\n{SHORT}')
    done = edgewise("study", str(study), "--save", str(tmp_path / "lab.db"))
    assert done.returncode == 5
    assert "told to fail" in done.stdout


def test_ctrl_c_keeps_what_there_is_and_says_how_to_go_on(study: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    slow = 'on = ["null{latency=50ms,wait=sleep}"]\nbatch = [1, 2]\n'
    study.write_text(f'models = ["{tiny_onnx}"]\n{slow}{SHORT.replace("6", "40")}')
    store = tmp_path / "lab.db"
    command = [sys.executable, "-m", "edgewise", "study", str(study), "--save", str(store)]
    # Whoever runs the tests in the background has Ctrl-C ignored, and children inherit that.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.1)
        if store.exists():
            with Store(store) as opened:
                if any(len(getattr(record, "rounds", ())) > 3 for _, _, _, record in opened.results()):
                    break
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"hint: edgewise study {study} --save {store}" in err
    with Store(store) as opened:
        (before,) = [record for _, _, _, record in opened.results()]
    told = json.loads(edgewise("study", str(study), "--save", str(store), "--json").stdout)
    assert [len(result["starts"]) for result in told["results"]] == [2, 1]
    assert len(before.rounds) >= 4  # type: ignore[union-attr]
    assert told["results"][0]["rounds"][0]["started_ns"] == before.rounds[0].started_ns  # type: ignore[union-attr]


@pytest.mark.slow
def test_what_is_found_out_beside_is_kept_and_not_asked_again(study: Path, tmp_path: Path) -> None:
    study.write_text(
        'models = ["pocket/nano", "tiny"]\non = ["ort:cpu@1", "ort:tpu"]\nprofile = true\nsupport = true\n'
        f'accuracy = "pocket(count=32)"\n{SHORT}'
    )
    store = tmp_path / "lab.db"
    done = edgewise("study", str(study), "--save", str(store))
    assert done.returncode == 0
    # A device that is not there spoils its own cells and nothing else.
    assert "ort has no device 'tpu' here" in done.stdout
    with Store(store) as opened:
        kept = Kept(opened)
        assert {profile["label"] for profile in kept.all("profile", dict)} == {"pocket/nano", "tiny"}
        assert {support["label"] for support in kept.all("support", dict)} == {"pocket/nano", "tiny"}
        # Only what was trained on the built-in images is asked about them.
        (answered,) = {record.label for _, _, _, record in Evaluations(opened).all()}
        assert answered == "pocket/nano"
        count = opened.connection.execute("SELECT count(*) FROM kept").fetchone()[0]
    edgewise("study", str(study), "--save", str(store))
    with Store(store) as opened:
        assert opened.connection.execute("SELECT count(*) FROM kept").fetchone()[0] == count


def test_placements_and_recipes_join_the_study(tmp_path: Path, tiny_onnx: Path) -> None:
    file, store = tmp_path / "lab.toml", str(tmp_path / "lab.db")
    dealt = "deal(ort:cpu@1, ort:cpu@1)"
    file.write_text(f'models = ["{tiny_onnx}"]\nrecipes = ["none", "quantize"]\non = ["ort:cpu@1", "{dealt}"]\n{SHORT}')
    told = json.loads(edgewise("study", str(file), "--save", store, "--json").stdout)
    found = {(each["label"], each["task"]["placement"]) for each in told["results"]}
    assert found == {
        ("tiny", "ort:cpu:fp32@1"),
        ("tiny", "deal(ort:cpu:fp32@1, ort:cpu:fp32@1)"),
        ("tiny | quantize", "ort:cpu:int8@1"),
        ("tiny | quantize", "deal(ort:cpu:int8@1, ort:cpu:int8@1)"),
    }
    again = edgewise("study", str(file), "--save", store, "--json")
    assert "4 of them in the store already" in again.stderr
    assert json.loads(again.stdout)["known"] == 4


def test_a_recipe_that_cannot_be_applied_is_told_and_the_rest_goes_on(tmp_path: Path, tiny_onnx: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(f'models = ["{tiny_onnx}"]\nrecipes = ["none", "quantize | quantize"]\non = ["ort:cpu@1"]\n{SHORT}')
    done = edgewise("study", str(file), "--save", str(tmp_path / "lab.db"))
    assert done.returncode == 0
    assert "quantize | quantize of tiny: it is quantized already" in done.stdout
    file.write_text(file.read_text().replace('"none", ', ""))
    nothing = edgewise("study", str(file), "--save", str(tmp_path / "lab.db"))
    assert nothing.returncode == 2
    assert "no recipe can be applied" in nothing.stderr
