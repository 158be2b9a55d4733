"""The schedulers of a mix by name. Each is a rule: a desk and the time now in, jobs with their devices out."""

from __future__ import annotations

from collections.abc import Mapping

from .aware import latency_aware
from .desk import Rule
from .rules import band, band_heft, fifo

RULES: Mapping[str, Rule] = {"fifo": fifo, "band": band, "band-heft": band_heft, "latency-aware": latency_aware}
