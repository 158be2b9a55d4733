"""Parts of a split run one after the other: what its tests share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.core.text import parse_target
from edgewise.core.types import Model
from edgewise.model.graph import graph
from edgewise.parallel.split.chains import early
from edgewise.parallel.split.cut import cut
from edgewise.parallel.split.plan import plan
from edgewise.parallel.split.run import Part
from edgewise.parallel.split.source import Source, source_for

ORT = "ort:cpu:fp32@1"


def in_turn(
    model: Model,
    target: str | Sequence[str],
    shares: Sequence[Sequence[float]],
    folder: Path,
    optimized: bool,
    axis: Any = "channels",
    prefers: Any = early,
    models: Sequence[Model] = (),
) -> Any:
    """All parts in this process, step by step: the same pieces, without the clock. `models` are those of the parts,
    where they differ."""
    count = len(shares[0])
    targets = [parse_target(each) for each in ([target] * count if isinstance(target, str) else target)]
    models = models or [model] * count
    found = source_for(models, targets, folder) if optimized else Source(graph(model), targets)
    targets, made = found.targets, plan(found.graph, shares, axis, prefers)
    pieces = cut(made, folder, found.blocks, found.eights)
    memory = bytearray(pieces.shared_bytes)
    parts = [
        Part(steps, t, m, memory, pieces.private_bytes)
        for steps, t, m in zip(pieces.steps, targets, models, strict=True)
    ]
    feeds = {t.name: np.random.default_rng(1).standard_normal(t.shape).astype(np.float32) for t in model.inputs}

    def view(lies: Any) -> Any:
        return np.frombuffer(memory, lies.dtype, math.prod(lies.shape), lies.offset).reshape(lies.shape)

    answers = []
    for _ in range(2):  # the second time, memory holds what the first left there
        for lies in pieces.inputs:
            view(lies)[...] = feeds[lies.name]
        for step in range(len(pieces.steps[0])):
            for part in parts:
                run = part.runs[step]
                if run is not None:
                    run()
        answers.append({lies.name: view(lies).copy() for lies in pieces.outputs})
    return feeds, answers
