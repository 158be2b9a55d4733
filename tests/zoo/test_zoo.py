"""Built-in networks: what the paper says they are, the same each time, finite and varied outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from edgewise import zoo
from edgewise.core.types import Target
from edgewise.engines import ort
from edgewise.model import feeds, load


def parameters(path: Path) -> int:
    return sum(int(np.prod(t.dims)) for t in onnx.load(str(path)).graph.initializer if t.name not in ("zero", "six"))


def test_mobilenet_v2_has_the_published_size(tmp_path: Path) -> None:
    """3.50 million parameters (EmBench Table 1) with batch normalization's pairs; folded, one bias each: 3.49."""
    path = tmp_path / "m.onnx"
    zoo.export("mobilenet_v2", str(path))
    assert parameters(path) == 3_504_872 - 17_056


def test_every_network_runs_and_is_the_same_each_time(tmp_path: Path) -> None:
    for name in zoo.names():
        first, second = tmp_path / f"{name}.onnx", tmp_path / f"{name}2.onnx"
        zoo.export(name, str(first))
        zoo.export(name, str(second))
        assert first.read_bytes() == second.read_bytes()
        model = load.inspect(str(first))
        executable = ort.load(model, Target("ort"))
        for batch in (1, 3):
            out = executable.run(feeds.feeds(model, feeds.shapes(model, batch)))["logits"]
            assert out.shape[0] == batch
            assert np.isfinite(out).all()
            assert out.std() > 1e-3
        executable.close()
    assert not list(tmp_path.glob("*.part"))
