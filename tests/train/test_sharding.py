"""How many processes share a model: what is chosen, and what is refused before any weight is read."""

import pytest

from recipes.loader import load_recipe
from train.parameters import TrainingState
from train.sharding import (
    bytes_per_process,
    check_deepspeed,
    check_memory,
    check_resume,
    check_sharding,
    choose_sharding,
    in_lockstep,
)

GIB = 2**30
FULL_8B = TrainingState(weights=int(32.66 * GIB), gradients=int(32.66 * GIB), optimizer=int(65.32 * GIB))
LORA_8B = TrainingState(weights=int(16.5 * GIB), gradients=int(0.16 * GIB), optimizer=int(0.33 * GIB))


def recipe(*overrides):
    return load_recipe(["recipe=quickstart", "wandb.mode=disabled", *overrides])


@pytest.mark.parametrize(
    ("asked", "processes", "state", "gpu_gib", "chosen"),
    [
        ("auto", 1, FULL_8B, 80, "none"),
        ("auto", 8, FULL_8B, 80, "fsdp2"),
        ("auto", 8, LORA_8B, 80, "ddp"),
        ("auto", 8, LORA_8B, 24, "fsdp2"),
        ("auto", 2, FULL_8B, None, "ddp"),
        ("zero3", 8, LORA_8B, 80, "zero3"),
        ("ddp", 8, FULL_8B, 80, "ddp"),
    ],
)
def test_a_model_is_sharded_where_its_training_state_would_fill_a_gpu(asked, processes, state, gpu_gib, chosen):
    assert choose_sharding(asked, processes, state.total, gpu_gib and gpu_gib * GIB) == chosen


@pytest.mark.parametrize(
    ("sharding", "held"),
    [("none", 160), ("ddp", 160), ("zero2", 40 + 120 / 8), ("zero3", 160 / 8), ("fsdp2", 160 / 8)],
)
def test_a_process_holds_all_or_its_share(sharding, held):
    assert bytes_per_process(sharding, 8, TrainingState(weights=40, gradients=40, optimizer=80)) == held


def test_processes_wait_for_each_other_in_every_micro_batch_unless_each_holds_all():
    waiting = {sharding: in_lockstep(sharding) for sharding in ("none", "ddp", "fsdp2", "zero2", "zero3")}
    assert waiting == {"none": False, "ddp": False, "fsdp2": True, "zero2": True, "zero3": True}


def test_what_cannot_fit_is_refused_with_how_many_gpus_would_do():
    check_memory("fsdp2", 8, FULL_8B, 80 * GIB)
    check_memory("none", 1, FULL_8B, None)
    with pytest.raises(ValueError, match=r"131 GiB|130\.6 GiB.*launch 3 processes.*one_node\.yaml.*train\.method=lora"):
        check_memory("none", 1, FULL_8B, 80 * GIB)


@pytest.mark.parametrize(
    ("overrides", "processes", "environment", "told"),
    [
        (["train.sharding=none"], 2, {}, "got none on 2 processes"),
        (["train.sharding=ddp"], 1, {}, "got ddp on one process"),
        (["train.sharding=fsdp2"], 1, {}, "got fsdp2 on one process"),
        ([], 2, {"ACCELERATE_USE_FSDP": "true"}, "launch with FSDP.*train.sharding=fsdp2"),
        ([], 2, {"ACCELERATE_USE_DEEPSPEED": "true"}, "launch with DeepSpeed.*train.sharding=zero3"),
        (
            [
                "train.sharding=zero3", "train.method=lora", "train.towers.vision.method=lora",
                "trainer.gradient_checkpointing=true",
            ],
            2, {}, "would get no gradient.*set train.sharding=fsdp2",
        ),
    ],
)  # fmt: skip
def test_a_launch_that_does_not_fit_the_sharding_is_refused(overrides, processes, environment, told):
    with pytest.raises(ValueError, match=told):
        check_sharding(recipe(*overrides), processes, environment)


def test_zero_without_deepspeed_is_refused_with_how_to_install_it(monkeypatch):
    monkeypatch.setattr("train.sharding.find_spec", lambda name: None)
    check_deepspeed("fsdp2")
    with pytest.raises(ValueError, match=r"needs the deepspeed package.*\.\[deepspeed\]"):
        check_deepspeed("zero2")


def test_a_machine_that_only_plans_needs_no_deepspeed(monkeypatch):
    monkeypatch.setattr("train.sharding.find_spec", lambda name: None)
    check_sharding(recipe("train.sharding=zero2"), 2, {})


@pytest.mark.parametrize(
    ("written", "sharding", "named"),
    [("optimizer", "ddp", "fsdp2"), ("global_step4", "fsdp2", "zero3"), ("README.md", "zero2", "ddp")],
)
def test_a_checkpoint_of_another_sharding_is_refused_with_the_one_to_resume_with(tmp_path, written, sharding, named):
    (tmp_path / written).mkdir()
    check_resume(tmp_path, named)
    with pytest.raises(ValueError, match=f"resume with train.sharding={named}"):
        check_resume(tmp_path, sharding)
