"""A candidate asked about images: the same code for a chooser and for its price."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgewise.core.errors import InputError
from edgewise.core.types import Model, Tensor
from edgewise.measure.asking import Asking
from edgewise.measure.pricing import Pricing


class Means:
    """Scores of a batch: its mean, twice that, and three times that; as shares where it is told to."""

    def __init__(self, shares: bool = False) -> None:
        self.shares, self.batches = shares, list[Any]()

    def run(self, feeds: Any) -> dict[str, Any]:
        (batch,) = feeds.values()
        self.batches.append(batch)
        scores = batch.mean(axis=(1, 2, 3))[:, None] * np.arange(1, 4, dtype=np.float32)
        if self.shares:
            scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        return {"scores": scores}

    def close(self) -> None: ...


def model(batch: int = 1, dtype: str = "float32") -> Model:
    shape = (batch, 3, 4, 4)
    return Model(
        "0" * 32, "m.onnx", (Tensor("image", dtype, shape),), (Tensor("scores", "float32", (batch, 3)),), label="m"
    )


def image(value: int) -> Any:
    return np.full((4, 4, 3), value, np.uint8)


def test_a_batch_is_filled_up_and_the_filling_not_looked_at() -> None:
    executable = Means()
    asking = Asking(executable, model(4), "unit", "m", probabilities=False)
    assert asking.batch == 4
    found = asking.rows([asking.prepared(image(each)) for each in (0, 255)])
    assert executable.batches[0].shape == (4, 3, 4, 4) and found.shape == (2, 3)
    alone = Asking(Means(), model(), "unit", "m", probabilities=False)
    assert np.array_equal(found[1], alone.rows([alone.prepared(image(255))])[0])


def test_shares_are_told_from_scores_once_or_each_time() -> None:
    for shares in (False, True):
        plain = Asking(Means(shares), model(), "unit", "m", probabilities=shares)
        unsure = Asking(Means(shares), model(), "unit", "m")
        seen = Asking(Means(shares), model(4), "unit", "m")
        seen.see(image(200))
        rows = [each.rows([each.prepared(image(100))])[0] for each in (plain, unsure, seen)]
        assert np.array_equal(rows[0], rows[1]) and np.array_equal(rows[0], rows[2])


def test_an_input_is_of_the_type_the_model_takes() -> None:
    executable = Means()
    asking = Asking(executable, model(dtype="float64"), "unit", "m", probabilities=False)
    asking.rows([asking.prepared(image(1))])
    assert executable.batches[0].dtype == np.float64


def test_what_does_not_fit_is_refused() -> None:
    asking = Asking(Means(), model(), "unit", "m", probabilities=False, classes=5)
    with pytest.raises(InputError, match="m tells 3 classes apart, and the plan 5"):
        asking.rows([asking.prepared(image(1))])
    with pytest.raises(InputError, match="3x8x8, and m takes 3x4x4"):
        asking.rows([asking.prepared(np.zeros((8, 8, 3), np.uint8))])


def test_a_price_is_of_images_asked_about_in_turn() -> None:
    executable = Means()
    turn = Pricing(executable, model(), "unit", [image(0), image(255)]).price(1_000_000, 1_000)
    assert len(turn.prepare_ns) == len(turn.run_ns) > 0
    assert turn.elapsed_ns >= sum(turn.run_ns) + sum(turn.prepare_ns)
    shown = [float(batch.max()) for batch in executable.batches[1:]]
    assert shown[:4] == [0, 1, 0, 1]
