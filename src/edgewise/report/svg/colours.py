"""Colours that stay apart for every kind of colour vision, on light and on dark paper."""

from __future__ import annotations

# After Okabe and Ito (2008), with a few more that differ from them in lightness. (on light, on dark)
SERIES = (
    ("#0072b2", "#4ea8de"),
    ("#e08e00", "#f0ab3c"),
    ("#009e73", "#35c295"),
    ("#c4649a", "#e094bd"),
    ("#c94a00", "#f0794a"),
    ("#56a8dd", "#9bd1f2"),
    ("#7d7d7d", "#a8a8a8"),
    ("#8a7a00", "#cbbb3a"),
    ("#00466e", "#2f79b5"),
    ("#8c4f2b", "#bd8059"),
    ("#7fc4a8", "#c3ecd9"),
    ("#5d3a9b", "#a98be0"),
)
# From little to much: lightness grows all the way, and both ends show on either paper.
_RAMP = ((0x53, 0x3A, 0x9C), (0xA3, 0x35, 0x8C), (0xDD, 0x57, 0x62), (0xF5, 0x92, 0x4A), (0xF7, 0xD0, 0x5A))

_LIGHT = {"ink": "#1c2024", "soft": "#60676f", "rule": "#e3e6ea", "axis": "#aab1b9", "paper": "#ffffff"}
_DARK = {"ink": "#e6e8eb", "soft": "#9aa2ab", "rule": "#2b3036", "axis": "#5c646d", "paper": "#14171a"}


def ramp(share: float) -> str:
    """The colour at a share of the way from least to most."""
    place = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    left = min(int(place), len(_RAMP) - 2)
    mixed = (round(a + (b - a) * (place - left)) for a, b in zip(_RAMP[left], _RAMP[left + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def slot(index: int) -> int:
    return index % len(SERIES)


def variables(dark: bool) -> str:
    """The colours by name, for a style sheet."""
    papers = _DARK if dark else _LIGHT
    named = [f"--{name}:{value}" for name, value in papers.items()]
    return ";".join(named + [f"--s{i}:{pair[dark]}" for i, pair in enumerate(SERIES)])


def rules() -> str:
    """How the parts of a drawing look."""
    series = "".join(f".chart .s{i}{{--c:var(--s{i})}}" for i in range(len(SERIES)))
    return (
        ".chart{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:var(--ink)}"
        ".chart text{font-variant-numeric:tabular-nums}"
        ".chart .soft{fill:var(--soft)}.chart .head{font-weight:600;font-size:14px}"
        ".chart .rule{stroke:var(--rule);fill:none}.chart .axis{stroke:var(--axis);fill:none}"
        ".chart .fill{fill:var(--c)}.chart .pale{fill:var(--c);fill-opacity:.22}"
        ".chart .point{fill:var(--c);stroke:var(--paper);stroke-width:1}"
        ".chart .ring{stroke:var(--c);stroke-width:1.6}"
        ".chart .curve{stroke:var(--c);fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
        ".chart .outline{stroke:var(--c);stroke-width:1}"
        ".chart .dash{stroke-dasharray:6 4;stroke-width:1.5}.chart .dots{stroke-dasharray:1 5}"
        ".chart .whisker{stroke:var(--ink);stroke-opacity:.75;fill:none}"
        ".chart .cut{stroke:var(--paper);stroke-width:3}"
        ".chart .box{fill:var(--paper);stroke:var(--ink);stroke-opacity:.8}"
        ".chart .middle{stroke:var(--ink);stroke-width:2}"
        ".chart .hit{fill:transparent;stroke:none}"
        f"{series}"
    )


def sheet() -> str:
    """For a drawing that stands alone: it follows the reader's preference."""
    dark = f"@media(prefers-color-scheme:dark){{.chart{{{variables(True)};background:var(--paper)}}}}"
    return f".chart{{{variables(False)};background:var(--paper)}}{dark}{rules()}"
