"""What every benchmark ends with: one JSON line, and exit code 0 whether or not the bar is met."""

from __future__ import annotations

import json
import sys
from typing import Any


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def finish(goal: str, value: float, interval: tuple[float, float], bar: float, met: bool, **details: Any) -> None:
    line = {"goal": goal, "value": value, "interval": list(interval), "bar": bar, "met": met, "details": details}
    print(json.dumps(line))
