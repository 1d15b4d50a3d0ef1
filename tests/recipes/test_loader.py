import subprocess
import sys

import pytest

from recipes.loader import RecipeError, load_recipe, merged, model_names, recipe_names, to_yaml, usage


def told(*argv: str) -> str:
    with pytest.raises(RecipeError) as error:
        load_recipe(list(argv))
    return str(error.value)


def test_a_recipe_gets_its_file_s_name_and_an_output_folder_of_that_name(small):
    recipe = load_recipe([f"recipe={small}"])
    assert recipe.name == "small"
    assert recipe.output_dir == "runs/small"
    assert recipe.trainer == {"learning_rate": 1e-5}


def test_the_output_folder_follows_an_overridden_name(small):
    assert load_recipe([f"recipe={small}", "name=other"]).output_dir == "runs/other"
    assert load_recipe([f"recipe={small}", "name=other", "output_dir=a=b"]).output_dir == "a=b"


def test_overrides_reach_every_depth_and_make_mappings_that_are_not_there(small):
    recipe = load_recipe(
        [f"recipe={small}", "data.parts.4x4.spec.grid=5", "train.lora.rank=4", "data.photos.folder=my photos #2: a",
         "eval.require.2x2.em=0.5", "trainer.max_steps=2", "train={micro_batch: 2}"]
    )  # fmt: skip
    assert recipe.data.parts["4x4"].spec == {"grid": 5}
    assert recipe.data.parts["4x4"].count == 4
    assert recipe.train.lora.rank == 4
    assert recipe.train.micro_batch == 2
    assert recipe.data.photos.folder == "my photos #2: a"
    assert recipe.eval.require == {"2x2": {"em": 0.5}}
    assert recipe.trainer == {"learning_rate": 1e-5, "max_steps": 2}


def test_a_null_drops_a_part_or_brings_the_default_back(small):
    argv = [f"recipe={small}", "data.parts.4x4=null", "data.photos.min_piece_px=null", "trainer.learning_rate=null"]
    recipe = load_recipe(argv)
    assert list(recipe.data.parts) == ["2x2"]
    assert recipe.data.photos.min_piece_px is None
    assert recipe.trainer == {}


def test_a_null_for_a_part_that_is_not_there_is_refused(problems):
    assert problems("data.parts.4x5=null") == ["data.parts.4x5: got null; allowed: 2x2, 4x4; did you mean 4x4?"]


def test_the_resolved_recipe_loads_back_to_the_same_recipe(small, in_tmp_path):
    recipe = load_recipe([f"recipe={small}", "train.keep_checkpoints=3", "wandb.project=été", "wandb.entity='123'"])
    assert recipe.wandb.entity == "123"
    (in_tmp_path / "again.yaml").write_text(to_yaml(recipe), encoding="utf-8")
    assert load_recipe(["recipe=again.yaml"]) == recipe


def test_no_recipe_lists_the_recipes():
    text = told()
    assert "recipe: got nothing; allowed: " in text
    assert "mixed_grid" in text
    assert "do write recipe=NAME" in text


def test_an_unknown_recipe_is_met_with_the_nearest():
    assert 'recipe: got "quikstart"' in told("recipe=quikstart")
    assert "did you mean quickstart?" in told("recipe=quikstart")
    assert "do check that no/such.yaml is a file" in told("recipe=no/such.yaml")


def test_every_odd_token_is_told_at_once(problems):
    found = problems("dry_run", "--seed=3", "seed=", "a..b=1", "base=x", "data.photos.ground=[1,")
    assert [line.split(":")[0] for line in found] == [
        "dry_run",
        "--seed=3",
        "seed",
        "a..b=1",
        "base",
        "data.photos.ground",
    ]
    assert "do write dry_run=VALUE" in found[0]
    assert "do write seed=3" in found[1]
    assert "do write seed=null" in found[2]


def test_a_recipe_lies_on_its_base_without_the_base_s_name_and_folder(small, in_tmp_path):
    base = "name: small\noutput_dir: elsewhere\n" + small.read_text(encoding="utf-8")
    small.write_text(base, encoding="utf-8")
    (in_tmp_path / "over.yaml").write_text(
        "base: small.yaml\nmodel: {max_tokens: 99}\ndata: {parts: {4x4: null, 2x2: {count: 5}}}\n", encoding="utf-8"
    )
    recipe = load_recipe(["recipe=over.yaml"])
    assert (recipe.name, recipe.output_dir) == ("over", "runs/over")
    assert recipe.model.max_tokens == 99
    assert recipe.model.family == "qwen3_vl"
    assert {name: part.count for name, part in recipe.data.parts.items()} == {"2x2": 5}


