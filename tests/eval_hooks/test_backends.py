"""What a place on the command line means."""

import json

from eval_hooks.backends import name
from eval_hooks.run_files import find_checkpoint, write_manifest
from recipes.loader import to_yaml


def test_a_named_checkpoint_stays_the_same_while_its_run_finds_a_better_one(recipe_of, tmp_path):
    for step in (2, 4):
        (tmp_path / f"checkpoint-{step}").mkdir()
        write_manifest(tmp_path / f"checkpoint-{step}")
    (tmp_path / "recipe.yaml").write_text(to_yaml(recipe_of()))
    (tmp_path / "best.json").write_text(json.dumps({"step": 2, "score": 0.5}))
    named = name(str(tmp_path))
    (tmp_path / "best.json").write_text(json.dumps({"step": 4, "score": 0.9}))
    assert find_checkpoint(tmp_path / named.place)[::2] == (tmp_path / "checkpoint-2", named.step)
