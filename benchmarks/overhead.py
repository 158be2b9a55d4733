"""T1: what the harness costs, and whether edgewise's median is the engine's.

Three peers, each against edgewise's worker on the same engine, model, thread count and core:

* a bare loop around onnxruntime's `session.run`,
* a bare loop around OpenVINO's `request.infer`,
* OpenVINO's own benchmark_app (-api sync, same threads, f32).

benchmark_app measures in one go and cannot be asked to take turns, so the turns are made from outside: both processes
measure for the same seconds on the same core, and all the while one of them is stopped (SIGSTOP) and the other runs, a
few hundredths of a second each. The inference a stop falls into is lengthened by it, on both sides alike. What is
compared are the medians; fresh processes each time, Student's interval over those.

And the harness's own cost per inference, in nanoseconds, measured on an executable that does nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from _goal import finish, say
from edgewise import zoo
from edgewise.core import stats
from edgewise.core.records import from_json
from edgewise.core.text import parse_placement
from edgewise.core.types import Model, Round, Scenario, Task
from edgewise.measure.cell import Cell, Session
from edgewise.measure.loop import one_by_one
from edgewise.model import feeds, load
from edgewise.system.affinity import current

BAR = 0.02
SLICE_S = (0.03, 0.07)
SHAPE = (1, 3, 224, 224)
READY = "First inference took"
# A bare loop, as anybody would write it; it knows nothing of edgewise, and says what benchmark_app says.
BARE = """
import statistics, sys, time
import numpy as np
engine, path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
x = np.random.default_rng(0).standard_normal((1, 3, 224, 224), dtype=np.float32)
if engine == "ort":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: x}
    run = lambda: session.run(None, feeds)
else:
    import openvino
    core = openvino.Core()
    model = core.read_model(path)
    model.reshape({model.input(0): list(x.shape)})
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1,
                                                 "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False})
    request = compiled.create_infer_request()
    request.set_input_tensor(0, openvino.Tensor(x, shared_memory=True))
    run = request.infer
for _ in range(20):
    run()
print("First inference took", flush=True)
samples, deadline = [], time.perf_counter_ns() + int(seconds * 1e9)
while time.perf_counter_ns() < deadline:
    begin = time.perf_counter_ns()
    run()
    samples.append(time.perf_counter_ns() - begin)
print(f"Median: {statistics.median(samples) / 1e6} ms")
"""


def bare(engine: str, model: Model, seconds: int) -> list[str]:
    return [sys.executable, "-c", BARE, engine, model.path, str(seconds)]


def benchmark_app(model: Model, seconds: int) -> list[str]:
    tool = str(Path(sys.executable).with_name("benchmark_app"))
    shape = f"[{','.join(map(str, SHAPE))}]"
    command = [tool, "-m", model.path, "-d", "CPU", "-api", "sync", "-t", str(seconds), "-hint", "none"]
    return [*command, "-nthreads", "1", "-nstreams", "1", "-infer_precision", "f32", "-ip", "f32", "-shape", shape]


def cell(model: Model, engine: str, core: int) -> Cell:
    fixed = replace(model, inputs=tuple(replace(tensor, shape=SHAPE) for tensor in model.inputs))
    task = Task(model.digest, parse_placement(f"{engine}:cpu:fp32@1"), Scenario())
    return Cell(task, fixed, "", (), "", model.label, (core,))


def nothing(part: object) -> None:
    """Warm-up is not kept."""


def medians(
    model: Model, engine: str, command: list[str], seconds: int, core: int, order: random.Random
) -> tuple[float, float]:
    """Of edgewise and of the peer, in nanoseconds, measured in turns made from outside."""
    with Session(cell(model, engine, core)) as session:
        session.open()
        session.warm_up(nothing)
        peer = subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        assert peer.stdout
        while READY not in peer.stdout.readline():
            assert peer.poll() is None, "the peer ended early"
        worker = session.worker
        keywords = {"start": 0, "warmup": False, "duration_ns": seconds * 10**9, "max_runs": 1 << 40, "exclude": []}
        worker.start("round", **keywords)
        pids = [worker.process.pid, peer.pid]
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                runs, waits = order.sample(pids, 2)
                os.kill(waits, signal.SIGSTOP)
                os.kill(runs, signal.SIGCONT)
                time.sleep(order.uniform(*SLICE_S))
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        ours = from_json(Round, worker.result("round"))
        found = re.search(r"Median:\s+([0-9.]+)", peer.stdout.read())
        assert found, "the peer named no median"
        peer.wait()
    return statistics.median(ours.samples_ns), float(found[1]) * 1e6


def against(model: Model, engine: str, command: list[str], starts: int, seconds: int, name: str) -> stats.Ratio:
    order, pairs = random.Random(1), []
    for index in range(starts):
        ours, theirs = medians(model, engine, command, seconds, current()[index % len(current())], order)
        pairs.append([(ours, theirs)])
        say(f"{name} {index + 1}/{starts}: {ours / 1e6:.2f} / {theirs / 1e6:.2f} ms = {ours / theirs:.4f}")
    ratio = stats.ratio(pairs)
    assert ratio
    return ratio


def cost_ns(runs: int = 200_000) -> float:
    """Time per inference that is the harness's: the loop around an executable that does nothing."""

    def idle(_: object) -> dict[str, object]:
        return {}

    best = []
    for _ in range(5):
        begin = time.perf_counter_ns()
        one_by_one(idle, {}, 10**12, runs)  # type: ignore[arg-type]
        best.append((time.perf_counter_ns() - begin) / runs)
    return min(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=12, help="fresh pairs of processes per peer")
    parser.add_argument("--seconds", type=int, default=10, help="that both measure, in turns, per pair")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = load.inspect(zoo.export("mobilenet_v2", f"{folder}/mobilenet_v2.onnx"))
        assert tuple(feeds.shapes(model).values()) == (SHAPE,)
        peers = {
            "ort, bare loop": ("ort", bare("ort", model, options.seconds)),
            "openvino, bare loop": ("openvino", bare("openvino", model, options.seconds)),
            "openvino, benchmark_app": ("openvino", benchmark_app(model, options.seconds)),
        }
        ratios = {
            name: against(model, engine, command, options.starts, options.seconds, name)
            for name, (engine, command) in peers.items()
        }
    harness = cost_ns()
    widest = max(ratios.values(), key=lambda r: max(abs(r.low - 1), abs(r.high - 1)))
    worst = max(abs(widest.low - 1), abs(widest.high - 1))
    for name, r in ratios.items():
        print(f"{name:26} {r.estimate:.4f} [{r.low:.4f}, {r.high:.4f}]")
    print(f"harness                    {harness:.0f} ns per inference")
    finish(
        "T1",
        worst,
        (widest.low - 1, widest.high - 1),
        BAR,
        worst <= BAR and harness <= 2000,
        harness_ns=harness,
        model="mobilenet_v2, 1 thread, fp32",
        starts=options.starts,
        seconds=options.seconds,
        ratios={name: [r.low, r.estimate, r.high] for name, r in ratios.items()},
    )


if __name__ == "__main__":
    main()
