"""Proofs before the first step: they hold, and they fail where they must."""

import pytest
import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from data_mix.mixture import training_mixture
from data_mix.photos import find_photos
from train.check import measure_examples
from train.packing import PACKED_SDPA
from train.proof import check_labels, prove


def test_labels_that_are_not_the_answer_and_its_end_are_refused(mixed_recipe, trainer_of):
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl"))
    loaded = trainer.data_collator.loaded
    row = trainer.train_dataset[0]
    batch = trainer.data_collator([row])
    check_labels(loaded, row["posed"], batch)
    batch["labels"][0, -1] = -100
    with pytest.raises(ValueError, match="answer and the end of turn"):
        check_labels(loaded, row["posed"], batch)


def proved(recipe, trainer):
    mixture = training_mixture(recipe, find_photos(recipe.data.photos))
    prove(trainer, measure_examples(trainer.data_collator.loaded, mixture, range(8), rank=0, processes=1))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("method", ["full", "lora"])
def test_packs_that_keep_examples_apart_pass(method, precision, mixed_recipe, trainer_of):
    overrides = ["train.batching=packed", f"train.method={method}", f"train.precision={precision}"]
    recipe = mixed_recipe("tiny_qwen3_vl", *overrides)
    trainer = trainer_of(recipe)
    proved(recipe, trainer)
    assert trainer.model.training


def test_numbers_that_are_none_prove_nothing(mixed_recipe, trainer_of):
    recipe = mixed_recipe("tiny_qwen3_vl", "train.batching=packed")
    trainer = trainer_of(recipe)
    torch.nn.init.constant_(trainer.model.lm_head.weight, float("nan"))
    with pytest.raises(ValueError, match="move by nan in a pack"):
        proved(recipe, trainer)


def test_packs_in_which_an_example_sees_its_neighbour_are_refused(mixed_recipe, trainer_of, monkeypatch):
    def blind_to_positions(module, query, key, value, attention_mask, position_ids=None, **kwargs):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)

    recipe = mixed_recipe("tiny_qwen3_vl", "train.batching=packed")
    trainer = trainer_of(recipe)
    monkeypatch.setitem(AttentionInterface._global_mapping, PACKED_SDPA, blind_to_positions)
    with pytest.raises(ValueError, match="does not keep an example apart from its neighbour"):
        proved(recipe, trainer)
