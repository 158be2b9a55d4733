"""Values inside a network, batch by batch."""

from pathlib import Path

import numpy as np
import pytest

from edgewise import zoo
from edgewise.core.errors import InputError
from edgewise.model.feeds import shapes
from edgewise.model.graph import Graph, fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.observe import observer
from edgewise.zoo import pocket


def opened_graph(path: str, batch: int = 1) -> Graph:
    model = inspect(path)
    return graph(fixed(model, shapes(model, batch, {})))


def noise(found: Graph, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        name: rng.standard_normal((count, *found.values[name].shape[1:])).astype(np.float32) for name in found.inputs
    }


def test_values_are_those_of_each_sample_by_itself() -> None:
    found = opened_graph(pocket.path("pocket/small"))
    samples = noise(found, 40)
    names = [next(n for n in found.nodes if n.operator == "Conv").outputs[0], found.outputs[0]]
    many = list(observer(samples)(found, names))
    assert [len(each[names[0]]) for each in many] == [32, 8]
    one = {name: array[35:36] for name, array in samples.items()}
    (alone,) = observer(one)(found, names)
    for name in names:
        np.testing.assert_allclose(many[1][name][3:4], alone[name], rtol=1e-4, atol=1e-5)


def test_a_fixed_batch_gets_what_it_is_written_for(tmp_path: Path) -> None:
    path = str(tmp_path / "tiny.onnx")
    zoo.export("tiny", path)
    found = opened_graph(path, batch=4)
    values = list(observer(noise(found, 10))(found, [found.outputs[0]]))
    assert [len(each[found.outputs[0]]) for each in values] == [4, 4]
    with pytest.raises(InputError, match="3 samples are too few"):
        list(observer(noise(found, 3))(found, [found.outputs[0]]))
