"""torchvision's classifiers: `NAME` with its default weights, `NAME@WEIGHTS` with others, `NAME@random`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import InputError, Unsupported
from ...core.types import Preprocess
from . import RANDOM
from .network import Network, library, seeded, unknown
from .weights import from_url, guarded

_CHANNELS = 3


def load(name: str, weights: str | None) -> Network:
    models = library("torchvision").models
    if name not in models.list_models(module=models):
        raise _refusal(models, name)
    known = models.get_model_weights(name)
    if weights == RANDOM:
        module = seeded(lambda: models.get_model(name, weights=None))
        preprocess = _preprocess(known.DEFAULT)
        # A transformer is built for one size; that of its default weights may be another.
        size = getattr(module, "image_size", preprocess.crop)
        if size != preprocess.crop:
            preprocess = replace(preprocess, resize=size, crop=size)
        return Network(f"torchvision:{name}@{RANDOM}", RANDOM, module, (_CHANNELS, size, size), preprocess)
    if weights is not None and weights not in known.__members__:
        raise InputError(
            f"torchvision:{name} has no weights {weights!r}; it has {', '.join(known.__members__)} and {RANDOM}",
            f"torchvision:{name}@{known.DEFAULT.name}",
        )
    chosen = known[weights or "DEFAULT"]
    full = f"torchvision:{name}@{chosen.name}"
    if not chosen.meta.get("categories"):
        raise Unsupported(f"{full} has weights for features only, and no classifier", f"torchvision:{name}")
    with guarded(full):
        from_url(full, chosen.url)
        module = models.get_model(name, weights=chosen, progress=False)
    preprocess = _preprocess(chosen)
    size = (_CHANNELS, preprocess.crop, preprocess.crop)
    return Network(full, chosen.name, module, size, preprocess, tuple(chosen.meta["categories"]))


def _preprocess(weights: Any) -> Preprocess:
    transform = weights.transforms()
    return Preprocess(
        resize=transform.resize_size[0],
        crop=transform.crop_size[0],
        interpolation=transform.interpolation.value,
        mean=tuple(transform.mean),
        std=tuple(transform.std),
    )


def _refusal(models: Any, name: str) -> Exception:
    if name in models.list_models():
        # torchvision.models.detection.faster_rcnn: the folder says what it is for.
        kind = models.get_model_builder(name).__module__.split(".")[2]
        return Unsupported(
            f"torchvision:{name} is one of its networks for {kind.replace('_', ' ')}; only classifiers are exported",
            "export it to ONNX yourself, and give the file",
        )
    return unknown(
        "torchvision has no network", name, models.list_models(module=models), "torchvision:resnet18, or edgewise zoo"
    )
