"""Training by towers: what is in scope learns, at its own rate, and nothing else moves."""

import hashlib

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import TrainerCallback

from models.load import load_checkpoint
from models.towers import load_dtype
from recipes.loader import RecipeError

QWEN, GEMMA = "tiny_qwen3_vl", "tiny_gemma3"
FROZEN = "frozen"
SCOPES = [
    *((model, *methods) for model in (QWEN, GEMMA) for methods in (
        ("lora", FROZEN, FROZEN), (FROZEN, "lora", FROZEN), ("lora", "lora", "full"),
        (FROZEN, FROZEN, "full"), (FROZEN, "full", FROZEN), ("full", FROZEN, "full"),
    )),
    (QWEN, FROZEN, FROZEN, "lora"),
    (QWEN, "lora", "lora", "lora"),
]  # fmt: skip
"""Model; methods of language, vision, projector."""
SMALL = [
    "data.parts.12x12=null", "data.parts.16x16=null", "train.effective_batch=2", "trainer.warmup_steps=0",
    "trainer.learning_rate=1e-3", "trainer.lr_scheduler_type=constant",
    "model.scratch.text_layers=3",  # with two, no answer sees Qwen3-VL's second deepstack level
]  # fmt: skip


def towers(language=FROZEN, vision=FROZEN, projector=FROZEN):
    """Overrides that set the method of each tower."""
    given = {"language": language, "vision": vision, "projector": projector}
    return [f"train.towers.{name}.method={method}" for name, method in given.items()]


class Gradients(TrainerCallback):
    """The gradients of each step, as the optimizer takes them."""

    def __init__(self):
        self.steps = []

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        self.steps.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})


