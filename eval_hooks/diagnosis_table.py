"""Aggregated diagnoses for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from eval_hooks.aggregate import DISPLACEMENT, Aggregate, Said
from eval_hooks.percent import percent
from eval_hooks.records import printable
from recipes.text_table import aligned

_WIDTH = 120


def table(task: str, primary: str, parts: Mapping[str, Aggregate]) -> str:
    """The parts of one task as rows, what is stated as columns, in lines of at most 120 characters.

    A column of % is a mean (of rows of true and false over all places; of displacements the share in place), one of
    "each" the mean number per answer. Texts follow below, with the answers' mean primary score where it is not 0.
    """
    names = dict.fromkeys(name for said in parts.values() for name in said.counts)
    columns = [column for name in names if (column := _column(name, list(parts.values())))]
    answers = ["", "n", "", *(str(said.n) for said in parts.values())]
    first = ["", task, "", *parts]
    texts = [line for part, said in parts.items() for line in _texts(part, said, primary)]
    return "\n".join([*_wrapped(first, [answers, *columns]), *texts])


def _column(name: str, parts: Sequence[Aggregate]) -> list[str] | None:
    """Three lines of heading, the last one the unit, and a cell for each part; None where no part has a number."""
    lengths = [said.lengths.get(name) for said in parts]
    if any(length is not None for length in lengths):
        return [*_heading(name), "each", *("-" if length is None else f"{length:.2f}" for length in lengths)]
    shares = [_share(name, said) for said in parts]
    if all(share is None for share in shares):
        return None
    return [*_heading(name), "%", *("-" if share is None else percent(share) for share in shares)]


def _share(name: str, said: Aggregate) -> float | None:
    if name == DISPLACEMENT:
        return said.in_place
    if name in said.grids:
        return fmean(share for row in said.grids[name] for share in row)
    return said.shares.get(name)


def _heading(name: str) -> list[str]:
    upper, _, lower = ("in_place" if name == DISPLACEMENT else name).partition("_")
    return [upper, lower] if lower else ["", upper]


def _wrapped(first: list[str], columns: Sequence[list[str]]) -> list[str]:
    """The columns beside the first one, in as many tables below each other as they need."""
    lines: list[str] = []
    rest = list(columns)
    while rest:
        fitting = len(rest)
        while fitting > 1 and _width([first, *rest[:fitting]]) > _WIDTH:
            fitting -= 1
        rows = [row for row in zip(first, *rest[:fitting], strict=True) if any(row)]
        lines += [*([""] if lines else []), *aligned(rows).splitlines()]
        rest = rest[fitting:]
    return lines


def _width(columns: Iterable[list[str]]) -> int:
    return sum(max(map(len, column)) + 1 for column in columns) - 1


def _texts(part: str, aggregated: Aggregate, primary: str) -> list[str]:
    lines: list[str] = []
    for name, said in aggregated.texts.items():
        scored = any(each.score for each in said.values())
        told = ", ".join(f"{printable(text)} {_told(each, scored)}" for text, each in said.items())
        line = f"{part} {name}{f' ({primary}, %)' if scored else ''}: {told}"
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def _told(said: Said, scored: bool) -> str:
    return f"{said.count} ({percent(said.score)})" if scored else str(said.count)
