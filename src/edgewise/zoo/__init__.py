"""Built-in networks: one file per family, each a function that returns an ONNX model, made without a framework."""

from __future__ import annotations

import importlib
import os
from functools import cache
from pathlib import Path

# Name -> the module that builds it. Written out, so that knowing the names imports nothing.
NETWORKS = {
    "alexnet": "alexnet",
    "densenet121": "densenet",
    "densenet161": "densenet",
    "densenet169": "densenet",
    "densenet201": "densenet",
    "inception_v3": "inception",
    "inception_v4": "inception",
    "mnasnet1_0": "mnasnet",
    "mobilenet_v2": "mobilenet",
    "nasnetalarge": "nasnet",
    "nasnetamobile": "nasnet",
    "pnasnet5large": "pnasnet",
    "resnet18": "resnet",
    "resnet34": "resnet",
    "resnet50": "resnet",
    "resnet101": "resnet",
    "resnet152": "resnet",
    "shufflenet_v2_x0_5": "shufflenet",
    "shufflenet_v2_x1_0": "shufflenet",
    "squeezenet1_0": "squeezenet",
    "squeezenet1_1": "squeezenet",
    "tiny": "tiny",
    "vgg11": "vgg",
    "vgg13": "vgg",
    "vgg16": "vgg",
    "vgg19": "vgg",
    "xception": "xception",
}


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(NETWORKS))


def export(name: str, path: str) -> str:
    """Build the network `name` and write it to `path`, which comes back."""
    import onnx

    module = importlib.import_module(f"{__name__}.{NETWORKS[name]}")
    model = getattr(module, name)()
    target = Path(path)
    # Written beside and renamed, so that a half-written file is never taken for a model.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    onnx.save(model, str(part))
    part.replace(target)
    return str(target)
