"""Charts to SVG, by hand: the same text stands in the page and in a file of its own."""

from __future__ import annotations

from ...core.chart import Chart
from . import bars, colours, legend, points
from .paper import Paper, escape, fit

WIDE = 720.0
NARROW = 400.0
_DRAWERS = {
    "bar": bars.bars,
    "stack": bars.bars,
    "line": points.points,
    "scatter": points.points,
    "spread": bars.spreads,
}
_KINDS = {"bar": "Bars", "stack": "Stacked bars", "line": "Lines", "scatter": "Points", "spread": "Distributions"}


def draw(chart: Chart, *, wide: float = WIDE, alone: bool = False, name: str = "chart") -> str:
    """One drawing. `alone`: with its title, its own colours, and tooltips a browser shows without a script. `name` is
    the prefix of its identifiers: no two on a page may share one."""
    paper = Paper(wide, alone)
    top = 4.0
    if alone:
        paper.text(0, 16, fit(chart.title, wide, 14), "head")
        top = 28.0
    top = legend.keys(paper, chart, top)
    bottom = _DRAWERS[chart.kind](paper, chart, top + 4)
    for note in paper.notes:
        paper.text(0, bottom + 12, fit(note, wide), "soft")
        bottom += 18
    style = f"<style>{colours.sheet()}</style>" if alone else ""
    margin = 16 if alone else 2
    box = f"{-margin} {-margin if alone else 0} {wide + 2 * margin:g} {bottom + 4 + (2 * margin if alone else 0):.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="{box}" role="group" '
        f'aria-labelledby="{name}-t {name}-d" data-k="{escape(chart.title.lower())}">'
        f'<title id="{name}-t">{escape(chart.title)}</title><desc id="{name}-d">{escape(described(chart))}</desc>'
        f"{style}{''.join(paper.parts)}</svg>"
    )


def described(chart: Chart) -> str:
    """What is drawn, in words."""
    series = f"{len(chart.series)} series" if len(chart.series) != 1 else "one series"
    what = f"{chart.y.name}" if chart.kind == "spread" else f"{chart.y.name} against {chart.x.name}"
    return f"{_KINDS[chart.kind]}: {what}; {series}. The same values follow as a table."
