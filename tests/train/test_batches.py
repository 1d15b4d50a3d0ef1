"""Token weights and batches."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from train.batches import IGNORED, informative_tokens
from train.loss import token_loss


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20), st.data())
def test_a_token_is_informative_if_it_spells_an_informative_character(widths, data):
    cuts = [0, *np.cumsum(widths).tolist()]
    spans = list(pairwise(cuts))
    marked = sorted(data.draw(st.sets(st.integers(0, cuts[-1] - 1))))
    informative = [(character, character + 1) for character in marked]
    expected = [any(start <= character < stop for character in marked) for start, stop in spans]
    assert informative_tokens([*spans, (cuts[-1], cuts[-1])], informative).tolist() == [*expected, False]


@pytest.mark.parametrize("model", ["tiny_qwen3_vl", "tiny_gemma3"])
def test_a_batch_trains_answer_and_end_of_turn_and_weighs_coordinates(model, mixed_recipe, trainer_of):
    trainer = trainer_of(mixed_recipe(model, "train.predictable_weight=0.25"))
    collator = trainer.data_collator
    rows = [trainer.train_dataset[index] for index in range(4)]
    batch = collator(rows)
    tokenizer = collator.loaded.processor.tokenizer
    for row, ids, labels, weights, mask in zip(
        rows, batch["input_ids"], batch["labels"], batch["loss_weights"], batch["attention_mask"], strict=True
    ):
        gold = row["posed"].task.gold(row["posed"].puzzle.target)
        trained = labels != IGNORED
        assert tokenizer.decode(labels[trained]) == gold + collator.loaded.family.end_of_turn
        assert torch.equal(ids[trained], labels[trained])
        assert set(weights[trained].tolist()) == {0.25, 1.0}
        assert not weights[~trained].any()
        assert mask[trained].all()
        heavy = tokenizer.decode(labels[weights == 1])
        coordinates = "".join(str(number) for cell in row["posed"].puzzle.target["cells"] for number in cell)
        assert heavy == coordinates


def test_an_example_does_not_depend_on_its_batch_mates(mixed_recipe, trainer_of):
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl"))
    rows = [trainer.train_dataset[index] for index in range(3)]
    together = trainer.data_collator(rows)
    alone = trainer.data_collator(rows[1:2])
    length = alone["input_ids"].shape[1]
    assert torch.equal(together["input_ids"][1, :length], alone["input_ids"][0])
    assert not together["attention_mask"][1, length:].any()
    patches = together["image_grid_thw"].prod(dim=1).tolist()
    assert torch.equal(together["pixel_values"][patches[0] : patches[0] + patches[1]], alone["pixel_values"])


@pytest.mark.parametrize(("model", "batching"), [("tiny_qwen3_vl", "packed"), ("tiny_gemma3", "balanced")])
def test_where_every_process_must_see_an_image_a_batch_without_one_gets_a_blank_that_weighs_nothing(
    model, batching, mixed_recipe, trainer_of
):
    trainer = trainer_of(mixed_recipe(model, f"train.batching={batching}"))
    rows = [trainer.train_dataset[index] for index in range(2)]
    seeing = replace(trainer.data_collator, always_image=True)
    assert torch.equal(seeing(rows)["input_ids"], trainer.data_collator(rows)["input_ids"])
    texts = []
    for row in rows:
        puzzle = row["posed"].puzzle
        words = [{**turn, "content": [part for part in turn["content"] if part["type"] == "text"]}
                 for turn in puzzle.messages]  # fmt: skip
        posed = replace(row["posed"], puzzle=replace(puzzle, messages=words))
        texts.append({**row, "posed": posed, "images": []})
    alone, beside = trainer.data_collator(texts), seeing(texts)
    assert "pixel_values" not in alone
    assert len(beside["pixel_values"]) > 0
    assert beside["loss_weights"].sum() == alone["loss_weights"].sum()
    assert len(beside["ambiguous"]) == 2
    parts = len(trainer.weights.parts)
    told = [token_loss(trainer.model, trainer._prepare_inputs(batch), parts) for batch in (alone, beside)]
    torch.testing.assert_close(told[1].weighted_nll, told[0].weighted_nll)
    assert torch.equal(told[1].by_part[:, 2], told[0].by_part[:, 2])