def digests(model):
    """Name -> hash of the bytes of every parameter."""
    return {
        name: hashlib.sha256(p.detach().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
        for name, p in model.named_parameters()
    }


def seeing(trainer):
    """The trainer, of a model that sees: Gemma3's projector starts at zero."""
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            if name.endswith("mm_input_projection_weight"):
                parameter.normal_(std=0.1)
    return trainer


@pytest.mark.parametrize(("model", "language", "vision", "projector"), SCOPES)
def test_all_in_scope_has_a_gradient_under_checkpointing_and_moves_and_nothing_else(
    model, language, vision, projector, mixed_recipe, trainer_of
):
    """B starts at zero, so A has a gradient from the second step on."""
    recipe = mixed_recipe(
        model, *towers(language, vision, projector), *SMALL, "trainer.max_steps=2",
        "trainer.gradient_checkpointing=true", "train.precision=bf16",
    )  # fmt: skip
    trainer, gradients = seeing(trainer_of(recipe)), Gradients()
    trainer.add_callback(gradients)
    methods, family = recipe.train.methods(), trainer._loaded.family
    named = dict(trainer.model.named_parameters())
    for name, parameter in named.items():
        how = "lora" if ".lora_" in name else FROZEN if ".original_module." in name else "full"
        assert parameter.requires_grad == (methods[family.tower_of(name)] == how)
    trained = {name for name, parameter in named.items() if parameter.requires_grad}
    before = digests(trainer.model)
    trainer.train()
    first, second = ({name for name, gradient in step.items() if gradient.any()} for step in gradients.steps)
    assert first == {name for name in trained if ".lora_A." not in name}
    assert second == trained
    after = digests(trainer.model)
    assert {name for name in before if after[name] != before[name]} == trained


@pytest.mark.parametrize("model", [QWEN, GEMMA])
@pytest.mark.parametrize("methods", [("full", "full", "full"), ("lora", "lora", "full")], ids=["full", "lora"])
def test_the_first_step_of_each_tower_is_as_long_as_its_rate(model, methods, mixed_recipe, trainer_of):
    """AdamW's first step is rate x gradient / (|gradient| + eps)."""
    rates = {"language": 1e-3, "vision": 2e-4, "projector": 5e-3}
    recipe = mixed_recipe(
        model, *towers(*methods), *SMALL, "train.towers.vision.learning_rate=2e-4",
        "train.towers.projector.learning_rate=5e-3",
    )  # fmt: skip
    trainer, gradients = seeing(trainer_of(recipe)), Gradients()
    trainer.add_callback(gradients)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    seen = set()
    for name, gradient in gradients.steps[0].items():
        tower = trainer._loaded.family.tower_of(name)
        expected = before[name] - rates[tower] * gradient / (gradient.abs() + 1e-8)
        assert_close(trainer.model.get_parameter(name).detach(), expected, atol=1e-6, rtol=1e-6)
        seen |= {tower} if (gradient.abs() > 1e-6).any() else set()
    assert seen == rates.keys()


def test_rates_share_a_schedule_and_are_logged(mixed_recipe, trainer_of):
    recipe = mixed_recipe(
        QWEN, *SMALL, "trainer.max_steps=4", "trainer.lr_scheduler_type=linear",
        "train.towers.vision.learning_rate=2e-4", "train.towers.projector.learning_rate=1e-3",
    )  # fmt: skip
    trainer = trainer_of(recipe)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    rates = [entry["learning_rate"] for entry in logged]
    assert len(set(rates)) == 4
    assert [entry["learning_rate_vision"] for entry in logged] == pytest.approx([rate / 5 for rate in rates])
    assert rates[0] == 1e-3  # the rate of the step, not that of the next
    assert not any("learning_rate_projector" in entry for entry in logged)


def test_a_continued_run_has_the_rates_of_its_recipe_as_it_is(mixed_recipe, trainer_of):
    def recipe(name, *overrides):
        return mixed_recipe(
            QWEN, *SMALL, "trainer.max_steps=3", "trainer.lr_scheduler_type=linear", "train.checkpoint_every=2",
            "trainer.num_train_epochs=3", f"output_dir={name}", *overrides,
        )  # fmt: skip

    trainer_of(recipe("run")).train()
    changed = recipe("other", "trainer.learning_rate=5e-4", "train.towers.vision.learning_rate=1e-4")
    resumed = trainer_of(changed)
    resumed.train(resume_from_checkpoint="run/checkpoint-2")
    third = resumed.state.log_history[-2]
    assert third["step"] == 3
    # a linear schedule of three steps has a third left for the last
    assert (third["learning_rate"], third["learning_rate_vision"]) == pytest.approx((5e-4 / 3, 1e-4 / 3))
    used = {group["tower"]: group["initial_lr"] for group in resumed.optimizer.param_groups}
    assert used == {"language": 5e-4, "vision": 1e-4, "projector": 5e-4}


@pytest.mark.parametrize("model", [QWEN, GEMMA])
@pytest.mark.parametrize("methods", [("full", FROZEN, "full"), ("lora", "lora", "full")], ids=["full", "lora"])
def test_a_run_with_a_frozen_or_a_whole_tower_goes_on_bit_for_bit_and_loads_back(
    model, methods, mixed_recipe, trainer_of
):
    def recipe(name):
        return mixed_recipe(
            model, *towers(*methods), *SMALL, "train.precision=bf16", "trainer.max_steps=2", "train.checkpoint_every=1",
            "train.towers.projector.learning_rate=5e-3", f"output_dir={name}",
        )  # fmt: skip

    whole = trainer_of(recipe("whole"))
    whole.train()
    resumed = trainer_of(recipe("resumed"))
    resumed.train(resume_from_checkpoint="whole/checkpoint-1")
    assert digests(resumed.model) == digests(whole.model)
    stored = load_file("whole/checkpoint-2/adapter_model.safetensors" if "lora" in methods else
                       "whole/checkpoint-2/model.safetensors")  # fmt: skip
    vision = {tensor.dtype for name, tensor in stored.items() if "vision_tower" in name or "visual.blocks" in name}
    assert vision == {torch.float32 if "lora" in methods else torch.bfloat16}
    back = load_checkpoint("whole/checkpoint-2", recipe("back").model, seed=0, dtype=load_dtype(recipe("back").train))
    values = dict(whole.model.named_parameters())
    for name, parameter in back.model.named_parameters():
        assert_close(parameter, values[name], rtol=0, atol=0, check_dtype=False)


def test_reentrant_checkpointing_which_would_leave_vision_adapters_without_gradients_is_refused(mixed_recipe):
    reentrant = ["trainer.gradient_checkpointing=true", "trainer.gradient_checkpointing_kwargs={use_reentrant: true}"]
    mixed_recipe(QWEN, *towers("lora"), *reentrant)
    with pytest.raises(RecipeError, match=r"use_reentrant: got true; allowed: false where the vision tower is lora"):
        mixed_recipe(QWEN, *towers("lora", "lora"), *reentrant)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize("model", [QWEN, GEMMA])
def test_no_layer_below_the_lowest_that_trains_is_differentiated(
    model, method, checkpointing, mixed_recipe, trainer_of
):
    recipe = mixed_recipe(
        model, *towers(method), *SMALL, "trainer.max_steps=1", f"trainer.gradient_checkpointing={checkpointing}"
    )
    trainer = trainer_of(recipe)
    family, differentiated = trainer._loaded.family, set()

    def note(name, output):
        states = output[0] if isinstance(output, tuple) else output
        if states.requires_grad:
            differentiated.add(family.tower_of(f"{name}.weight"))

    layers = [(n, module) for n, module in trainer.model.named_modules() if type(module).__name__ in family.layers]
    for name, layer in layers:
        layer.register_forward_hook(lambda module, given, output, name=name: note(name, output))
    trainer.train()
    assert {family.tower_of(f"{name}.weight") for name, _ in layers} == {"language", "vision"}
    assert differentiated == {"language"}
