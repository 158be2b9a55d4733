"""Passes on files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from edgewise import zoo
from edgewise.core.errors import InputError, Unsupported
from edgewise.core.records import to_json
from edgewise.core.types import Model
from edgewise.model import feeds
from edgewise.model.graph import fixed
from edgewise.model.load import inspect
from edgewise.optimize.apply import apply_file, options


@pytest.fixture
def model(tmp_path: Path) -> Model:
    zoo.export("mobilenet_v2", str(tmp_path / "model.onnx"))
    return inspect(str(tmp_path / "model.onnx"))


def applied(model: Model, name: str, path: Path, **given: float) -> Model:
    sized = fixed(model, feeds.shapes(model, 1, {}))
    return apply_file(to_json(sized), name, given, str(path), batched=True)


def test_a_pruned_file_is_smaller_keeps_its_batch_open_and_the_original_is_not_touched(
    model: Model, tmp_path: Path
) -> None:
    before = Path(model.path).read_bytes()
    made = applied(model, "prune", tmp_path / "small.onnx", ratio=0.4)
    assert Path(model.path).read_bytes() == before
    assert Path(made.path).stat().st_size < 0.75 * len(before)
    session = onnxruntime.InferenceSession(made.path)
    for batch in (1, 3):
        x = feeds.feeds(made, feeds.shapes(made, batch, {}), 0)
        (out,) = session.run(None, dict(x))
        assert out.shape == (batch, 1000)
        assert np.isfinite(out).all()


def test_another_order_answers_the_same(model: Model, tmp_path: Path) -> None:
    made = applied(model, "reorder", tmp_path / "other.onnx")
    x = dict(feeds.feeds(model, feeds.shapes(model, 2, {}), 0))
    ours, theirs = (onnxruntime.InferenceSession(each.path).run(None, x)[0] for each in (made, model))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_pruned_says_so(tmp_path: Path) -> None:
    zoo.export("tiny", str(tmp_path / "model.onnx"))
    with pytest.raises(Unsupported, match=r"nothing can be taken out at a ratio of 0\.01"):
        applied(inspect(str(tmp_path / "model.onnx")), "prune", tmp_path / "small.onnx", ratio=0.01)
    with pytest.raises(InputError, match="ratio of prune is a number between 0 and 1, found 'much'"):
        options("prune", {"ratio": "much"})
