"""A declared power, such as a processor's TDP, times the time: an estimate, and labelled so."""

from __future__ import annotations

from ...core.errors import InputError
from .meter import Meter


def declared(power_uw: int, covers: str = "package") -> Meter:
    """A stand-in for a meter where there is none. Its windows carry no error bar: nobody measured anything."""
    if power_uw <= 0:
        raise InputError(f"a declared power of {power_uw} µW: expected more than nothing", "declare the TDP in µW")
    return Meter(source="estimate", covers=covers, counts=False, step=0, update_ns=0, value=lambda: power_uw)
