"""train/sft.py, started for real."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from eval_hooks.records import read_records
from eval_hooks.run_files import what_is_missing

SMALL = [
    *(
        f"data.parts.{n}x{n}.{field}"
        for n in (4, 8, 12, 16)
        for field in ("spec.piece_px=8", "spec.tab_ratio=0.3", "count=8")
    ),
    "data.photos.use=reuse", "train.effective_batch=4", "train.workers=0", "wandb.mode=disabled",
    "eval.count=0", "eval.final_count=0", "train.batching=plain",
]  # fmt: skip
"""Overrides that make recipe=mixed_grid a matter of seconds: all four grids, small pieces, small batches."""


def losses(checkpoint: Path) -> list[float]:
    """The logged loss of every step up to a checkpoint."""
    history = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]
    return [entry["loss"] for entry in history if "loss" in entry]


def weights(checkpoint: Path) -> dict[str, object]:
    """All tensors of a checkpoint's model or adapter."""
    return {name: t for file in sorted(checkpoint.glob("*.safetensors")) for name, t in load_file(file).items()}


def moments(checkpoint: Path) -> list[torch.Tensor]:
    """AdamW's mean gradient of every trained parameter."""
    state = torch.load(checkpoint / "optimizer.pt", weights_only=True)["state"]
    return [of_parameter["exp_avg"] for of_parameter in state.values()]


def assert_trained_alike(one: Path, two: Path, steps: int) -> None:
    """Two runs had the same losses and gradients up to their last step."""
    first, second = one / f"checkpoint-{steps}", two / f"checkpoint-{steps}"
    assert len(losses(first)) == steps
    assert losses(second) == pytest.approx(losses(first), abs=1e-5)
    for gradient, other in zip(moments(first), moments(second), strict=True):
        torch.testing.assert_close(other, gradient, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "method", "evaluated"),
    [
        ("tiny_qwen3_vl", "full", 1),
        ("tiny_qwen3_vl", "lora", 0),
        ("tiny_gemma3", "full", 0),
        ("tiny_gemma3", "lora", 0),
    ],
)
def test_the_mixed_grid_trains_all_four_grids(model, method, evaluated, launch, tmp_path):
    done = launch(
        "train/sft.py", "recipe=mixed_grid", f"model={model}", f"train.method={method}", *SMALL,
        "data.parts.4x4.count=1", "data.parts.8x8.count=1", "data.parts.12x12.count=1", "data.parts.16x16.count=1",
        "trainer.max_steps=2", f"eval.final_count={evaluated}", "train.workers=2", "output_dir=run",
    )  # fmt: skip
    run = tmp_path / "run"
    assert "effective batch 4 = micro-batch 1 x accumulation 4 x processes 1; 2 steps" in done.stderr
    assert len(losses(run / "checkpoint-2")) == 2
    for grid in ("4x4", "8x8", "12x12", "16x16"):
        assert f"part {grid}: " in done.stderr
        assert not evaluated or any(line.startswith(grid) for line in done.stdout.splitlines())
    assert (run / "recipe.yaml").is_file()
    assert json.loads((run / "environment.json").read_text())["packages"]["trl"]
    assert not (run / ".partial" / "checkpoint-2").exists()
    saved = {path.name for path in (run / "checkpoint-2").iterdir()}
    assert ("adapter_model.safetensors" if method == "lora" else "model.safetensors") in saved
    assert not evaluated or "model-index:" in (run / "checkpoint-2" / "README.md").read_text(encoding="utf-8")
    assert what_is_missing(run / "checkpoint-2") is None


@pytest.mark.parametrize(("model", "method"), [("tiny_qwen3_vl", "full"), ("tiny_gemma3", "lora")])
def test_two_processes_train_and_evaluate_as_one(model, method, launch, tmp_path):
    """Five evaluated puzzles: the processes' shares are uneven."""
    common = [
        "recipe=mixed_grid", f"model={model}", f"train.method={method}", *SMALL, "train.precision=fp32",
        "trainer.max_steps=2", "eval.final_count=5", "eval.batch=2",
        "eval.parts={4x4: {task: jigshape, spec: {grid: 4, piece_px: 8, tab_ratio: 0.3}, count: 1}}",
    ]  # fmt: skip
    one = launch("train/sft.py", *common, "output_dir=one")
    two = launch("train/sft.py", *common, "output_dir=two", config="cpu2.yaml")
    assert "accumulation 4 x processes 1" in one.stderr
    assert "accumulation 2 x processes 2" in two.stderr
    assert_trained_alike(tmp_path / "one", tmp_path / "two", steps=2)
    keys = [record.key for record in read_records(tmp_path / "one/records/final.jsonl").records]
    assert len(keys) == 5
    assert [record.key for record in read_records(tmp_path / "two/records/final.jsonl").records] == keys


