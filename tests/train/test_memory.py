"""Memory of a training process: the arithmetic, and the tracing that it rests on."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from trl.trainer.utils import add_fused_lm_head

from models.outline import outline
from models.towers import train_towers
from recipes.loader import load_recipe
from train import traced
from train.head_memory import Head, loss_head
from train.memory import (
    Memory,
    check_activations,
    composed,
    head_of,
    standing_memory,
    training_memory,
    vllm_memory,
)
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


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("method", ["full", "lora"])
def test_log_probabilities_take_what_the_fused_head_really_does(method, precision, monkeypatch):
    """Its tiles' own arithmetic is left out: on a GPU it happens in place, on a CPU in copies. What is not counted is a
    few numbers for each token, and of a second tile the states."""
    grpo = ("reward={}", "train.batching=plain", "model.scratch.text_hidden=512")
    recipe, loaded = tiny(f"train.method={method}", f"train.precision={precision}", *grpo)
    expected = head_of(loaded, recipe, "none", answer=4500)
    model = train_towers(outline(recipe.model).loaded, recipe.train).model.to_empty(device="cpu")
    model = model.get_base_model() if method == "lora" else model
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    monkeypatch.setattr("trl.trainer.utils._use_triton", lambda device: True)
    for name in ("_forward_tile", "_backward_tile", "_addmm_fp32"):
        monkeypatch.setattr(f"trl.kernels.chunked_logprob.{name}", lambda *args, **kwargs: None)
    weight = model.get_output_embeddings().weight
    if weight.requires_grad:
        weight.grad = torch.zeros_like(weight)
    states = torch.zeros(1, 5001, 512, dtype=model.get_input_embeddings().weight.dtype, requires_grad=True)
    labels = torch.full((1, 5001), -100)
    labels[0, -4500:] = 0
    model.model.forward = lambda **kwargs: SimpleNamespace(last_hidden_state=states)
    present = [states, labels, *model.parameters(), *(one.grad for one in [weight] if one.requires_grad)]
    with LiveBytes(present) as live:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            log_probs = model(labels=labels, fused_lm_head=True).log_probs
            forward, kept = live.restart(), live.now
        log_probs.sum().backward()
        backward = live.restart()
    assert (expected.forward, expected.kept, expected.backward) == pytest.approx(
        (forward, kept, backward), abs=128 * 4500
    )


def test_log_probabilities_among_few_tokens_take_no_tiles():
    recipe, loaded = tiny("reward={}", "train.batching=plain", "rollouts.constrained=true")
    found = head_of(loaded, recipe, "none", answer=100)
    vocabulary = loaded.model.config.text_config.vocab_size
    assert found.forward == found.kept == 100 * 64 * 4
    assert found.backward == 2 * found.kept + 4 * vocabulary * 64


def test_a_sharded_head_is_whole_until_its_backward_pass_is_over():
    recipe, loaded = tiny("reward={}", "train.batching=plain")
    alone, sharded = (head_of(loaded, recipe, sharding, answer=100) for sharding in ("none", "fsdp2"))
    vocabulary = loaded.model.config.text_config.vocab_size
    assert sharded.kept == 100 * 64 * 2 + 4 * vocabulary * 64
    assert alone.kept == 100 * 64 * 4


def test_the_reference_and_a_colocated_vllm_are_there_all_the_time():
    grpo = ("reward={}", "train.batching=plain")
    recipe, loaded = tiny(*grpo, "trainer.beta=0.1")
    plain = training_memory(loaded, tiny(*grpo)[0], "none", 1, LOAD)
    found = training_memory(loaded, recipe, "none", 1, LOAD)
    more = 2 * sum(parameter.numel() for parameter in loaded.model.parameters())
    assert (found.peak - plain.peak, found.between_steps - plain.between_steps) == (more, more)
    beside = replace(found, vllm=7)
    assert (beside.peak - found.peak, beside.between_steps - found.between_steps) == (7, 7)
    by_vllm = ("trainer.use_vllm=true", "trainer.vllm_gpu_memory_utilization=0.5")
    assert vllm_memory(tiny(*grpo, *by_vllm)[0], 100) == 50
    assert vllm_memory(tiny(*grpo, *by_vllm, "trainer.vllm_mode=server")[0], 100) == 0
    assert vllm_memory(recipe, 100) == 0


def test_the_peak_of_each_pass_is_where_most_towers_wait():
    vision, language = Phases(forward=7, held=5, kept=3, backward=20), Phases(forward=11, held=10, kept=8, backward=12)
    head = Head(forward=0, kept=0, backward=0)
    found = composed(replace(NONE, weights=100), vision, language, head, embeddings=0)
    assert (found.forward, found.backward, found.kept) == (5 + 11, 20, 11)
    assert found.peak == 120
    assert composed(NONE, vision._replace(backward=4), language, head, embeddings=0).backward == 3 + 12
    assert composed(NONE, vision._replace(backward=4), language, head, embeddings=99).backward == 3 + 99
    assert composed(NONE, vision, language, replace(head, backward=50), embeddings=0).backward == 11 + 50


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
    grpo, _ = tiny("reward={}", "train.batching=plain", "trainer.beta=0.1")
    with pytest.raises(ValueError, match=r"AdamW state, what KL is measured from, .*set train.micro_batch lower"):
        check_activations(grpo, "none", 1, LOAD, memory.standing)
