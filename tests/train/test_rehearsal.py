"""The worst batch first leaves no trace in a run."""

import pytest
import torch

from train.rehearsal import WorstBatchFirst, optimizer_room

SMALL = (
    "data.parts.16x16=null",
    "data.parts.12x12=null",
    "train.effective_batch=2",
    "trainer.max_steps=2",
    "eval.count=0",
)


@pytest.mark.parametrize("model", ["tiny_qwen3_vl", "tiny_gemma3"])
def test_a_run_ends_in_the_same_weights_with_and_without_it(model, mixed_recipe, trainer_of, caplog):
    """Dropout makes each random number count."""
    recipe = mixed_recipe(model, "train.method=lora", "train.lora.dropout=0.3", *SMALL)
    caplog.set_level("INFO", logger="train.rehearsal")
    ends = []
    for first in (False, True):
        trainer = trainer_of(recipe)
        if first:
            trainer.add_callback(WorstBatchFirst(trainer, [[0, 1], [2], [0, 1]]))
        trainer.train()
        ends.append({name: value.clone() for name, value in trainer.model.named_parameters() if value.requires_grad})
    plain, rehearsed = ends
    assert all(torch.equal(rehearsed[name], value) for name, value in plain.items())
    assert any(value.abs().sum() > 0 for name, value in plain.items() if "lora_B" in name)
    assert "2 micro-batch(es) went forward and backward" in caplog.text


def test_each_micro_batch_goes_on_top_of_gradients_as_in_the_middle_of_a_step(mixed_recipe, trainer_of, monkeypatch):
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", *SMALL))
    backward, there = trainer.accelerator.backward, []

    def watched(loss):
        there.append(any(parameter.grad is not None for parameter in trainer.model.parameters()))
        backward(loss)

    monkeypatch.setattr(trainer.accelerator, "backward", watched)
    trainer.add_callback(WorstBatchFirst(trainer, [[3], [0]]))
    trainer.train()
    assert there[:5] == [False, True, False, True, False]


def test_the_optimizer_s_state_has_room_before_it_is_there():
    model = torch.nn.Linear(3, 5, dtype=torch.bfloat16)
    model.bias.requires_grad_(False)
    optimizer = torch.optim.AdamW([model.weight])
    assert sum(one.nbytes for one in optimizer_room(model, optimizer)) == 3 * 5 * 8
    model(torch.ones(3, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    assert optimizer_room(model, optimizer) == []


def test_a_micro_batch_that_does_not_fit_says_what_to_set(mixed_recipe, trainer_of, caplog, monkeypatch):
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", *SMALL))
    trainer.add_callback(WorstBatchFirst(trainer, [[3]]))

    def full(*_):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(trainer.accelerator, "backward", full)
    with pytest.raises(torch.OutOfMemoryError):
        trainer.train()
    assert "examples [3] does not fit; set train.max_pack_tokens" in caplog.text
