"""Text forms of a Preprocess: a usual one by name, and what differs from it: `imagenet(resize=320, crop=288)`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from .errors import InputError
from .text import parse_call
from .types import Preprocess

_IMAGENET = Preprocess(256, 224, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
PRESETS: Mapping[str, Preprocess] = {
    "unit": Preprocess(),
    "raw": Preprocess(divide=1.0),
    "imagenet": _IMAGENET,
    # From minus one to one, as the networks that came from TensorFlow want them; the crop is 87.5 %.
    "inception": Preprocess(342, 299, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)),
    "caffe": Preprocess(256, 224, divide=1.0, mean=(103.939, 116.779, 123.68), order="bgr"),
    "cifar10": Preprocess(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616)),
    "cifar100": Preprocess(mean=(0.5071, 0.4866, 0.4409), std=(0.2673, 0.2564, 0.2762)),
}
_FIELDS = tuple(f.name for f in fields(Preprocess))
_LARGEST_SIDE = 1 << 14


def parse_preprocess(text: str) -> Preprocess:
    name, pairs = parse_call(text, "preprocessing")
    if name not in PRESETS:
        raise InputError(f"unknown preprocessing {name!r}; known: {', '.join(PRESETS)}", "--preprocess imagenet")
    return replace(PRESETS[name], **{key: _value(key, value) for key, value in pairs})


def _value(key: str, text: str) -> Any:
    if key not in _FIELDS:
        raise InputError(f"preprocessing has no {key!r}; it has {', '.join(_FIELDS)}")
    hint = get_type_hints(Preprocess)[key]
    if hint is bool:
        if text not in ("true", "false"):
            raise InputError(f"{key} is true or false, found {text!r}")
        return text == "true"
    if hint is int:
        if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) > _LARGEST_SIDE:
            raise InputError(f"{key} is a whole number up to {_LARGEST_SIDE}, found {text!r}")
        return int(text)
    if hint is float:
        return _float(key, text, positive=True)
    if isinstance(hint, type(tuple[float, float, float])):
        parts = text.split("/")
        if len(parts) not in (1, 3):
            raise InputError(f"{key} is one number, or three such as 0.5/0.5/0.5, found {text!r}")
        return tuple(_float(key, part, positive=key == "std") for part in (parts * 3 if len(parts) == 1 else parts))
    if text not in get_args(hint):
        raise InputError(f"{key} is one of {', '.join(get_args(hint))}, found {text!r}")
    return text


def _float(key: str, text: str, *, positive: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (positive and value <= 0):
        raise InputError(f"{key} takes {'positive ' if positive else ''}numbers, found {text!r}")
    return value


def preprocess_text(preprocess: Preprocess) -> str:
    """By the usual one that is nearest."""
    return min((_relative(preprocess, name) for name in PRESETS), key=lambda found: found[0])[1]


def _relative(preprocess: Preprocess, name: str) -> tuple[int, str]:
    differing = {
        key: getattr(preprocess, key) for key in _FIELDS if getattr(preprocess, key) != getattr(PRESETS[name], key)
    }
    inside = ", ".join(f"{key}={_shown(value)}" for key, value in differing.items())
    return len(differing), f"{name}({inside})" if inside else name


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "/".join(map(_shown, value))
    return repr(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
