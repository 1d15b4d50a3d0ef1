"""Generation within a grammar."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from models.constrained import generate_constrained
from models.drawing import Drawing, GumbelDraw
from models.generation import generate, left_padded
from models.spelling import Speller
from models.tokens import SEQUENCES, answer_ids, encode_prompt
from models.towers import train_towers
from recipes.schema import Lora, Scratch, Train
from tasks import TASKS
from tasks.contract import Invalid
from tasks.grammar import OneOf

JIGSHAPE = TASKS["jigshape"]
FORMATS = ("by_id", "by_cell", "cells_then_ids")


def _grammar(grid, answer_format="by_id", **asked):
    return JIGSHAPE.grammar(JIGSHAPE.Spec(grid=grid, answer_format=answer_format), asked)


def _gold(cells, grid, answer_format="by_id"):
    return JIGSHAPE.gold({"answer_format": answer_format, "grid": grid, "cells": cells})


@pytest.fixture
def opinionated(model, build):
    """A model with large random weights, whose choices depend on all that it sees. Sliding windows, if it has any, are
    shorter than the prompts."""
    loaded = build(model.model_copy(update={"scratch": Scratch(text_init_std=0.2)}))
    text_config = loaded.model.config.get_text_config()
    if getattr(text_config, "sliding_window", None):
        text_config.sliding_window = 16
    return loaded


@contextmanager
def _counted_passes(loaded):
    passes = []
    hook = loaded.model.register_forward_hook(lambda *_: passes.append(1))
    yield passes
    hook.remove()


def _continued(encoded, ids):
    """An encoded prompt and the first tokens of its answer."""
    more = {"input_ids": ids, "attention_mask": [1] * len(ids)}
    return {
        name: torch.cat([tensor, torch.tensor([more.get(name, [0] * len(ids))], dtype=torch.long)], dim=1)
        if name in SEQUENCES
        else tensor
        for name, tensor in encoded.items()
    }


def _without_cache(loaded, prompt, grammar):
    """What `generate_constrained` should write, its whole text read anew for each choice."""
    speller = Speller(loaded, grammar)
    start = encode_prompt(loaded, *prompt)
    place, ids = speller.start(), []
    while True:
        forced, place = speller.forced(place)
        ids += forced
        choices = speller.choices(place)
        if place.complete:
            return place.text
        if len(choices) > 1:
            encoded = _continued(start, ids)
            with torch.no_grad():
                logits = loaded.model(**loaded.family.model_inputs(loaded.processor, encoded)).logits[0, -1]
            ids.append(max(sorted(choices), key=lambda token: logits[token]))
        else:
            ids.append(next(iter(choices)))
        place = choices[ids[-1]]


@pytest.mark.parametrize("answer_format", FORMATS)
def test_all_answers_of_an_untrained_model_are_valid(loaded, prompts, answer_format):
    for grid in (2, 3, 4, 8):
        spec = JIGSHAPE.Spec(grid=grid, answer_format=answer_format)
        for completion in generate_constrained(loaded, prompts, [_grammar(grid, answer_format)] * 3):
            cells = JIGSHAPE.parse(completion.text, spec)
            assert not isinstance(cells, Invalid)
            assert completion.text == _gold(cells, grid, answer_format)
            assert completion.finish_reason == "stop"
            assert completion.num_tokens >= len(answer_ids(loaded, completion.text))


@pytest.mark.parametrize("answer_format", FORMATS)
def test_the_tokens_spell_the_text_and_those_chosen_are_told_with_what_was_allowed(loaded, prompts, answer_format):
    draw = GumbelDraw(Drawing(0.7), [1, 2, 3])
    for completion in generate_constrained(loaded, prompts, [_grammar(4, answer_format)] * 3, draw):
        assert completion.ids[-1] in loaded.family.stop_token_ids(loaded.processor)
        assert loaded.processor.tokenizer.decode(completion.ids[:-1]) == completion.text
        assert completion.num_tokens == len(completion.ids)
        for decision in completion.decisions:
            assert completion.ids[decision.index] in decision.allowed
            assert list(decision.allowed) == sorted(set(decision.allowed))
            assert len(decision.allowed) > 1
        chosen = [index for index, decided in enumerate(completion.decided) if decided]
        assert chosen == [decision.index for decision in completion.decisions]


def test_given_pieces_lie_where_the_prompt_says(loaded, prompts):
    given = [[4, 2, 2], [0, 1, 0]]
    for completion in generate_constrained(loaded, prompts, [_grammar(3, given=given)] * 3):
        cells = JIGSHAPE.parse(completion.text, JIGSHAPE.Spec(grid=3))
        assert (cells[4], cells[0]) == ([2, 2], [1, 0])


def test_answers_of_several_forms_share_a_batch_and_change_nothing_in_each_other(opinionated, prompts):
    grammars = [_grammar(4), _grammar(3, "by_cell"), _grammar(4, "cells_then_ids", given=[[3, 0, 0], [9, 1, 1]])]
    together = generate_constrained(opinionated, prompts, grammars)
    alone = [generate_constrained(opinionated, [one], [g])[0] for one, g in zip(prompts, grammars, strict=True)]
    assert [(one.text, one.num_tokens) for one in together] == [(one.text, one.num_tokens) for one in alone]


def test_a_longer_text_that_is_overtaken_is_read_as_it_is_alone(opinionated, conversation):
    prompts = [(conversation("Solve"), []), (conversation("Solve it right now, please"), [])]
    grammars = [_grammar(4), _grammar(4, "by_cell")]
    together = generate_constrained(opinionated, prompts, grammars)
    alone = [generate_constrained(opinionated, [one], [g])[0] for one, g in zip(prompts, grammars, strict=True)]
    assert [one.text for one in together] == [one.text for one in alone]


def test_each_choice_is_the_likeliest_one_when_the_whole_text_is_read_anew(opinionated, prompts):
    grammars = [_grammar(3), _grammar(4, "by_cell"), _grammar(4)]
    expected = [_without_cache(opinionated, one, grammar) for one, grammar in zip(prompts, grammars, strict=True)]
    assert [one.text for one in generate_constrained(opinionated, prompts, grammars)] == expected


def test_drawn_answers_repeat_with_their_seeds_and_do_not_depend_on_batch_mates(opinionated, prompts):
    grammars = [_grammar(2), _grammar(4, "cells_then_ids"), _grammar(3, "by_cell")]  # the first one ends long before
    drawing = Drawing(1.0, top_p=0.9)
    together = [generate_constrained(opinionated, prompts, grammars, GumbelDraw(drawing, [1, 2, 3])) for _ in "ab"]
    assert [one.ids for one in together[0]] == [one.ids for one in together[1]]
    for seed, prompt, grammar, completion in zip((1, 2, 3), prompts, grammars, together[0], strict=True):
        [alone] = generate_constrained(opinionated, [prompt], [grammar], GumbelDraw(drawing, [seed]))
        [other] = generate_constrained(opinionated, [prompt], [grammar], GumbelDraw(drawing, [seed + 100]))
        assert alone.ids == completion.ids
        assert other.ids != completion.ids
        assert [one.allowed for one in alone.decisions] == [one.allowed for one in completion.decisions]
        assert [one.log_prob for one in alone.decisions] == pytest.approx(
            [one.log_prob for one in completion.decisions], abs=1e-5
        )


def _chances(loaded, prompt, grammar, temperature):
    """Of each text the probability to be drawn, all ways to write it taken together."""
    speller, start = Speller(loaded, grammar), encode_prompt(loaded, *prompt)
    chances, paths = {}, [(speller.start(), [], 1.0)]
    while paths:
        place, ids, chance = paths.pop()
        forced, place = speller.forced(place)
        ids, choices = ids + forced, speller.choices(place)
        if place.complete:
            chances[place.text] = chances.get(place.text, 0.0) + chance
            continue
        tokens = sorted(choices)
        with torch.no_grad():
            logits = loaded.model(**loaded.family.model_inputs(loaded.processor, _continued(start, ids))).logits[0, -1]
        shares = torch.softmax(logits[tokens].double() / temperature, dim=0).tolist()
        paths += [(choices[token], [*ids, token], chance * share) for token, share in zip(tokens, shares, strict=True)]
    return chances


@pytest.mark.parametrize("answer_format", ["by_id", "by_cell"])
def test_answers_are_drawn_as_often_as_the_softmax_over_what_is_allowed_says(opinionated, prompts, answer_format):
    count, grammar = 1500, _grammar(2, answer_format)
    chances = _chances(opinionated, prompts[2], grammar, 0.7)
    assert len(chances) == 24
    assert sum(chances.values()) == pytest.approx(1)
    draw = GumbelDraw(Drawing(0.7), range(count))
    drawn = generate_constrained(opinionated, [prompts[2]] * count, [grammar] * count, draw)
    found = Counter(one.text for one in drawn)
    common = [text for text, chance in chances.items() if chance * count >= 5]
    rest = sum(chance for text, chance in chances.items() if text not in common)
    shares = [*[chances[text] for text in common], rest]
    times = [*[found[text] for text in common], count - sum(found[text] for text in common)]
    assert len(common) > 1
    assert chisquare(times, np.array(shares) * count).pvalue > 1e-3


def test_top_p_is_a_share_of_what_is_allowed(opinionated, prompts):
    draw = GumbelDraw(Drawing(1.0, top_p=1e-6), [5, 6, 7])  # leaves the likeliest alone
    drawn = generate_constrained(opinionated, prompts, [_grammar(3)] * 3, draw)
    assert [one.ids for one in drawn] == [
        one.ids for one in generate_constrained(opinionated, prompts, [_grammar(3)] * 3)
    ]


def _memorise(loaded, examples):
    """Trains until each token of each answer is the likeliest one after those before it."""
    encoded, answers = [], [torch.tensor(answer_ids(loaded, text)) for _, text in examples]
    for (prompt, _), ids in zip(examples, answers, strict=True):
        encoded.append(_continued(encode_prompt(loaded, *prompt), ids[:-1].tolist()))
    batch = left_padded(encoded, loaded.processor.tokenizer.pad_token_id)
    batch = loaded.family.model_inputs(loaded.processor, batch)
    optimizer = torch.optim.AdamW(loaded.model.parameters(), lr=3e-3)
    for _ in range(300):
        logits = loaded.model(**batch).logits
        written = [row[-len(ids) :] for row, ids in zip(logits, answers, strict=True)]
        if all(torch.equal(row.argmax(dim=1), ids) for row, ids in zip(written, answers, strict=True)):
            return
        torch.nn.functional.cross_entropy(torch.cat(written), torch.cat(answers)).backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_model_that_writes_valid_answers_of_its_own_writes_the_same_ones(model, build, conversation, picture):
    loaded = build(model)
    texts = [
        _gold([[1, 0], [0, 1], [1, 1], [0, 0]], 2),
        _gold([[0, 2], [1, 1], [2, 0], [0, 1], [2, 2], [0, 0], [1, 2], [2, 1], [1, 0]], 3, "cells_then_ids"),
        "12",
    ]
    prompts = [
        (conversation("Solve", None, "now."), [picture(64, 64, 1)]),
        (conversation("In two steps: ", None, None), [picture(32, 32, 2), picture(64, 32, 3)]),
        (conversation("Which piece?"), []),
    ]
    grammars = [_grammar(2), _grammar(3, "cells_then_ids"), OneOf(tuple(map(str, range(100))))]
    _memorise(loaded, list(zip(prompts, texts, strict=True)))
    free = generate(loaded, prompts, 200)
    assert [one.text for one in free] == texts
    constrained = generate_constrained(loaded, prompts, grammars)
    assert [(one.text, one.num_tokens, one.finish_reason) for one in constrained] == [
        (one.text, one.num_tokens, one.finish_reason) for one in free
    ]


def test_an_8x8_takes_a_forward_pass_per_choice(loaded, prompts):
    with _counted_passes(loaded) as passes:
        completion = generate_constrained(loaded, prompts[:1], [_grammar(8)])[0]
    assert completion.num_tokens > 400
    assert len(passes) == len(completion.decisions)  # the prompt's pass answers the first choice
    assert len(passes) <= 119


def test_nothing_is_asked_where_nothing_is_left_to_choose(loaded, prompts):
    with _counted_passes(loaded) as passes:
        completions = generate_constrained(loaded, prompts[:2], [OneOf(("yes",)), OneOf(("[1,2]", "[1,3]"))])
    assert completions[0].text == "yes"
    assert completions[1].text in ("[1,2]", "[1,3]")
    assert len(passes) == 1


def test_the_model_is_left_as_found_under_gradient_checkpointing(model, build, prompts):
    loaded = build(model)
    expected = [one.text for one in generate_constrained(loaded, prompts, [_grammar(3)] * 3)]
    loaded.model.activation_checkpointing_enable()
    loaded.model.config.use_cache = False
    loaded.model.train()
    assert [one.text for one in generate_constrained(loaded, prompts, [_grammar(3)] * 3)] == expected
    assert loaded.model.training
    assert loaded.model.config.use_cache is False


def test_a_model_with_adapters_answers_as_its_merged_weights_do(opinionated, prompts):
    before = [one.text for one in generate_constrained(opinionated, prompts, [_grammar(3)] * 3)]
    adapted = train_towers(opinionated, Train(method="lora", lora=Lora(rank=4), precision="fp32"))
    with torch.no_grad():
        for parameter in adapted.model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 10)
    answers = [one.text for one in generate_constrained(adapted, prompts, [_grammar(3)] * 3)]
    adapted.model.merge_adapter()
    assert [one.text for one in generate_constrained(adapted, prompts, [_grammar(3)] * 3)] == answers
    assert answers != before


def test_the_name_of_a_vision_token_is_written_as_plain_text(loaded, prompts):
    name, other = loaded.family.vision_tokens[:2]
    speller = Speller(loaded, OneOf((name,)))
    tokens, place = speller.forced(speller.start())
    assert place.text == name
    assert not set(tokens) & set(loaded.family.vision_token_ids(loaded.processor))
    assert generate_constrained(loaded, prompts[:1], [OneOf((name, other))])[0].text in (name, other)


def test_what_the_tokenizer_has_no_token_for_is_refused(qwen, prompts):
    with pytest.raises(ValueError, match="no token for"):
        generate_constrained(qwen, prompts[:1], [OneOf(("é", "ß"))])


def test_no_prompts_give_no_completions(loaded):
    assert generate_constrained(loaded, [], []) == []
