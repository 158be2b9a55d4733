"""A mix file: networks with rates and deadlines, the targets that serve them, the schedulers to compare."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from .. import zoo
from ..core import registry
from ..core.errors import EdgewiseError, InputError
from ..core.mix import Arrivals
from ..core.tables import Table, near
from ..core.text import parse_placement
from ..core.types import Target
from ..parallel.mix.schedulers import RULES
from ..zoo import pocket, pretrained

KEYS = ("name", "seconds", "seed", "schedulers", "over", "network")
NETWORK_KEYS = ("model", "rate_hz", "deadline_ms", "arrivals")
DEFAULT_SCHEDULERS = ("fifo", "band", "latency-aware")
_GUIDE = "docs/guides/deadlines.md shows what a mix looks like"
_LARGEST_BYTES = 1 << 20
LONGEST_S = 3600.0
_FASTEST_HZ = 10_000.0
_LONGEST_DEADLINE_MS = 60_000.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A network as the file has it; `model` is a file or a built-in name."""

    model: str
    rate_hz: float
    deadline_ns: int
    arrivals: Arrivals


@dataclass(frozen=True, slots=True)
class Asked:
    """`seconds` is what each scheduler gets in all."""

    name: str
    seconds: float
    seed: int
    schedulers: tuple[str, ...]
    over: tuple[Target, ...]
    networks: tuple[Wanted, ...]


def read(path: str) -> Asked:
    table = Table(_content(path), path)
    table.only(KEYS)
    seconds = table.number("seconds", 10.0)
    if not 0 < seconds <= LONGEST_S:
        raise table.wrong("seconds", f"a number above 0, at most {LONGEST_S:g}")
    networks = tuple(_network(each, Path(path).parent) for each in _tables(table, path))
    return Asked(
        table.text("name") or Path(path).stem,
        seconds,
        table.whole("seed", 0) or 0,
        schedulers(table.texts("schedulers", DEFAULT_SCHEDULERS), f"{path}: schedulers"),
        _over(table),
        networks,
    )


def schedulers(names: Sequence[str], where: str) -> tuple[str, ...]:
    for name in names:
        if name not in RULES:
            raise InputError(f"{where}: unknown scheduler {name!r}; {near(name, tuple(RULES))}")
    return tuple(names)


def _content(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            raw = file.read(_LARGEST_BYTES + 1)
        if len(raw) > _LARGEST_BYTES:
            raise InputError(f"{path} has more than {_LARGEST_BYTES:,} bytes: it is no mix", _GUIDE)
        return tomllib.loads(raw.decode())
    except OSError as error:
        raise InputError(f"the mix {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # TOML that is wrong, or bytes that are no text
        raise InputError(f"{path} is not TOML: {error}", _GUIDE) from None


def _tables(table: Table, path: str) -> list[Table]:
    found = table.get("network")
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise InputError(f"{path} names no networks", '[[network]], then model = "mobilenet_v2" and so on')
    return [Table(each, f"{path}: network {place + 1}") for place, each in enumerate(found)]


def _over(table: Table) -> tuple[Target, ...]:
    texts = table.get("over")
    if not isinstance(texts, list) or not texts:
        raise table.wrong("over", 'a list of targets, such as ["ort:cpu@1#0", "openvino:cpu@1#1"]')
    found: list[Target] = []
    known = registry.names("engines")
    for place, text in enumerate(texts):
        where = f"{table.where}: over[{place}]"
        try:
            placement = parse_placement(text if isinstance(text, str) else "")
        except EdgewiseError as error:
            raise InputError(f"{where}: {error.message}", error.hint) from None
        if placement.kind != "single":
            raise InputError(f"{where}: every entry is one target, found {placement}", "name its targets one by one")
        (target,) = placement.targets
        if target.engine not in known:
            raise InputError(f"{where}: unknown engine {target.engine!r}; {near(target.engine, known)}")
        found.append(target)
    return tuple(found)


def _network(table: Table, folder: Path) -> Wanted:
    table.only(NETWORK_KEYS)
    for key in ("model", "rate_hz", "deadline_ms"):
        if key not in table:
            raise InputError(f"{table.where} has no {key}", f"it needs {', '.join(NETWORK_KEYS[:3])}; {_GUIDE}")
    rate_hz, deadline_ms = table.number("rate_hz", 0), table.number("deadline_ms", 0)
    if not 0 < rate_hz <= _FASTEST_HZ:
        raise table.wrong("rate_hz", f"a number above 0, at most {_FASTEST_HZ:g}")
    if not 0 < deadline_ms <= _LONGEST_DEADLINE_MS:
        raise table.wrong("deadline_ms", f"a number above 0, at most {_LONGEST_DEADLINE_MS:g}")
    how = table.choice("arrivals", get_args(Arrivals), "periodic")
    return Wanted(
        _model(table, folder), rate_hz, round(deadline_ms * 1e6), "poisson" if how == "poisson" else "periodic"
    )


def _model(table: Table, folder: Path) -> str:
    """A file beside the mix (or where a path leads from there), or a built-in network by name."""
    name = table.text("model") or ""
    known = (*zoo.names(), *pocket.names())
    if (folder / name).is_file():
        return str(folder / name)
    if name in known or pretrained.named(name):
        return name
    said = near(name, known)
    perhaps = said if said.startswith("did") else f"there are {len(known)} built-in ones"
    raise InputError(
        f"{table.where}: there is no file {folder / name}, and no built-in network {name!r}; {perhaps}", "edgewise zoo"
    )
