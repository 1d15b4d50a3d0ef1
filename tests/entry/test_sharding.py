"""Several processes, started for real, that share a model: they learn what one process learns."""

import re
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import yaml

from eval_hooks.records import read_records
from models.load import load_model
from recipes.loader import load_recipe
from tests.entry.conftest import ROOT, command, surroundings
from tests.entry.test_sft import SMALL, losses, weights

RUN = [
    "recipe=mixed_grid", *SMALL, "train.precision=fp32", "data.parts.12x12=null", "data.parts.16x16=null",
    "trainer.learning_rate=1e-3", "trainer.warmup_steps=0", "train.checkpoint_every=2",
]  # fmt: skip
JUDGED = [
    "eval.count=1", "eval.final_count=3", "eval.batch=2",
    "eval.parts={4x4: {task: jigshape, spec: {grid: 4, piece_px: 8, tab_ratio: 0.3}, count: 1}}",
]  # fmt: skip
"""Three puzzles in batches of two: one of two processes asks two of them, and at a checkpoint one asks none."""
CHECKPOINTING = ["trainer.gradient_checkpointing=true"]
ADAPTERS = [
    "train.method=lora", "train.towers.vision={method: lora, learning_rate: 5e-4}",
    "train.towers.projector.method=full", *CHECKPOINTING,
]  # fmt: skip
"""Three ways to train and two rates in one model."""


def assert_alike(one: Path, other: Path) -> None:
    """Losses and weights of two checkpoints of like runs that added up in another order."""
    assert losses(other) == pytest.approx(losses(one), abs=1e-5)
    expected, got = weights(one), weights(other)
    assert expected.keys() == got.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(got[name], tensor, atol=1e-4, rtol=1e-4, msg=name)


def assert_equal(one: Path, other: Path) -> None:
    assert losses(one) == losses(other)
    expected, got = weights(one), weights(other)
    assert expected.keys() == got.keys()
    assert all(torch.equal(tensor, got[name]) for name, tensor in expected.items())


def stopped_after(step: int, run: Path, folder: Path) -> None:
    """A copy of a run as it was after a step."""
    shutil.copytree(run, folder)
    for checkpoint in folder.glob("checkpoint-*"):
        if int(checkpoint.name.partition("-")[2]) > step:
            shutil.rmtree(checkpoint)


