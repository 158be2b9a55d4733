"""The pocket family: classifiers that are really trained, kept with the package; made by tools/pocket.py.

What they were trained on is `data/scenes.py`; what they are worth on its test scenes is in family.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...core.errors import InputError

_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """From the cheapest to the dearest."""
    return tuple(family()["models"])


def path(name: str) -> str:
    """Of the ONNX file of `pocket/NAME`."""
    if name not in names():
        raise InputError(f"there is no {name!r} in the pocket family; it has {', '.join(names())}", "edgewise zoo")
    return str(_FOLDER / f"{name.removeprefix('pocket/')}.onnx")


@cache
def family() -> Mapping[str, Any]:
    """How the models were trained and what they reached: `models` by name, `oracle`, `scenes`."""
    found: dict[str, Any] = json.loads((_FOLDER / "family.json").read_text(encoding="utf-8"))
    return found
