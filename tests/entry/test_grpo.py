"""train/grpo.py, started for real: on two processes, killed, from an adapter, on to an evaluation and a merge."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from eval_hooks.records import read_records
from tests.entry.conftest import command, finished, surroundings
from tests.entry.test_sft import weights

PARTS = [
    *(f"data.parts.{n}x{n}=null" for n in (4, 8, 12, 16)),
    *(
        f"data.parts.{n}={{task: jigshape, count: 12, spec: {{grid: {n}, piece_px: 8, tab_ratio: 0.3}}}}"
        for n in (2, 3)
    ),
]  # fmt: skip
BASE = [
    "recipe=mixed_grid", "data.photos.use=reuse", *PARTS, "train.batching=plain", "train.precision=fp32",
    "train.workers=0", "wandb.mode=disabled", "trainer.learning_rate=1e-3", "trainer.warmup_steps=0",
    "trainer.gradient_checkpointing=false", "eval.count=0", "eval.final_count=0",
]  # fmt: skip
RUN = [
    *BASE, "reward={}", "rollouts.constrained=true", "rollouts.batch=5", "train.effective_batch=24",
    "train.micro_batch=6", "trainer.num_generations=4", "trainer.max_steps=4", "train.checkpoint_every=2",
]  # fmt: skip
"""Valid answers of a model that knows nothing: their rewards differ."""


def curve(checkpoint: Path) -> list[dict[str, float]]:
    """What is logged of every step up to a checkpoint, without times."""
    history = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]
    return [{name: value for name, value in entry.items() if name != "step_time"} for entry in history]


def completions(run: Path, step: int) -> list[list[str]]:
    """What each process wrote for a step."""
    files = [file.read_text().splitlines() for file in sorted((run / "rollouts").iterdir())]
    return [[one["text"] for one in json.loads(lines[step - 1])["completions"]] for lines in files]


@pytest.mark.parametrize(
    ("model", "method", "sharding"),
    [
        ("tiny_qwen3_vl", "full", "ddp"),
        ("tiny_gemma3", "lora", "ddp"),
        pytest.param("tiny_qwen3_vl", "full", "fsdp2", marks=pytest.mark.slow),
        pytest.param("tiny_qwen3_vl", "lora", "ddp", marks=pytest.mark.slow),
        pytest.param("tiny_gemma3", "full", "ddp", marks=pytest.mark.slow),
        pytest.param("tiny_gemma3", "lora", "fsdp2", marks=pytest.mark.slow),
        pytest.param("tiny_gemma3", "full", "fsdp2", marks=pytest.mark.slow),
    ],
)
def test_two_processes_ask_and_learn_what_one_does(model, method, sharding, launch, tmp_path, two_images, monkeypatch):
    """Fourteen groups of three completions on two processes, in micro-batches of seven: a single group that is asked
    again is cut between them. Prompts have one image or two, of different sizes."""
    common = [*RUN, f"model={model}", f"train.method={method}", "rollouts.write=true", "trainer.max_steps=2"]
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    common += ["train.effective_batch=42", "train.micro_batch=7", "trainer.num_generations=3", "data.refill_tries=2"]
    common += [two_images, "reward={sc: 0}"]  # PA alone: all three of a group are equal in one of ten
    launch("train/grpo.py", *common, "output_dir=one")
    launch("train/grpo.py", *common, f"train.sharding={sharding}", "output_dir=two", config="cpu2.yaml")
    one, two = (curve(tmp_path / name / "checkpoint-2") for name in ("one", "two"))
    for first, second in zip(one, two, strict=True):
        for name in (
            "reward",
            "reward_std",
            "rewards/pa/mean",
            "primary/2",
            "primary/rows",
            "teaching/3",
            "refill/asked",
            "grad_norm",
        ):
            assert second[name] == pytest.approx(first[name], rel=1e-5, abs=2e-5), name
        assert first["reward_std"] > 0
    assert sum(entry["refill/asked"] for entry in one) > 0
    of_each = completions(tmp_path / "two", 1)
    assert len(of_each) == 2
    assert of_each[0] != of_each[1]
    drawn = [*of_each[0], *of_each[1]]
    assert [drawn] == completions(tmp_path / "one", 1)
    assert len(drawn) == 42
    assert len({tuple(drawn[at : at + 3]) for at in range(0, 42, 3)}) == 14
    expected, got = (weights(tmp_path / name / "checkpoint-2") for name in ("one", "two"))
    for name, tensor in expected.items():
        torch.testing.assert_close(got[name], tensor, atol=1e-4, rtol=1e-4, msg=name)


CURRICULUM = [
    *RUN, "model=tiny_qwen3_vl", "trainer.max_steps=8", "data.refill_tries=1", "trainer.beta=0.02",
    "train.method=lora", "train.lora.dropout=0.1",
    "data.curriculum={adaptive: {floor: 0.2}, groups: {every: 1}, lag: 2}",
]  # fmt: skip


def assert_same_end(whole: Path, other: Path) -> None:
    assert curve(whole / "checkpoint-8") == curve(other / "checkpoint-8")
    seen = [(run / "seen/rank-0.jsonl").read_text() for run in (whole, other)]
    assert seen[0] == seen[1]
    states = [(run / "checkpoint-8/groups.json").read_text() for run in (whole, other)]
    assert states[0] == states[1]
    expected, got = weights(whole / "checkpoint-8"), weights(other / "checkpoint-8")
    assert expected.keys() == got.keys()
    assert all(torch.equal(tensor, got[name]) for name, tensor in expected.items())


def test_a_killed_run_continues_its_curriculum_and_its_rewards_exactly(launch, launch_and_kill, tmp_path):
    launch("train/grpo.py", *CURRICULUM, "output_dir=whole")
    launch_and_kill("train/grpo.py", *CURRICULUM, "train.workers=1", "output_dir=killed", at="step 5/8")
    launch("train/grpo.py", *CURRICULUM, "train.workers=1", "output_dir=killed", "resume=true")
    assert_same_end(tmp_path / "whole", tmp_path / "killed")
    shares = [entry["share/2"] for entry in curve(tmp_path / "whole" / "checkpoint-8") if "reward" in entry]
    assert shares[:3] == [0.5, 0.5, 0.5]  # decided after step 1 at the earliest, two steps ahead
    assert len(set(shares)) > 2


def test_a_signal_waits_until_completions_are_used_up(launch, tmp_path):
    """Two steps train on the same completions, which no checkpoint holds."""
    words = [*RUN, "model=tiny_qwen3_vl", "trainer.max_steps=8", "trainer.num_iterations=2", "train.checkpoint_every=8"]
    launch("train/grpo.py", *words, "output_dir=whole")
    with subprocess.Popen(
        command("train/grpo.py", *words, "output_dir=run"), cwd=tmp_path, env=surroundings(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        for line in process.stdout:
            if line.startswith("step 2/8"):
                os.killpg(process.pid, signal.SIGUSR1)
                break
        said = process.stdout.read()
        process.wait(timeout=120)
    assert "the run saves after step 4" in said or "the run saves after step 6" in said, said[-3000:]
    launch("train/grpo.py", *words, "output_dir=run", "resume=true")
    assert_same_end(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("model", ["tiny_qwen3_vl", pytest.param("tiny_gemma3", marks=pytest.mark.slow)])
def test_an_sft_adapter_goes_through_grpo_to_an_evaluation_and_a_merged_model(model, launch, tmp_path):
    judged = ['eval.parts={"2": {task: jigshape, spec: {grid: 2, piece_px: 8, tab_ratio: 0.3}, count: 1}}']
    both = [f"model={model}", "train.method=lora", "train.lora.rank=4", *judged]
    launch(
        "train/sft.py", *BASE, *both, "train.effective_batch=4", "train.micro_batch=4", "trainer.max_steps=2",
        "output_dir=sft",
    )  # fmt: skip
    launch(
        "train/grpo.py", *RUN, *both, "train.start=sft/checkpoint-2", "trainer.max_steps=2", "trainer.beta=0.04",
        "eval.final_count=3", "output_dir=grpo",
    )  # fmt: skip
    start, end = weights(tmp_path / "sft/checkpoint-2"), weights(tmp_path / "grpo/checkpoint-2")
    assert start.keys() == end.keys()
    assert not (tmp_path / "grpo/checkpoint-2/ref").exists()
    changed = {name: (end[name] - tensor).abs().max() for name, tensor in start.items()}
    assert 0 < max(changed.values()) < 0.02  # two steps at 1e-3 from there, and not from new adapters
    first, second = (entry for entry in curve(tmp_path / "grpo/checkpoint-2") if "reward" in entry)
    assert first["kl"] == pytest.approx(0, abs=1e-6)
    assert second["kl"] > 1e-6
    recipe = ["recipe=grpo/recipe.yaml"]
    for words in (
        ["eval_hooks.run", *recipe, "checkpoint=grpo/checkpoint-2", "out=adapter.jsonl"],
        ["models.merge", "checkpoint=grpo/checkpoint-2", "out=merged"],
        ["eval_hooks.run", *recipe, "checkpoint=merged", "out=merged.jsonl"],
    ):
        done = finished([sys.executable, "-m", *words], tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
    told = [
        [record.text for record in read_records(tmp_path / file).records]
        for file in ("grpo/records/final.jsonl", "adapter.jsonl", "merged.jsonl")
    ]
    assert told[0] == told[1] == told[2]
    assert len(told[0]) == 3


def test_each_script_refuses_the_others_recipes(refused):
    said = refused("train/grpo.py", "recipe=quickstart")
    assert "reward: got none; allowed for train/grpo.py: one; set reward={} for the defaults, or start" in said
    said = refused("train/sft.py", "recipe=quickstart_grpo")
    assert "reward: got one; allowed for train/sft.py: none; remove it, or start train/grpo.py" in said
