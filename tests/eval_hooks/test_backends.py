"""What a place on the command line means."""

import json

from eval_hooks.backends import name
from eval_hooks.endpoint import Endpoint
from eval_hooks.run_files import find_checkpoint, write_manifest
from recipes.loader import to_yaml


def test_a_named_checkpoint_stays_the_same_while_its_run_finds_a_better_one(recipe_of, tmp_path):
    for step in (2, 4):
        (tmp_path / f"checkpoint-{step}").mkdir()
        write_manifest(tmp_path / f"checkpoint-{step}")
    (tmp_path / "recipe.yaml").write_text(to_yaml(recipe_of()))
    (tmp_path / "best.json").write_text(json.dumps({"step": 2, "score": 0.5}))
    named = name(str(tmp_path), None, recipe_of())
    (tmp_path / "best.json").write_text(json.dumps({"step": 4, "score": 0.9}))
    assert find_checkpoint(tmp_path / named.place)[::2] == (tmp_path / "checkpoint-2", named.step)


def test_a_merged_model_that_lies_in_a_run_folder_is_a_model_of_its_own(recipe_of, tmp_path):
    (tmp_path / "recipe.yaml").write_text(to_yaml(recipe_of()))
    (tmp_path / "merged").mkdir()
    named = name(str(tmp_path / "merged"), None, recipe_of())
    assert (named.model, named.step, named.run) == ("merged", None, None)


def test_a_served_model_is_told_by_its_address_or_by_the_checkpoint_that_is_named_beside(recipe_of, tmp_path):
    endpoint = Endpoint("http://h/v1", "m")
    assert name(None, endpoint, recipe_of())[::4] == ("m", {"endpoint": "http://h/v1", "model": "m"})
    (tmp_path / "model").mkdir()
    one, other = (name(str(tmp_path / "model"), Endpoint(f"http://h:{port}/v1", "m"), recipe_of()) for port in (1, 2))
    assert one == other
    assert one != name(str(tmp_path / "model"), None, recipe_of())
