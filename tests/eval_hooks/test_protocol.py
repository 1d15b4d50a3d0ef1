"""How answers are asked for, as records say it."""

import pytest

from eval_hooks.protocol import GREEDY, Protocol, asked_again, protocol_of
from models.drawing import Drawing


def test_the_published_protocol_is_one_greedy_answer(recipe_of):
    assert protocol_of(recipe_of()) == GREEDY == Protocol("greedy")


def test_sampled_says_how_it_draws_and_how_often(recipe_of):
    recipe = recipe_of("eval.protocol=sampled", "eval.samples=4", "eval.temperature=0.7", "eval.top_p=0.95")
    assert protocol_of(recipe) == Protocol("sampled t=0.7 p=0.95", Drawing(0.7, 0.95), 4)


def test_constrained_asks_once(recipe_of):
    assert protocol_of(recipe_of("eval.protocol=constrained")) == Protocol("constrained", constrained=True)


def test_what_a_server_is_sent_besides_makes_another_protocol(recipe_of):
    extra = "endpoint.extra={reasoning_effort: low, top_k: 1}"
    other_order = "endpoint.extra={top_k: 1, reasoning_effort: low}"
    assert protocol_of(recipe_of(extra), served=True).name == 'greedy {"reasoning_effort": "low", "top_k": 1}'
    assert protocol_of(recipe_of(extra), served=True) == protocol_of(recipe_of(other_order), served=True)
    limit = recipe_of("endpoint.max_completion_tokens=8000")
    assert protocol_of(limit, served=True).name == 'greedy {"max_completion_tokens": 8000}'
    assert protocol_of(recipe_of(), served=True) == GREEDY
    assert protocol_of(recipe_of(extra, "endpoint.max_completion_tokens=8000")) == GREEDY


@pytest.mark.parametrize(
    "words",
    [[], ["eval.protocol=constrained"], ["eval.protocol=sampled", "eval.samples=4", "eval.temperature=1e-05"],
     ["eval.protocol=sampled", "eval.top_p=0.95"]],
)  # fmt: skip
def test_what_records_say_asks_for_the_same_again_whatever_the_recipe_says(words, recipe_of):
    protocol = protocol_of(recipe_of(*words))
    again = asked_again(protocol.name, protocol.samples)
    for other in ([], ["eval.protocol=sampled", "eval.samples=3"], ["eval.protocol=constrained"]):
        assert protocol_of(recipe_of(*other, *again)) == protocol


@pytest.mark.parametrize("name", ["human", "solver", "sampled t=1 p=1 vote of 4", 'greedy {"top_k": 1}'])
def test_protocols_of_others_cannot_be_asked_again(name):
    assert asked_again(name, 1) == []
