"""Protocols: how long and how often cells are measured, by name or from a table. One file each in `protocols/`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ..core.errors import EdgewiseError, InputError
from ..core.tables import Table, near
from ..core.text import parse_call, parse_placement, parse_scenario
from ..core.types import DEFAULT_MIN_S, INPUT_KINDS, Scenario

DEFAULT = "edgewise"
# What a protocol reports of a cell, and the column of the summary that has it.
REPORTS = {"minimum": "min", "median": "p50", "mean": "mean", "throughput": "per_s"}
ENERGIES = ("off", "active_minus_idle")
# Of the default targets of a CPU: those on one thread, those on as many as it has cores, or both.
THREADS = ("one", "all", "both")
_STEADY = "steady"


@dataclass(frozen=True, slots=True)
class Protocol:
    """`warmup` None means: until steady. `targets` are measured where their engine is here, else what is here.

    The cells are visited `passes` times, each time by a fresh process that adds its share.
    """

    name: str
    about: str = ""
    warmup: int | None = None
    min_runs: int = 64
    max_runs: int | None = None
    min_s: float = DEFAULT_MIN_S
    max_s: float = 10.0
    width: float = 0.05
    cooldown_s: float = 0.0
    input: str = "noise"
    batch: tuple[int, ...] = (1,)
    scenarios: tuple[str, ...] = ("single",)
    passes: int = 1
    report: str = "median"
    energy: str = "off"
    threads: str = "both"
    targets: tuple[str, ...] = ()

    def scenario(self, text: str) -> Scenario:
        """The load as the protocol measures it; what `text` itself says goes first."""
        said = parse_scenario(text)
        given = {key for key, _ in parse_call(text, "scenario")[1]}
        fixed = {f.name for f in fields(Scenario)} & {f.name for f in fields(Protocol)} - {"batch"} - given
        return replace(said, **{name: getattr(self, name) for name in fixed})


@cache
def names() -> tuple[str, ...]:
    folder = files(__package__).joinpath("protocols")
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


@cache
def named(name: str) -> Protocol:
    if name not in names():
        raise InputError(f"there is no protocol {name!r}; {near(name, names())}", "edgewise study --help")
    text = files(__package__).joinpath("protocols", f"{name}.toml").read_text(encoding="utf-8")
    return read(Table(tomllib.loads(text), f"the protocol {name}"), Protocol(name))


def from_study(content: Any, table: Table) -> Protocol:
    """What a study says under `protocol`: a name, or a table of fields that may begin with another's (`like`)."""
    if content is None:
        return named(DEFAULT)
    if isinstance(content, str):
        if content not in names():
            raise InputError(f"{table.where}: unknown protocol {content!r}; {near(content, names())}")
        return named(content)
    if not isinstance(content, dict):
        raise table.wrong("protocol", f"one of {', '.join(names())}, or a table")
    own = Table(content, f"{table.where}, [protocol]")
    like = own.choice("like", names(), DEFAULT) if "like" in own else None
    base = replace(named(like), name=f"like {like}", about="") if like else Protocol("own")
    return read(Table({key: value for key, value in content.items() if key != "like"}, own.where), base, ("like",))


def read(table: Table, base: Protocol, more: tuple[str, ...] = ()) -> Protocol:
    """The fields a table names, the others as in `base`."""
    table.only((*(f.name for f in fields(Protocol) if f.name != "name"), *more))
    warmup = base.warmup
    if "warmup" in table:
        warmup = None if table.get("warmup") == _STEADY else table.whole("warmup", None, what=f"{_STEADY!r} or ")
    min_runs, passes = table.whole("min_runs", base.min_runs, 1), table.whole("passes", base.passes, 1)
    assert min_runs is not None and passes is not None
    found = Protocol(
        base.name,
        table.text("about") or base.about,
        warmup,
        min_runs,
        table.whole("max_runs", base.max_runs, 1),
        table.number("min_s", base.min_s),
        table.number("max_s", base.max_s),
        table.number("width", base.width),
        table.number("cooldown_s", base.cooldown_s),
        table.choice("input", INPUT_KINDS, base.input),
        table.wholes("batch", base.batch),
        table.texts("scenarios", base.scenarios),
        passes,
        table.choice("report", tuple(REPORTS), base.report),
        table.choice("energy", ENERGIES, base.energy),
        table.choice("threads", THREADS, base.threads),
        table.texts("targets", base.targets),
    )
    try:
        for text in found.scenarios:
            found.scenario(text)
        for text in found.targets:
            parse_placement(text)
    except EdgewiseError as error:
        raise InputError(f"{table.where}: {error.message}", error.hint) from None
    return found
