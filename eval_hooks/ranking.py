"""Boards out of entrants: who is ranked against whom, and who stands apart.

A row's score is the mean over the board's parts of its primary score beyond chance, (x - c) / (1 - c). Answers of other
task versions, splits, protocols, parts or specs come to another board.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from statistics import fmean
from typing import Any

from eval_hooks.baselines import PROTOCOL as OF_PROGRAMS
from eval_hooks.board import (
    CHANCE,
    Apart,
    Board,
    BoardKind,
    Chance,
    PartKind,
    Row,
    chance_of,
    over_parts,
    part_result,
)
from eval_hooks.intervals import beyond_chance
from eval_hooks.protocol import GREEDY
from eval_hooks.references import references
from eval_hooks.run_records import Entrant
from eval_hooks.summary import Solved
from tasks import TASKS


def boards(entrants: Iterable[Entrant], solved: Solved) -> list[Board]:
    """One board for each set of parts that somebody answered; who lacks parts of a larger one is named there, too.

    Args:
        solved: what programs earned, by puzzle. Programs among the entrants get no board.
    """
    kinds: dict[BoardKind, list[Entrant]] = {}
    for each in entrants:
        if each.protocol != OF_PROGRAMS:
            kinds.setdefault(_kind(each), []).append(each)
    return [_board(kind, kinds, solved) for kind in sorted(kinds, key=_place)]


def _place(kind: BoardKind) -> tuple[Any, ...]:
    """Large boards first, of alike ones the published protocol's, then that of the newest versions."""
    names = [_natural(part.name) for part in kind.parts]
    versions = [-part.version for part in kind.parts]
    return -len(kind.parts), names, kind.protocol != GREEDY.name, kind.protocol, kind.split, versions, kind


def _natural(name: str) -> list[tuple[int, str]]:
    """Puts 4x4 before 12x12."""
    return [(len(piece) if piece.isdigit() else 0, piece) for piece in re.split(r"(\d+)", name)]


def _kind(entrant: Entrant) -> BoardKind:
    parts = [
        PartKind(name, answers[0].task, answers[0].version, tuple(sorted({answer.spec for answer in answers})))
        for name, answers in entrant.parts.items()
    ]
    parts.sort(key=lambda part: _natural(part.name))
    return BoardKind(entrant.split, entrant.protocol, tuple(parts))


def _board(kind: BoardKind, kinds: Mapping[BoardKind, Sequence[Entrant]], solved: Solved) -> Board:
    own = kinds[kind]
    asked = {
        part.name: {answer.key: answer.spec for entrant in own for answer in entrant.parts[part.name]}
        for part in kind.parts
    }
    chances = {part.name: chance_of(part.task, asked[part.name].values()) for part in kind.parts}
    best = _best(own, chances)
    rows = [replace(_row(entrant, chances), best=index in best) for index, entrant in enumerate(own)]
    guessers = tuple(dict.fromkeys(guesser for chance in chances.values() for guesser in chance))
    board = Board(kind, guessers, (), tuple(_apart(kind, kinds)))

    def value(row: Row) -> float:
        score = board.score(row)
        return float("-inf") if score is None else score.mean

    above = sorted(map(value, rows), reverse=True)
    ranked = [replace(row, rank=1 + above.index(value(row))) for row in rows]
    ranked.sort(key=lambda row: (row.rank, row.run, row.step or 0, row.model))
    # on a tie a reference comes first: it is what a run must beat
    placed = sorted([*references(kind, asked, chances, solved), *ranked], key=value, reverse=True)
    return replace(board, rows=tuple(placed))


def _row(entrant: Entrant, chances: Mapping[str, Chance]) -> Row:
    parts = {
        name: part_result(answers[0].task, ((answer.key, answer.scores) for answer in answers), chances[name])
        for name, answers in entrant.parts.items()
    }
    keys = sorted({answer.key for answers in entrant.parts.values() for answer in answers})
    puzzles = blake2b(json.dumps(keys).encode(), digest_size=2).hexdigest()
    return Row("run", entrant.run, entrant.model, entrant.step, parts, over_parts(parts), puzzles)


def _best(rows: Sequence[Entrant], chances: Mapping[str, Chance]) -> set[int]:
    """The index of each run's best row. The earlier step wins a tie.

    Rows are judged by the puzzles that all of the run's rows answered, where there are such in every part: a checkpoint
    that was lucky on few must not beat one that did well on many.
    """
    runs: dict[str, list[int]] = {}
    for index, entrant in enumerate(rows):
        runs.setdefault(entrant.run, []).append(index)
    best = set()
    for indices in runs.values():
        keys = {
            part: set.intersection(*({answer.key for answer in rows[index].parts[part]} for index in indices))
            for part in rows[indices[0]].parts
        }
        common = keys if all(keys.values()) else None
        scores = {index: _score_on(common, rows[index], chances) for index in indices}
        best.add(max(indices, key=lambda index: (scores[index], -(rows[index].step or 0))))
    return best


def _score_on(keys: Mapping[str, set[str]] | None, entrant: Entrant, chances: Mapping[str, Chance]) -> float:
    """The score on these puzzles of each part; on all for None."""
    scores = []
    for part, answers in entrant.parts.items():
        primary = TASKS[answers[0].task].primary
        mean = fmean(answer.scores[primary] for answer in answers if keys is None or answer.key in keys[part])
        scores.append(beyond_chance(mean, chances[part][CHANCE][primary]))
    return fmean(score or 0.0 for score in scores)


def _apart(kind: BoardKind, kinds: Mapping[BoardKind, Sequence[Entrant]]) -> Iterator[Apart]:
    for other, entrants in kinds.items():
        if (other.split, other.protocol) == (kind.split, kind.protocol) and set(other.parts) < set(kind.parts):
            missing = ", ".join(part.name for part in kind.parts if part not in other.parts)
            for entrant in entrants:
                yield Apart(entrant.run, entrant.model, entrant.step, f"no records of part {missing}")
