"""What sentences are made of: a finding's raw values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...core.types import Scalar

Values = Mapping[str, Scalar]
# code -> (sentence, remedy or None)
Sentences = Mapping[str, tuple[Callable[[Values], str], str | None]]


def number(value: Scalar) -> float:
    assert isinstance(value, (int, float))
    return float(value)
