"""A study file: which models, on what, under which loads, by which protocol; checked before anything is measured."""

from __future__ import annotations

import glob
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .. import zoo
from ..core import registry
from ..core.errors import EdgewiseError, InputError
from ..core.tables import Table, near
from ..core.text import parse_duration, parse_placement
from ..core.types import PRECISIONS, Placement, Recipe, Scenario
from ..data import built_in
from ..zoo import pocket, pretrained
from . import protocol as protocols
from . import recipes
from .prepare import expand
from .protocol import Protocol

KEYS = (
    "name",
    "protocol",
    "models",
    "recipes",
    "on",
    "engines",
    "precisions",
    "threads",
    "batch",
    "scenarios",
    "budget",
    "seed",
    "energy",
    "cost",
    "profile",
    "support",
    "roofs",
    "accuracy",
)
_FILTERS = ("engines", "precisions", "threads")
# More than any study; a file above it is something else.
_LARGEST_BYTES = 1 << 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Study:
    """`on` empty means every usable target, less what `engines`, `precisions` and `threads` leave out.

    `recipes` empty means the models as they are.

    `cost`, `profile`, `support` and `roofs` are what is found out beside the measurements; `accuracy` names the data
    that models are asked about.
    """

    name: str
    protocol: Protocol
    models: tuple[str, ...]
    recipes: tuple[Recipe, ...]
    on: tuple[str, ...]
    engines: tuple[str, ...]
    precisions: tuple[str, ...]
    threads: str
    batch: tuple[int, ...]
    scenarios: tuple[Scenario, ...]
    budget_s: float | None
    seed: int
    energy: str
    cost: bool
    profile: bool
    support: bool
    roofs: bool
    accuracy: str | None


def read(path: str) -> Study:
    table = Table(_content(path), path)
    table.only(KEYS)
    protocol = protocols.from_study(table.get("protocol"), table)
    texts = table.texts("scenarios", protocol.scenarios)
    scenarios = tuple(_at(table, f"scenarios[{i}]", protocol.scenario, text) for i, text in enumerate(texts))
    batch = table.wholes("batch", protocol.batch)
    if any(load.batch > 1 for load in scenarios):
        raise InputError(f"{path}: the batch is a key of its own: batch = [8], found it in scenarios")
    on = table.texts("on")
    for place, text in enumerate(on):
        _at(table, f"on[{place}]", _placement, text)
    both = [key for key in _FILTERS if key in table]
    if on and both:
        raise InputError(f"{path}: {both[0]} narrows down every target there is, and on names them; leave one out")
    budget = table.text("budget")
    return Study(
        table.text("name") or Path(path).stem,
        protocol,
        _models(table, Path(path).parent),
        tuple(_at(table, f"recipes[{i}]", recipes.parse, t) for i, t in enumerate(table.texts("recipes"))),
        on,
        _of(table, "engines", registry.names("engines")),
        _of(table, "precisions", PRECISIONS),
        table.choice("threads", protocols.THREADS, protocol.threads),
        batch,
        scenarios,
        None if budget is None else _at(table, "budget", parse_duration, budget),
        table.whole("seed", 0) or 0,
        table.choice("energy", protocols.ENERGIES, protocol.energy),
        table.flag("cost", True),
        table.flag("profile", False),
        table.flag("support", False),
        table.flag("roofs", False),
        _data(table, Path(path).parent),
    )


def _content(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            raw = file.read(_LARGEST_BYTES + 1)
        if len(raw) > _LARGEST_BYTES:
            raise InputError(f"{path} has more than {_LARGEST_BYTES:,} bytes: it is no study")
        return tomllib.loads(raw.decode())
    except OSError as error:
        raise InputError(f"the study {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # TOML that is wrong, or bytes that are no text
        raise InputError(f"{path} is not TOML: {error}", "docs/guides/study.md shows what a study looks like") from None


def _at(table: Table, key: str, parse: Callable[[str], T], text: str) -> T:
    """What `text` says; an error names the place."""
    try:
        return parse(text)
    except EdgewiseError as error:
        raise InputError(f"{table.where}: {key}: {error.message}", error.hint) from None


def _placement(text: str) -> Placement:
    placement = parse_placement(text)
    known = registry.names("engines")
    for target in placement.targets:
        if target.engine not in known:
            raise InputError(f"unknown engine {target.engine!r}; {near(target.engine, known)}", "edgewise devices")
    return placement


def _of(table: Table, key: str, known: tuple[str, ...]) -> tuple[str, ...]:
    found = table.texts(key)
    for each in found:
        if each not in known:
            raise InputError(f"{table.where}: unknown {key.removesuffix('s')} {each!r}; {near(each, known)}")
    return found


def _models(table: Table, folder: Path) -> tuple[str, ...]:
    """Files beside the study (or where a path leads from there), and built-in networks by name or pattern."""
    if "models" not in table:
        raise InputError(f"{table.where} names no models", 'models = ["mobilenet_v2", "my.onnx"]')
    known = (*zoo.names(), *pocket.names())
    found: list[str] = []
    for place, name in enumerate(table.texts("models")):
        if "*" in name or "?" in name:
            matching = sorted(glob.glob(str(folder / name))) or [each for each in expand([name]) if each != name]
            if not matching:
                raise InputError(f"{table.where}: models[{place}]: nothing matches {name!r}", "edgewise zoo")
            found += matching
        elif (folder / name).is_file():
            found.append(str(folder / name))
        elif name in known or pretrained.named(name):
            found.append(name)
        else:
            raise InputError(
                f"{table.where}: models[{place}]: there is no file {folder / name}, and no built-in network {name!r}; "
                f"{_perhaps(name, known)}",
                "edgewise zoo",
            )
    return tuple(dict.fromkeys(found))


def _data(table: Table, folder: Path) -> str | None:
    """Built-in data by name, or what lies beside the study, as models do."""
    name = table.text("accuracy")
    if name is None or _at(table, "accuracy", built_in.parse, name):
        return name
    if not (folder / name).exists():
        raise InputError(f"{table.where}: accuracy: there is no data at {folder / name}", 'accuracy = "pocket"')
    return str(folder / name)


def _perhaps(name: str, known: tuple[str, ...]) -> str:
    said = near(name, known)
    return said if said.startswith("did") else f"there are {len(known)} built-in ones"
