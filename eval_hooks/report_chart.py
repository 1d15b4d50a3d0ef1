"""Scores over parts as an SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from data_mix.document import escaped
from eval_hooks.intervals import Estimate
from eval_hooks.percent import percent

_LEFT, _RIGHT, _TOP, _HEIGHT, _BELOW = 44, 12, 12, 260, 34
_STEP = 140
_MOST_APART = 8.0
_COLORS = 7
_LABEL = 15
_SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "M-4 -4h8v8h-8z",
    "M0 -5L5 4H-5z",
    "M0 -5.5L5.5 0L0 5.5L-5.5 0z",
    "M0 5L5 -4H-5z",
)

STYLE = """
.chart { width: 100%; height: auto; font: 12px system-ui, sans-serif }
.chart text { fill: var(--dim) }
.chart .rule { stroke: var(--line) }
.chart path.line, .legend path.line { fill: none; stroke: currentColor; stroke-width: 1.5 }
.chart .run path.line, .legend .run path.line { stroke-width: 3 }
.guesser path.line { stroke-dasharray: 5 4 }
.published path.line { stroke-dasharray: 1.5 3 }
.chart .whisker { stroke: currentColor; stroke-width: 2 }
.chart .mark, .legend .mark { fill: currentColor; stroke: var(--paper); stroke-width: 1 }
.c0 { color: #0062b1 } .c1 { color: #6b7280 } .c2 { color: #c2410c } .c3 { color: #00805f } .c4 { color: #a0428a }
.c5 { color: #8a6d00 } .c6 { color: #0e7490 }
@media (prefers-color-scheme: dark) { .c0 { color: #6db6ff } .c1 { color: #a3abb5 } .c2 { color: #ff9b62 }
  .c3 { color: #3fd0a4 } .c4 { color: #e795d3 } .c5 { color: #e2c04b } .c6 { color: #5fd3e8 } }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .15rem 1.25rem; font-size: .85rem }
.legend li { display: flex; align-items: center; gap: .4rem }
.legend svg { flex: none }
.legend span { color: var(--ink) }
"""


class Series(NamedTuple):
    """One giver of scores."""

    name: str
    kind: str
    """run, guesser, program or published."""
    points: Sequence[Estimate | None]
    """By place; None where there is none."""


def curve(labels: Sequence[str], joined: Sequence[bool], series: Sequence[Series], what: str) -> str:
    """The chart and its legend, as HTML.

    Args:
        labels: of the places, left to right.
        joined: whether lines lead to a place from the one before.
        what: the chart told in words, for those who do not see it.
    """
    width = _LEFT + _STEP * len(labels) + _RIGHT
    rules = "".join(
        f'<line class="rule" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{_y(share):.1f}" y2="{_y(share):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{_y(share) + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    names = "".join(
        f'<text x="{_x(place):.1f}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{escaped(_short(label))}'
        f"<title>{escaped(label)}</title></text>"
        for place, label in enumerate(labels)
    )
    # the run is drawn last, above all others
    drawn = "".join(_drawn(at, one, joined, len(series)) for at, one in reversed(list(enumerate(series))))
    legend = "".join(
        f'<li class="{_class(at, one)}"><svg width="30" height="12" viewBox="-15 -6 30 12" aria-hidden="true">'
        f'<path class="line" d="M-15 0H15"/>{_mark(at, one, 0, 0)}</svg><span>{escaped(one.name)}</span></li>'
        for at, one in enumerate(series)
    )
    height = _TOP + _HEIGHT + _BELOW
    return (
        f'<div class="wide"><svg class="chart" style="min-width:{0.7 * width:.0f}px;max-width:{width}px" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(what)}">{rules}{names}{drawn}</svg></div>\n'
        f'<ul class="legend">{legend}</ul>\n'
    )


def _drawn(at: int, series: Series, joined: Sequence[bool], num_series: int) -> str:
    # side by side, so that equal scores do not hide each other
    apart = min(_MOST_APART, 0.6 * _STEP / num_series)
    shift = apart * (at - (num_series - 1) / 2)
    path, marks = "", []
    for place, point in enumerate(series.points):
        if point is None:
            continue
        x, y = _x(place) + shift, _y(point.mean)
        leads_here = joined[place] and series.points[place - 1] is not None
        path += f"{'L' if leads_here else 'M'}{x:.1f} {y:.1f}"
        if point.n:
            marks.append(
                f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" y1="{_y(point.low):.1f}" y2="{_y(point.high):.1f}"/>'
            )
        told = f"{series.name}: {percent(point.mean)} %"
        marks.append(f"<g>{_mark(at, series, x, y)}<title>{escaped(told)}</title></g>")
    return f'<g class="{_class(at, series)}"><path class="line" d="{path}"/>{"".join(marks)}</g>'


def _mark(at: int, series: Series, x: float, y: float) -> str:
    shape = _SHAPES[at % len(_SHAPES)]
    return f'<path class="mark" transform="translate({x:.1f} {y:.1f})" d="{shape}"/>'


def _class(at: int, series: Series) -> str:
    return f"{series.kind} c{1 + (at - 1) % (_COLORS - 1) if at else 0}"  # the first colour is the run's alone


def _short(label: str) -> str:
    return label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"


def _x(place: int) -> float:
    return _LEFT + _STEP * (place + 0.5)


def _y(share: float) -> float:
    return _TOP + _HEIGHT * (1 - min(1.0, max(0.0, share)))
