"""Records to JSON and back, by their type hints: one form for the worker's channel, the store and `--json`."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from . import text
from .types import Contention, Placement, Recipe, Scenario, Target

R = TypeVar("R")

# These travel as their text, the form a person would type.
_TEXT: Mapping[type, Callable[[str], Any]] = {
    Target: text.parse_target,
    Placement: text.parse_placement,
    Scenario: text.parse_scenario,
    Recipe: text.parse_recipe,
    Contention: text.parse_contention,
}


def to_json(value: Any) -> Any:
    if type(value) in _TEXT:
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    return value


def dumps(value: Any) -> str:
    """JSON for others to read: what is not finite is null there, since JSON has no word for it."""
    return json.dumps(_finite(to_json(value)), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def from_json(kind: type[R], value: Any) -> R:
    decoded: R = _decode(kind, value)
    return decoded


def _decode(hint: Any, value: Any) -> Any:
    if hint in _TEXT:
        return _TEXT[hint](value)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = _hints(hint)
        return hint(**{name: _decode(hints[name], item) for name, item in value.items() if name in hints})
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_decode(arguments[0], item) for item in value)
        return tuple(_decode(kind, item) for kind, item in zip(arguments, value, strict=True))
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        chosen = [kind for kind in arguments if kind is not type(None)]
        return _decode(chosen[0], value) if len(chosen) == 1 else value
    return value
