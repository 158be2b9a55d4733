"""Sections with every kind of chart, for tests of what draws them."""

from __future__ import annotations

import numpy as np

from edgewise.core.chart import Axis, Chart, Series
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import (
    Cluster,
    Column,
    Finding,
    Machine,
    Measurement,
    Ran,
    Round,
    Section,
    Start,
    Task,
)

TARGETS = ("ort:cpu:fp32@1", "openvino:cpu:int8@2", "ncnn:cpu:fp16@2")
NS = Axis("p50", "ns")
_RANDOM = np.random.default_rng(1)


def samples(centre: float, count: int = 2000) -> tuple[float, ...]:
    return tuple(np.rint(centre * np.exp(_RANDOM.normal(0, 0.08, count))).tolist())


MACHINE = Machine("m", "machine m", "Linux", "a CPU", ("avx2",), (Cluster("cpu", (0, 1)),), memory_bytes=8 << 30)


def measured(target: str, label: str) -> Measurement:
    task = Task(f"digest of {label}", parse_placement(target), parse_scenario("single"))
    taken = tuple(int(sample) for sample in samples(5e6, 100))
    start, part = Start(0, 10**7, 10**7, None, Ran()), Round(0, False, 0, sum(taken), taken)
    return Measurement(task, "m", (("engine", "1.0"),), "", (start,), (part,), True, label)


BAR = Chart(
    "bar",
    "resnet50: latency by target",
    Axis("target"),
    NS,
    (Series("p50", TARGETS, (5.2e6, 3.1e6, None), (5.0e6, 3.0e6, None), (5.5e6, 3.4e6, None)),),
)
GROUPED = Chart(
    "bar",
    "throughput by batch",
    Axis("batch", "count"),
    Axis("per second", "rate"),
    tuple(Series(t, (1, 2, 4, 8), tuple((i + 1) * 40.0 * b**0.6 for b in (1, 2, 4, 8))) for i, t in enumerate(TARGETS)),
)
STACK = Chart(
    "stack",
    "resnet50: time by operator",
    Axis("target"),
    Axis("time", "ns"),
    tuple(
        Series(op, TARGETS, (part, part * 0.7, part * 0.9))
        for op, part in (("Conv", 4e6), ("Relu", 5e5), ("Add", 3e5), ("Gemm", 2e5), ("MaxPool", 1e5))
    ),
)
LINE = Chart(
    "line",
    "resnet50: time against batch",
    Axis("batch", "count", log=True),
    Axis("per image", "ns", log=True),
    tuple(
        Series(
            t,
            tuple(2**i for i in range(8)),
            tuple(None if i == 4 and t == TARGETS[0] else 9e6 / (k + 1) / (1 + i) ** 0.5 for i in range(8)),
            tuple(8.4e6 / (k + 1) / (1 + i) ** 0.5 for i in range(8)),
            tuple(9.9e6 / (k + 1) / (1 + i) ** 0.5 for i in range(8)),
            stroke="line",
        )
        for k, t in enumerate(TARGETS)
    ),
)
NETS = ("alexnet", "resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1")
SCATTER = Chart(
    "scatter",
    "Accuracy against latency",
    Axis("p50", "ns", log=True),
    Axis("top-1", "accuracy"),
    (
        Series(
            "networks",
            (2.1e6, 4e6, 9.5e6, 1.8e6, 1.2e6),
            (0.5652, 0.6976, 0.7613, 0.7181, 0.5818),
            size=(1.4e9, 3.6e9, 8.2e9, 6e8, 7e8),
            colour=(61e6, 11.7e6, 25.6e6, 3.5e6, 1.2e6),
            labels=NETS,
        ),
        Series("front", (1.2e6, 1.8e6, 9.5e6), (0.5818, 0.7181, 0.7613), stroke="step"),
        Series("published", (1e6, 1.2e7), (0.80, 0.80), stroke="dash"),
    ),
    size=Axis("FLOPs", "amount"),
    colour=Axis("parameters", "amount", log=True),
)
SPREAD = Chart(
    "spread",
    "resnet50: every run",
    Axis("target"),
    Axis("latency", "ns"),
    tuple(Series(t, (), samples(5e6 / (i + 1))) for i, t in enumerate(TARGETS)),
)
CHARTS = (BAR, GROUPED, STACK, LINE, SCATTER, SPREAD)

COLUMNS = (Column("model"), Column("scenario"), Column("target"), Column("p50", "ns"), Column("interval", "ns_range"))
ROWS = (
    ("resnet50", "single", TARGETS[0], 5.2e6, (5.0e6, 5.5e6)),
    ("resnet50", "single", TARGETS[1], 3.1e6, (3.0e6, 3.4e6)),
    ("alexnet", "single", TARGETS[1], 9.1e6, None),
)
FASTEST = Finding("fastest", "note", "resnet50", (("target", TARGETS[1]), ("p50_ns", 3.1e6)))
LOADED = tuple(
    Finding("foreign_load", "caution", f"resnet50 on {t}", (("share", 0.1 * (i + 1)),)) for i, t in enumerate(TARGETS)
)
SECTIONS = (
    Section("Ranking", COLUMNS, ROWS, (FASTEST, *LOADED), (BAR, SPREAD)),
    Section("Trade-offs", (), (), (), (SCATTER,)),
    Section("Where the time goes", COLUMNS, ROWS, (), (STACK, LINE, GROUPED)),
)
