"""Degenerate answers do what their names say."""

import numpy as np
import pytest

from tasks.contract import Invalid
from tasks.jigshape import TASK


def scored(pose, grid, seed=0, **fields):
    """{what it does: scores} of the degenerate answers of one puzzle; None for an invalid one."""
    puzzle = pose(grid, seed, **fields)
    texts = TASK.degenerate(puzzle.target, np.random.default_rng(seed))
    answers = {name: TASK.parse(text, puzzle.spec) for name, text in texts.items()}
    return {
        name: None if isinstance(answer, Invalid) else TASK.score(answer, puzzle.target)
        for name, answer in answers.items()
    }


@pytest.mark.parametrize("answer_format", ["by_id", "by_cell", "cells_then_ids"])
@pytest.mark.parametrize("grid", [2, 4, 8])
def test_each_answer_games_what_it_is_named_after(pose, grid, answer_format):
    found = scored(pose, grid, answer_format=answer_format)
    assert [name for name, scores in found.items() if scores is None] == ["two cells", "said twice"]
    assert found["mirrored"]["aa"] == 1
    assert found["mirrored"]["pa"] == 0
    assert found["shifted"]["pa"] == 0
    assert found["shifted"]["aa_oriented"] >= (2 * grid - 3) / (2 * grid - 2) - 1e-12 or grid == 2
    assert found["edges fit"]["sc"] == 1
    assert found["flats only"]["pa_corner"] == 1


def test_where_all_edges_fit_few_pieces_are_right_on_large_grids(pose):
    assert np.mean([scored(pose, 8, seed)["edges fit"]["pa"] for seed in range(8)]) < 0.2
    assert np.mean([scored(pose, 16, seed)["edges fit"]["pa"] for seed in range(3)]) < 0.05


@pytest.mark.parametrize("clued", [{}, {"clues": 6}, {"clues": 6, "repeat_clues": False}])
@pytest.mark.parametrize("guesser", ["random", "flats only"])
def test_guessers_earn_what_chance_says(pose, guesser, clued):
    earned = [scored(pose, 4, seed, **clued)[guesser]["pa"] for seed in range(400)]
    expected = TASK.chance(pose(4, 0, **clued).spec)[guesser]["pa"]
    assert abs(np.mean(earned) - expected) < 4 * np.std(earned) / len(earned) ** 0.5


def test_without_edges_none_is_said_to_read_them(pose):
    assert {"flats only", "edges fit"} & scored(pose, 4, shape=False).keys() == set()
    puzzle = pose(4)
    unknown = {name: value for name, value in puzzle.target.items() if name != "signatures"}
    assert "edges fit" not in TASK.degenerate(unknown, np.random.default_rng(0))


def test_a_partly_right_answer_has_the_asked_share_and_chance_of_the_rest(pose):
    puzzles = [pose(8, seed) for seed in range(100)]
    rng = np.random.default_rng(0)
    texts = [TASK.partly_right(puzzle.target, 0.3, rng) for puzzle in puzzles]
    earned = [
        TASK.score(TASK.parse(text, puzzle.spec), puzzle.target)["pa"]
        for text, puzzle in zip(texts, puzzles, strict=True)
    ]
    assert min(earned) >= 19 / 64
    assert abs(np.mean(earned) - 20 / 64) < 4 * np.std(earned) / 10  # of the 45 others one is right on average
