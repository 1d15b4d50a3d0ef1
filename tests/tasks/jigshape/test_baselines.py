from fractions import Fraction

import numpy as np
import pytest

from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec

NUM_PUZZLES = 1500


def random_guess(rng, puzzle):
    grid = puzzle.spec.grid
    return np.stack(np.divmod(rng.permutation(grid**2), grid), axis=1).tolist()


def flats_only_guess(rng, puzzle):
    """Shuffles the pieces among the cells that have the same sides on the outer border."""
    last = puzzle.spec.grid - 1
    ids, cells = {}, {}
    for i, sides in enumerate(puzzle.target["signatures"]):
        ids.setdefault(tuple(side == 0 for side in sides), []).append(i)
    for row in range(last + 1):
        for column in range(last + 1):
            cells.setdefault((row == 0, column == last, row == last, column == 0), []).append([row, column])
    answer = [None] * len(puzzle.target["cells"])
    for kind, members in ids.items():
        for i, choice in zip(members, rng.permutation(len(members)), strict=True):
            answer[i] = cells[kind][choice]
    return answer


@pytest.mark.parametrize(("row", "guess"), [("random", random_guess), ("flats only", flats_only_guess)])
@pytest.mark.parametrize("grid", [2, 3, 4, 5, 8])
def test_expectations_agree_with_simulated_guessers(pose, grid, row, guess):
    rng = np.random.default_rng(11)
    expected = TASK.chance(Spec(grid=grid))[row]
    scores = []
    for seed in range(NUM_PUZZLES):
        puzzle = pose(grid, seed)
        scores.append(TASK.score(guess(rng, puzzle), puzzle.target))
    assert list(expected) == list(scores[0])
    for entry, value in expected.items():
        sample = np.array([score[entry] for score in scores])
        # A rare exact match need not occur at all; then the sample knows no spread.
        spread = max(sample.std(), (value * (1 - value)) ** 0.5 if entry == "em" else 0.0)
        assert abs(sample.mean() - value) <= 4 * spread / NUM_PUZZLES**0.5 + 1e-9, entry


SC = {
    2: Fraction(1, 4), 3: Fraction(13, 48), 4: Fraction(37, 120), 8: Fraction(131, 336), 12: Fraction(1453, 3432),
    16: Fraction(3601, 8160),
}  # fmt: skip


@pytest.mark.parametrize("grid", SC)
def test_random_guessing_has_the_known_closed_forms(grid):
    random = TASK.chance(Spec(grid=grid))["random"]
    assert random["sc"] == pytest.approx(float(SC[grid]), rel=1e-12)
    assert random["aa"] == pytest.approx(4 / (grid * (grid + 1)))
    assert random["pa"] == 1 / grid**2


# Of grid 4 with its 2 border pieces a side, (8/2 + 4/2 + 8/4 + 4/6) / 24 of the edges are true ones in order.
def test_reading_flats_only_earns_what_counting_by_hand_says():
    flats = TASK.chance(Spec(grid=4))["flats only"]
    assert flats["pa"] == 9 / 16
    assert flats["aa_oriented"] == pytest.approx(13 / 36)
    assert flats["sc"] == pytest.approx(49 / 72)
    assert flats["aa"] == pytest.approx(19 / 36)
    assert set(TASK.chance(Spec(grid=2))["flats only"].values()) == {1.0}


@pytest.mark.parametrize(("grid", "sc", "aa"), [(8, 53.02, 12.84), (12, 51.22, 5.66), (16, 50.66, 3.17)])
def test_reading_flats_only_earns_the_known_shares(grid, sc, aa):
    flats = TASK.chance(Spec(grid=grid))["flats only"]
    assert flats["pa"] == pytest.approx(9 / grid**2)
    assert 100 * flats["sc"] == pytest.approx(sc, abs=0.005)
    assert 100 * flats["aa"] == pytest.approx(aa, abs=0.005)


def test_without_shape_nothing_can_be_read_off_flats_or_fits():
    assert list(TASK.chance(Spec(grid=4, shape=False))) == ["random"]
    assert "sc" not in TASK.chance(Spec(grid=4, shape=False))["random"]


@pytest.mark.parametrize("grid", range(2, 33))
def test_expectations_are_shares_at_every_grid(grid):
    for row in TASK.chance(Spec(grid=grid)).values():
        assert all(0 <= value <= 1 for value in row.values())
        assert list(row) == [entry for entry in TASK.entries if entry in row]
