"""Risk control on answers of trained networks, where they are at hand: CIFAR-100 in ../shared."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from simulated import candidate

from edgewise.core.preprocess import parse_preprocess
from edgewise.core.types import Target
from edgewise.data.preprocess import prepare
from edgewise.engines import ort
from edgewise.model.graph import fixed
from edgewise.model.load import inspect
from edgewise.select.bounds import shown
from edgewise.select.folds import halves
from edgewise.select.policies import cascade, single
from edgewise.select.risk import family, losses
from edgewise.select.table import Table

SHARED = Path(__file__).parents[3] / "shared"
NETWORKS = ("resnet8", "resnet20", "mobilenet_v2_050")
BATCH = 100


@pytest.fixture(scope="module")
def table() -> Table:
    data = SHARED / "data" / "cifar100" / "test.npz"
    if not data.exists():
        pytest.skip("the CIFAR-100 images and networks are not in ../shared")
    with np.load(data) as stored:
        images, labels = stored["images"], stored["labels"].astype(np.int64)
    inputs = prepare(list(images), parse_preprocess("cifar100")).astype(np.float32)
    scores = []
    for name in NETWORKS:
        model = inspect(str(SHARED / "models" / "cifar100" / f"{name}.onnx"))
        taken, made = model.inputs[0].name, model.outputs[0].name
        batched = fixed(model, {taken: (BATCH, *inputs.shape[1:])})
        network = ort.load(batched, Target("ort", "cpu", threads=1))
        rows = [network.run({taken: inputs[at : at + BATCH]})[made].copy() for at in range(0, len(inputs), BATCH)]
        network.close()
        logits = np.concatenate(rows).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        scores.append((logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32))
    candidates = tuple(
        replace(candidate(name, cost), preprocess="cifar100")
        for name, cost in zip(NETWORKS, (400, 900, 1000), strict=True)
    )
    return Table(candidates, labels, tuple(scores))


@pytest.mark.slow
def test_violations_over_resplits_of_trained_networks_stay_within_delta(table: Table) -> None:
    """Thresholds are fitted once, on 2,000 images. The other 8,000 are the world: what is lost on them is the truth,
    and each of 200 draws of 1,000 from them decides how far to go."""
    first, rest = halves(table.labels, 0.2)
    policy = cascade.fit(table.rows(first), max_loss=0.05)
    reference = single.fit(table.rows(first)).candidate
    others = table.rows(rest)
    epsilon, delta, times = 0.02, 0.1, 200
    tried = family(policy, table.rows(first), reference=reference, epsilon=epsilon, delta=delta)
    lost = [losses(each, others, reference) for each in tried]
    random = np.random.default_rng(0)
    violations = moved = 0
    for _ in range(times):
        used = random.integers(0, len(others), 1_000)
        accepted = -1
        while accepted + 1 < len(lost) and shown(lost[accepted + 1][used], epsilon, delta, "exact"):
            accepted += 1
        violations += any(each.mean() > epsilon for each in lost[: accepted + 1])
        moved += accepted > 0
    assert moved > times / 2
    assert violations / times <= delta + 2 * math.sqrt(delta * (1 - delta) / times)