def make_zero_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSpeed on a CPU; it compiles what it sends tensors with at its first use, which takes minutes."""
    if find_spec("deepspeed") is None:
        pytest.skip("deepspeed is not installed; DS_BUILD_OPS=0 pip install -e '.[deepspeed]' would let this run")
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    build = "from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder as Builder; Builder().load()"
    subprocess.run([sys.executable, "-c", build], env=surroundings(), check=True, capture_output=True, timeout=900)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("sharding", "model", "how"),
    [
        # the last step has a single example: one of two processes has none
        pytest.param("fsdp2", "tiny_qwen3_vl", ["train.batching=packed", "data.parts.8x8.count=5", *JUDGED], id="full"),
        pytest.param("fsdp2", "tiny_qwen3_vl", [*ADAPTERS, *JUDGED], id="adapters", marks=pytest.mark.slow),
        pytest.param("fsdp2", "tiny_gemma3", CHECKPOINTING, id="tied", marks=pytest.mark.slow),
        pytest.param("fsdp2", "tiny_gemma3", [*ADAPTERS, *JUDGED], id="tied-adapters", marks=pytest.mark.slow),
        pytest.param("zero3", "tiny_qwen3_vl", [*CHECKPOINTING, *JUDGED], id="zero3", marks=pytest.mark.slow),
        pytest.param("zero3", "tiny_gemma3", ["train.method=lora"], id="zero3-adapters", marks=pytest.mark.slow),
    ],
)
def test_processes_that_share_a_model_learn_and_answer_what_one_does_and_continue_exactly(
    sharding, model, how, launch, tmp_path, monkeypatch
):
    if sharding == "zero3":
        make_zero_run_here(monkeypatch)
    small = load_model(load_recipe(["recipe=mixed_grid", f"model={model}"]).model, seed=0, dtype=torch.float32)
    for part in (small.model, small.processor):
        part.save_pretrained(tmp_path / "weights")
    files = ["model.scratch=null", "model.pretrained=weights"]  # which only the first process reads
    common = [*RUN, f"model={model}", *files, *how, "trainer.num_train_epochs=1"]
    launch("train/sft.py", *common, "output_dir=one")
    sharded = [*common, f"train.sharding={sharding}"]
    done = launch("tests/entry/look_inside.py", *sharded, "output_dir=two", config="cpu2.yaml")
    told = re.findall(rf"of (\d+) parameters are shared: .*'{sharding}': (\d+)", done.stdout)
    assert len(told) == 2
    assert all(parameters == shared for parameters, shared in told)
    last = max((tmp_path / "one").glob("checkpoint-*")).name
    assert_alike(tmp_path / "one" / last, tmp_path / "two" / last)
    for file in (tmp_path / "one/records").glob("*.jsonl"):
        answers = [[(r.key, r.text) for r in read_records(tmp_path / run / "records" / file.name).records]
                   for run in ("one", "two")]  # fmt: skip
        assert answers[0] == answers[1]
    stopped_after(2, tmp_path / "two", tmp_path / "again")
    launch("train/sft.py", *sharded, "output_dir=again", "resume=true", config="cpu2.yaml")
    assert_equal(tmp_path / "two" / last, tmp_path / "again" / last)


@pytest.mark.slow
def test_in_16_bits_processes_that_share_a_model_learn_the_same_and_continue_exactly(launch, tmp_path):
    common = [*RUN, "model=tiny_gemma3", "train.precision=bf16", *CHECKPOINTING, "trainer.max_steps=4"]
    launch("train/sft.py", *common, "output_dir=one")
    sharded = [*common, "train.sharding=fsdp2"]
    launch("train/sft.py", *sharded, "output_dir=two", config="cpu2.yaml")
    assert losses(tmp_path / "two/checkpoint-4") == pytest.approx(losses(tmp_path / "one/checkpoint-4"), rel=2**-8)
    stopped_after(2, tmp_path / "two", tmp_path / "again")
    launch("train/sft.py", *sharded, "output_dir=again", "resume=true", config="cpu2.yaml")
    assert_equal(tmp_path / "two/checkpoint-4", tmp_path / "again/checkpoint-4")


@pytest.mark.parametrize("sharding", ["ddp", pytest.param("fsdp2", marks=pytest.mark.slow)])
def test_a_process_whose_examples_have_no_image_keeps_up(sharding, launch, tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT_ONLY", "1")
    common = [*RUN, "model=tiny_qwen3_vl", "trainer.max_steps=2"]
    launch("tests/entry/look_inside.py", *common, "output_dir=one")
    launch("tests/entry/look_inside.py", *common, f"train.sharding={sharding}", "output_dir=two", config="cpu2.yaml")
    assert_alike(tmp_path / "one/checkpoint-2", tmp_path / "two/checkpoint-2")


def on_two_nodes(folder: Path, *arguments: str) -> None:
    """Two launchers, as on two machines, with a process each."""
    config = yaml.safe_load((ROOT / "launch/accelerate/several_nodes.yaml").read_text(encoding="utf-8"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        config |= {"use_cpu": True, "num_processes": 2, "main_process_port": probe.getsockname()[1]}
    nodes = []
    for rank in range(2):
        file = folder / f"node-{rank}.yaml"
        file.write_text(yaml.safe_dump(config | {"machine_rank": rank}), encoding="utf-8")
        nodes.append(
            subprocess.Popen(
                command("train/sft.py", *arguments, config=str(file)),
                cwd=folder, env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
        )  # fmt: skip
    said = [node.communicate(timeout=250)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said[0][-4000:] + said[1][-4000:]


@pytest.mark.slow
def test_two_nodes_train_as_one_process_does_and_continue_exactly(launch, tmp_path):
    common = [*RUN, "model=tiny_qwen3_vl", "trainer.max_steps=4"]
    launch("train/sft.py", *common, "output_dir=one")
    on_two_nodes(tmp_path, *common, "train.sharding=fsdp2", "output_dir=two")
    assert_alike(tmp_path / "one/checkpoint-4", tmp_path / "two/checkpoint-4")
    stopped_after(2, tmp_path / "two", tmp_path / "again")
    on_two_nodes(tmp_path, *common, "train.sharding=fsdp2", "output_dir=again", "resume=true")
    assert_equal(tmp_path / "two/checkpoint-4", tmp_path / "again/checkpoint-4")
