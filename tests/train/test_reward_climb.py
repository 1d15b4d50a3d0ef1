"""A policy that knows nothing but the reward, and climbs it by exchanging two pieces at a time: where does it end?"""

import numpy as np
import pytest
from PIL import Image

from recipes.schema import Reward
from tasks import TASKS
from tasks.photo import ImagePhoto

TASK = TASKS["jigshape"]
TOP, RIGHT, BOTTOM, LEFT = range(4)
DEFAULT = Reward().weights
EQUAL = {"pa": 1.0, "sc": 1.0}


class Climb:
    """An arrangement, and for every piece in every cell what it would earn there beside the neighbours as they lie."""

    def __init__(self, puzzle, weights, seed):
        target = puzzle.target
        self.grid, self.rng = target["grid"], np.random.default_rng(seed)
        count, num_edges = self.grid**2, 2 * self.grid * (self.grid - 1)
        self.signatures = np.array(target["signatures"])  # (N², 4) by id
        self.per_edge = weights["sc"] / num_edges
        self.at = self.rng.permutation(count)  # id by cell
        self.worth = np.zeros((count, count))  # (cell, id)
        self.true_cell = np.array(target["cells"]) @ (self.grid, 1)
        self.right = np.zeros((count, count))
        self.right[self.true_cell, np.arange(count)] = weights["pa"] / count
        cells = np.arange(count).reshape(self.grid, self.grid)
        self.pairs = [
            (cells[:, :-1].ravel(), cells[:, 1:].ravel(), RIGHT, LEFT),
            (cells[:-1].ravel(), cells[1:].ravel(), BOTTOM, TOP),
        ]
        for cell in range(count):
            self.value(cell)

    def fits(self, one, side, other, facing):
        """What the edge between pieces earns, ids broadcast."""
        return self.per_edge * (self.signatures[one, side] * self.signatures[other, facing] == -1)

    def neighbours(self, cell):
        """(cell, the side that faces it, its side) of each."""
        row, column = divmod(cell, self.grid)
        if row:
            yield cell - self.grid, TOP, BOTTOM
        if column < self.grid - 1:
            yield cell + 1, RIGHT, LEFT
        if row < self.grid - 1:
            yield cell + self.grid, BOTTOM, TOP
        if column:
            yield cell - 1, LEFT, RIGHT

    def value(self, cell):
        everyone = np.arange(self.grid**2)
        edges = [self.fits(everyone, side, self.at[near], facing) for near, side, facing in self.neighbours(cell)]
        self.worth[cell] = self.right[cell] + sum(edges)

    def gains(self):
        """What exchanging the pieces of two cells would add to the reward, (N², N²) by cells."""
        there = self.worth[:, self.at]  # (cell, cell): the second's piece on the first
        own = there.diagonal()
        gains = there + there.T - own[:, None] - own[None, :]
        for one, other, side, facing in self.pairs:  # between neighbours: the edge that they share
            first, second = self.at[one], self.at[other]
            gains[one, other] += (
                self.fits(second, side, first, facing) + self.fits(first, side, second, facing)
                - self.fits(second, side, second, facing) - self.fits(first, side, first, facing)
            )  # fmt: skip
            gains[other, one] = gains[one, other]
        return gains

    def step(self):
        """Take one of the exchanges that earn more, any of them; False if there is none."""
        better = np.argwhere(np.triu(self.gains() > 1e-9))
        if len(better) == 0:
            return False
        one, other = self.rng.choice(better).tolist()
        self.at[[one, other]] = self.at[[other, one]]
        for cell in {near for each in (one, other) for near, _, _ in self.neighbours(each)}:
            self.value(cell)
        return True

    def answer(self):
        """[row, col] by id."""
        return np.stack(np.divmod(np.argsort(self.at), self.grid), axis=1).tolist()


def climbed(grid, weights, seed):
    """em at the end of a climb from a random arrangement, by the real scorer."""
    puzzle = TASK.pose(TASK.Spec(grid=grid), ImagePhoto(Image.new("RGB", (8, 8))), seed)
    climb = Climb(puzzle, weights, seed)
    while climb.step():
        pass
    return TASK.score(climb.answer(), puzzle.target)["em"]


def test_gains_are_what_the_scorer_says():
    puzzle = TASK.pose(TASK.Spec(grid=4), ImagePhoto(Image.new("RGB", (8, 8))), 5)
    climb = Climb(puzzle, DEFAULT, 5)

    def reward():
        scores = TASK.score(climb.answer(), puzzle.target)
        return DEFAULT["pa"] * scores["pa"] + DEFAULT["sc"] * scores["sc"]

    for _ in range(5):
        gains, before = climb.gains(), reward()
        for one in range(16):
            for other in range(one):
                climb.at[[one, other]] = climb.at[[other, one]]
                assert gains[one, other] == pytest.approx(reward() - before, abs=1e-12)
                climb.at[[one, other]] = climb.at[[other, one]]
        assert climb.step()


@pytest.mark.parametrize(("grid", "tries"), [(4, 50), (8, 20), (16, 5)])
def test_every_climb_ends_at_the_right_answer_with_the_default_weights(grid, tries):
    assert [climbed(grid, DEFAULT, seed) for seed in range(tries)] == [1.0] * tries


@pytest.mark.parametrize(("grid", "tries", "most"), [(8, 20, 10), (16, 5, 0)])
def test_at_equal_weights_few_climbs_do_or_none(grid, tries, most):
    assert sum(climbed(grid, EQUAL, seed) for seed in range(tries)) <= most
