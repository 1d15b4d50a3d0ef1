"""train.plan and train.doctor, started for real."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.entry.conftest import ROOT, surroundings
from tests.entry.test_sft import SMALL, losses

FEW = [f"data.parts.{n}x{n}.count={count}" for n, count in ((4, 6), (8, 4), (12, 3), (16, 3))]
"""Published sheets, few of them."""


@pytest.fixture
def module(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`module(name, *arguments, status=0)`: python -m of it in an empty folder, without network."""

    def run(name: str, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", name, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**surroundings(), "PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path)}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == status, f"{done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        assert "Traceback" not in done.stderr
        return done

    return run


def test_a_plan_of_a_hub_model_needs_neither_weights_nor_network(module):
    page = module(
        "train.plan", "recipe=mixed_grid", *FEW, "gpus=8", "gpu_memory_gb=80", "train.effective_batch=8"
    ).stdout
    assert "plan of mixed_grid: qwen3_vl_8b, full, 8 GPUs of 80 GB" in page
    assert "parameters: 8,767,123,696, of which 8,767,123,696 train" in page
    assert "text tokens: estimated" in page
    for grid, tokens in (("4x4", "529"), ("8x8", "2,304"), ("12x12", "5,776"), ("16x16", "10,712")):
        rows = [line.split() for line in page.splitlines() if line.startswith(f"  {grid} ")]
        assert [tokens in row for row in rows] == [True, True]
    assert "memory per GPU, fsdp2" in page
    assert "2 steps of 8 = " in page
    assert "waiting for each micro-step's busiest process adds" in page
    assert "checkpoint(s) of 105 GB" in page
    assert max(map(len, page.splitlines())) <= 100


def test_a_run_that_does_not_fit_is_refused_with_what_would(module):
    fewer = [*FEW, "data.parts.12x12=null", "data.parts.16x16=null", "train.effective_batch=4"]
    done = module("train.plan", "recipe=mixed_grid", *fewer, "gpu_memory_gb=80", status=2)
    assert "memory per GPU, none" in done.stdout
    assert "waiting for each step's busiest process adds 0%" in done.stdout
    assert "error: got a run that needs about 1" in done.stderr
    assert "allowed: 80 (gpu_memory_gb); do choose one of these, which fit:" in done.stderr
    assert "\n  train.method=lora" in done.stderr


def test_what_is_dropped_comes_with_gradient_checkpointing_where_it_is_off(module):
    """Alone it does not fit 24 GB, and without it nothing does."""
    fewer = ["data.parts.4x4.count=4", "data.parts.8x8=null", "data.parts.12x12=null", "data.parts.16x16.count=1"]
    done = module(
        "train.plan", "recipe=mixed_grid_lora", *fewer, "trainer.gradient_checkpointing=false", "gpu_memory_gb=24",
        status=2,
    )  # fmt: skip
    assert "\n  trainer.gradient_checkpointing=true data.parts.16x16=null train.max_pack_tokens=" in done.stderr


def test_evaluations_that_do_not_fit_are_told_how_many_puzzles_do(module):
    few = ["data.parts.4x4.count=2", "data.parts.8x8=null", "data.parts.12x12=null", "data.parts.16x16.count=1"]
    done = module(
        "train.plan", "recipe=mixed_grid_lora", *few, "gpu_memory_gb=40", "train.max_pack_tokens=13500", status=2
    )
    assert "GiB per GPU in evaluations; allowed: 40" in done.stderr
    assert "\n  eval.batch=" in done.stderr


def test_a_plan_of_grpo_says_what_the_run_says_and_what_fits(module):
    """On 24 GB, training fits and 16 completions at once do not."""
    few = ["data.parts.4x4.count=4", "data.parts.8x8.count=4", "data.parts.12x12.count=4"]
    done = module("train.plan", "recipe=grpo_from_sft", *few, "gpu_memory_gb=24", status=2)
    assert "150 rollouts: 8 puzzle(s), 8 completions each of at most 1,397 tokens" in done.stdout
    assert "GiB per GPU in rollouts; allowed: 24" in done.stderr
    assert "rollouts.batch=" in done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_what_gemma_cannot_make_out_is_said(module):
    page = module(
        "train.plan", "recipe=mixed_grid_lora", "model=gemma3_12b", *FEW, "data.parts.8x8=null", "data.parts.12x12=null"
    ).stdout
    assert "warning: part 16x16: a piece is left with 1.0 image tokens" in page
    assert "part 4x4: a piece" not in page


def test_a_recipe_that_cannot_work_is_refused_before_any_table(module):
    tiny = ["recipe=mixed_grid", "model=tiny_qwen3_vl", *SMALL]
    done = module("train.plan", *tiny, "model.max_tokens=300", status=2)
    assert "plan of" not in done.stdout
    assert "model.max_tokens: got 300" in done.stderr
    done = module("train.plan", *tiny, "gpus=3", status=2)
    assert "train.effective_batch: got 4 with micro_batch 1 on 3 process(es)" in done.stderr
    done = module("train.plan", *tiny, "mfu=40", "gpus=0", "gpu=8", "train.efective_batch=1", status=2)
    for told in ("mfu: got", "gpus: got", "did you mean gpus?", "train.efective_batch: got"):
        assert told in done.stderr


def test_photos_that_are_named_and_too_few_are_refused(module, tmp_path):
    (tmp_path / "photos").mkdir()
    done = module("train.plan", "recipe=mixed_grid", "model=tiny_qwen3_vl", "data.photos.folder=photos", status=2)
    assert "error: " in done.stderr


def test_the_doctor_looks_at_this_machine_and_at_a_recipe(module):
    alone = module("train.doctor").stdout
    for about in ("packages", "GPU", "disk", "W&B", "hub"):
        assert about in alone
    judged = module("train.doctor", "recipe=quickstart").stdout
    assert "quickstart is made from scratch" in judged


def test_the_doctor_leaves_with_1_when_something_is_bad(module):
    done = module("train.doctor", "recipe=mixed_grid", status=1)
    assert "bad   model" in done.stdout
    assert "hf download Qwen/Qwen3-VL-8B-Instruct" in done.stdout


def test_two_processes_take_the_worst_batch_first_and_learn_the_same(launch, tmp_path):
    common = [
        "recipe=mixed_grid", "model=tiny_qwen3_vl", *SMALL, "train.precision=fp32", "train.batching=packed",
        "data.parts.12x12=null", "data.parts.16x16=null", "trainer.max_steps=2",
    ]  # fmt: skip
    launch("train/sft.py", *common, "output_dir=plain", config="cpu2.yaml")
    done = launch("train/sft.py", *common, "train.worst_batch_first=true", "output_dir=first", config="cpu2.yaml")
    assert "worst batch first: 1 micro-batch(es) went forward and backward" in done.stderr
    assert losses(tmp_path / "first/checkpoint-2") == losses(tmp_path / "plain/checkpoint-2")
