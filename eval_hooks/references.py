"""Rows that stand on a board without a rank: guessers, programs that have learnt nothing, published figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eval_hooks.board import BoardKind, Chance, PartResult, Row, over_parts, part_result, result_of
from eval_hooks.intervals import Estimate
from eval_hooks.published import published
from eval_hooks.summary import Solved
from tasks import TASKS

Asked = Mapping[str, Mapping[str, str]]
"""Part -> key of each puzzle that a row of the board answered -> its spec, as JSON."""


def references(kind: BoardKind, asked: Asked, chances: Mapping[str, Chance], solved: Solved) -> list[Row]:
    """All references of a board that have a mean on one of its parts.

    Args:
        chances: part -> what guessers earn there.
        solved: what programs earned, by puzzle.
    """
    return [*_guessers(kind, chances), *_programs(kind, asked, chances, solved), *_published(kind, chances)]


def _guessers(kind: BoardKind, chances: Mapping[str, Chance]) -> Iterator[Row]:
    for guesser in dict.fromkeys(guesser for chance in chances.values() for guesser in chance):
        parts = {
            part.name: result_of(part.task, _exactly(chances[part.name][guesser]), chances[part.name])
            for part in kind.parts
            if guesser in chances[part.name]
        }
        yield Row("guesser", "", guesser, None, parts, over_parts(parts))


def _programs(kind: BoardKind, asked: Asked, chances: Mapping[str, Chance], solved: Solved) -> Iterator[Row]:
    for program in dict.fromkeys(program for part in kind.parts for program in TASKS[part.task].solvers):
        parts: dict[str, PartResult] = {}
        lacking = []
        for part in kind.parts:
            keys, primary = asked[part.name], TASKS[part.task].primary
            scored = [(key, own) for key in keys if primary in (own := solved.get((program, key), {}))]
            if len(scored) == len(keys):
                parts[part.name] = part_result(part.task, scored, chances[part.name])
            elif scored:
                lacking.append(f"{part.name}: {len(scored)} of {len(keys)} puzzles solved so far")
        if parts:
            yield Row("program", "", program, None, parts, over_parts(parts), note="; ".join(lacking))


def _published(kind: BoardKind, chances: Mapping[str, Chance]) -> Iterator[Row]:
    models: dict[str, dict[str, PartResult]] = {}
    sources: dict[str, str] = {}
    for part in kind.parts:
        specs = [TASKS[part.task].Spec.model_validate_json(spec) for spec in part.specs]
        for model, figure in published(part.task, specs, kind.protocol).items():
            result = result_of(part.task, _exactly(figure.means), chances[part.name])
            models.setdefault(model, {})[part.name] = result
            sources[model] = figure.source
    for model, parts in models.items():
        yield Row("published", "", model, None, parts, over_parts(parts), note=sources[model])


def _exactly(means: Mapping[str, float]) -> dict[str, Estimate]:
    """Means without an interval."""
    return {entry: Estimate(mean, mean, mean, 0) for entry, mean in means.items()}
