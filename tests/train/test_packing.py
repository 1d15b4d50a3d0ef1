"""Packed, balanced and plain batches: the same losses, and examples that do not see each other."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from train.batches import IGNORED, LOSS_FIELDS, packed, padded
from train.loss import token_loss
from train.packing import allow_packs

MODELS = ("tiny_qwen3_vl", "tiny_gemma3")


@pytest.fixture
def small(mixed_recipe, trainer_of):
    """`small(model)`: (loaded, encoded examples of all four grids), its language tower ready for packs."""

    def build(model):
        trainer = trainer_of(mixed_recipe(model, "train.predictable_weight=0.3"))
        collator = trainer.data_collator
        if collator.loaded.family.positions:
            allow_packs(collator.loaded)
        else:  # a scratch Gemma3 starts with this at zero: blind
            torch.nn.init.normal_(collator.loaded.model.model.multi_modal_projector.mm_input_projection_weight, std=0.1)
        rows = [trainer.train_dataset[index] for index in range(5)]
        return collator.loaded, [collator.encode(row["posed"], row["images"]) for row in rows]

    return build


def features(loaded, batch):
    given = {name: value for name, value in batch.items() if name not in LOSS_FIELDS}
    return loaded.family.model_inputs(loaded.processor, given)


def example_losses(loaded, batch):
    """The summed loss of each example of a batch; an example's labels are one run of a row."""
    labels = batch["labels"]
    with torch.no_grad():
        logits = loaded.model(**features(loaded, batch)).logits
    nll = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED, reduction="none"
    ).view(labels.shape[0], -1)
    answered = torch.nn.functional.pad(labels != IGNORED, (1, 0))
    which = (answered[:, 1:] & ~answered[:, :-1]).flatten().cumsum(0).view_as(labels)[:, 1:] - 1
    mask = labels[:, 1:] != IGNORED
    return torch.zeros(int(which.max()) + 1).index_add(0, which[mask], nll[mask])


@pytest.mark.parametrize(
    ("model", "join"), [("tiny_qwen3_vl", packed), ("tiny_qwen3_vl", padded), ("tiny_gemma3", padded)]
)
def test_every_examples_loss_is_that_of_the_example_alone(model, join, small):
    loaded, examples = small(model)
    assert len({example["input_ids"].shape[1] for example in examples}) > 2
    tokens = torch.tensor([int((example["labels"] != IGNORED).sum()) for example in examples])
    alone = torch.cat([example_losses(loaded, padded(loaded, [example])) for example in examples])
    together = example_losses(loaded, join(loaded, examples))
    torch.testing.assert_close(together / tokens, alone / tokens, atol=1e-5, rtol=0)


def test_a_pack_is_one_row_without_padding_and_positions_begin_anew(small):
    loaded, examples = small("tiny_qwen3_vl")
    batch = packed(loaded, examples)
    lengths = [example["input_ids"].shape[1] for example in examples]
    assert batch["input_ids"].shape == batch["labels"].shape == (1, sum(lengths))
    assert batch["position_ids"].shape == (4, 1, sum(lengths))
    for one, example in zip(batch["position_ids"].split(lengths, dim=2), examples, strict=True):
        axes, _ = loaded.model.model.get_rope_index(
            example["input_ids"], example["mm_token_type_ids"], example["image_grid_thw"]
        )
        assert torch.equal(one[1:], axes)
        assert torch.equal(one[0, 0], torch.arange(example["input_ids"].shape[1]))
        assert not torch.equal(one[1], one[2])


