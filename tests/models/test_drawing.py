"""Tokens drawn at random."""

import pytest
import torch

from models.drawing import Drawing, GumbelDraw, draw_seed
from models.generation import generate

LOGITS = torch.tensor([2.0, 0.0, 1.0, -torch.inf, -1.0])


def drawn(drawing: Drawing, count: int) -> torch.Tensor:
    """How often each token is drawn by `count` rows with seeds of their own."""
    scores = GumbelDraw(drawing, range(count))(None, LOGITS.expand(count, -1))
    return torch.bincount(scores.argmax(dim=-1), minlength=len(LOGITS))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_the_softmax_says(temperature):
    count = 20_000
    expected = torch.softmax(LOGITS / temperature, dim=0) * count
    spread = (expected * (1 - expected / count)).sqrt()
    assert ((drawn(Drawing(temperature), count) - expected).abs() <= 4 * spread).all()


def test_top_p_leaves_the_likeliest_tokens_in_their_proportion():
    count = 20_000
    found = drawn(Drawing(1.0, top_p=0.8), count)  # the shares are .64, .24, .09, .03: two make up .8
    assert found[[1, 3, 4]].tolist() == [0, 0, 0]
    expected = torch.softmax(LOGITS[[0, 2]], dim=0)[1] * count
    assert abs(found[2] - expected) <= 4 * (expected * (1 - expected / count)).sqrt()


def test_a_row_draws_the_same_whoever_stands_beside_it():
    alone, beside = GumbelDraw(Drawing(1.0), [7]), GumbelDraw(Drawing(1.0), [3, 7, 9])
    for _ in range(5):
        assert torch.equal(alone(None, LOGITS[None])[0], beside(None, LOGITS.expand(3, -1))[1])


def test_seeds_tell_puzzles_and_samples_apart():
    seeds = {draw_seed(seed, key, sample) for seed in (0, 1) for key in ("a", "b") for sample in range(8)}
    assert len(seeds) == 32
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_completions_repeat_with_their_seeds_and_do_not_depend_on_batch_mates(loaded, conversation, picture):
    prompts = [(conversation("Solve", None), [picture(64, 64, seed)]) for seed in range(3)]
    texts = [[one.text for one in generate(loaded, prompts, 10, GumbelDraw(Drawing(1.0), [1, 2, 3]))] for _ in "ab"]
    alone = generate(loaded, prompts[1:2], 10, GumbelDraw(Drawing(1.0), [2]))[0].text
    other = generate(loaded, prompts[1:2], 10, GumbelDraw(Drawing(1.0), [4]))[0].text
    assert texts[0] == texts[1]
    assert alone == texts[0][1]
    assert other != alone
