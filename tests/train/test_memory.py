"""Memory of a training process: the arithmetic, and the tracing that it rests on."""

from dataclasses import replace

import pytest
import torch

from models.outline import outline
from models.towers import train_towers
from recipes.loader import load_recipe
from train import traced
from train.head_memory import loss_head
from train.memory import Memory, check_activations, composed, standing_memory, training_memory
from train.traced import LiveBytes, Load, Phases, trace

NONE = Memory(weights=0, gradients=0, optimizer=0, buckets=0, gathered=0, forward=0, backward=0, head=0, kept=0)
LOAD = Load(rows=1, length=64, patches=64, answer=8)


def tiny(*overrides, model="tiny_qwen3_vl"):
    recipe = load_recipe(["recipe=mixed_grid", f"model={model}", *overrides])
    return recipe, train_towers(outline(recipe.model).loaded, recipe.train)


def phases(*overrides, load=LOAD, checkpointing=None, **kwargs):
    _, loaded = tiny(*overrides, **kwargs)
    return trace(loaded, load, bf16=True, narrow=False, checkpointing=checkpointing)


@pytest.mark.parametrize(
    ("sharding", "whole"),
    [
        ("none", "weights gradients optimizer"),
        ("ddp", "weights gradients optimizer"),
        ("zero2", "weights"),
        ("fsdp2", ""),
    ],
)
def test_what_is_sharded_is_divided_by_the_processes_and_the_rest_is_not(sharding, whole):
    _, loaded = tiny()
    one, many = (standing_memory(loaded, sharding, processes, bf16=True) for processes in (1, 4))
    for name in ("weights", "gradients", "optimizer"):
        assert getattr(many, name) == getattr(one, name) // (1 if name in whole.split() else 4)
    assert (many.buckets > 0) == (sharding == "ddp")
    assert (many.gathered > 0) == (sharding == "fsdp2")


def test_what_does_not_train_has_weights_alone():
    _, loaded = tiny("train.method=lora")
    found = standing_memory(loaded, "none", 1, bf16=True)
    trained = sum(parameter.numel() for parameter in loaded.model.parameters() if parameter.requires_grad)
    assert (found.gradients, found.optimizer) == (4 * trained, 8 * trained)
    assert found.weights == 2 * sum(parameter.numel() for parameter in loaded.model.parameters()) + 2 * trained


def test_the_head_holds_a_chunk_of_logits_however_long_the_answers_are():
    vocabulary, hidden = 2**18, 64  # 256 rows of float32 logits are 256 MiB
    short, long = (loss_head(answer, hidden, vocabulary, trained=True, wide=True, bf16=True) for answer in (256, 2560))
    gradient, copied, chunk = 4 * vocabulary * hidden, 2 * vocabulary * hidden, 256 * vocabulary * 6
    assert short.kept == gradient + 256 * hidden * 2
    assert short.forward == gradient + copied + chunk + 2 * 256 * hidden * 2
    assert long.forward - short.forward == 2 * (2560 - 256) * hidden * 2
    frozen = loss_head(256, hidden, vocabulary, trained=False, wide=False, bf16=True)
    assert frozen.forward == chunk + 2 * 256 * hidden * 2


def test_the_peak_of_each_pass_is_where_most_towers_wait():
    vision, language = Phases(forward=7, held=5, kept=3, backward=20), Phases(forward=11, held=10, kept=8, backward=12)
    head = loss_head(0, 1, 1, trained=False, wide=False, bf16=True)
    found = composed(replace(NONE, weights=100), vision, language, head, embeddings=0)
    assert (found.forward, found.backward, found.kept) == (5 + 11, 20, 11)
    assert found.peak == 120
    assert composed(NONE, vision._replace(backward=4), language, head, embeddings=0).backward == 3 + 12
    assert composed(NONE, vision._replace(backward=4), language, head, embeddings=99).backward == 3 + 99


def test_alive_bytes_are_counted_until_they_are_freed_and_views_are_none():
    there = torch.zeros(10)
    with LiveBytes([there]) as live:
        made = there.view(2, 5) + 1
        again = made[0]
        assert live.now == 40
        del made
        assert live.now == 40
        del again
        assert (live.now, live.restart(), live.restart()) == (0, 40, 0)


@pytest.mark.parametrize("model", ["tiny_qwen3_vl", "tiny_gemma3"])
def test_gradient_checkpointing_keeps_less_and_a_frozen_vision_tower_keeps_nothing(model):
    load = LOAD._replace(patches=256)
    plain = phases(model=model, load=load)
    checkpointed = phases(model=model, load=load, checkpointing={})
    for with_all, with_few in zip(plain, checkpointed, strict=True):
        assert 0 < with_few.kept < with_all.kept
        assert with_few.backward < with_all.backward
    frozen, _ = phases(
        "train.towers.vision.method=frozen", "train.towers.projector.method=frozen", model=model, load=load
    )
    tokens = 64 if model == "tiny_qwen3_vl" else 16
    assert frozen.kept <= 3 * tokens * 64 * 4  # what it hands on


@pytest.mark.parametrize("model", ["tiny_qwen3_vl", "tiny_gemma3"])
def test_kept_bytes_grow_with_the_tokens(model):
    (_, one), (_, two) = (phases(model=model, load=Load(rows, 512, 256, 8)) for rows in (1, 2))
    assert two.kept / one.kept == pytest.approx(2, rel=0.15)


@pytest.mark.parametrize("model", ["tiny_qwen3_vl", "tiny_gemma3"])
def test_many_layers_are_continued_from_few_as_if_all_were_traced(model, monkeypatch):
    deep = ("model.scratch.text_layers=9", "train.method=lora")
    load = Load(rows=1, length=2048, patches=0, answer=8)
    _, continued = phases(*deep, model=model, load=load, checkpointing={})
    monkeypatch.setattr(traced, "_through_all_layers", lambda tower, trace: trace())
    _, whole = phases(*deep, model=model, load=load, checkpointing={})
    assert tuple(continued) == pytest.approx(tuple(whole), rel=0.01)


def test_tracing_without_values_counts_what_real_tensors_take():
    recipe, loaded = tiny("train.precision=fp32")
    _, found = trace(loaded, LOAD, bf16=False, narrow=False, checkpointing=None)
    tower = train_towers(outline(recipe.model).loaded, recipe.train).model.to_empty(device="cpu").model.language_model
    for parameter in tower.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with LiveBytes([*tower.parameters(), *tower.buffers(), *(one.grad for one in tower.parameters())]) as live:
        states = torch.zeros(1, 64, 64, requires_grad=True)
        output = tower(inputs_embeds=states, use_cache=False).last_hidden_state
        forward, kept = live.restart(), live.now
        output.backward(torch.zeros_like(output))
        backward = live.restart()
    assert (found.forward, found.kept) == pytest.approx((forward, kept), rel=0.02)
    assert found.backward == pytest.approx(backward, rel=0.1)  # real gradients are added in place


def test_a_process_that_surely_does_not_fit_is_refused_and_one_that_may_fit_is_not():
    recipe, loaded = tiny()
    memory = training_memory(loaded, recipe, "none", 1, LOAD)
    check_activations(recipe, "none", 1, LOAD, memory.surely)
    with pytest.raises(ValueError, match=r"train.sharding: got none.*set train.max_pack_tokens"):
        check_activations(recipe, "none", 1, LOAD, memory.surely - 1)
