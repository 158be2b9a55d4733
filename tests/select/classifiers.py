"""Classifiers and pictures that anybody can check, and how a test fits a chooser in seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from edgewise.core import registry
from edgewise.study import company, live, prices, select

QUICK = {"turn_ns": 1_000_000, "warmup_ns": 1_000_000}


@contextmanager
def quick(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Inside, costs are taken in a moment, everything is kept in `folder`, and there is a method `two_steps`, installed
    as another package would install it."""
    about = folder / "two_steps-1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: two_steps\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[edgewise.select.policies]\ntwo_steps = two_steps\n")
    with pytest.MonkeyPatch.context() as patch:
        places = [str(folder), str(Path(__file__).parent)]
        patch.setenv("PYTHONPATH", os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")]))
        patch.setattr(sys, "path", [*places, *sys.path])
        for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
            patch.setenv(variable, str(folder / variable))
        patch.setattr(select, "prices", partial(prices.prices, starts=1, turns=7, **QUICK))
        patch.setattr(select, "company", partial(company.company, for_s=0.1))
        patch.setattr(live, "company", partial(company.company, for_s=0.1))
        patch.setattr(live, "live", partial(live.live, **QUICK))
        registry.names.cache_clear()
        yield patch
    registry.names.cache_clear()


def brightness(
    path: Path, gain: float = 1.0, outputs: int = 2, size: int = 8, background: bool = False, middle: float = 0.5
) -> Path:
    """Class 1 where an image is brighter than half, class 0 where it is darker, the others never; the larger the gain,
    the surer. With a background, all of them one further. `middle`: what preparing makes of half."""
    helper, tensor = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight", "bias"], ["scores"]),
    ]
    first = int(background)
    weight, bias = np.zeros((3, outputs), np.float32), np.full(outputs, -30, np.float32)
    weight[:, first + 1] = gain
    bias[first : first + 2] = 3 * middle * gain, 0
    graph = helper.make_graph(
        nodes,
        "brightness",
        [helper.make_tensor_value_info("image", tensor.FLOAT, ["batch", 3, size, size])],
        [helper.make_tensor_value_info("scores", tensor.FLOAT, ["batch", outputs])],
        [onnx.numpy_helper.from_array(weight, "weight"), onnx.numpy_helper.from_array(bias, "bias")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    return path


def pictures(folder: Path, count: int = 24, size: int = 16) -> Path:
    """Grey pictures, from dark to bright; those nearest to half lie in the wrong folder."""
    for number in range(count):
        value = round(255 * (number + 0.5) / count)
        wrong = abs(value - 127.5) < 10
        kind = folder / ("bright" if (value > 127) != wrong else "dark")
        kind.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((size, size, 3), value, np.uint8)).save(kind / f"{number:03d}.png")
    return folder
