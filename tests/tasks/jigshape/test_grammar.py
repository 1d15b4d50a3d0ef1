import itertools

import numpy as np
import pytest

from tasks.contract import Invalid
from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec

FORMATS = ("by_id", "by_cell", "cells_then_ids")
CLUES = [
    {"grid": 3, "clues": 6},
    {"grid": 3, "clues": 6, "repeat_clues": False},
    {"grid": 3, "clues": 5, "answer_format": "by_cell", "clue_layout": "block"},
    {"grid": 3, "clues": 5, "answer_format": "cells_then_ids"},
    {"grid": 8, "clues": 60, "clue_layout": "block"},
]


def every_text(grammar, written=""):
    """All that a grammar allows."""
    options = grammar.options(written)
    if not options:
        yield written
    for option in options:
        yield from every_text(grammar, written + option)


def walk(grammar, choose):
    """A complete text, and the options at each step."""
    text, steps = "", []
    while options := grammar.options(text):
        steps.append(options)
        text += choose(options)
    return text, steps


@pytest.mark.parametrize("answer_format", FORMATS)
def test_the_grammar_allows_the_reference_answers_of_all_bijections_and_nothing_else(answer_format):
    spec = Spec(grid=2, answer_format=answer_format)
    target = {"answer_format": answer_format, "grid": 2}
    cells = [[0, 0], [0, 1], [1, 0], [1, 1]]
    golds = [TASK.gold({**target, "cells": list(order)}) for order in itertools.permutations(cells)]
    assert sorted(every_text(TASK.grammar(spec, {}))) == sorted(golds)


@pytest.mark.parametrize("fields", CLUES, ids=str)
def test_with_clues_it_allows_every_arrangement_of_the_other_pieces(pose, fields):
    puzzle = pose(seed=3, **fields)
    texts = list(every_text(TASK.grammar(puzzle.spec, puzzle.target["asked"])))
    cells, given = puzzle.target["cells"], puzzle.target["clues"]
    others = [index for index in range(len(cells)) if index not in given]
    golds = []
    for order in itertools.permutations([cells[index] for index in others]):
        moved = dict(zip(others, order, strict=True))
        arranged = [moved.get(index, cell) for index, cell in enumerate(cells)]
        golds.append(TASK.gold({**puzzle.target, "cells": arranged}))
    assert sorted(texts) == sorted(golds)


@pytest.mark.parametrize("answer_format", FORMATS)
@pytest.mark.parametrize("grid", [3, 8, 16])
def test_choosing_at_random_ends_in_a_bijection(grid, answer_format):
    spec, rng = Spec(grid=grid, answer_format=answer_format), np.random.default_rng(grid)
    text, _ = walk(TASK.grammar(spec, {}), lambda options: options[rng.integers(len(options))])
    answer = TASK.parse(text, spec)
    assert not isinstance(answer, Invalid)
    assert TASK.gold({"answer_format": answer_format, "grid": grid, "cells": answer}) == text


def test_hints_change_nothing(pose):
    hinted = pose(grid=4, hints="color")
    assert hinted.target["asked"]
    grammars = [TASK.grammar(hinted.spec, hinted.target["asked"]), TASK.grammar(Spec(grid=4), {})]
    first, second = (walk(grammar, lambda options: options[-1]) for grammar in grammars)
    assert first == second


def test_the_last_cell_of_a_row_and_the_last_row_are_no_choice():
    _, steps = walk(TASK.grammar(Spec(grid=8), {}), lambda options: options[0])
    assert sum(len(options) > 1 for options in steps) == 7 * 8 + 8 * 7  # columns of each row; rows but the last


def test_at_most_119_steps_of_an_8x8_are_choices():
    rng, spec = np.random.default_rng(0), Spec(grid=8)
    choices = []
    for _ in range(30):
        _, steps = walk(TASK.grammar(spec, {}), lambda options: options[rng.integers(len(options))])
        choices.append(sum(len(options) > 1 for options in steps))
    assert max(choices) == 119


@pytest.mark.parametrize("answer_format", ["by_cell", "cells_then_ids"])
def test_rows_of_ids_leave_a_choice_for_each_cell_but_the_last(answer_format):
    spec = Spec(grid=8, answer_format=answer_format)
    _, steps = walk(TASK.grammar(spec, {}), lambda options: options[0])
    assert [len(options) for options in steps if len(options) > 1] == list(range(64, 1, -1))
