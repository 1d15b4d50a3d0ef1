"""Programs that have learnt nothing, at work on a mixture's puzzles in several processes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from data_mix.mixture import Mixture
from data_mix.workers import in_processes


class Solved(NamedTuple):
    """A program's completion of a puzzle."""

    position: int
    """Of the puzzle in the mixture."""
    program: str
    text: str | None
    """None: the program has nothing to work on."""
    seconds: float


def solve_in_processes(mixture: Mixture, asked: Sequence[tuple[int, str]], num_workers: int) -> Iterator[Solved]:
    """What each asked program (position, name) answers, each as soon as it is done.

    Raises:
        ValueError: a worker was ended from outside, or a photo is gone.
    """
    for (position, program), (text, seconds) in in_processes(_solve, mixture, asked, num_workers):
        yield Solved(position, program, text, seconds)


def _solve(mixture: Mixture, asked: tuple[int, str]) -> tuple[str | None, float]:
    position, program = asked
    posed = mixture[position]
    started = time.perf_counter()
    return posed.task.solvers[program](posed.puzzle, posed.photo), time.perf_counter() - started
