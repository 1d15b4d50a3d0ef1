"""python -m eval_hooks.solve, started for real on a tiny saved checkpoint."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import skimage
from PIL import Image

from eval_hooks.run_files import find_checkpoint, write_manifest
from eval_hooks.solve import RequestError, choose_part, main, parse_request
from recipes.loader import to_yaml
from tasks import TASKS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run_folder(loaded, recipe_of, tmp_path):
    """A run folder with the checkpoints 2 and 4 of an untrained model."""
    run = tmp_path / "run"
    for step in (2, 4):
        loaded.model.save_pretrained(run / f"checkpoint-{step}")
        loaded.processor.save_pretrained(run / f"checkpoint-{step}")
        write_manifest(run / f"checkpoint-{step}")
    (run / "recipe.yaml").write_text(to_yaml(recipe_of()))
    return run


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "cat photo.png"
    Image.fromarray(skimage.data.chelsea()).save(path)
    return path


def test_a_photo_is_cut_solved_and_drawn(run_folder, photo, recipe_of, tmp_path):
    command = [sys.executable, "-m", "eval_hooks.solve", f"checkpoint={run_folder / 'checkpoint-2'}", f"photo={photo}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"step 2 of {recipe_of().model.name}; part 2x2; seed 0" in done.stdout
    assert "valid: no, " in done.stdout
    assert "pa 0.0 %" in done.stdout
    with Image.open(tmp_path / "cat photo-solved.png") as picture:
        assert picture.width > 64


def test_a_run_folder_means_its_best_checkpoint_or_else_the_newest(run_folder):
    assert find_checkpoint(run_folder)[::2] == (run_folder / "checkpoint-4", 4)
    (run_folder / "best.json").write_text('{"step": 2, "score": 0.5}')
    assert find_checkpoint(run_folder)[::2] == (run_folder / "checkpoint-2", 2)
    assert find_checkpoint(run_folder / "checkpoint-4")[::2] == (run_folder / "checkpoint-4", 4)
    (run_folder / "best.json").write_text('{"step": 3, "score": 0.5}')
    assert find_checkpoint(run_folder)[::2] == (run_folder / "checkpoint-4", 4)


@pytest.mark.parametrize("folder", ["nowhere", "run/checkpoint-3", "run/other"])
def test_a_folder_that_is_no_checkpoint_is_refused(folder, run_folder, photo, tmp_path, capsys):
    (run_folder / "other").mkdir()
    assert main([f"checkpoint={tmp_path / folder}", f"photo={photo}"]) == 2
    assert capsys.readouterr().err.startswith("checkpoint: got ")


def test_a_run_without_a_checkpoint_is_refused(recipe_of, tmp_path):
    (tmp_path / "recipe.yaml").write_text(to_yaml(recipe_of()))
    with pytest.raises(ValueError, match="without a complete checkpoint"):
        find_checkpoint(tmp_path)


def test_a_missing_or_bad_photo_is_refused(run_folder, tmp_path, capsys):
    (tmp_path / "text.jpg").write_text("no photo")
    for name in ("missing.jpg", "text.jpg"):
        assert main([f"checkpoint={run_folder}", f"photo={tmp_path / name}"]) == 2
        assert capsys.readouterr().err.startswith(f"photo: got {tmp_path / name}")


def test_an_unknown_part_is_refused_with_the_nearest(recipe_of):
    with pytest.raises(RequestError, match=r"part: got 2x3; allowed: 2x2, missing; did you mean 2x2\?"):
        choose_part(recipe_of(), "2x3")


def test_a_part_that_draws_its_own_puzzles_is_refused(recipe_of, monkeypatch):
    monkeypatch.setitem(TASKS, "probes", dataclasses.replace(TASKS["probes"], board=lambda spec: None))
    with pytest.raises(RequestError, match="draws its own puzzles"):
        choose_part(recipe_of(), "missing")


def test_without_a_name_the_first_part_that_cuts_a_photo_is_chosen(recipe_of):
    assert choose_part(recipe_of(), None)[0] == "2x2"


def test_every_problem_of_the_command_line_is_told_at_once():
    with pytest.raises(RequestError) as refused:
        parse_request(["chekpoint=run", "seed=-1", "out=x.jpg", "photo"])
    lines = str(refused.value).splitlines()
    assert any("did you mean checkpoint?" in line for line in lines)
    assert [
        name for name in ("seed", "out", "photo", "checkpoint") if not any(line.startswith(name) for line in lines)
    ] == []


@pytest.mark.parametrize("seed", ["x", "1.5", "١", "9" * 30, ""])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(RequestError, match="seed"):
        parse_request(["checkpoint=run", "photo=x.jpg", f"seed={seed}"])


def test_help_prints_the_usage(capsys):
    assert main(["help"]) == 0
    assert "usage: python -m eval_hooks.solve" in capsys.readouterr().out
