"""What papers measured, in numbers: their tables as they print them, to set a device of today beside theirs.

One file per paper. Nothing is converted or rounded again; where a paper contradicts itself, the table has what is
printed and `notes` say what is wrong. A cell that is empty in the paper, or "-" in the file, is None.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ..core.errors import InputError
from ..zoo.published import PUBLISHED

Cell = str | int | float | None

# One per paper, in the order in which `tables` gives them.
_FILES = ("m2.toml", "pitfalls.toml", "embench.toml", "selection.toml", "socs.toml")

# How the name of a column of numbers ends, and what the numbers are. A column that ends otherwise holds words.
UNITS = {
    "ms": "milliseconds",
    "s": "seconds",
    "hz": "hertz",
    "mhz": "megahertz",
    "ghz": "gigahertz",
    "mb": "megabytes, as printed",
    "gb": "gigabytes, as printed",
    "gb_per_s": "gigabytes per second",
    "gflops": "10⁹ floating-point operations per second",
    "tflops": "10¹² floating-point operations per second",
    "tops": "10¹² operations per second",
    "images_per_s": "images per second",
    "w": "watts",
    "nm": "nanometres",
    "pct": "percent",
    "points": "percentage points",
    "x": "times as much, or as fast",
    "m": "millions",
    "count": "a number of things",
    "vmaf": "VMAF score, 0 to 100",
    "year": "year",
}


@dataclass(frozen=True)
class Paper:
    """`year` is None where the paper does not say it."""

    authors: str
    title: str
    year: int | None


@dataclass(frozen=True)
class Table:
    """`place` is where it stands in the paper: a table's number, or the sections its numbers are from."""

    name: str
    paper: Paper
    place: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> tuple[Cell, ...]:
        if name not in self.columns:
            raise InputError(
                f"the table {self.name} has no column {name}, only {', '.join(self.columns)}",
                f"edgewise.reference.table({self.name!r}).columns",
            )
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)

    def records(self) -> tuple[dict[str, Cell], ...]:
        """The rows, each cell under the name of its column."""
        return tuple(dict(zip(self.columns, row, strict=True)) for row in self.rows)


def unit(column: str) -> str | None:
    """The unit in a column's name, the longest that fits: `gb_per_s` is not seconds. None: the column holds words."""
    fitting = [end for end in UNITS if column == end or column.endswith(f"_{end}")]
    return max(fitting, key=len, default=None)


@cache
def tables() -> tuple[Table, ...]:
    """Every table, paper after paper."""
    return tuple(found for name in _FILES for found in _read(name))


def table(name: str) -> Table:
    for found in tables():
        if found.name == name:
            return found
    known = ", ".join(found.name for found in tables())
    raise InputError(f"there is no reference table {name}, only {known}", "edgewise.reference.tables()")


def _read(file: str) -> list[Table]:
    content = tomllib.loads(files(__name__).joinpath(file).read_text(encoding="utf-8"))
    said = content["paper"]
    paper = Paper(said["authors"], said["title"], said.get("year"))
    return [_table(paper, entry) for entry in content["table"]]


def _table(paper: Paper, entry: dict[str, Any]) -> Table:
    # The zoo already holds one table for its own networks. Numbers that stand in two places come to differ.
    rows = _networks() if entry.get("rows_from") == "zoo" else entry["rows"]
    return Table(
        name=entry["name"],
        paper=paper,
        place=entry["place"],
        about=entry["about"],
        columns=tuple(entry["columns"]),
        rows=tuple(tuple(None if cell == "-" else cell for cell in row) for row in rows),
        notes=tuple(entry.get("notes", ())),
    )


def _networks() -> list[list[Cell]]:
    return [[name, p.year, p.flops_m, p.params_m, p.top1, p.top5] for name, p in PUBLISHED.items()]
