"""Programs on posed puzzles: what they answer, and what they say of a puzzle."""

import json

import numpy as np
import pytest
import skimage
from PIL import Image

from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec
from tasks.photo import ImagePhoto

SMALL = {"piece_px": 32, "tab_ratio": 0.3}


@pytest.fixture(scope="module")
def photo():
    return ImagePhoto(Image.fromarray(skimage.data.chelsea()))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"answer_format": "by_cell"},
        {"input": "pieces", "answer_format": "cells_then_ids"},
        {"noise": 60.0, "bars": 9, "jpeg_quality": 5, "sheet_scale": 0.3},
        {"shape": False},
        {"clues": 5, "repeat_clues": False},
    ],
    ids=str,
)
def test_the_joint_solver_answers_in_the_puzzles_own_format(photo, fields):
    puzzle = TASK.pose(Spec(grid=4, **SMALL, **fields), photo, 2)
    answer = TASK.parse(TASK.solvers["joint solver"](puzzle, photo), puzzle.spec)
    assert TASK.score(answer, puzzle.target)["em"] == 1


def test_the_vision_free_solver_fits_all_edges_and_nothing_more(photo):
    scores = []
    for seed in range(60):
        puzzle = TASK.pose(Spec(grid=4, **SMALL), photo, seed)
        answer = TASK.parse(TASK.solvers["vision-free solver"](puzzle, photo), puzzle.spec)
        scores.append(TASK.score(answer, puzzle.target))
    assert all(score["sc"] == 1 for score in scores)
    assert 0.4 < np.mean([score["em"] for score in scores]) < 0.8  # 60.6 % expected


def test_without_shape_there_is_nothing_to_solve_without_vision(photo):
    puzzle = TASK.pose(Spec(grid=4, shape=False, **SMALL), photo, 0)
    assert TASK.solvers["vision-free solver"](puzzle, photo) is None


def test_what_holds_for_a_puzzle_is_said_in_booleans(photo):
    holds = TASK.certificate(TASK.pose(Spec(grid=3, **SMALL), photo, 1), photo)
    assert json.loads(json.dumps(holds)) == holds
    assert {name for name, value in holds.items() if value} == {"certified", "unique by edges"}
    black = ImagePhoto(Image.new("RGB", (100, 100)))
    holds = TASK.certificate(TASK.pose(Spec(grid=8, **SMALL), black, 1), black)
    assert {name for name, value in holds.items() if value} == {"twins", "ambiguous", "clipped"}
