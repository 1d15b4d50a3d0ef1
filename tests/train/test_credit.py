"""Credit along an answer: another advantage for each token, and the same optimum."""

from itertools import permutations, product

import numpy as np
import pytest
import torch

from train.credit import along

SLOTS = 3
"""Cells, each of which gets one of as many pieces; an answer that says a piece twice is invalid."""
WEIGHTS = {"pa": 1.0, "valid": 0.05}


def reward(answer):
    if len(set(answer)) < SLOTS:
        return 0.0
    return WEIGHTS["pa"] * sum(piece == cell for cell, piece in enumerate(answer)) / SLOTS + WEIGHTS["valid"]


def decided(answer):
    """What the pieces before each cell have earned, and nothing once a piece was said twice: a character per token."""
    right = [0.0]
    for cell, piece in enumerate(answer):
        right.append(right[-1] + (piece == cell) / SLOTS)
        if piece in answer[:cell]:
            return [*enumerate(right[:-1]), (cell + 1, 0.0)]
    return list(enumerate(right))[:-1]


def policy(logits):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def score(shares, answer):
    """Gradient of the answer's log-probability in the logits, slot by slot."""
    return np.eye(SLOTS)[list(answer)] - shares


def advantages(answers, credited):
    rewards = torch.tensor([[reward(answer) for answer in answers]], dtype=torch.float64)
    credits = [decided(answer) if credited else None for answer in answers]
    rows = {at: list(range(SLOTS)) for at in range(len(answers))}
    return along(rewards, credits, rows, scale_rewards="none").numpy()


def expected(logits, credited):
    """Mean and total variance of the estimated gradient, over every pair of answers that a group of two can be."""
    shares = policy(logits)
    every = list(product(range(SLOTS), repeat=SLOTS))
    chance = {answer: np.prod(shares[range(SLOTS), answer]) for answer in every}
    mean, square = np.zeros((SLOTS, SLOTS)), 0.0
    for first, second in product(every, every):
        weight = chance[first] * chance[second]
        told = advantages([first, second], credited)
        gradient = sum(told[at][:, None] * score(shares, one) for at, one in enumerate((first, second))) / 2
        mean += weight * gradient
        square += weight * (gradient**2).sum()
    return mean, square - (mean**2).sum()


def policy_of(pull, toward):
    """Some policy that leans towards an answer."""
    return np.random.default_rng(0).normal(size=(SLOTS, SLOTS)) / 2 + pull * np.eye(SLOTS)[list(toward)]


@pytest.mark.parametrize("logits", [policy_of(0, (0, 1, 2)), policy_of(3, (0, 1, 2)), policy_of(3, (0, 0, 0))])
def test_the_expected_gradient_is_the_same(logits):
    plain, credited = (expected(logits, each)[0] for each in (False, True))
    np.testing.assert_allclose(credited, plain, atol=1e-10)
    assert np.abs(plain).max() > 1e-4


def test_its_variance_is_less_where_most_answers_are_valid_and_more_where_hardly_one_is():
    for logits, less in ((policy_of(3, (0, 1, 2)), True), (policy_of(3, (0, 0, 0)), False)):
        plain, credited = (expected(logits, each)[1] for each in (False, True))
        assert (credited < plain) == less


@pytest.mark.parametrize("credited", [False, True])
def test_a_policy_climbs_to_the_right_answer_with_and_without(credited):
    rng, logits = np.random.default_rng(1), np.zeros((SLOTS, SLOTS))
    for _ in range(400):
        shares = policy(logits)
        answers = [tuple(rng.choice(SLOTS, p=row) for row in shares) for _ in range(16)]
        told = advantages(answers, credited)
        logits += 2.0 * sum(told[at][:, None] * score(shares, one) for at, one in enumerate(answers)) / 16
    assert policy(logits)[range(SLOTS), range(SLOTS)].min() > 0.9


def test_without_credit_advantages_are_trls():
    rewards = torch.tensor([[1.0, 0.0, 0.5], [0.2, 0.2, 0.8]])
    rows = {at: [0, 1] for at in range(6)}
    plain = rewards - rewards.mean(dim=1, keepdim=True)
    for scale, divisor in (("none", 1.0), ("batch", rewards.std() + 1e-4)):
        told = along(rewards, [None] * 6, rows, scale_rewards=scale)
        torch.testing.assert_close(told, (plain / divisor).flatten()[:, None].expand(6, 2))
    equal = torch.full((2, 3), 0.5)
    assert along(equal, [[(0, 0.0), (1, 0.3)], *[None] * 5], rows, scale_rewards="batch").eq(0).all()


def test_a_token_is_credited_by_the_stretch_that_it_starts_in():
    rewards = torch.tensor([[1.0, 0.5]])
    credits = [[(0, 0.0), (4, 0.5), (8, 1.0)], [(0, 0.0), (4, 0.1)]]
    told = along(rewards, credits, {0: [0, 3, 4, 9], 1: [0, 5]}, scale_rewards="none")
    # less what was decided before, beside the mean of those that got as far
    torch.testing.assert_close(told[0], torch.tensor([0.25, 0.25, 0.25 - 0.2, 0.25]))
    torch.testing.assert_close(told[1, :2], torch.tensor([-0.25, -0.25 + 0.2]))


def test_of_several_groups_only_the_rows_that_are_asked_for_are_told():
    rewards = torch.tensor([[1.0, 0.0], [0.0, 0.5]])
    told = along(rewards, [None] * 4, {3: [0], 0: [0]}, scale_rewards="none")
    torch.testing.assert_close(told, torch.tensor([[0.25], [0.5]]))


def test_all_right_answers_are_told_apart_from_all_wrong_ones():
    for answer in permutations(range(SLOTS)):
        told = advantages([tuple(range(SLOTS)), answer], credited=True)
        if answer != tuple(range(SLOTS)):
            assert told[0].sum() > told[1].sum()
