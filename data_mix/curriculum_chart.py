"""The parts' shares over a run's steps, drawn as one SVG file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from data_mix.document import escaped
from data_mix.phases import Phase

_LEFT, _TOP, _WIDTH, _HEIGHT, _BELOW, _ROW = 50, 12, 720, 220, 40, 18
_COLORS = ("#0062b1", "#c2410c", "#00805f", "#a0428a", "#8a6d00", "#0e7490", "#6b7280")
_PAPER, _INK, _LINE = "#fff", "#1b1f24", "#d0d7de"


def shares_chart(phases: Sequence[Phase], parts: Sequence[str], steps: int) -> str:
    """Stacked shares from the first step to the last, with a legend.

    Args:
        phases: as far as they are decided; the last one is drawn to the end.
        parts: bottom to top.
        steps: of the run, so far or in all; at least 1.
    """
    areas = []
    shown = [phase for phase in phases if phase.start < steps]
    for phase, end in zip(shown, [*(after.start for _, after in pairwise(shown)), steps], strict=True):
        base, total = 0.0, sum(phase.shares.values())
        for at, part in enumerate(parts):
            share = phase.shares.get(part, 0.0) / total
            base += share
            if share:
                left, width = _x(phase.start, steps), _x(end, steps) - _x(phase.start, steps)
                told = escaped(f"steps {phase.start} to {end - 1}: {part} {100 * share:.1f} %")
                areas.append(
                    f'<rect x="{left:.2f}" y="{_y(base):.2f}" width="{width:.2f}" height="{share * _HEIGHT:.2f}" '
                    f'fill="{_COLORS[at % len(_COLORS)]}"><title>{told}</title></rect>'
                )
    rules = "".join(
        f'<line x1="{_LEFT - 4}" x2="{_LEFT}" y1="{_y(share):.1f}" y2="{_y(share):.1f}" stroke="{_LINE}"/>'
        f'<text x="{_LEFT - 7}" y="{_y(share) + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    bottom = _TOP + _HEIGHT + 16
    ends = (
        f'<text x="{_LEFT}" y="{bottom}">step 0</text>'
        f'<text x="{_LEFT + _WIDTH}" y="{bottom}" text-anchor="end">{steps}</text>'
    )
    legend = "".join(
        f'<rect x="{_LEFT}" y="{_TOP + _HEIGHT + _BELOW + at * _ROW - 10}" width="12" height="12" '
        f'fill="{_COLORS[(len(parts) - 1 - at) % len(_COLORS)]}"/>'
        f'<text x="{_LEFT + 18}" y="{_TOP + _HEIGHT + _BELOW + at * _ROW}">{escaped(part)}</text>'
        for at, part in enumerate(reversed(parts))
    )
    width, height = _LEFT + _WIDTH + 12, _TOP + _HEIGHT + _BELOW + len(parts) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}" role="img" '
        f'aria-label="Shares of {escaped(", ".join(parts))} over {steps} steps">'
        f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>{rules}{"".join(areas)}{ends}{legend}</svg>\n'
    )


def _x(step: float, steps: int) -> float:
    return _LEFT + _WIDTH * step / steps


def _y(share: float) -> float:
    return _TOP + _HEIGHT * (1 - share)
