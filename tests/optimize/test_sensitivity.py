"""What quantizing one layer does to the outputs."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.data import scenes
from edgewise.data.preprocess import prepare
from edgewise.model.feeds import shapes
from edgewise.model.graph import Array, Graph, fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.observe import Observe, observer
from edgewise.optimize.quantize.sensitivity import difference, layers, quantized_alone, rounded, sensitivity
from edgewise.zoo import pocket


@pytest.fixture(scope="module")
def small() -> Graph:
    model = inspect(pocket.path("pocket/nano"))
    return graph(fixed(model, shapes(model, 1, {})))


@pytest.fixture(scope="module")
def observe() -> Observe:
    model = inspect(pocket.path("pocket/nano"))
    assert model.preprocess is not None
    images, _ = scenes.scenes("train", 0, 32)
    return observer({model.inputs[0].name: prepare(list(images), model.preprocess)}, threads=1)


def test_every_layer_has_its_figures_and_they_are_small_but_not_nothing(small: Graph, observe: Observe) -> None:
    found = sensitivity(small, observe)
    assert [each.layer for each in found] == [node.name for node in layers(small)]
    for each in found:
        assert 0 < each.mse < 0.1
        assert each.kl is not None
        assert 0 < each.kl < 0.1


def test_fewer_levels_hurt_more(small: Graph, observe: Observe) -> None:
    fine, coarse = (sensitivity(small, observe, levels=levels) for levels in (127, 7))
    assert sum(each.mse for each in coarse) > 5 * sum(each.mse for each in fine)


def test_only_the_layer_asked_about_is_quantized(small: Graph) -> None:
    node = list(layers(small))[1]
    alone = quantized_alone(small, node, (-1.0, 1.0))
    kinds = [each.operator for each in alone.nodes]
    assert kinds.count("QuantizeLinear") == kinds.count("DequantizeLinear") == 1
    changed = next(each for each in alone.nodes if each.name == node.name)
    assert np.array_equal(alone.constants[changed.inputs[1]], rounded(small.constants[node.inputs[1]], 0, 127))
    assert set(small.constants) <= set(alone.constants)


def test_weights_are_rounded_to_levels_per_output() -> None:
    weights = np.array([[1.27, 0.004], [127.0, 0.4]], np.float32)
    np.testing.assert_allclose(rounded(weights, 0, 127), [[1.27, 0.0], [127.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(rounded(weights, 1, 127), [[1.0, 0.0031496], [127.0, 0.4]], rtol=1e-3)


def test_differences_are_relative_and_of_classes() -> None:
    right: Array = np.array([[1.0, -1.0], [-1.0, 1.0]], np.float32)
    mse, kl = difference([{"y": right}], [{"y": right + 0.1}])
    assert mse == pytest.approx(0.01, rel=1e-3)
    assert kl == pytest.approx(0, abs=1e-6)  # the same for all classes: nothing moves
    mse, kl = difference([{"y": right}], [{"y": -right}])
    assert mse == pytest.approx(4, rel=1e-6)
    assert kl is not None
    assert kl > 1
    picture = right.reshape(1, 1, 2, 2)
    assert difference([{"y": picture}], [{"y": picture}]) == (0, None)
    sure: Array = np.array([[0.75, 0.25]], np.float32)
    assert difference([{"y": sure}], [{"y": sure[:, ::-1]}])[1] == pytest.approx(0.5 * np.log(3), rel=1e-5)