def test_another_image_of_one_example_leaves_its_neighbours_logits_bit_equal(small):
    loaded, examples = small("tiny_qwen3_vl")
    batch = features(loaded, packed(loaded, examples))
    first, second = (example["input_ids"].shape[1] for example in examples[:2])
    changed = {**batch, "pixel_values": batch["pixel_values"].clone()}
    patches = len(examples[0]["pixel_values"])  # a row for each, as bytes and as floats
    changed["pixel_values"][patches : patches + len(examples[1]["pixel_values"])] *= -1
    with torch.no_grad():
        before, after = loaded.model(**batch).logits[0], loaded.model(**changed).logits[0]
    assert torch.equal(after[:first], before[:first])
    assert torch.equal(after[first + second :], before[first + second :])
    assert not torch.allclose(after[first : first + second], before[first : first + second])


def test_no_example_sees_the_tokens_before_it_in_its_pack(small):
    loaded, examples = small("tiny_qwen3_vl")
    batch = features(loaded, packed(loaded, examples))
    first = examples[0]["input_ids"].shape[1]
    changed = {**batch, "input_ids": batch["input_ids"].clone()}
    changed["input_ids"][0, first - 1] = (batch["input_ids"][0, first - 1] + 1) % 100
    with torch.no_grad():
        before, after = loaded.model(**batch).logits[0], loaded.model(**changed).logits[0]
    assert torch.equal(after[first:], before[first:])
    assert not torch.equal(after[first - 1], before[first - 1])


class LargestTensor(TorchDispatchMode):
    """Remembers the most elements that any operation's result had."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def test_no_mask_of_all_pairs_is_made(small):
    loaded, examples = small("tiny_qwen3_vl")
    batch = packed(loaded, examples)
    batch["ambiguous"] = torch.zeros(len(examples), dtype=torch.bool)
    with LargestTensor() as seen:
        token_loss(loaded.model, loaded.family.model_inputs(loaded.processor, batch), parts=4).weighted_nll.backward()
    assert 0 < seen.elements < batch["input_ids"].shape[1] ** 2 / 4


def test_a_model_that_packs_answers_padded_prompts_as_before(small):
    loaded, examples = small("tiny_qwen3_vl")
    batch = features(loaded, padded(loaded, examples[:3]))
    with torch.no_grad():
        through_packs = loaded.model(**batch).logits
        loaded.model.set_attn_implementation({"text_config": "sdpa"})
        assert torch.equal(loaded.model(**batch).logits, through_packs)


def test_gemmas_first_image_token_sees_the_images_last(small):
    """Behind the vision tower, which mixes patches itself: only the language model's mask is looked at."""
    loaded, examples = small("tiny_gemma3")
    batch, inner = features(loaded, padded(loaded, examples[:2])), loaded.model.model
    places = batch["input_ids"] == loaded.model.config.image_token_id
    first = int(places[0].nonzero()[0])
    with torch.no_grad():
        images = inner.get_image_features(batch["pixel_values"]).pooler_output
        changed = images.clone()
        changed[0, -1] *= -1
        text = inner.get_input_embeddings()(batch["input_ids"].masked_fill(places, 0))
        before, after = (
            inner(
                inputs_embeds=text.masked_scatter(places[..., None].expand_as(text), seen),
                attention_mask=batch["attention_mask"],
                token_type_ids=batch["token_type_ids"],
            ).last_hidden_state
            for seen in (images, changed)
        )
    assert not torch.allclose(after[0, first], before[0, first])
    assert torch.equal(after[0, :first], before[0, :first])
    assert torch.equal(after[1], before[1])


@pytest.mark.parametrize("model", MODELS)
def test_no_rows_make_a_batch_without_loss(model, mixed_recipe, trainer_of):
    trainer = trainer_of(mixed_recipe(model, *(["train.batching=packed"] if "qwen" in model else [])))
    result = token_loss(trainer.model, trainer._prepare_inputs(trainer.data_collator([])), parts=4)
    assert result.weighted_nll.item() == 0
    result.weighted_nll.backward()
    assert all(p.grad is not None and not p.grad.any() for p in trainer.model.parameters() if p.requires_grad)
    assert result.counts[1:].tolist() == [0, 0]
    assert not result.by_part.any()
    assert trainer.train_dataset.__getitems__([]) == []
