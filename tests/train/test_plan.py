"""What the page of a plan says, of small mixed grids."""

import re

import pytest

from recipes.loader import load_recipe
from train.plan import report

SMALL = [
    "recipe=mixed_grid", "model=tiny_qwen3_vl", "data.photos.use=reuse", "train.effective_batch=6",
    *(f"data.parts.{n}x{n}.{key}" for n in (4, 8) for key in ("spec.piece_px=8", "spec.tab_ratio=0.3", "count=6")),
    "data.parts.12x12=null", "data.parts.16x16=null",
]  # fmt: skip


@pytest.fixture
def page(tmp_path, monkeypatch):
    """`page(*arguments)`: the plan's page with its broken lines joined."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: report([*SMALL, *arguments]).replace("\n  ", " ")


def test_a_machine_without_deepspeed_plans_for_one_that_has_it(page, monkeypatch):
    monkeypatch.setattr("train.sharding.find_spec", lambda name: None)
    assert "warning: train.sharding=zero3 needs the deepspeed package" in page("gpus=2", "train.sharding=zero3")
    assert "deepspeed" not in page("gpus=2", "train.sharding=fsdp2")
    monkeypatch.setattr("train.sharding.find_spec", lambda name: name)
    assert "deepspeed" not in page("gpus=2", "train.sharding=zero3")


def test_the_rate_of_saves_is_said(page):
    (line,) = (line for line in page().splitlines() if line.startswith("saves: "))
    assert line.endswith(" s at 1 GB/s")


def test_a_run_whose_processes_mostly_wait_is_warned_of(page):
    """Six examples a step: on one process none waits, on six all wait for the longest."""
    advice = "set a larger train.effective_batch or use fewer GPUs"
    assert advice not in page("gpus=1")
    assert advice in page("gpus=6")


def test_the_quickstarts_page_warns_of_nothing_and_says_what_its_times_are_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = report(
        ["recipe=quickstart", "data.parts.2x2.count=96", "trainer.max_steps=2", "eval.count=2", "eval.final_count=2"]
    )
    assert "warning" not in text
    assert "\ntimes are for GPUs; on a CPU" in text


GRPO = ["reward={}", "train.batching=plain", "trainer.num_generations=3", "trainer.max_steps=4"]


def test_the_page_of_a_grpo_run_says_what_it_asks_and_trains_on(page):
    """Six completions a step are two puzzles; each may be replaced once."""
    text = page(*GRPO, "data.refill_tries=1")
    assert "\n4 steps of 6 completions = micro-batch 1 x accumulation 6 x processes 1" in text
    assert "\n4 rollouts: 2 puzzle(s), 3 completions each of at most " in text
    assert "\n8 puzzles asked, up to 16 with data.refill_tries=1" in text
    assert "\n24 completions trained on, " in text
    assert "\nlargest micro-batch: " in text
    assert re.search(r"\nrollouts: about .* to .* \(30 ms per token and batch of 6\)", text)
    assert "\nrollouts hold about " in text
    assert "log-probabilities before training" not in text
    assert "what KL is measured from" not in text
    assert "max_pack_tokens" not in text


def test_the_page_says_what_a_reference_and_several_uses_take(page):
    text = page(*GRPO, "trainer.beta=0.1", "trainer.num_iterations=2", "train.checkpoint_every=2")
    assert "what KL is measured from (trainer.beta)" in text
    assert "\n2 rollouts: 2 puzzle(s)" in text
    assert "each trained on in 2 steps" in text
    assert "\nlog-probabilities before training (the model's own, the reference's): " in text


def test_what_vllm_writes_is_left_to_it(page):
    text = page(*GRPO, "trainer.use_vllm=true", "gpu_memory_gb=10")
    assert re.search(r" colocated vLLM \(trainer.vllm_gpu_memory_utilization\) +3.00", text)
    assert "\nrollouts: by vLLM, whose time, and memory within its share, are not planned here" in text
    assert "rollouts hold" not in text


def test_a_reference_beside_a_sharded_model_is_refused_as_the_run_would(page):
    with pytest.raises(ValueError, match=r"trainer.beta: got 0.1 with train.sharding=fsdp2"):
        page(*GRPO, "trainer.beta=0.1", "gpus=2", "train.sharding=fsdp2")


def test_grpo_that_does_not_fit_is_told_smaller_micro_batches_and_rollouts(page):
    """About 2 GiB are left for CUDA itself."""
    large = [*GRPO, "train.effective_batch=240", "eval.count=0", "eval.final_count=0"]
    with pytest.raises(ValueError, match=r"in rollouts; allowed: 2.1") as caught:
        page(*large, "rollouts.batch=240", "gpu_memory_gb=2.1")
    assert re.search(r"\n  rollouts.batch=\d+: ", str(caught.value))
    with pytest.raises(ValueError, match=r"GiB per GPU; allowed: 2.5") as caught:
        page(*large, "train.micro_batch=240", "gpu_memory_gb=2.5")
    assert re.search(r"\n  train.micro_batch=\d+: ", str(caught.value))


@pytest.mark.parametrize(
    ("recipe", "machine", "asked"),
    [
        ("grpo_pa_sc", ["gpus=8"], "200 rollouts: 16 puzzle(s), 8 completions each"),
        ("grpo_pa_sc", ["gpus=1", "train.method=lora"], "200 rollouts: 16 puzzle(s), 8 completions each"),
        ("grpo_curriculum", ["gpus=8"], "300 rollouts: 16 puzzle(s), 8 completions each"),
        ("grpo_from_sft", ["gpus=1"], "150 rollouts: 8 puzzle(s), 8 completions each"),
        ("quickstart_grpo", ["gpus=1"], "60 rollouts: 16 puzzle(s), 8 completions each"),
    ],
)
def test_the_grpo_recipes_fit_what_they_are_made_for(recipe, machine, asked, tmp_path, monkeypatch):
    """Of 80 GB each, with few puzzles of each part, which are all alike but for their photos."""
    monkeypatch.chdir(tmp_path)
    parts = load_recipe([f"recipe={recipe}"]).data.parts
    few = [f"data.parts.{name}.count=4" for name in parts]
    assert f"\n{asked}" in report([f"recipe={recipe}", *few, *machine])
