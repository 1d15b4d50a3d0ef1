"""What ends a run early: it says why, keeps what is good, and moves no weight by what is not."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from transformers import TrainerCallback

from eval_hooks.run_files import checkpoints
from train.guard import RunError, check_finite
from train.trainer import PuzzleTrainer

SMALL = ["data.parts.12x12=null", "data.parts.16x16=null", "train.effective_batch=4", "trainer.learning_rate=1e-3"]


class After(TrainerCallback):
    """Does something after the first step."""

    def __init__(self, do):
        self.do = do

    def on_step_end(self, args, state, control, model, **kwargs):
        if state.global_step == 1:
            self.do(model)


def weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_a_loss_that_is_no_number_stops_the_run_before_it_moves_a_weight_and_names_the_puzzles(
    mixed_recipe, trainer_of
):
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", *SMALL, "trainer.max_steps=3", "trainer.num_train_epochs=3"))
    after_first = {}

    def poison(model):
        with torch.no_grad():
            model.lm_head.weight[0, 0] = float("inf")
        after_first.update(weights(model))

    trainer.add_callback(After(poison))
    with pytest.raises(RunError, match=r"step 1: the loss of a micro-batch of puzzles jigshape-") as told:
        trainer.train()
    keys = {key for those in trainer.step_keys for key in those}
    assert len(keys) == 4
    assert all(key in str(told.value) for key in keys)
    assert "no weight was changed" in str(told.value)
    for name, value in weights(trainer.model).items():
        assert torch.equal(value, after_first[name])


def test_gradients_that_are_no_numbers_stop_the_run_too(mixed_recipe, trainer_of):
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", *SMALL))
    trainer.model.lm_head.weight.register_hook(lambda gradient: gradient * float("nan"))
    before = weights(trainer.model)
    with pytest.raises(RunError, match=r"the gradients of step 0, with puzzles jigshape-.* are no finite numbers"):
        trainer.train()
    for name, value in weights(trainer.model).items():
        assert torch.equal(value, before[name])


def test_only_the_puzzles_of_the_bad_micro_batch_are_named():
    losses = [torch.tensor(1.0), torch.tensor(float("nan")), torch.tensor(2.0)]
    keys = [["a", "b"], ["c"], ["d"]]
    with pytest.raises(RunError, match="of puzzles c is no finite number"):
        check_finite(7, losses, keys, None)
    check_finite(7, losses[:1], keys[:1], 3.0)


@pytest.mark.parametrize("moved", [False, True])
def test_a_bad_step_is_said_to_have_changed_no_weight_only_where_that_is_so(moved):
    with pytest.raises(RunError) as stopped:
        check_finite(7, [torch.tensor(float("inf"))], [["a"]], None, moved=moved)
    assert ("no weight was changed" in str(stopped.value)) is not moved


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_the_step_and_stops(number, mixed_recipe, trainer_of, tmp_path):
    recipe = mixed_recipe("tiny_qwen3_vl", *SMALL, "trainer.max_steps=5", "trainer.num_train_epochs=5")
    trainer = trainer_of(recipe)
    before = signal.getsignal(number)
    trainer.add_callback(After(lambda model: os.kill(os.getpid(), number)))
    trainer.train()
    assert trainer.signals.stopped
    assert trainer.state.global_step == 2  # the step in which it was noticed
    assert list(checkpoints(tmp_path / "run")) == [2]
    assert signal.getsignal(number) == before


class AtTheEnd(TrainerCallback):
    """What follows the last step, as the final evaluation does."""

    def __init__(self, trainer):
        self.trainer = trainer

    def on_train_end(self, args, state, control, **kwargs):
        os.kill(os.getpid(), signal.SIGUSR1)
        self.told = self.trainer.signalled()
        self.watched = self.trainer.watchdog.on


def test_what_follows_the_last_step_is_still_guarded(mixed_recipe, trainer_of):
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", *SMALL))
    at_the_end = AtTheEnd(trainer)
    trainer.add_callback(at_the_end)
    before = signal.getsignal(signal.SIGUSR1)
    trainer.train()
    assert at_the_end.told
    assert at_the_end.watched
    assert not trainer.watchdog.on
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_run_that_ends_by_itself_is_not_stopped(mixed_recipe, trainer_of, tmp_path):
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", *SMALL))
    trainer.train()
    assert not trainer.signals.stopped
    assert list(checkpoints(tmp_path / "run")) == [1]


STALLED = """
import threading, time
from train.guard import Watchdog

def waiting_for_nothing():
    threading.Event().wait()

watchdog = Watchdog(2)
watchdog.on_train_begin(None, None, None)
for _ in range(3):
    time.sleep(1)
    watchdog.beat()
print("alive", flush=True)
waiting_for_nothing()
"""


def test_a_stalled_process_shows_where_it_hangs_and_ends():
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", STALLED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stdout == "alive\n"  # it is heard for longer than it may be silent
    assert "waiting_for_nothing" in done.stderr
    assert time.monotonic() - started >= 5


def test_a_disk_that_is_full_is_said_and_the_earlier_checkpoint_stays(mixed_recipe, trainer_of, tmp_path, monkeypatch):
    overrides = [*SMALL, "trainer.max_steps=2", "trainer.num_train_epochs=2", "train.checkpoint_every=1"]
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", *overrides))
    save = PuzzleTrainer._save_optimizer_and_scheduler

    def full(self, folder):
        if self.state.global_step == 2:
            raise OSError(28, "No space left on device")
        save(self, folder)

    monkeypatch.setattr(PuzzleTrainer, "_save_optimizer_and_scheduler", full)
    with pytest.raises(RunError, match=r"of step 2 could not be written: .*No space left.*checkpoint-1 is complete"):
        trainer.train()
    assert list(checkpoints(tmp_path / "run")) == [1]
    assert not (tmp_path / "run" / ".partial").exists()


def test_a_finished_run_trains_no_further_in_the_middle_of_an_epoch(mixed_recipe, trainer_of, tmp_path):
    overrides = ["data.parts.4x4.count=8", *SMALL, "trainer.max_steps=1"]
    trainer_of(mixed_recipe("tiny_qwen3_vl", *overrides)).train()
    again = trainer_of(mixed_recipe("tiny_qwen3_vl", *overrides))
    assert again.batches.order.steps_per_epoch > 1
    again.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-1"))
    assert again.state.global_step == 1


def test_what_each_step_saw_is_written_and_a_continued_run_writes_on(mixed_recipe, trainer_of, tmp_path):
    overrides = [*SMALL, "trainer.max_steps=4", "trainer.num_train_epochs=4", "train.checkpoint_every=2"]
    trainer_of(mixed_recipe("tiny_qwen3_vl", *overrides)).train()
    file = tmp_path / "run/seen/rank-0.jsonl"
    whole = file.read_text()
    joined_late = file.with_name("rank-1.jsonl")
    joined_late.write_text('{"step": 2, "keys": []}\n{"step": 3, "keys": []}\n{"step": 4, "ke')
    lines = [json.loads(line) for line in whole.splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert all(len([key for keys in line["keys"] for key in keys]) == 4 for line in lines)
    trainer_of(mixed_recipe("tiny_qwen3_vl", *overrides)).train(
        resume_from_checkpoint=str(tmp_path / "run/checkpoint-2")
    )
    assert file.read_text() == whole
    assert joined_late.read_text() == '{"step": 2, "keys": []}\n'
