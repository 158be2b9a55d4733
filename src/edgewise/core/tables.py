"""A TOML table read key by key: what is unknown, missing or of the wrong kind is named, with what was expected."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from typing import Any

from .errors import InputError

_KINDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table"}


def near(name: str, known: Collection[str]) -> str:
    """What was perhaps meant, or all there is."""
    found = difflib.get_close_matches(name, known, 3)
    return f"did you mean {' or '.join(found)}?" if found else f"known: {', '.join(known)}"


class Table:
    """`where` is how errors name it: a file, and the table in it."""

    def __init__(self, content: Mapping[str, Any], where: str) -> None:
        self._content = content
        self.where = where

    def __contains__(self, key: str) -> bool:
        return key in self._content

    def get(self, key: str) -> Any:
        return self._content.get(key)

    def only(self, known: Collection[str]) -> None:
        for key in self._content:
            if key not in known:
                raise InputError(f"{self.where} has an unknown key {key!r}; {near(key, known)}")

    def wrong(self, key: str, expected: str) -> InputError:
        return InputError(f"{self.where}: {key} is {shown(self._content.get(key))}, expected {expected}")

    def text(self, key: str) -> str | None:
        found = self._content.get(key)
        if found is not None and (not isinstance(found, str) or not found.strip()):
            raise self.wrong(key, "a text")
        return found

    def choice(self, key: str, known: Collection[str], default: str) -> str:
        found = self._content.get(key, default)
        if not isinstance(found, str):
            raise self.wrong(key, f"one of {', '.join(known)}")
        if found not in known:
            raise InputError(f"{self.where}: unknown {key} {found!r}; {near(found, known)}")
        return found

    def flag(self, key: str, default: bool) -> bool:
        found = self._content.get(key, default)
        if not isinstance(found, bool):
            raise self.wrong(key, "true or false")
        return found

    def whole(self, key: str, default: int | None, least: int = 0, what: str = "") -> int | None:
        found: int | None = self._content.get(key, default)
        if found is not None and (not _whole(found) or found < least):
            raise self.wrong(key, f"{what}a whole number, at least {least}")
        return found

    def number(self, key: str, default: float) -> float:
        found = self._content.get(key, default)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found) or found < 0:
            raise self.wrong(key, "a number that is not negative")
        return float(found)

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of texts, or one text alone."""
        found = self._content.get(key, default)
        found = [found] if isinstance(found, str) else found
        if not isinstance(found, (list, tuple)) or (not found and key in self._content):
            raise self.wrong(key, "a list of texts")
        for place, each in enumerate(found):
            if not isinstance(each, str) or not each.strip():
                raise InputError(f"{self.where}: {key}[{place}] is {shown(each)}, expected a text")
        return tuple(dict.fromkeys(found))

    def wholes(self, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Whole numbers from 1, or one alone; in order, each once."""
        found = self._content.get(key, default)
        found = [found] if _whole(found) else found
        if not isinstance(found, (list, tuple)) or not found:
            raise self.wrong(key, "a list of whole numbers")
        for place, each in enumerate(found):
            if not _whole(each) or each < 1:
                raise InputError(f"{self.where}: {key}[{place}] is {shown(each)}, expected a whole number, at least 1")
        return tuple(sorted(set(found)))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def shown(value: object) -> str:
    """What was found, as short as tells."""
    if value is None:
        return "missing"
    kind = next((name for of, name in _KINDS.items() if type(value) is of), type(value).__name__)
    return f"{kind} ({value!r})" if type(value) in (str, bool, int, float) else kind
