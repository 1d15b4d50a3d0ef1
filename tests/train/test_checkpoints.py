"""Checkpoints are complete or absent, and pruning keeps the best."""

import json

from eval_hooks.run_files import checkpoints
from train.checkpoints import PARTIAL, publish


def write_aside(run, step):
    folder = run / PARTIAL / f"checkpoint-{step}"
    (folder / "nested").mkdir(parents=True)
    (folder / "nested" / "weights").write_text(str(step))


def test_a_checkpoint_appears_only_when_published(tmp_path):
    write_aside(tmp_path, 5)
    assert checkpoints(tmp_path) == {}
    assert publish(tmp_path, 5, keep=None) == tmp_path / "checkpoint-5"
    assert (tmp_path / "checkpoint-5" / "nested" / "weights").read_text() == "5"


def test_pruning_keeps_the_newest_and_the_best(tmp_path):
    for step in (1, 2, 3, 4):
        write_aside(tmp_path, step)
        publish(tmp_path, step, keep=2)
        if step == 1:
            (tmp_path / "best.json").write_text(json.dumps({"step": 1, "score": 0.5}))
    assert list(checkpoints(tmp_path)) == [1, 3, 4]


def test_saving_a_step_again_replaces_it(tmp_path):
    for content in ("old", "new"):
        folder = tmp_path / PARTIAL / "checkpoint-1"
        folder.mkdir(parents=True)
        (folder / "weights").write_text(content)
        publish(tmp_path, 1, keep=None)
    assert (tmp_path / "checkpoint-1" / "weights").read_text() == "new"
