"""Boards out of answers: who is ranked against whom, and who stands apart.

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
from eval_hooks.records import Record
from eval_hooks.references import references
from eval_hooks.run_records import Answers, spec_of
from eval_hooks.summary import Solved
from tasks import TASKS


def boards(answers: Iterable[Answers], solved: Solved) -> list[Board]:
    """One board for each set of parts that somebody answered; who lacks parts of a larger one is named there, too.

    Args:
        solved: what programs earned, by puzzle. Programs among the answers get no board.
    """
    kinds: dict[BoardKind, list[Answers]] = {}
    for each in answers:
        if each.protocol != OF_PROGRAMS:
            kinds.setdefault(_kind(each), []).append(each)
    return [_board(kind, kinds, solved) for kind in sorted(kinds, key=_place)]


def _place(kind: BoardKind) -> tuple[Any, ...]:
    """Large boards first, of alike ones that of the newest versions."""
    names = [_natural(part.name) for part in kind.parts]
    return -len(kind.parts), names, kind.protocol, kind.split, [-part.version for part in kind.parts], kind


def _natural(name: str) -> list[tuple[int, str]]:
    """Puts 4x4 before 12x12."""
    return [(len(piece) if piece.isdigit() else 0, piece) for piece in re.split(r"(\d+)", name)]


def _kind(answers: Answers) -> BoardKind:
    parts = []
    for name, records in answers.parts.items():
        specs = {json.dumps(record.spec, sort_keys=True): spec_of(record) for record in records}
        texts = sorted({json.dumps(spec.model_dump(mode="json"), sort_keys=True) for spec in specs.values()})
        parts.append(PartKind(name, records[0].task, records[0].version, tuple(texts)))
    return BoardKind(
        answers.split, answers.protocol, tuple(sorted(parts, key=lambda part: (_natural(part.name), part)))
    )


def _board(kind: BoardKind, kinds: Mapping[BoardKind, Sequence[Answers]], solved: Solved) -> Board:
    own = kinds[kind]
    asked: dict[str, dict[str, Record]] = {part.name: {} for part in kind.parts}
    for answers in own:
        for part, records in answers.parts.items():
            asked[part] |= {record.key: record for record in records}
    chances = {part: chance_of(list(records.values())) for part, records in asked.items()}
    best = _best(own, chances)
    rows = [replace(_row(answers, chances), best=index in best) for index, answers in enumerate(own)]
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


def _row(answers: Answers, chances: Mapping[str, Chance]) -> Row:
    parts = {}
    for name, records in answers.parts.items():
        scored = ((record.key, record.scores) for record in records)
        parts[name] = part_result(records[0].task, scored, chances[name])
    keys = sorted({record.key for records in answers.parts.values() for record in records})
    puzzles = blake2b(json.dumps(keys).encode(), digest_size=2).hexdigest()
    return Row("run", answers.run, answers.model, answers.step, parts, over_parts(parts), puzzles)


def _best(rows: Sequence[Answers], chances: Mapping[str, Chance]) -> set[int]:
    """The index of each run's best row. The earlier step wins a tie.

    Rows are judged by the puzzles that all of the run's rows answered, where there are such in every part: a checkpoint
    that was lucky on few must not beat one that did well on many.
    """
    runs: dict[str, list[int]] = {}
    for index, answers in enumerate(rows):
        runs.setdefault(answers.run, []).append(index)
    best = set()
    for indices in runs.values():
        keys = {
            part: set.intersection(*({record.key for record in rows[index].parts[part]} for index in indices))
            for part in rows[indices[0]].parts
        }
        common = keys if all(keys.values()) else None
        scores = {index: _score_on(common, rows[index], chances) for index in indices}
        best.add(max(indices, key=lambda index: (scores[index], -(rows[index].step or 0))))
    return best


def _score_on(keys: Mapping[str, set[str]] | None, answers: Answers, chances: Mapping[str, Chance]) -> float:
    """The score on these puzzles of each part; on all for None."""
    scores = []
    for part, records in answers.parts.items():
        primary = TASKS[records[0].task].primary
        mean = fmean(record.scores[primary] for record in records if keys is None or record.key in keys[part])
        scores.append(beyond_chance(mean, chances[part][CHANCE][primary]))
    return fmean(score or 0.0 for score in scores)


def _apart(kind: BoardKind, kinds: Mapping[BoardKind, Sequence[Answers]]) -> Iterator[Apart]:
    for other, rows in kinds.items():
        if (other.split, other.protocol) == (kind.split, kind.protocol) and set(other.parts) < set(kind.parts):
            missing = ", ".join(part.name for part in kind.parts if part not in other.parts)
            for answers in rows:
                yield Apart(answers.run, answers.model, answers.step, f"no records of part {missing}")
