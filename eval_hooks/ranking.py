"""Boards out of entrants: who is ranked against whom, and who stands apart.

A row's score is the mean over the board's parts of its primary score beyond chance, (x - c) / (1 - c). Answers of other
task versions, splits, protocols or specs come to another board; those of further parts do not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from statistics import fmean, median
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
    """One board for each set of parts that somebody answered, with all who answered these, by these alone.

    Args:
        solved: what programs earned, by puzzle. Programs among the entrants get no board.

    Returns:
        Those with the most rows first. Who lacks parts of a board is named there, too.
    """
    kinds: dict[BoardKind, list[Entrant]] = {}
    for each in entrants:
        if each.protocol != OF_PROGRAMS:
            kinds.setdefault(_kind(each), []).append(each)
    made = [_board(kind, kinds, solved) for kind in kinds]
    return sorted(made, key=_place)


def _place(board: Board) -> tuple[Any, ...]:
    """Of alike ones the larger first, then the published protocol's, then that of the newest versions."""
    kind = board.kind
    names = [_natural(part.name) for part in kind.parts]
    versions = [-part.version for part in kind.parts]
    by_kind = (-len(kind.parts), names, kind.protocol != GREEDY.name, kind.protocol, kind.split, versions, kind)
    return -sum(row.kind == "run" for row in board.rows), *by_kind


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


def _has_all(kind: BoardKind, of: BoardKind) -> bool:
    """Whether its puzzles include those of the other, asked and scored alike."""
    return (kind.split, kind.protocol) == (of.split, of.protocol) and set(of.parts) <= set(kind.parts)


def _board(kind: BoardKind, kinds: Mapping[BoardKind, Sequence[Entrant]], solved: Solved) -> Board:
    own = _own(kind, kinds)
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


def _own(kind: BoardKind, kinds: Mapping[BoardKind, Sequence[Entrant]]) -> list[Entrant]:
    """Who answered a board's parts, by these parts alone.

    Of a checkpoint that is there twice, as its further parts were scored by two versions, or asked with other specs
    under the same name, the one with more answers.
    """
    found: dict[tuple[str, str, int | None], Entrant] = {}
    for other, entrants in kinds.items():
        for entrant in entrants if _has_all(other, kind) else ():
            cut = entrant._replace(parts={part.name: entrant.parts[part.name] for part in kind.parts})
            place = (cut.run, cut.model, cut.step)
            found[place] = max(found.get(place, cut), cut, key=_num_answers)
    return list(found.values())


def _num_answers(entrant: Entrant) -> int:
    return sum(map(len, entrant.parts.values()))


def _row(entrant: Entrant, chances: Mapping[str, Chance]) -> Row:
    parts = {
        name: part_result(answers[0].task, ((answer.key, answer.scores) for answer in answers), chances[name])
        for name, answers in entrant.parts.items()
    }
    keys = sorted({answer.key for answers in entrant.parts.values() for answer in answers})
    puzzles = blake2b(json.dumps(keys).encode(), digest_size=2).hexdigest()
    return Row("run", entrant.run, entrant.model, entrant.step, parts, over_parts(parts), puzzles)


def _best(rows: Sequence[Entrant], chances: Mapping[str, Chance]) -> set[int]:
    """The index of each run's best row; what has no step is no checkpoint, and each model has a best. The earlier step
    wins a tie.

    Rows are judged by the puzzles that all of the run's rows answered, where there are such in every part: a checkpoint
    that was lucky on few must not beat one that did well on many. Trials are left out, as they leave few to judge by.
    """
    runs: dict[tuple[str, str | None], list[int]] = {}
    for index, entrant in enumerate(rows):
        runs.setdefault((entrant.run, entrant.model if entrant.step is None else None), []).append(index)
    best = set()
    for indices in runs.values():
        keys = {index: _keys(rows[index]) for index in indices}
        indices = _no_trials(keys)
        common = {part: set.intersection(*(keys[index][part] for index in indices)) for part in chances}
        judged_by = common if all(common.values()) else None
        scores = {index: _score_on(judged_by, rows[index], chances) for index in indices}
        best.add(max(indices, key=lambda index: (scores[index], -(rows[index].step or 0))))
    return best


def _keys(entrant: Entrant) -> dict[str, set[str]]:
    return {part: {answer.key for answer in answers} for part, answers in entrant.parts.items()}


def _no_trials(keys: Mapping[int, Mapping[str, set[str]]]) -> list[int]:
    """The rows without those that have, in some part, fewer than a fifth of the median row's puzzles.

    Not of the most: a final evaluation has 250 where those of checkpoints have 32.
    """
    parts = next(iter(keys.values()))
    least = {part: median(len(own[part]) for own in keys.values()) / 5 for part in parts}
    kept = [index for index, own in keys.items() if all(len(own[part]) >= least[part] for part in parts)]
    return kept or list(keys)


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
        if other != kind and _has_all(kind, other):
            missing = ", ".join(part.name for part in kind.parts if part not in other.parts)
            for entrant in entrants:
                yield Apart(entrant.run, entrant.model, entrant.step, f"no records of part {missing}")