def test_two_processes_train_on_weighted_packs_as_one_does_on_single_examples(launch, tmp_path):
    """Seven examples in steps of five: both the bins and the last step are uneven."""
    common = [
        "recipe=mixed_grid", "model=tiny_qwen3_vl", *SMALL, "train.precision=fp32", "trainer.num_train_epochs=1",
        "train.effective_batch=5", "data.parts.16x16=null", "data.parts.12x12.count=1", "data.parts.8x8.count=2",
        "data.parts.4x4.count=4", "trainer.learning_rate=1e-3", "trainer.warmup_steps=0",
        "train.weighting=inverse_accuracy", "train.inverse_accuracy.accuracy={4x4: 0.9, 8x8: 0.5, 12x12: 0.2}",
    ]  # fmt: skip
    launch("train/sft.py", *common, "output_dir=one")
    two = launch("train/sft.py", *common, "train.batching=packed", "output_dir=two", config="cpu2.yaml")
    assert "1 pack of at most 16,384 tokens x processes 2; 2 steps" in two.stderr
    assert_trained_alike(tmp_path / "one", tmp_path / "two", steps=2)


def test_on_two_processes_a_weight_of_nothing_is_absence_and_only_ratios_count(launch, tmp_path):
    """One step of all examples, in packs on two processes, against one without the part that weighs nothing."""
    common = [
        "recipe=mixed_grid", "model=tiny_qwen3_vl", *SMALL, "train.precision=fp32", "trainer.max_steps=1",
        "data.parts.4x4.count=4", "data.parts.8x8.count=2", "data.parts.16x16=null",
        "train.weighting=inverse_accuracy", "train.checkpoint_every=1",
    ]  # fmt: skip
    launch(
        "train/sft.py", *common, "output_dir=one", "data.parts.12x12=null", "train.effective_batch=6",
        "train.inverse_accuracy.accuracy={4x4: 0.8, 8x8: 0.2}",
    )  # fmt: skip
    launch(
        "train/sft.py", *common, "output_dir=two", "data.parts.12x12.count=1", "train.effective_batch=7",
        "train.batching=packed", "train.inverse_accuracy.accuracy={4x4: 0.98, 8x8: 0.92, 12x12: 1}", config="cpu2.yaml",
    )  # fmt: skip
    assert_trained_alike(tmp_path / "one", tmp_path / "two", steps=1)


BY_SCORE = [
    "recipe=mixed_grid", "model=tiny_qwen3_vl", *SMALL, "data.parts.12x12=null", "data.parts.16x16=null",
    "trainer.max_steps=9", "train.checkpoint_every=2", "trainer.learning_rate=1e-3", "train.workers=2",
    "eval.count=1", "eval.parts={4x4: {task: jigshape, spec: {grid: 4, piece_px: 8, tab_ratio: 0.3}, count: 1}}",
    "data.curriculum={lag: 3, stages: {easy: {shares: {4x4: 1}, until: {4x4: 0}}, all: {shares: {4x4: 1, 8x8: 1}}}}",
]  # fmt: skip
"""Any score of the first evaluation, after step 2, is enough: the second stage begins at step 5, counted from 0."""


def shares(checkpoint: Path) -> list[float]:
    """The logged share of the 8x8 puzzles of every step."""
    history = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]
    return [entry["share/8x8"] for entry in history if "loss" in entry]


@pytest.mark.slow
def test_a_killed_curriculum_continues_bit_for_bit(launch, launch_and_kill, tmp_path):
    """Killed after the decision and after the stage that it began; the scores are in the checkpoint."""
    whole = launch("train/sft.py", *BY_SCORE, "output_dir=whole")
    assert "curriculum: stage all from step 5 on" in whole.stderr
    launch_and_kill("train/sft.py", *BY_SCORE, "output_dir=killed", at="step 6/9")
    (tmp_path / "killed/records/step-000002.jsonl").unlink()
    launch("train/sft.py", *BY_SCORE, "output_dir=killed", "resume=true", "train.workers=0")
    complete, resumed = tmp_path / "whole/checkpoint-9", tmp_path / "killed/checkpoint-9"
    assert shares(complete) == shares(resumed) == [0] * 5 + [0.5] * 4
    assert losses(complete) == losses(resumed)
    expected, got = weights(complete), weights(resumed)
    assert all(torch.equal(tensor, got[name]) for name, tensor in expected.items())


def test_two_processes_follow_a_curriculum_as_one_does(launch, tmp_path):
    common = [*BY_SCORE, "train.precision=fp32", "train.batching=packed", "trainer.max_steps=7", "train.workers=0"]
    launch("train/sft.py", *common, "output_dir=one")
    launch("train/sft.py", *common, "output_dir=two", config="cpu2.yaml")
    one, two = tmp_path / "one/checkpoint-7", tmp_path / "two/checkpoint-7"
    assert shares(one) == shares(two) == [0] * 5 + [0.5] * 2
    assert losses(two) == pytest.approx(losses(one), abs=1e-5)


