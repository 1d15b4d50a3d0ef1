"""Grammars in tokens."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from models.spelling import Speller, Vocabulary, vocabulary
from models.tokens import answer_ids
from tasks import TASKS
from tasks.grammar import OneOf

FORMATS = ("by_id", "by_cell", "cells_then_ids")


@dataclass
class Steps:
    """Options in a fixed number of steps."""

    steps: list[tuple[str, ...]]

    def options(self, written):
        fitting, step = {""}, 0
        while written not in fitting:
            fitting = {text + option for text in fitting for option in self.steps[step]}
            step += 1
        return self.steps[step] if step < len(self.steps) else ()


def _decoded(loaded, tokens):
    return loaded.processor.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)


def _follow(speller, tokens):
    """How many of these tokens were chosen, not forced; None if they leave the grammar."""
    place, rest, chosen = speller.start(), list(tokens), 0
    while rest:
        forced, place = speller.forced(place)
        if rest[: len(forced)] != forced:
            return None
        rest = rest[len(forced) :]
        if rest:
            choices = speller.choices(place)
            if rest[0] not in choices:
                return None
            chosen += len(choices) > 1
            place = choices[rest.pop(0)]
    return chosen if place.complete else None


def test_a_vocabulary_finds_tokens_by_their_text_and_what_goes_on():
    known = Vocabulary({7: "ab", 3: "a", 5: "abc", 9: "b", 2: "ab", 4: ""})
    assert [sorted(known.spelling(text)) for text in ("a", "ab", "abcd", "")] == [[3], [2, 7], [], []]
    assert [known.continues(text) for text in ("", "a", "ab", "abc", "b", "c")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_special_tokens_write_nothing(loaded):
    known, tokenizer = vocabulary(loaded), loaded.processor.tokenizer
    for token in (*loaded.family.vision_tokens, loaded.family.end_of_turn, *loaded.family.stop_tokens):
        assert not known.spelling(token)
    ids = tokenizer.convert_tokens_to_ids(["a", "7", "{"])
    assert [known.spelling(text).count(token) for text, token in zip(("a", "7", "{"), ids, strict=True)] == [1, 1, 1]


@pytest.mark.parametrize("answer_format", FORMATS)
@pytest.mark.parametrize("grid", [2, 4, 8])
def test_the_tokens_of_reference_answers_are_allowed(loaded, grid, answer_format):
    task = TASKS["jigshape"]
    speller = Speller(loaded, task.grammar(task.Spec(grid=grid, answer_format=answer_format), {}))
    cells = [[row, column] for row in range(grid) for column in range(grid)]
    target = {"answer_format": answer_format, "grid": grid}
    for order in (cells, cells[::-1], sorted(cells, key=lambda cell: (cell[1], -cell[0]))):
        text = task.gold({**target, "cells": order})
        assert _follow(speller, answer_ids(loaded, text)[:-1]) is not None


def test_the_tokens_of_each_word_are_allowed(loaded):
    words = ("tab", "blank", "flat")
    speller = Speller(loaded, Steps([words, (", ",), words]))
    for text in ("tab, blank", "flat, flat", "blank, tab"):
        assert _follow(speller, answer_ids(loaded, text)[:-1]) is not None
    assert _follow(speller, answer_ids(loaded, "tab,blank")[:-1]) is None


def test_what_the_options_share_is_forced(loaded):
    speller = Speller(loaded, OneOf(("[1,2]", "[1,3]")))
    tokens, place = speller.forced(speller.start())
    assert (_decoded(loaded, tokens), place.text, place.next_characters) == ("[1,", "[1,", ["2", "3"])
    for token, reached in speller.choices(place).items():
        assert reached.text == f"[1,{_decoded(loaded, [token])}"
        rest, end = speller.forced(reached)
        assert end.text == reached.text + _decoded(loaded, rest) in ("[1,2]", "[1,3]")
        assert end.complete


def test_tokens_that_could_cover_the_beginning_of_a_choice_are_not_forced(qwen):
    speller = Speller(qwen, Steps([("the",), (" ",), ("id", "row", "!")]))
    tokens, place = speller.forced(speller.start())
    assert place.text == "the"
    assert {" id", " "} <= {_decoded(qwen, [token]) for token in speller.choices(place)}
    assert _decoded(qwen, tokens) == "the"


def test_an_answer_that_begins_another_may_end_or_go_on(loaded):
    speller = Speller(loaded, OneOf(("1", "12", "7")))
    reached = {place.text: place for place in speller.choices(speller.start()).values()}
    assert set(reached) == {"1", "7"}
    assert (reached["1"].complete, reached["1"].next_characters) == (True, ["2"])
    assert (reached["7"].complete, reached["7"].next_characters) == (True, [])
    assert speller.forced(reached["1"]) == ([], reached["1"])


def test_a_token_may_span_a_choice_and_what_follows_it(loaded):
    speller = Speller(loaded, Steps([("co", "ro"), ("lumn", "w")]))
    spelt = {place.text for place in speller.choices(speller.start()).values()}
    assert any(len(text) > 2 for text in spelt)
    assert all(any(whole.startswith(text) for whole in ("column", "row", "cow", "rolumn")) for text in spelt)
