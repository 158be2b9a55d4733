"""Where a drawing collects its elements: well-formed, escaped, with short numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape as _escape

# The mean width of a character, relative to the size of the letters, in the usual system fonts.
_CHARACTER = 0.58
FONT = 12.0


# XML has no way to write these down at all.
_UNWRITABLE = {
    code: "\ufffd" for code in (*range(32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)) if code not in (9, 10, 13)
}


def escape(text: str) -> str:
    return _escape(text.translate(_UNWRITABLE)).replace("\n", "&#10;")


def width(text: str, font: float = FONT) -> float:
    return len(text) * _CHARACTER * font


def fit(text: str, room: float, font: float = FONT) -> str:
    """The text, cut in the middle where it is too long: the ends of a target say most."""
    most = max(4, int(room / (_CHARACTER * font)))
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


def _short(value: float | str) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}".removesuffix(".0")


class Paper:
    """`native` tooltips are the browser's own, for a drawing that stands alone."""

    def __init__(self, wide: float, native: bool) -> None:
        self.wide = wide
        self.native = native
        self.parts: list[str] = []
        self.notes: list[str] = []

    def add(self, tag: str, kind: str = "", text: str | None = None, **attributes: float | str) -> None:
        if kind:
            attributes = {"class": kind, **attributes}
        named = "".join(f' {name.replace("_", "-")}="{_short(value)}"' for name, value in attributes.items())
        self.parts.append(f"<{tag}{named}/>" if text is None else f"<{tag}{named}>{escape(text)}</{tag}>")

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start", **more: float | str) -> None:
        if anchor != "start":
            more["text-anchor"] = anchor
        self.add("text", kind, text, x=x, y=y, **more)

    def path(self, kind: str, places: Sequence[tuple[float, float]], closed: bool = False) -> None:
        steps = " ".join(f"{_short(x)},{_short(y)}" for x, y in places)
        self.add("path", kind, d=f"M{steps}{'Z' if closed else ''}")

    @contextmanager
    def mark(self, series: int, slot: int, tip: str, key: str) -> Iterator[None]:
        """Everything drawn inside is one thing to point at: `tip` is what it says, `key` what it is found by."""
        named = f'class="m s{slot}" data-s="{series}" data-k="{escape(key)}" data-tip="{escape(tip)}"'
        self.parts.append(f"<g {named}>")
        if self.native:
            self.add("title", text=tip)
        yield
        self.parts.append("</g>")

    @contextmanager
    def group(self, kind: str, **attributes: float | str) -> Iterator[None]:
        named = "".join(f' {name.replace("_", "-")}="{_short(value)}"' for name, value in attributes.items())
        self.parts.append(f'<g class="{kind}"{named}>')
        yield
        self.parts.append("</g>")
