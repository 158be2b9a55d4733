"""Raw values to text: the only place where a number is rounded."""

from __future__ import annotations

import math
import re
from typing import Any

MISSING = "n/a"
_LONGEST_TICK = 16
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
_AMOUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))
_ENERGIES = ((1e6, "J"), (1e3, "mJ"), (1, "µJ"))
_POWERS = ((1e6, "W"), (1e3, "mW"), (1, "µW"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def figures(value: float, digits: int = 3) -> str:
    """`digits` significant figures, without exponents, never hiding whole digits."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def time(ns: float) -> str:
    scale, unit = next(((s, u) for s, u in _TIMES if abs(ns) >= s), _TIMES[-1])
    return f"{figures(ns / scale)} {unit}"


def duration(seconds: float) -> str:
    """How long something takes a person who waits: 1 h 20 min, 12 min, 45 s."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def time_range(low: float, high: float) -> str:
    """Both ends in the unit and with the places of the upper one, so that the eye can subtract."""
    scale, unit = next(((s, u) for s, u in _TIMES if high >= s), _TIMES[-1])
    places = max(0, 2 - math.floor(math.log10(high / scale))) if high > 0 else 0
    return f"[{low / scale:,.{places}f}, {high / scale:,.{places}f}] {unit}"


def size(count: float) -> str:
    scale, unit = next(((s, u) for s, u in _SIZES if count >= s), _SIZES[-1])
    return f"{figures(count / scale)} {unit}"


def amount(count: float) -> str:
    """Of things without a unit: 4.09 G multiply-adds."""
    scale, unit = next(((s, u) for s, u in _AMOUNTS if count >= s), _AMOUNTS[-1])
    return f"{figures(count / scale)} {unit}" if unit else figures(count) if count % 1 else f"{count:,.0f}"


def times(ratio: float) -> str:
    """Two places where they tell something; never a zero for what is only small."""
    return f"{ratio:.2f}" if 0.1 <= abs(ratio) < 1000 or ratio == 0 else figures(ratio)


def percent(share: float) -> str:
    return f"{figures(share * 100, 2)} %"


def error(value: float) -> str:
    if value == 0:
        return "exact"
    return f"{value:.0e}" if math.isfinite(value) else "not finite"


def points(difference: float) -> str:
    """A difference of two shares, in percentage points."""
    return f"{difference * 100:+.2f}"


def p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def energy(uj: float) -> str:
    scale, unit = next(((s, u) for s, u in _ENERGIES if abs(uj) >= s), _ENERGIES[-1])
    return f"{figures(uj / scale)} {unit}"


def power(uw: float) -> str:
    scale, unit = next(((s, u) for s, u in _POWERS if abs(uw) >= s), _POWERS[-1])
    return f"{figures(uw / scale)} {unit}"


def scaled(value: float, unit: str) -> str:
    """With a decimal prefix: 1.23 GFLOP/s."""
    scale, prefix = next(((s, u) for s, u in _AMOUNTS if abs(value) >= s), _AMOUNTS[-1])
    return f"{figures(value / scale)} {prefix}{unit}"


def frequency(hz: float) -> str:
    return f"{figures(hz / 1e9)} GHz"


def cell(value: Any, unit: str) -> str:
    """A table cell; `unit` is the column's."""
    if value is None:
        return MISSING
    match unit:
        case "ns":
            return time(value)
        case "ns_range":
            return time_range(*value)
        case "ratio":
            return f"{times(value)}×"
        case "ratio_range":
            return f"[{times(value[0])}, {times(value[1])}]"
        case "bytes":
            return size(value)
        case "amount":
            return amount(value)
        case "number":
            return figures(value)
        case "rate":
            return f"{figures(value)}/s"
        case "uj":
            return energy(value)
        case "uj_range":
            return f"[{energy(value[0])}, {energy(value[1])}]"
        case "uw":
            return power(value)
        case "per_joule":
            return f"{figures(value)}/J"
        case "flops_rate":
            return scaled(value, "FLOP/s")
        case "bytes_rate":
            return scaled(value, "B/s")
        case "intensity":
            return f"{figures(value)} FLOP/B"
        case "hz":
            return frequency(value)
        case "mc":
            return f"{value / 1000:.0f} °C"
        case "percent_change":
            return f"{value * 100:+.1f} %"
        case "count":
            return f"{value:,}"
        case "share":
            return percent(value)
        case "accuracy":
            return f"{value * 100:.2f} %"
        case "accuracy_range":
            return f"[{value[0] * 100:.2f}, {value[1] * 100:.2f}]"
        case "points":
            return points(value)
        case "points_range":
            return f"[{value[0] * 100:+.2f}, {value[1] * 100:+.2f}]"
        case "p":
            return p_value(value)
        case "error":
            return error(value)
        case "figure":
            # Rows of one column that differ in what they show: a number and its own unit.
            return cell(*value)
        case _:
            return str(value)


def tick(value: Any, unit: str) -> str:
    """On an axis: as a cell, without zeros that say nothing."""
    if value == 0:
        return "0"
    if isinstance(value, str):
        return value
    text = f"{value:g}" if unit == "text" and value is not None else cell(value, unit)
    text = re.sub(r"(\.\d*?)0+(?!\d)", lambda found: found[1] if found[1] != "." else "", text)
    # Beyond all prefixes there would be more digits than room.
    return text if len(text) <= _LONGEST_TICK else f"{value:.2g} {unit}"


def span(low: float | None, high: float | None, unit: str) -> str:
    """An interval of values of `unit`."""
    if low is None or high is None:
        return MISSING
    if unit in ("ns", "ratio", "uj", "accuracy", "points"):
        return cell((low, high), f"{unit}_range")
    return f"[{tick(low, unit)}, {tick(high, unit)}]"
