"""The folder is the registry: an engine, pass, analysis or command is the file of its name.

Third parties add theirs through entry points of the group `edgewise.<package>`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from .errors import InputError

# The one way upwards: what opens a plan of a kind, in a process that is to run it. Imported when it is asked for.
OPENERS = {"select": "edgewise.select.chooser:opened"}


@cache
def names(package: str) -> tuple[str, ...]:
    """Names of the plug-ins in `edgewise.<package>`; modules beginning with _ and those that declare
    themselves part of the machinery (`PLUGIN = False` cannot be read without importing) are left to the caller."""
    folder = importlib.import_module(f"edgewise.{package}")
    own = {m.name for m in pkgutil.iter_modules(folder.__path__) if not m.name.startswith("_")}
    own -= set(getattr(folder, "NOT_PLUGINS", ()))
    return tuple(sorted(own | {point.name for point in entry_points(group=f"edgewise.{package}")}))


def find(package: str, name: str, noun: str | None = None) -> ModuleType:
    known = names(package)
    if name not in known:
        what = noun or package.removesuffix("s")
        raise InputError(f"unknown {what} {name!r}; known: {', '.join(known)}", "edgewise devices")
    for point in entry_points(group=f"edgewise.{package}"):
        if point.name == name:
            module = point.load()
            assert isinstance(module, ModuleType)
            return module
    return importlib.import_module(f"edgewise.{package}.{name}")


def opener(kind: str) -> Callable[..., Any]:
    """The function that makes an Executable of a plan of that kind."""
    module, _, name = OPENERS[kind].partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found