@pytest.mark.parametrize(
    ("model", "method", "batching"),
    [
        pytest.param("tiny_qwen3_vl", "full", "plain", marks=pytest.mark.slow),
        ("tiny_qwen3_vl", "full", "packed"),
        pytest.param("tiny_qwen3_vl", "lora", "packed", marks=pytest.mark.slow),
        pytest.param("tiny_gemma3", "full", "balanced", marks=pytest.mark.slow),
        ("tiny_gemma3", "lora", "plain"),
    ],
)
def test_a_killed_run_continues_bit_for_bit(model, method, batching, launch, launch_and_kill, tmp_path):
    """Two epochs of 3 steps; killed in the second; the checkpoint it continues from lies in the middle of an epoch."""
    common = [
        "recipe=mixed_grid", f"model={model}", f"train.method={method}", f"train.batching={batching}", *SMALL,
        "data.parts.12x12=null", "data.parts.16x16=null", "data.parts.4x4.count=6", "data.parts.8x8.count=6",
        "trainer.num_train_epochs=2", "train.checkpoint_every=2", "trainer.learning_rate=1e-3",
    ]  # fmt: skip
    launch("train/sft.py", *common, "output_dir=whole")
    launch_and_kill("train/sft.py", *common, "output_dir=killed", at="step 5/6")
    assert not (tmp_path / "killed/checkpoint-6").exists()
    launch("train/sft.py", *common, "output_dir=killed", "resume=true")
    whole, resumed = tmp_path / "whole/checkpoint-6", tmp_path / "killed/checkpoint-6"
    assert losses(whole) == losses(resumed)
    expected, got = weights(whole), weights(resumed)
    assert expected.keys() == got.keys()
    assert all(torch.equal(tensor, got[name]) for name, tensor in expected.items())


def test_a_recipe_chooses_what_trains_and_the_table_says_so(launch, refused, tmp_path):
    common = [
        "recipe=mixed_grid", "model=tiny_gemma3", *SMALL, "data.parts.12x12=null", "data.parts.16x16=null",
        "train.method=lora", "trainer.max_steps=1", "trainer.warmup_steps=0", "output_dir=run",
    ]  # fmt: skip
    assert "train.towers.projector.method: got lora" in refused(
        "train/sft.py", *common, "train.towers.projector.method=lora"
    )
    done = launch("train/sft.py", *common, "train.towers.projector={method: full, learning_rate: 1e-3}")
    rows = [line.split()[:2] for line in done.stderr.splitlines()]
    assert [row for row in rows if row[:1] in (["language"], ["vision"], ["projector"])] == [
        ["language", "lora"], ["language", "frozen"], ["vision", "frozen"],
        ["projector", "full"], ["projector", "start"],
    ]  # fmt: skip
    saved = weights(tmp_path / "run/checkpoint-1")
    assert sum("projector" in name for name in saved) == 2
    assert sum("lora" in name for name in saved) == 2 * 2 * 7 == len(saved) - 2


def test_a_run_folder_is_never_overwritten(refused, tmp_path):
    (tmp_path / "run/checkpoint-7").mkdir(parents=True)
    said = refused("train/sft.py", "recipe=mixed_grid", "model=tiny_qwen3_vl", *SMALL, "output_dir=run")
    assert "holds a run up to checkpoint-7" in said
    assert "resume=true" in said


def test_a_dry_run_does_everything_but_train(launch, tmp_path):
    done = launch("train/sft.py", "recipe=mixed_grid", "model=tiny_qwen3_vl", *SMALL, "dry_run=true", "output_dir=run")
    assert "dry run" in done.stderr
    assert not list((tmp_path / "run").rglob("*"))


def test_an_example_that_does_not_fit_is_refused_with_key_and_length(refused, tmp_path):
    arguments = ["recipe=mixed_grid", "model=tiny_qwen3_vl", *SMALL, "model.max_tokens=400", "output_dir=run"]
    said = refused("train/sft.py", *arguments)
    assert "model.max_tokens: got 400" in said
    assert "of part 16x16 (jigshape-" in said
    assert not list((tmp_path / "run").rglob("*"))


def test_too_few_distinct_photos_are_refused(refused):
    said = refused("train/sft.py", "recipe=mixed_grid", "model=tiny_qwen3_vl")
    assert "3000" in said
    assert "data.photos.folder" in said


def test_every_problem_of_a_command_line_is_told_at_once(refused):
    said = refused("train/sft.py", "recipe=mixed_grid", "model=tiny_qwen3_vl", "train.mothod=full", "trainer.lr=1")
    assert "train.mothod" in said
    assert "method" in said
    assert "trainer.lr" in said
