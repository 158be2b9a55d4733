"""Arithmetic with single numbers, as the pieces of an operator written out have it."""

from __future__ import annotations

from ...model.graph import Node
from .draft import Draft

_CLOSE = 1e-5  # what float32 makes of 1/6 or √2, and what people write for them


def near(value: float, wanted: float) -> bool:
    return abs(value - wanted) <= _CLOSE * max(abs(wanted), 1e-3)


def scalar(draft: Draft, node: Node) -> tuple[str, float, bool] | None:
    """The value and the number an operation of two is done on, and whether the number comes first."""
    first, second = node.inputs[:2]
    for x, other, swapped in ((first, second, False), (second, first, True)):
        number = draft.number(other)
        if number is not None and x not in draft.constants and draft.shape(x) == draft.shape(node.outputs[0]):
            return (x, number, swapped) if draft.shape(x) is not None and draft.floats(x) else None
    return None


def factor(draft: Draft, name: str) -> tuple[str, float] | None:
    """The value as another times a number."""
    node = draft.maker(name, "Mul", "Div")
    found = scalar(draft, node) if node is not None else None
    if node is None or found is None or (node.operator == "Div" and (found[2] or found[1] == 0)):
        return None
    return found[0], found[1] if node.operator == "Mul" else 1 / found[1]


def offset(draft: Draft, name: str) -> tuple[str, float] | None:
    """The value as another plus a number."""
    node = draft.maker(name, "Add", "Sub")
    found = scalar(draft, node) if node is not None else None
    if node is None or found is None or (node.operator == "Sub" and found[2]):
        return None
    return found[0], found[1] if node.operator == "Add" else -found[1]


def linear(draft: Draft, name: str) -> tuple[str, float, float]:
    """The value as a · x + b, by numbers on the way that nobody else reads."""
    a, b = 1.0, 0.0
    while draft.alone(name):
        if (times := factor(draft, name)) is not None:
            name, a = times[0], a * times[1]
        elif (plus := offset(draft, name)) is not None:
            name, b = plus[0], b + a * plus[1]
        else:
            break
    return name, a, b
