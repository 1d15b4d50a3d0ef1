"""Words of a command's own beside a recipe."""

import pytest

from recipes.command import CommandLine
from recipes.loader import RecipeError

OWN = ("split", "count", "out")


def test_own_words_are_taken_out_and_the_rest_is_the_recipe():
    line = CommandLine(["recipe=quickstart", "count=7", "seed=3", "out=a=b"], OWN)
    assert line.choice("split", ("train", "eval"), "train") == "train"
    assert line.number("count", 3) == 7
    assert line.text("out") == "a=b"
    assert line.recipe().seed == 3
    assert line.number("split", None) is None


def test_all_problems_are_told_at_once():
    line = CommandLine(["recipe=quickstart", "count=0", "out=", "split=tran", "split=eval", "seed=x"], OWN)
    line.choice("split", ("train", "eval"))
    line.number("count", 3)
    with pytest.raises(RecipeError) as caught:
        line.recipe()
    assert caught.value.problems == [
        "out: got nothing; allowed: a value; do write out=VALUE, or leave it out",
        "split: got two values; allowed: one; do remove one of them",
        'split: got "tran"; allowed: train | eval; did you mean train?',
        'count: got "0"; allowed: a whole number from 1; do write count=3',
        'seed: got "x"; allowed: a whole number >= 0 and < 2147483648; '
        "do write seed as a number, without quotes or other characters",
    ]


def test_a_misspelt_word_of_the_command_is_known_as_one_and_the_recipe_s_own_are_not():
    line = CommandLine(["recipe=quickstart", "cuont=7", "eval.count=3", "resume=x"], OWN)
    with pytest.raises(RecipeError) as caught:
        line.recipe()
    first, second = caught.value.problems
    assert first == "cuont: got an unknown name; allowed: split, count, out; did you mean count?"
    assert second.startswith("resume: got")


@pytest.mark.parametrize("text", ["-1", "1.0", "1e3", "x", "٣", "9" * 20, "+1"])
def test_a_number_is_a_whole_one_from_one(text):
    line = CommandLine(["recipe=quickstart", f"count={text}"], OWN)
    line.number("count", None)
    with pytest.raises(RecipeError, match="count: got"):
        line.recipe()


def test_a_word_that_must_be_given_is_asked_for():
    line = CommandLine(["recipe=quickstart"], OWN)
    line.choice("split", ("train", "eval"))
    with pytest.raises(RecipeError, match=r"split: got nothing; allowed: train \| eval; do write split=train"):
        line.recipe()


def test_a_command_without_a_recipe_needs_its_words_and_knows_no_others():
    CommandLine(["count=3"], OWN).without_recipe()
    line = CommandLine(["out=", "cuont=3"], OWN)
    assert line.required("out", "a folder") == ""
    assert line.required("split", "a split") == ""
    with pytest.raises(RecipeError) as caught:
        line.without_recipe()
    assert caught.value.problems == [
        "cuont: got an unknown name; allowed: split, count, out; did you mean count?",
        "out: got nothing; allowed: a value; do write out=VALUE, or leave it out",
        "split: got nothing; allowed: a split; do write split=...",
    ]
