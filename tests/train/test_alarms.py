"""Alarms of a real trainer: told in its log and to W&B, and by a run that was stopped as by one that never was."""

import logging

import numpy as np
import pytest
import torch
import wandb
from torch.utils.data import TensorDataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from wandb.proto import wandb_internal_pb2 as pb

from eval_hooks.wandb_log import start_wandb
from eval_hooks.wandb_points import Points
from recipes.loader import load_recipe
from train.alarms import Alarms, chances

STEPS = 160
KL = np.concatenate([np.full(n, kl) for n, kl in [(30, 0.0), (30, 2.0), (50, 0.0), (50, 2.0)]])
"""High twice, so that two alarms are due."""


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x):
        return {"loss": self.linear(x).square().mean()}


class LoggingTrainer(Trainer):
    """Logs of each step what a GRPO run might have."""

    def log(self, logs, start_time=None):
        if "loss" in logs:
            step = self.state.global_step
            valid = {"invalid/truncated": None, "invalid/ended": 0.0}
            logs |= {"reward": 0.5 + step % 7 / 50, "kl": KL[step - 1] + step % 3 / 30, "entropy": 0.1, **valid}
        super().log(logs, start_time)


class Stop(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop |= state.global_step == self.step


@pytest.fixture
def recipe_of(tmp_path):
    return lambda *overrides: load_recipe(["recipe=quickstart", f"output_dir={tmp_path / 'run'}", *overrides])


@pytest.fixture
def train(tmp_path, recipe_of, caplog):
    """`train(folder, stop=None, resume=False)`: [(step, title)] told by a run that ends after step `stop`."""

    def told(folder, stop=None, resume=False):
        run = tmp_path / folder
        args = TrainingArguments(
            run, max_steps=STEPS, save_steps=10, logging_steps=1, report_to="none", use_cpu=True, disable_tqdm=True,
            per_device_train_batch_size=1,
        )  # fmt: skip
        callbacks = [Alarms(recipe_of(), Points(run)), Stop(stop)]
        data = TensorDataset(torch.ones(STEPS, 1))
        trainer = LoggingTrainer(
            Model(), args, train_dataset=data, data_collator=lambda rows: {"x": torch.stack([x for (x,) in rows])},
            callbacks=callbacks,
        )  # fmt: skip
        caplog.clear()
        run.mkdir(exist_ok=True)
        with caplog.at_level(logging.WARNING, logger="train.alarms"):
            trainer.train(resume_from_checkpoint=resume)
        return [record.getMessage() for record in caplog.records if record.name == "train.alarms"]

    return told


def test_a_run_that_was_stopped_tells_what_it_would_have_told(train):
    whole = train("whole")
    assert len(whole) == 2
    for stop in (40, 80, 140):  # before the first, after it, and while the second goes on
        parts = train(f"stopped{stop}", stop), train(f"stopped{stop}", resume=True)
        assert [*parts[0], *parts[1]] == whole, stop


@pytest.fixture
def offline(recipe_of, monkeypatch):
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_DIR", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)

    def start(*overrides):
        start_wandb(recipe_of("wandb.mode=offline", *overrides))

    yield start
    wandb.finish()
    wandb.teardown()


def recorded(folder, text):
    """How often the offline runs below a folder hold this alert, as W&B's own record of it."""
    wandb.finish()
    wandb.teardown()
    alert = pb.AlertRecord(title="far from the reference model", text=text, level="WARN", wait_duration=1)
    files = list(folder.glob("wandb/offline-run-*/*.wandb"))
    assert files
    return sum(file.read_bytes().count(alert.SerializeToString()) for file in files)


def test_each_alarm_is_an_alert_of_the_wandb_run(train, offline, tmp_path):
    offline()
    messages = train("run")
    assert len(messages) == 2
    for message in messages:
        assert recorded(tmp_path / "run", message.removeprefix("alarm: far from the reference model: ")) == 1


def test_a_step_that_is_taken_again_sends_no_second_alert(train, offline, tmp_path):
    offline()
    before = train("run", stop=59)
    assert len(before) == 1
    for checkpoint in (tmp_path / "run").glob("checkpoint-*"):
        if checkpoint.name != "checkpoint-30":
            checkpoint.rename(checkpoint.with_name(f"lost-{checkpoint.name}"))
    wandb.finish()
    offline("resume=true")
    again = train("run", stop=59, resume=True)
    assert again == before
    assert recorded(tmp_path / "run", before[0].removeprefix("alarm: far from the reference model: ")) == 1


def test_chance_is_that_of_each_part(recipe_of):
    parts = (
        "data.parts.3x3={task: jigshape, spec: {grid: 3}, count: 4}",
        "data.parts.fit={task: pieces_fit, spec: {puzzle: {grid: 4}}, count: 4}",
    )
    assert chances(recipe_of(*parts)) == pytest.approx({"2x2": 1 / 4, "3x3": 1 / 9, "fit": 1 / 2})
