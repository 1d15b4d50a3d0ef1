"""What evaluations hold, by numbers that were worked out by hand."""

from dataclasses import replace
from math import ceil

import pytest

from models.outline import outline
from models.towers import train_towers
from recipes.loader import load_recipe
from train.evaluation_memory import EvaluationMemory, evaluation_memory, rollout_memory
from train.forecast import forecast
from train.grpo_forecast import grpo_forecast
from train.memory import OVERHEAD_BYTES, standing_memory

FEW = ["data.photos.use=reuse", *(f"data.parts.{n}x{n}=null" for n in (8, 12, 16)), "data.parts.4x4.count=4"]


def foreseen(*overrides, processes=1):
    recipe = load_recipe(["recipe=mixed_grid", *FEW, "train.effective_batch=4", *overrides])
    outlined = outline(recipe.model)
    return forecast(recipe, outlined, train_towers(outlined.loaded, recipe.train), processes)


def of(found, sharding, processes):
    standing = standing_memory(found.loaded, sharding, processes, bf16=True)
    return evaluation_memory(found, standing, sharding), standing


@pytest.mark.parametrize(
    ("method", "sharding", "width"), [("full", "fsdp2", 2), ("full", "none", 4), ("lora", "none", 2)]
)
def test_a_puzzle_takes_keys_and_values_of_all_layers_and_the_work_of_one(
    method, sharding, width, tmp_path, monkeypatch
):
    """Qwen3-VL-8B: 36 layers, 8 heads of 128 for keys and as many for values, 4,096 wide, 12,288 in the MLP."""
    monkeypatch.chdir(tmp_path)
    found = foreseen(f"train.method={method}")
    (lengths,) = (one.lengths for one in found.evaluated.values())
    memory, _ = of(found, sharding, 8)
    cache = 36 * 2 * 8 * 128 * width * lengths.total
    assert memory.answer == cache + (3 * 12_288 + 4 * 4_096) * 2 * lengths.prompt
    assert memory.together == 8


def test_sharded_weights_are_whole_on_every_gpu_and_gradients_are_gone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = foreseen(processes=2)
    memory, standing = of(found, "fsdp2", 2)
    assert memory.gathered == 2 * 8_767_123_696
    assert memory.standing == standing.weights + standing.optimizer == 6 * 8_767_123_696
    assert memory.peak == memory.standing + memory.gathered + 8 * memory.answer


def test_rollouts_hold_completions_as_long_as_they_may_be_and_no_more_than_a_process_writes(tmp_path, monkeypatch):
    """Of 16 completions each of two processes writes 8."""
    monkeypatch.chdir(tmp_path)
    grpo = ["reward={}", "train.batching=plain", "train.effective_batch=16", "train.method=lora"]
    recipe = load_recipe(["recipe=mixed_grid", *FEW, *grpo])
    outlined = outline(recipe.model)
    found = grpo_forecast(recipe, outlined, train_towers(outlined.loaded, recipe.train), 2)
    standing = replace(standing_memory(found.loaded, "ddp", 2, bf16=True), reference=11, vllm=13)
    memory = rollout_memory(found, standing, "ddp")
    (gold,) = {one.lengths for one in found.measured.values()}
    limit = ceil(1.25 * gold.answer) + 32
    assert memory.answer == 36 * 2 * 8 * 128 * 2 * (gold.prompt + limit) + (3 * 12_288 + 4 * 4_096) * 2 * gold.prompt
    assert (memory.together, memory.standing) == (8, standing.weights + standing.optimizer + standing.buckets + 24)
    by_vllm = replace(found, recipe=load_recipe(["recipe=mixed_grid", *FEW, *grpo, "trainer.use_vllm=true"]))
    assert rollout_memory(by_vllm, standing, "ddp") is None


def test_without_evaluations_nothing_is_held(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory, _ = of(foreseen("eval.count=0", "eval.final_count=0"), "none", 1)
    assert (memory.peak, memory.fits(0)) == (0, True)


def test_as_many_puzzles_fit_as_there_is_room_for():
    memory = EvaluationMemory(standing=100, gathered=50, answer=10, together=8)
    assert [memory.most(OVERHEAD_BYTES + room) for room in (140, 160, 189, 230)] == [0, 1, 3, 8]
    assert [memory.fits(OVERHEAD_BYTES + room) for room in (229, 230)] == [False, True]
