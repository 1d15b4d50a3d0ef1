"""The run folder: never overwritten, continued where it stopped, and it says what it came from."""

import json
import logging
import subprocess
import sys

import pytest

from eval_hooks.run_files import MANIFEST, write_manifest
from recipes.loader import load_recipe
from train.checkpoints import PARTIAL
from train.run_folder import check_steps_left, environment, git_commit, open_run_folder, write_provenance


def recipe_in(folder, *overrides):
    return load_recipe(["recipe=quickstart", f"output_dir={folder}", *overrides])


def checkpoint(folder):
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"12345")
    write_manifest(folder)


def test_a_recipe_that_cannot_be_written_leaves_the_stored_one(tmp_path, monkeypatch):
    write_provenance(recipe_in(tmp_path), {})
    stored = (tmp_path / "recipe.yaml").read_text()
    assert stored
    monkeypatch.setattr("train.run_folder.to_yaml", lambda recipe: "\ud800")  # fails when the file is open
    with pytest.raises(UnicodeEncodeError):
        write_provenance(recipe_in(tmp_path), {})
    assert (tmp_path / "recipe.yaml").read_text() == stored


def test_an_empty_folder_starts_a_run(tmp_path):
    assert open_run_folder(recipe_in(tmp_path / "run")) is None


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"output_dir: got .*/file/run, and .*/file is no folder"):
        open_run_folder(recipe_in(tmp_path / "file/run"))


def test_a_folder_with_checkpoints_is_refused_without_resume(tmp_path):
    (tmp_path / "checkpoint-3").mkdir()
    with pytest.raises(ValueError, match="holds a run up to checkpoint-3"):
        open_run_folder(recipe_in(tmp_path))


def test_a_folder_with_records_alone_is_refused_without_resume_and_loses_none(tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records/step-000004.jsonl").touch()
    with pytest.raises(ValueError, match=r"holds records up to step-000004\.jsonl; a new run needs an empty folder"):
        open_run_folder(recipe_in(tmp_path))


def test_a_checkpoint_behind_the_last_step_is_refused(tmp_path):
    check_steps_left(tmp_path / "checkpoint-9", 9)
    with pytest.raises(ValueError, match=r"got a run of 8 steps, and .*checkpoint-9 has trained 9; allowed are 9 or"):
        check_steps_left(tmp_path / "checkpoint-9", 8)


@pytest.mark.parametrize(
    ("stored", "now", "said"),
    [
        (
            [],
            ["reward={}"],
            "reward: got one, but the run in .* has none; resume with a recipe that has none, or",
        ),
        (
            ["reward={}"],
            [],
            "reward: got none, but the run in .* has one; .*: train.start=.*/checkpoint-... out",
        ),
    ],
)
def test_supervised_training_does_not_go_on_as_grpo_nor_the_other_way_round(stored, now, said, tmp_path):
    write_provenance(recipe_in(tmp_path, "train.predictable_weight=1", *stored), {})
    checkpoint(tmp_path / "checkpoint-9")
    with pytest.raises(ValueError, match=said):
        open_run_folder(recipe_in(tmp_path, "train.predictable_weight=1", *now, "resume=true"))


def test_resume_takes_the_newest_complete_checkpoint(tmp_path):
    for name in ("checkpoint-9", "checkpoint-10", f"{PARTIAL}/checkpoint-11"):
        checkpoint(tmp_path / name)
    assert open_run_folder(recipe_in(tmp_path, "resume=true")) == tmp_path / "checkpoint-10"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda folder: (folder / "weights").write_bytes(b"12"), "weights has 2 of 5 bytes"),
        (lambda folder: (folder / "weights").unlink(), "weights is missing"),
        (lambda folder: (folder / MANIFEST).unlink(), "manifest.json is missing or damaged"),
        (lambda folder: (folder / MANIFEST).write_text('{"files": ['), "manifest.json is missing or damaged"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_passed_over_and_said(damage, told, tmp_path, caplog):
    for step in (9, 10):
        checkpoint(tmp_path / f"checkpoint-{step}")
    damage(tmp_path / "checkpoint-10")
    assert open_run_folder(recipe_in(tmp_path, "resume=true")) == tmp_path / "checkpoint-9"
    assert f"checkpoint-10 is not complete ({told}) and is passed over" in caplog.text


def test_resume_without_a_checkpoint_starts_anew_and_says_so(tmp_path, caplog):
    assert open_run_folder(recipe_in(tmp_path, "resume=true")) is None
    assert "starts at step 0" in caplog.text


def test_resume_names_what_has_changed_in_the_recipe(tmp_path, caplog):
    write_provenance(recipe_in(tmp_path), {})
    checkpoint(tmp_path / "checkpoint-1")
    with caplog.at_level(logging.WARNING):
        open_run_folder(recipe_in(tmp_path, "resume=true", "trainer.learning_rate=5e-4"))
    assert "trainer.learning_rate was 0.001 in the stored recipe and is 0.0005 now" in caplog.text
    assert caplog.text.count("was") == 1


def test_resume_with_other_weights_is_refused(tmp_path):
    write_provenance(recipe_in(tmp_path), {})
    checkpoint(tmp_path / "checkpoint-1")
    with pytest.raises(ValueError, match=r"train\.method: got lora, but the run in .* has full"):
        open_run_folder(recipe_in(tmp_path, "resume=true", "train.method=lora"))


def test_resume_with_the_same_method_said_in_other_words_is_no_change(tmp_path, caplog):
    write_provenance(recipe_in(tmp_path, "train.method=lora"), {})
    checkpoint(tmp_path / "checkpoint-1")
    said = ["train.method=full", "train.towers={language: {method: lora}, vision: {method: frozen}, "
            "projector: {method: frozen}}"]  # fmt: skip
    with caplog.at_level(logging.WARNING):
        open_run_folder(recipe_in(tmp_path, "resume=true", *said))
    assert caplog.text == ""


def test_resume_with_other_towers_is_refused_and_with_another_rate_is_told(tmp_path, caplog):
    write_provenance(recipe_in(tmp_path), {})
    checkpoint(tmp_path / "checkpoint-1")
    with pytest.raises(ValueError, match=r"train\.towers\.vision\.method: got frozen, but the run in .* has None"):
        open_run_folder(recipe_in(tmp_path, "resume=true", "train.towers.vision.method=frozen"))
    with caplog.at_level(logging.WARNING):
        open_run_folder(recipe_in(tmp_path, "resume=true", "train.towers.vision.learning_rate=1e-4"))
    assert "train.towers.vision.learning_rate was None in the stored recipe and is 0.0001 now" in caplog.text


def test_provenance_is_stored_and_an_interrupted_save_is_cleared(tmp_path):
    (tmp_path / PARTIAL / "checkpoint-5").mkdir(parents=True)
    recipe = recipe_in(tmp_path)
    write_provenance(recipe, environment())
    assert not (tmp_path / PARTIAL).exists()
    assert load_recipe([f"recipe={tmp_path / 'recipe.yaml'}"]) == recipe
    stored = json.loads((tmp_path / "environment.json").read_text())
    assert stored["python"] == sys.version.split()[0]
    assert stored["packages"]["torch"]


def test_the_commit_of_a_changed_tree_is_marked_dirty(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    assert git_commit(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "first")
    clean = git_commit(tmp_path)
    assert clean is not None
    assert len(clean) == 40
    (tmp_path / "file").write_text("two")
    assert git_commit(tmp_path) == f"{clean}-dirty"
