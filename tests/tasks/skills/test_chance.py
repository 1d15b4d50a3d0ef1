"""What the best answer that ignores the sheet earns: simulated, and counted by hand."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tasks import TASKS

NUM_PUZZLES = 2000
CASES = [
    (name, grid, shape)
    for name in ("piece_edges", "piece_kind", "piece_cell", "pieces_fit", "piece_right")
    for grid in (2, 3, 4, 5)
    for shape in (True, False)
    if (shape or name not in ("piece_edges", "piece_kind")) and not (name == "piece_kind" and grid == 2)
]


def guess(name, rng, puzzle):
    """An answer from the prompt alone, as good as any."""
    grid, pieces = puzzle.spec.puzzle.grid, puzzle.target["asked"]["pieces"]
    if name == "piece_edges":
        return ["flat", "tab", "blank", "flat"] if grid <= 3 else ["tab", "blank", "blank", "tab"]
    if name == "piece_right":
        return int(rng.choice([piece for piece in range(grid**2) if piece not in pieces]))
    if name == "piece_cell":
        return rng.integers(grid, size=2).tolist()
    return str(rng.choice(["corner", "border", "interior"] if name == "piece_kind" else ["yes", "no"]))


@pytest.mark.parametrize(("name", "grid", "shape"), CASES)
def test_expectations_agree_with_simulated_guessers(name, grid, shape, make_photo):
    task, photo, rng = TASKS[name], make_photo(8, 8), np.random.default_rng(5)
    spec = task.Spec(puzzle={"grid": grid, "shape": shape})
    puzzles = [task.pose(spec, photo, seed) for seed in range(NUM_PUZZLES)]
    scores = [task.score(guess(name, rng, puzzle), puzzle.target) for puzzle in puzzles]
    for entry, value in task.chance(spec)["random"].items():
        sample = np.array([score[entry] for score in scores])
        assert abs(sample.mean() - value) <= 4 * sample.std() / NUM_PUZZLES**0.5 + 1e-9, entry


def edge_law(grid):
    """Probability of each four edges of a piece in any place, its edges within the picture tab or blank by a coin."""
    law = Counter()
    for row, column in product(range(grid), repeat=2):
        outer = (row == 0, column == grid - 1, row == grid - 1, column == 0)
        choices = list(product(*(["flat"] if flat else ["tab", "blank"] for flat in outer)))
        for edges in choices:
            law[edges] += Fraction(1, grid**2 * len(choices))
    return law


@pytest.mark.parametrize("grid", range(2, 33))
def test_no_four_edges_are_likelier_than_those_that_count_as_chance(grid):
    law = edge_law(grid)
    share = {
        answer: sum(p * sum(a == b for a, b in zip(answer, edges, strict=True)) for edges, p in law.items()) / 4
        for answer in law
    }
    best = max(law, key=lambda answer: (law[answer], share[answer]))
    task = TASKS["piece_edges"]
    random = task.chance(task.Spec(puzzle={"grid": grid}))["random"]
    assert random["correct"] == pytest.approx(float(law[best]), rel=1e-12)
    assert random["edges"] == pytest.approx(float(share[best]), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "grid", "correct"),
    [
        ("piece_edges", 2, 1 / 16), ("piece_edges", 4, 1 / 64), ("piece_edges", 8, 9 / 256), ("piece_kind", 4, 1 / 3),
        ("piece_cell", 4, 1 / 16), ("pieces_fit", 4, 1 / 2), ("piece_right", 4, 1 / 15),
    ],
)  # fmt: skip
def test_chance_is_what_counting_by_hand_says(name, grid, correct):
    task = TASKS[name]
    assert task.chance(task.Spec(puzzle={"grid": grid}))["random"]["correct"] == pytest.approx(correct)


@pytest.mark.parametrize("name", ["piece_edges", "piece_kind", "piece_cell", "pieces_fit", "piece_right"])
def test_what_is_asked_about_does_not_tell_the_answer(name, make_photo):
    """The best answer to each question, learnt from half of the puzzles, earns no more than chance on the others."""
    task, photo = TASKS[name], make_photo(8, 8)
    spec = task.Spec(puzzle={"grid": 3})
    targets = [task.pose(spec, photo, seed).target for seed in range(2 * NUM_PUZZLES)]
    seen = {}
    for target in targets[:NUM_PUZZLES]:
        seen.setdefault(str(target["asked"]), Counter())[task.gold(target)] += 1
    earned = [
        task.score(task.parse(seen[str(target["asked"])].most_common(1)[0][0], spec), target)["correct"]
        for target in targets[NUM_PUZZLES:]
        if str(target["asked"]) in seen
    ]
    chance = task.chance(spec)["random"]["correct"]
    assert len(earned) > NUM_PUZZLES / 2
    assert np.mean(earned) <= chance + 4 * np.std(earned) / len(earned) ** 0.5
