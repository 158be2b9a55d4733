"""Inputs made up for a model: seeded noise, or a white image as the model's own preprocessing hands it on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgewise.core.preprocess import parse_preprocess
from edgewise.core.types import Model, Preprocess, Tensor
from edgewise.model.feeds import digest, feeds

SIZES = {"image": (2, 3, 4, 4)}


def _model(dtype: str = "float32", preprocess: Preprocess | None = None, name: str = "image") -> Model:
    return Model("d", "m.onnx", (Tensor(name, dtype, (None, 3, 4, 4)),), (), preprocess=preprocess)


def test_white_goes_through_the_models_own_preprocessing() -> None:
    how = parse_preprocess("imagenet(resize=256, crop=224)")
    white = feeds(_model(preprocess=how), SIZES, fill="white")["image"]
    assert white.shape == (2, 3, 4, 4)
    assert white.dtype == np.float32
    assert white.flags["C_CONTIGUOUS"]
    for channel in range(3):
        expected = (255 / how.divide - how.mean[channel]) / how.std[channel]
        assert np.allclose(white[:, channel], expected)


def test_white_in_the_other_layout() -> None:
    how = Preprocess(mean=(0.5, 0.25, 0.0), layout="nhwc")
    model = Model("d", "m.onnx", (Tensor("image", "float16", (1, 4, 4, 3)),), (), preprocess=how)
    white = feeds(model, {"image": (1, 4, 4, 3)}, fill="white")["image"]
    assert white.dtype == np.float16
    assert white[0, 3, 1].tolist() == [0.5, 0.75, 1.0]


@pytest.mark.parametrize(("dtype", "value"), [("float32", 1), ("uint8", 255), ("int64", 1), ("bool", True)])
def test_white_without_preprocessing(dtype: str, value: float) -> None:
    assert (feeds(_model(dtype), SIZES, fill="white")["image"] == value).all()


def test_an_input_that_is_no_image_is_ones() -> None:
    model = replace(_model(preprocess=Preprocess(mean=(9.0, 9.0, 9.0))), inputs=(Tensor("state", "float32", (1, 8)),))
    assert (feeds(model, {"state": (1, 8)}, fill="white")["state"] == 1).all()


def test_white_is_other_inputs_than_noise() -> None:
    model = _model()
    assert digest(model, SIZES, 0, "runs") == digest(model, SIZES, 0, "runs", "noise")
    assert digest(model, SIZES, 0, "runs") != digest(model, SIZES, 0, "runs", "white")
