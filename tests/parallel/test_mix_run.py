"""A mix on real processes that compute nothing or little: every job once, whoever dies, hangs or cannot load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from edgewise.core.errors import WorkerCrashed
from edgewise.core.mix import Block, Network
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Model
from edgewise.model import feeds
from edgewise.model.graph import fixed
from edgewise.model.load import inspect
from edgewise.parallel.build import build
from edgewise.parallel.mix.desk import Desk
from edgewise.parallel.mix.part import made_up
from edgewise.parallel.mix.process import Place
from edgewise.parallel.mix.run import Crew
from edgewise.parallel.mix.schedulers import RULES
from edgewise.parallel.mix.simulate import arrivals

MS = 1_000_000
QUICK, SLOW = "null:cpu@1{latency=3ms,wait=sleep}", "null:npu{latency=8ms,wait=sleep}"
NETWORKS = (Network("a", "", 80.0, 40 * MS), Network("b", "", 60.0, 60 * MS, "poisson"))


@pytest.fixture(scope="module")
def model(tiny_onnx: Path) -> Model:
    found = inspect(str(tiny_onnx))
    return fixed(found, feeds.shapes(found))


@pytest.fixture
def crew(model: Model) -> Iterator[Callable[..., Crew]]:
    """Of targets, each a text for all networks, or one for each; one with a blank is a reason."""
    opened: list[Crew] = []

    def make(*targets: str | tuple[str, str], timeout_s: float = 30.0) -> Crew:
        places = []
        for each in targets:
            texts = (each, each) if isinstance(each, str) else each
            held = tuple(text if " " in text else (model, parse_target(text)) for text in texts)
            places.append(Place(parse_target(next(t for t in texts if " " not in t)), (), held))
        opened.append(Crew(places, timeout_s=timeout_s))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def play(crew: Crew, name: str, seconds: float = 0.4, seed: int = 0) -> Block:
    expected = [[8.0 * MS if crew.serves(n, d) else None for d in range(len(crew.places))] for n in range(2)]
    desk = Desk(expected, [network.deadline_ns for network in NETWORKS])
    jobs = arrivals(NETWORKS, seconds, seed)
    block = crew.play(desk, RULES[name], jobs, name=name, number=3)
    assert [each.job for each in block.served] == jobs
    assert (block.scheduler, block.number) == (name, 3)
    for each in block.served:
        assert not (each.dropped and each.device is not None)
        if each.ended_ns is not None:
            assert each.began_ns is not None and each.job.arrival_ns <= each.began_ns < each.ended_ns
            assert each.device is not None and crew.reasons.get((each.job.network, each.device)) is None
    return block


@pytest.mark.parametrize("name", RULES)
def test_every_job_is_served_once_and_all_take_part(crew: Callable[..., Crew], name: str) -> None:
    team = crew(QUICK, SLOW)
    block = play(team, name)
    assert not team.lost and sum(each.hit for each in block.served) > len(block.served) // 2
    assert all(busy > 0 for busy in block.busy_ns[:1])
    # And again: a block that has ended leaves nothing behind.
    play(team, name, seed=1)


def test_runs_alone_are_measured_and_answers_are_right(crew: Callable[..., Crew], model: Model) -> None:
    team = crew("ort:cpu@1", SLOW)
    assert len(team.measure(0, 0, 0.01)) >= 5
    whole = build(model, parse_placement("ort:cpu@1"))
    for name, value in whole.run(made_up(model, 0)).items():
        np.testing.assert_allclose(team.outputs(0, 0)[name], value, rtol=1e-5, atol=1e-6)
    whole.close()


@pytest.mark.parametrize("name", ["fifo", "latency-aware"])
def test_what_a_killed_process_held_is_handed_on(crew: Callable[..., Crew], name: str) -> None:
    team = crew(QUICK, SLOW)
    timer = threading.Timer(0.2, os.kill, (team.processes[0].process.pid, signal.SIGKILL))
    timer.start()
    block = play(team, name)
    timer.join()
    (lost,) = team.lost
    assert isinstance(lost, WorkerCrashed) and "died by SIGKILL" in lost.message
    assert {each.device for each in block.served if each.device is not None} == {0, 1}
    # The next block does without it.
    again = play(team, name, seed=1)
    assert {each.device for each in again.served if each.device is not None} == {1}


@pytest.mark.parametrize("fault", ["crash=run", "fail=run", "hang=run"])
def test_faults_of_an_engine_lose_no_job(crew: Callable[..., Crew], fault: str) -> None:
    team = crew(QUICK, SLOW.replace("{", "{at=5," + fault + ","), timeout_s=2.0)
    block = play(team, "fifo")
    assert len(team.lost) == 1
    served = [each for each in block.served if each.device is not None]
    assert served and all(each.device == 0 for each in served[-5:])


def test_where_nobody_is_left_the_block_still_ends(crew: Callable[..., Crew]) -> None:
    team = crew(QUICK.replace("{", "{at=5,fail=run,"))
    block = play(team, "latency-aware")
    assert len(team.lost) == 1 and sum(each.device is None for each in block.served) > 10


def test_what_cannot_be_loaded_is_served_elsewhere_and_told(crew: Callable[..., Crew]) -> None:
    faulty = QUICK.replace("{", "{fail=load,")
    team = crew((QUICK, faulty), (SLOW, SLOW), ("no file for it", SLOW))
    assert "told to fail at load" in team.reasons[1, 0] and team.reasons[0, 2] == "no file for it"
    block = play(team, "fifo")
    assert {each.device for each in block.served if each.job.network == 1} <= {1, 2}


@pytest.mark.parametrize("fault", ["crash=load", "hang=load"])
def test_a_process_that_dies_of_a_network_is_begun_without_it(crew: Callable[..., Crew], fault: str) -> None:
    team = crew((QUICK.replace("{", "{" + fault + ","), QUICK), SLOW, timeout_s=4.0)
    assert (0, 0) in team.reasons and team.serves(1, 0) and not team.serves(0, 0)
    play(team, "latency-aware")
    assert not team.lost


# Whoever started the tests in the background may have had them ignore interruptions.
_ALONE = """
import signal, sys
from edgewise.cli._mix import run_mix
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run_mix(sys.argv[1], scheduler=None, seconds=60.0, save=sys.argv[2], timeout=30.0, memory=None, json_=False))
"""


def test_an_interruption_leaves_no_process(tiny_onnx: Path, tmp_path: Path) -> None:
    file = tmp_path / "mix.toml"
    file.write_text(
        f'over = ["{QUICK}", "{SLOW}"]\n[[network]]\nmodel = "{tiny_onnx}"\nrate_hz = 50\ndeadline_ms = 30\n'
    )
    command = [sys.executable, "-c", _ALONE, str(file), str(tmp_path / "lab.db")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("block 2"):
            assert process.poll() is None
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 2
        # As the keyboard does it: to the whole group.
        os.killpg(process.pid, signal.SIGINT)
        assert "interrupted" in process.stderr.read()
    assert process.returncode == 130
    gone, alive = psutil.wait_procs(children, timeout=5)
    assert len(gone) == 2 and not alive
