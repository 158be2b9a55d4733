"""How to choose, as text: a file of `policies` and its options, `premodel(levels=tree, k=7)`.

The options are the keywords of its `fit`, but for those that a command has flags for.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Union, get_args, get_origin

from ..core import registry
from ..core.errors import InputError
from ..core.tables import near
from ..core.text import parse_call

PACKAGE = "select.policies"
# Said of every method alike.
_FLAGS = {"objective": "--objective", "max_loss": "--max-loss", "top": "--top", "seed": "--seed"}
_KINDS = {int: "a whole number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Method:
    """A method by name, and its options: as they were written, and as `fit` takes them."""

    name: str
    written: tuple[tuple[str, str], ...]
    options: Mapping[str, Any]

    @property
    def module(self) -> ModuleType:
        return registry.find(PACKAGE, self.name)

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value}" for key, value in self.written)
        return f"{self.name}({options})" if options else self.name


def parse(text: str) -> Method:
    """A method whose name, options and values are all known to make sense."""
    name, pairs = parse_call(text, "method")
    names = registry.names(PACKAGE)
    if name not in names:
        raise InputError(f"unknown method {name!r}; {near(name, names)}", f"--method {names[0]}")
    found = Method(name, tuple(pairs), {})
    if not pairs:
        return found
    known = options(found.module)
    given = {}
    for key, value in pairs:
        if key in _FLAGS:
            raise InputError(f"{key} is said of every method alike, and not in {name}(…)", f"{_FLAGS[key]} {value}")
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{name} has no {key!r}; {has}")
        given[key] = _value(f"{key} of {name}", value, known[key].annotation)
    if hasattr(found.module, "check"):
        found.module.check(**{key: each.default for key, each in known.items()} | given)
    return Method(name, tuple(pairs), given)


def options(module: ModuleType) -> dict[str, inspect.Parameter]:
    """What may be said of a method by itself."""
    taken = inspect.signature(module.fit, eval_str=True).parameters.values()
    return {each.name: each for each in taken if each.kind is each.KEYWORD_ONLY and each.name not in _FLAGS}


def _value(what: str, text: str, hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(kind for kind in get_args(hint) if kind is not types.NoneType)
    if get_origin(hint) is Sequence:
        return tuple(part.strip() for part in text.split("+"))
    if hint not in _KINDS:
        return text
    try:
        value = hint(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{what} is {_KINDS[hint]}, found {text!r}")
    return value
