"""Chips described in figures: components, what each does alone, and what was published of them together.

One file per chip in `socs/`, or a user's own in the same form (docs/guides/simulate.md). Every figure has a source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ...core.errors import InputError, Unsupported
from ...core.tables import Table, near, shown
from .contention import KINDS

_HINT = "edgewise simulate"
# A frame in eleven days, and one in a nanosecond.
_LEAST_PER_S, _MOST_PER_S = 1e-6, 1e9
_RANGE = f"from {_LEAST_PER_S:g} to {_MOST_PER_S:g}"


@dataclass(frozen=True, slots=True)
class Component:
    """A processor of a chip. Clock and bandwidth are for the reader: nothing is computed from them."""

    name: str
    kind: str
    label: str
    source: str
    cores: int | None = None
    clock_hz: float | None = None
    bandwidth_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """Frames per second of each component alone; one that is not named does not run it."""

    name: str
    source: str
    per_s: dict[str, float]


@dataclass(frozen=True, slots=True)
class Published:
    """What components together were measured to do, and the share of frames each took where that was printed."""

    network: str
    over: tuple[str, ...]
    per_s: float
    source: str
    shares: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Soc:
    """`name` is what a user types to get it; `notes` are what a reader of its figures should know."""

    name: str
    label: str
    source: str
    components: tuple[Component, ...]
    networks: tuple[Network, ...]
    published: tuple[Published, ...] = ()
    notes: tuple[str, ...] = ()

    def network(self, name: str) -> Network:
        found = next((network for network in self.networks if network.name == name), None)
        if found is None:
            known = [network.name for network in self.networks]
            raise InputError(f"{self.name} has no figures for {name!r}; {near(name, known)}", self._hint(known[0]))
        return found

    def over(self, network: Network, names: Sequence[str] = ()) -> tuple[Component, ...]:
        """The components of these names that run a network, all of them where none is named; as the chip has them."""
        known = [component.name for component in self.components]
        for name in names:
            if name not in known:
                raise InputError(
                    f"{self.name} has no component {name!r}; {near(name, known)}", self._hint(network.name)
                )
            if name not in network.per_s:
                raise Unsupported(
                    f"{self.name}: there is no figure for {network.name} on {name}, only on {', '.join(network.per_s)}",
                    f"{self._hint(network.name)} --over {next(iter(network.per_s))}",
                )
        wanted = names or network.per_s
        return tuple(component for component in self.components if component.name in wanted)

    def said(self, network: str, over: Sequence[str]) -> Published | None:
        """What was published of these components together."""
        return next((p for p in self.published if p.network == network and set(p.over) == set(over)), None)

    def _hint(self, network: str) -> str:
        return f"{_HINT} --soc {self.name} --network {network}"


@cache
def names() -> tuple[str, ...]:
    folder = files(__package__).joinpath("socs")
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


@cache
def named(name: str) -> Soc:
    if name not in names():
        raise InputError(
            f"there is no described chip {name!r}; {near(name, names())}",
            f"edgewise simulate --soc {names()[0]}; a file of yours ends in .toml",
        )
    text = files(__package__).joinpath("socs", f"{name}.toml").read_text(encoding="utf-8")
    return read(text, name, f"the chip {name}")


def read(text: str, name: str, where: str) -> Soc:
    """A chip from its TOML; `where` is how errors name the file."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where} is not TOML: {error}") from None
    table = Table(content, where)
    table.only(("label", "source", "notes", "components", "networks", "published"))
    components = tuple(_component(*each) for each in _tables(table, "components"))
    known = tuple(component.name for component in components)
    networks = tuple(_network(*each, known) for each in _tables(table, "networks"))
    of = {network.name: network for network in networks}
    listed = table.get("published") or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise table.wrong("published", "tables that begin with [[published]]")
    published = tuple(_published(Table(each, f"{where}, [[published]] {n}"), of) for n, each in enumerate(listed, 1))
    return Soc(
        name,
        table.text("label") or name,
        _needed(table, "source"),
        components,
        networks,
        published,
        table.texts("notes"),
    )


def _tables(table: Table, key: str) -> list[tuple[str, Table]]:
    found = table.get(key)
    if not isinstance(found, dict) or not found:
        raise table.wrong(key, f"tables such as [{key}.{'gpu' if key == 'components' else 'resnet50'}]")
    for name, each in found.items():
        if not isinstance(each, dict):
            raise InputError(f"{table.where}, [{key}]: {name} is {shown(each)}, expected a table [{key}.{name}]")
    return [(name, Table(each, f"{table.where}, [{key}.{name}]")) for name, each in found.items()]


def _needed(table: Table, key: str) -> str:
    found = table.text(key)
    if found is None:
        raise table.wrong(key, "a text")
    return found


def _component(name: str, table: Table) -> Component:
    table.only(("kind", "label", "source", "cores", "clock_hz", "bandwidth_bytes_per_s"))
    if "kind" not in table:
        raise table.wrong("kind", f"one of {', '.join(KINDS)}")
    return Component(
        name,
        table.choice("kind", KINDS, KINDS[0]),
        table.text("label") or name,
        table.text("source") or "",
        table.whole("cores", None, 1),
        table.number("clock_hz", 0.0) or None,
        table.number("bandwidth_bytes_per_s", 0.0) or None,
    )


def _figures(table: Table, key: str, known: Sequence[str]) -> dict[str, float]:
    """A number above 0 for each of some components."""
    found = table.get(key)
    if not isinstance(found, dict) or not found:
        raise table.wrong(key, f"a table such as {{ {known[0]} = 12.5 }}")
    own = Table(found, f"{table.where}, {key}")
    own.only(known)
    for name in found:
        if own.number(name, 0.0) <= 0:
            raise own.wrong(name, "a number above 0")
    return {name: float(found[name]) for name in known if name in found}


def _network(name: str, table: Table, components: Sequence[str]) -> Network:
    table.only(("source", "per_s", "frame_ms"))
    if ("per_s" in table) == ("frame_ms" in table):
        raise InputError(
            f"{table.where} has {'both' if 'per_s' in table else 'neither'} of per_s and frame_ms, expected one: "
            "frames per second of each component alone, or milliseconds per frame"
        )
    if "per_s" in table:
        per_s = _figures(table, "per_s", components)
    else:
        per_s = {who: 1e3 / ms for who, ms in _figures(table, "frame_ms", components).items()}
    for who, rate in per_s.items():
        if not _LEAST_PER_S <= rate <= _MOST_PER_S:
            raise InputError(f"{table.where}: {who} does {rate:g} frames per second, expected {_RANGE}")
    return Network(name, table.text("source") or "", per_s)


def _published(table: Table, networks: dict[str, Network]) -> Published:
    table.only(("network", "over", "per_s", "shares", "source"))
    name = table.choice("network", tuple(networks), "")
    over, able = table.texts("over"), tuple(networks[name].per_s)
    for each in over:
        if each not in able:
            raise InputError(f"{table.where}: {each!r} in over has no figure for {name}; {near(each, able)}")
    if len(over) < 2:
        raise table.wrong("over", "at least two components")
    if not _LEAST_PER_S <= table.number("per_s", 0.0) <= _MOST_PER_S:
        raise table.wrong("per_s", f"a number {_RANGE}")
    shares = _figures(table, "shares", over) if "shares" in table else None
    return Published(name, over, table.number("per_s", 0.0), table.text("source") or "", shares)
