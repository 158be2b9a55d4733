"""timm's networks with a classifier: `NAME` with its default weights, `NAME.TAG` with others, and `@random`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.errors import InputError, Unsupported
from ...core.types import Preprocess
from . import RANDOM
from .network import Network, library, seeded, unknown
from .weights import from_url, guarded, missing, reachable

_FILE = "model.safetensors"
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic")


def load(name: str, weights: str | None) -> Network:
    timm = library("timm")
    if weights not in (None, RANDOM):
        raise InputError(f"timm:{name} takes {RANDOM!r} after the @, found {weights!r}", f"timm:{name}@{RANDOM}")
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        raise unknown("timm has no network", architecture, timm.list_models(), "timm:resnet18")
    tags = [full.partition(".")[2] for full in timm.list_pretrained(f"{architecture}.*")]
    if tag and tag not in tags:
        raise unknown(f"timm has no weights for {architecture} with the tag", tag, tags, f"timm:{architecture}")
    settings = timm.get_pretrained_cfg(name)
    settings = {} if settings is None else settings.to_dict()
    full = f"timm:{architecture}.{settings['tag']}" if settings.get("tag") else f"timm:{name}"
    # `exportable`: layers with a second, hand-written form use the plain one.
    if weights == RANDOM:
        full = f"timm:{name}@{RANDOM}"
        module = seeded(lambda: timm.create_model(name, exportable=True))
    else:
        _classifies(full, settings.get("num_classes", 1))  # asked before anything is downloaded
        with guarded(full):
            # A file is loaded as it is; `custom_load` is for other formats of the same weights.
            overlay = {"file": str(_file(full, settings)), "custom_load": False}
            module = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay, exportable=True)
    _classifies(full, getattr(module, "num_classes", 0))
    config = timm.data.resolve_model_data_config(module)
    found = Network(full, weights or full.partition(".")[2], module, tuple(config["input_size"]), _preprocess(config))
    return found if weights == RANDOM else _with_classes(timm, found)


def _classifies(full: str, classes: int) -> None:
    if not classes:
        raise Unsupported(f"{full} gives features: it has no classifier, and so no classes to be right or wrong about")


def _file(full: str, settings: Mapping[str, Any]) -> Path:
    repository, url = settings.get("hf_hub_id"), settings.get("url")
    if repository:
        return _from_hub(full, repository, settings.get("hf_hub_filename") or _FILE)
    if url:
        return from_url(full, url)
    raise Unsupported(f"timm has no trained weights for {full}", f"{full}@{RANDOM}")


def _from_hub(full: str, repository: str, file: str) -> Path:
    import huggingface_hub as hub

    cached = hub.try_to_load_from_cache(repository, file)
    if isinstance(cached, str):
        return Path(cached)
    url = hub.hf_hub_url(repository, file)
    place = f"{hub.constants.HF_HUB_CACHE}/models--{repository.replace('/', '--')}"
    remedy = f"run `hf download {repository} {file}` where there is a network and copy the folder it makes to {place}"
    try:
        # The hub's own client would try for minutes before it gives up.
        reachable(url)
        return Path(hub.hf_hub_download(repository, file))
    except Exception as error:  # noqa: BLE001 - those of whichever HTTP library the client is made with
        raise missing(full, url, error, remedy) from None


def _preprocess(config: Mapping[str, Any]) -> Preprocess | None:
    """None where the record has no words for it: other proportions than square, borders, a crop after squashing."""
    channels, height, width = config["input_size"]
    share, mode = config["crop_pct"], config["crop_mode"]
    squash = mode == "squash"
    fits = channels == 3 and height == width and config["interpolation"] in _INTERPOLATIONS
    if not fits or mode not in ("center", "squash") or (squash and share != 1.0):
        return None
    return Preprocess(
        resize=0 if squash else math.floor(height / share),
        crop=height,
        squash=squash,
        interpolation=config["interpolation"],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
    )


def _with_classes(timm: Any, network: Network) -> Network:
    """timm knows a data set by its number of classes; its name must say ImageNet as well."""
    subset = timm.data.infer_imagenet_subset(network.module)
    if subset is None or "_in" not in f"_{network.weights}":
        return network
    return replace(network, classes=tuple(timm.data.ImageNetInfo(subset).label_descriptions()))