def test_a_base_of_a_base_is_refused(small, in_tmp_path):
    (in_tmp_path / "one.yaml").write_text("base: small.yaml\n", encoding="utf-8")
    (in_tmp_path / "two.yaml").write_text("base: one.yaml\n", encoding="utf-8")
    assert load_recipe(["recipe=one.yaml"]).name == "one"
    assert "base: got one.yaml, which has a base itself; allowed: one level; do extend small.yaml" in told(
        "recipe=two.yaml"
    )


def test_a_broken_file_is_named_with_its_lines(small):
    small.write_text("seed: 1\nseed: 2\n4: x\n", encoding="utf-8")
    text = told(f"recipe={small}")
    assert f"{small}: line 2: got the key 'seed' again (first on line 1)" in text
    assert f"{small}: line 3: got the key 4" in text
    small.write_bytes(b"\xff\xfe\x00")
    assert f"{small}: got " in told(f"recipe={small}")
    small.write_text("", encoding="utf-8")
    assert f"{small}: got null; allowed: a mapping" in told(f"recipe={small}")


def test_a_named_model_replaces_the_whole_model_before_its_fields_are_overridden(small):
    recipe = load_recipe([f"recipe={small}", "model.max_tokens=77", "model=tiny_gemma3"])
    assert recipe.model.family == "gemma3"
    assert recipe.model.name == "tiny_gemma3"
    assert recipe.model.max_tokens == 77
    assert recipe.model.image.min_px is None


def test_an_unknown_model_is_told_once(problems):
    found = problems("model=tiny_gema3", "model.max_tokens=77")
    assert len(found) == 1
    assert 'model: got "tiny_gema3"; allowed: ' in found[0]
    assert "did you mean tiny_gemma3?" in found[0]


def test_merging_goes_by_key_and_leaves_its_arguments_alone():
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    assert merged(base, {"a": {"b": None, "c": [3]}, "e": {"f": None}}) == {"a": {"c": [3]}, "d": 1, "e": {"f": None}}
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": 1}


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help_prints_the_usage_and_every_field_with_its_docstring(word, capsys):
    with pytest.raises(SystemExit) as stop:
        load_recipe([word])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "train.effective_batch: a whole number >= 1 [64]" in text
    assert "Examples per optimizer step over all processes" in text
    assert "data.parts.NAME.count" in text
    assert all(name in text for name in (*recipe_names(), *model_names()))
    assert text.strip() == usage()


def run_command(*argv: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "recipes", *argv], capture_output=True, text=True, check=False)


def test_the_command_prints_a_recipe_or_its_problems(small, in_tmp_path, monkeypatch, request):
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))
    printed = run_command(f"recipe={small}", "seed=4")
    assert printed.returncode == 0, printed.stderr
    (in_tmp_path / "again.yaml").write_text(printed.stdout, encoding="utf-8")
    assert load_recipe(["recipe=again.yaml"]) == load_recipe([f"recipe={small}", "seed=4"])
    refused = run_command(f"recipe={small}", "sed=4", "seed=x")
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "2 problems in the recipe" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_loads_and_survives_printing(name, in_tmp_path):
    recipe = load_recipe([f"recipe={name}"])
    assert recipe.name == name
    (in_tmp_path / "again.yaml").write_text(to_yaml(recipe), encoding="utf-8")
    assert load_recipe(["recipe=again.yaml"]) == recipe


@pytest.mark.parametrize("name", model_names())
def test_every_shipped_model_fits_the_main_recipe(name):
    model = load_recipe(["recipe=mixed_grid", f"model={name}"]).model
    assert model.name == name
    assert bool(model.scratch) == name.startswith("tiny_")


def test_the_main_recipe_is_the_published_one():
    recipe = load_recipe(["recipe=mixed_grid"])
    assert {name: part.count for name, part in recipe.data.parts.items()} == {
        "4x4": 3000, "8x8": 2000, "12x12": 1000, "16x16": 500,
    }  # fmt: skip
    assert recipe.trainer["learning_rate"] == 1e-5
    assert recipe.train.effective_batch == 64
    assert load_recipe(["recipe=mixed_grid_lora"]).train.method == "lora"
