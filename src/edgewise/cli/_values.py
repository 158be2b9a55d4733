"""Values people type: shapes, sizes, durations."""

from __future__ import annotations

import re

from ..core.errors import InputError
from ..core.text import parse_duration

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def shapes(texts: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """`input=1x3x224x224`, several times."""
    found = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        if not equals or not name or not re.fullmatch(r"[0-9]{1,12}(x[0-9]{1,12})*", dims):
            raise InputError(f"{text!r} is not a shape; expected such as input=1x3x224x224")
        found[name] = tuple(int(dim) for dim in dims.split("x"))
    return found


def size_bytes(text: str | None) -> int | None:
    """`500MB`, `2GiB`, `1000000`."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9.]+)\s*([kmg]i?)?b?", text.strip().lower())
    try:
        value = round(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    except (ValueError, OverflowError):
        value = 0
    if not 0 < value < 1 << 62:
        raise InputError(f"{text!r} is not a size; expected such as 500MB or 2GiB")
    return value


def duration_s(flag: str, text: str | None) -> float | None:
    """`90s`, `20min`, `1h30min`."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except InputError as error:
        raise InputError(f"{flag}: {error.message}") from None


def bound(text: str | None) -> tuple[float, float] | None:
    """`p99=20ms`: a percentile as a fraction, and nanoseconds."""
    if text is None:
        return None
    match = re.fullmatch(r"p([0-9]{1,2}(?:\.[0-9]{1,3})?)=([0-9]{1,12}(?:\.[0-9]{1,9})?)(ns|us|ms|s)", text.strip())
    if not match or not float(match[1]) > 0 or not float(match[2]):
        raise InputError(f"{text!r} is not a bound; expected such as p99=20ms")
    return float(match[1]) / 100, float(match[2]) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[match[3]]
