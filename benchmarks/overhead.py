"""T1: what the harness costs, and whether edgewise's median is the engine's.

Three comparisons, each interleaved over fresh processes, each a ratio of medians with a 95 % interval:

* edgewise's worker over a bare loop around onnxruntime's `session.run`,
* the same over a bare loop around OpenVINO's `request.infer`,
* edgewise's worker on OpenVINO over OpenVINO's own benchmark_app (-api sync, same threads, f32).

And the harness's own cost per inference, in nanoseconds, measured on an executable that does nothing.
"""

from __future__ import annotations

import argparse
import random
import re
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
from edgewise.core.text import parse_placement
from edgewise.core.types import Model, Scenario, Task
from edgewise.measure.cell import Cell, Session
from edgewise.measure.loop import no_collector, one_by_one
from edgewise.model import feeds, load

BAR = 0.02
# A bare loop, as anybody would write it; it takes its turns when told to, and knows nothing of edgewise.
BARE = """
import statistics, sys, time
import numpy as np
engine, path, shape = sys.argv[1], sys.argv[2], tuple(map(int, sys.argv[3].split("x")))
x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
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
    model.reshape({model.input(0): list(shape)})
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1,
                                                 "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False})
    request = compiled.create_infer_request()
    run = lambda: request.infer({0: x}, share_inputs=True)
for _ in range(20):
    run()
print("ready", flush=True)
for line in sys.stdin:
    deadline = time.perf_counter_ns() + int(line)
    samples = []
    while time.perf_counter_ns() < deadline:
        begin = time.perf_counter_ns()
        run()
        samples.append(time.perf_counter_ns() - begin)
    print(statistics.median(samples), flush=True)
"""


def cell(model: Model, on: str) -> Cell:
    fixed = replace(model, inputs=tuple(replace(t, shape=feeds.shapes(model)[t.name]) for t in model.inputs))
    return Cell(Task(model.digest, parse_placement(on), Scenario()), fixed, "", (), "", model.label)


def nothing(part: object) -> None:
    """Rounds of this benchmark are not kept."""


def against_bare(model: Model, engine: str, starts: int, rounds: int, turn_ns: int) -> stats.Ratio:
    order, pairs = random.Random(1), []
    shape = "x".join(map(str, next(iter(feeds.shapes(model).values()))))
    for index in range(starts):
        bare = subprocess.Popen(
            [sys.executable, "-c", BARE, engine, model.path, shape],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert bare.stdin and bare.stdout
        with Session(cell(model, f"{engine}:cpu:fp32@1")) as session:
            session.open()
            session.warm_up(nothing)
            assert bare.stdout.readline() == "ready\n"
            turns = []
            for _ in range(rounds):
                medians = {}
                for side in order.sample(("edgewise", "bare"), 2):
                    if side == "edgewise":
                        medians[side] = statistics.median(session.round(duration_ns=turn_ns).samples_ns)
                    else:
                        bare.stdin.write(f"{turn_ns}\n")
                        bare.stdin.flush()
                        medians[side] = float(bare.stdout.readline())
                turns.append((medians["edgewise"], medians["bare"]))
            pairs.append(turns)
        bare.stdin.close()
        bare.wait()
        say(f"{engine} {index + 1}/{starts}: {statistics.median(a / b for a, b in turns):.4f}")
    ratio = stats.ratio(pairs)
    assert ratio
    return ratio


def benchmark_app(model: Model, seconds: int) -> float:
    """The median latency in milliseconds that OpenVINO's own tool reports."""
    shape = ",".join(map(str, next(iter(feeds.shapes(model).values()))))
    tool = Path(sys.executable).with_name("benchmark_app")
    command = [str(tool), "-m", model.path, "-d", "CPU", "-api", "sync", "-t", str(seconds), "-nthreads", "1"]
    command += ["-nstreams", "1", "-infer_precision", "f32", "-shape", f"[{shape}]", "-hint", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"Median:\s+([0-9.]+) ms", done.stdout)
    assert found, done.stdout
    return float(found[1])


def against_app(model: Model, starts: int, seconds: int) -> stats.Ratio:
    order, pairs = random.Random(2), []
    for index in range(starts):
        with Session(cell(model, "openvino:cpu:fp32@1")) as session:
            session.open()
            session.warm_up(nothing)
            medians = {}
            for side in order.sample(("edgewise", "app"), 2):
                if side == "app":
                    medians[side] = benchmark_app(model, seconds) * 1e6
                else:
                    medians[side] = statistics.median(session.round(duration_ns=seconds * 10**9).samples_ns)
        pairs.append([(medians["edgewise"], medians["app"])])
        say(f"benchmark_app {index + 1}/{starts}: {medians['edgewise'] / medians['app']:.4f}")
    ratio = stats.ratio(pairs)
    assert ratio
    return ratio


def cost_ns(runs: int = 200_000) -> float:
    """Time per inference that is the harness's: the loop around an executable that does nothing."""

    def idle(_: object) -> dict[str, object]:
        return {}

    best = []
    for _ in range(5):
        with no_collector():
            begin = time.perf_counter_ns()
            one_by_one(idle, {}, 10**12, runs)  # type: ignore[arg-type]
            best.append((time.perf_counter_ns() - begin) / runs)
    return min(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=12, help="fresh pairs of processes per comparison")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turn-ms", type=int, default=150)
    parser.add_argument("--app-seconds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = load.inspect(zoo.export("mobilenet_v2", f"{folder}/mobilenet_v2.onnx"))
        turn = options.turn_ms * 10**6
        ratios = {
            "ort, bare loop": against_bare(model, "ort", options.starts, options.rounds, turn),
            "openvino, bare loop": against_bare(model, "openvino", options.starts, options.rounds, turn),
            "openvino, benchmark_app": against_app(model, options.starts, options.app_seconds),
        }
    harness = cost_ns()
    worst = max(max(abs(r.low - 1), abs(r.high - 1)) for r in ratios.values())
    widest = max(ratios.values(), key=lambda r: max(abs(r.low - 1), abs(r.high - 1)))
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
        ratios={name: [r.low, r.estimate, r.high] for name, r in ratios.items()},
    )


if __name__ == "__main__":
    main()
