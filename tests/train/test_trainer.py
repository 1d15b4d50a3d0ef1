"""The trainer: one exact loss whatever computed it, and fp32 weights that move under bf16 compute."""

from types import SimpleNamespace

import pytest
import torch
from transformers import TrainerCallback

FAMILIES = ("tiny_qwen3_vl", "tiny_gemma3")


class GradientRecorder(TrainerCallback):
    """Keeps every trained parameter's gradient before the optimizer uses it."""

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        self.gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def one_step(trainer):
    recorder = GradientRecorder()
    trainer.add_callback(recorder)
    trainer.train()
    return trainer.state.log_history[0]["loss"], recorder.gradients


@pytest.mark.parametrize("model", FAMILIES)
def test_loss_and_gradients_do_not_depend_on_the_micro_batch(model, mixed_recipe, trainer_of, tmp_path):
    overrides = ["trainer.max_grad_norm=0", "train.predictable_weight=0.3"]
    results = {}
    for micro in (8, 4, 2, 1):
        recipe = mixed_recipe(model, *overrides, f"train.micro_batch={micro}", f"output_dir={tmp_path / str(micro)}")
        results[micro] = one_step(trainer_of(recipe))
    loss, gradients = results[8]
    assert len(gradients) > 20
    for other_loss, other_gradients in results.values():
        assert other_loss == pytest.approx(loss, abs=1e-5)
        assert other_gradients.keys() == gradients.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(other_gradients[name], gradient, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", FAMILIES)
def test_fp32_weights_move_under_bf16_compute(model, mixed_recipe, trainer_of):
    overrides = ["train.precision=bf16", "trainer.learning_rate=1e-5", "trainer.warmup_steps=0"]
    trainer = trainer_of(mixed_recipe(model, *overrides))
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    assert {p.dtype for p in before.values()} == {torch.float32}
    recorder = GradientRecorder()
    trainer.add_callback(recorder)
    trainer.train()
    moved = total = 0
    for name, parameter in trainer.model.named_parameters():
        has_gradient = recorder.gradients[name] != 0
        moved += int((parameter.detach() != before[name])[has_gradient].sum())
        total += int(has_gradient.sum())
    assert total > 10_000
    assert moved / total >= 0.99


@pytest.mark.parametrize("model", FAMILIES)
def test_lora_trains_only_fp32_adapters_on_a_bf16_base(model, mixed_recipe, trainer_of):
    trainer = trainer_of(mixed_recipe(model, "train.method=lora", "train.precision=bf16", "trainer.warmup_steps=0"))
    frozen = {name: p.detach().clone() for name, p in trainer.model.named_parameters() if not p.requires_grad}
    trained = {name: p.detach().clone() for name, p in trainer.model.named_parameters() if p.requires_grad}
    assert all("lora_" in name for name in trained)
    assert {p.dtype for p in trained.values()} == {torch.float32}
    assert {p.dtype for p in frozen.values()} == {torch.bfloat16}
    trainer.train()
    after = dict(trainer.model.named_parameters())
    assert all(torch.equal(after[name], before) for name, before in frozen.items())
    # lora_B starts at zero, so in the first step only it has a gradient
    assert all(not torch.equal(after[name], before) for name, before in trained.items() if "lora_B" in name)


def test_loss_is_the_weighted_mean_over_the_steps_tokens(mixed_recipe, trainer_of):
    """The logged loss equals sum(weight x nll) / sum(weight) computed from the library's full logits."""
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", "train.predictable_weight=0.3", "train.micro_batch=2"))
    model = trainer.model.eval()
    weighted = total = 0.0
    with torch.no_grad():
        for index in range(8):
            batch = trainer.data_collator([trainer.train_dataset[index]])
            labels, weights = batch.pop("labels"), batch.pop("loss_weights")
            batch.pop("informative")
            logits = model(**trainer._prepare_inputs(batch)).logits
            logprobs = logits[0, :-1].log_softmax(-1)
            for position, label in enumerate(labels[0, 1:].tolist()):
                if label != -100:
                    weight = float(weights[0, position + 1])
                    weighted -= weight * float(logprobs[position, label])
                    total += weight
    trainer.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(weighted / total, abs=1e-5)


def test_the_share_of_a_step_that_is_spent_waiting_for_data_is_logged(mixed_recipe, trainer_of, monkeypatch):
    """On a clock that moves by 30 s while a batch is made and by 10 s while its loss is computed."""
    clock = SimpleNamespace(now=0.0)
    for module in ("train.trainer", "train.run_trainer"):
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: clock.now))
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", "trainer.max_steps=2"))

    def taking(seconds, work):
        def run(*args, **kwargs):
            clock.now += seconds
            return work(*args, **kwargs)

        return run

    trainer.data_collator = taking(30, trainer.data_collator)
    trainer.compute_loss = taking(10, trainer.compute_loss)
    trainer.train()
    waits = [entry["data_wait"] for entry in trainer.state.log_history if "loss" in entry]
    assert waits == pytest.approx([0.75, 0.75])


@pytest.mark.parametrize(
    ("model", "batching"), [("tiny_qwen3_vl", "packed"), ("tiny_qwen3_vl", "balanced"), ("tiny_gemma3", "balanced")]
)
def test_packs_and_balanced_batches_have_the_loss_and_gradients_of_plain_ones(
    model, batching, mixed_recipe, trainer_of, tmp_path
):
    overrides = ["trainer.max_grad_norm=0", "train.predictable_weight=0.3"]
    loss, gradients = one_step(trainer_of(mixed_recipe(model, *overrides)))
    roomy = {"packed": 1, "balanced": 4}[batching]  # one row of all, or a batch of rows of each length
    for max_tokens, micro_steps in ((3200, range(3, 9)), (64000, range(roomy, roomy + 1))):
        recipe = mixed_recipe(
            model, *overrides, f"train.batching={batching}", f"train.max_pack_tokens={max_tokens}",
            f"output_dir={tmp_path / str(max_tokens)}",
        )  # fmt: skip
        trainer = trainer_of(recipe)
        assert trainer.args.gradient_accumulation_steps in micro_steps
        other_loss, other_gradients = one_step(trainer)
        assert other_loss == pytest.approx(loss, abs=1e-5)
        assert other_gradients.keys() == gradients.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(other_gradients[name], gradient, atol=1e-5, rtol=1e-5)


def test_an_epoch_trains_every_example_once_and_counts_each(mixed_recipe, trainer_of):
    """Eight examples in steps of three: the last step has two, in micro-batches of one."""
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", "train.effective_batch=3", "trainer.max_steps=-1"))
    seen = []
    collate = trainer.data_collator
    trainer.data_collator = lambda rows: seen.extend(row["posed"].puzzle.key for row in rows) or collate(rows)
    trainer.train()
    assert trainer.state.global_step == 3
    assert len(seen) == len(set(seen)) == 8
