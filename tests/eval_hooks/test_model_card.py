"""Model cards: what the hub's own library reads in them, what people read, and that a run never suffers from one."""

import logging
import re
import resource
import shlex
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from eval_hooks.board import CHANCE, part_result
from eval_hooks.intervals import estimate
from eval_hooks.model_card import main, or_warn, write_card
from eval_hooks.model_card_text import card_text
from eval_hooks.protocol import protocol_of
from eval_hooks.records import Record, score_completion, write_records
from eval_hooks.run import parse_request
from eval_hooks.run_files import CARD, MANIFEST, checkpoints, records_file, what_is_missing, write_manifest
from eval_hooks.summary import summarize
from recipes.loader import load_recipe, to_yaml

HOSTILE = "x|<script>alert(1)</script>\n## y [a](b) \ud800 ---"


@pytest.fixture
def records(mixture_of, completion_of):
    """Step 25: of each part's three puzzles one right answer and two that are none."""
    mixture = mixture_of(3)
    posed = [mixture[index] for index in range(len(mixture))]
    return [
        score_completion(p, completion_of(p.task.gold(p.puzzle.target) if p.index == 0 else "{"), model="m", step=25)
        for p in posed
    ]


@pytest.fixture
def run_folder(recipe_of, records):
    """A run whose checkpoint 25 was evaluated, and whose checkpoint 50 was not."""
    recipe = recipe_of()
    run = Path(recipe.output_dir)
    write_records(records_file(run, 25), records)
    (run / "recipe.yaml").write_text(to_yaml(recipe))
    (run / "environment.json").write_text('{"python": "3.11.7", "git_commit": "abc"}\n')
    for step in (25, 50):
        checkpoint = run / f"checkpoint-{step}"
        checkpoint.mkdir()
        (checkpoint / "weights").write_text(str(step))
        write_manifest(checkpoint)
    return run


def changed(records, **fields):
    return [Record(**{**vars(record), **fields}) for record in records]


def block(card, language):
    """The text of a card's only block of code in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)\n```$", card, re.DOTALL | re.MULTILINE)
    return found


def made(records, recipe, adapter=False):
    return card_text(records, recipe, adapter=adapter, environment=None, solved={})


def test_the_hubs_library_reads_the_means_of_every_part(records, recipe_of):
    summary = summarize(records)
    card = ModelCard(made(records, recipe_of()))
    told = {(each.dataset_config, each.metric_type): each.metric_value for each in card.data.eval_results}
    expected = {(part, entry): mean for part, own in summary.items() for entry, mean in own.means.items()}
    assert told == pytest.approx(expected, abs=1e-6)
    assert {each.dataset_split for each in card.data.eval_results} == {"eval"}
    assert {each.task_type for each in card.data.eval_results} == {card.data.pipeline_tag} == {"image-text-to-text"}
    assert {each.dataset_type for each in card.data.eval_results} == {"jigshape", "probes"}
    assert card.data.model_name == "quickstart, step 25"


@pytest.mark.parametrize(
    ("recipe", "adapter", "library", "base", "relation"),
    [
        ("mixed_grid", False, "transformers", "Qwen/Qwen3-VL-8B-Instruct", "finetune"),
        ("mixed_grid_lora", True, "peft", "Qwen/Qwen3-VL-8B-Instruct", "adapter"),
        ("mixed_grid_lora", False, "transformers", "Qwen/Qwen3-VL-8B-Instruct", "finetune"),  # merged
        ("quickstart", False, "transformers", None, None),  # from random weights
    ],
)
def test_the_card_names_the_base_and_what_the_model_is_to_it(recipe, adapter, library, base, relation, records):
    data = ModelCard(made(records, load_recipe([f"recipe={recipe}"]), adapter)).data.to_dict()
    assert (data["library_name"], data.get("base_model"), data.get("base_model_relation")) == (library, base, relation)
    assert ("lora" in data["tags"]) == (recipe == "mixed_grid_lora")


def test_a_base_in_a_local_folder_is_no_name_on_the_hub(records, tmp_path):
    recipe = load_recipe(["recipe=mixed_grid", f"model.pretrained={tmp_path}"])
    assert "base_model" not in ModelCard(made(records, recipe)).data.to_dict()


def test_people_read_scores_with_intervals_beside_what_guessers_earn(records, recipe_of):
    card = made(records, recipe_of())
    scores = estimate((record.key, record.scores["pa"]) for record in records if record.part == "2x2")
    cell = f"{100 * scores.mean:.1f} ({100 * scores.low:.1f} to {100 * scores.high:.1f})"
    assert f"| 2x2 | 3 | {cell} |" in card
    assert "| *flats only* |  | 100.0 |" in card
    own = [record for record in records if record.part == "2x2"]
    beyond = part_result("jigshape", [(r.key, r.scores) for r in own], summarize(own)["2x2"].baselines).beyond[CHANCE]
    assert f"**{100 * beyond.mean:.1f} (" in made(own, recipe_of())
    assert "- protocol: greedy\n" in card
    assert "- split: eval\n" in card
    assert re.search(r"- task versions: jigshape \d+, probes \d+\n", card)


def test_the_command_on_a_card_asks_the_same_puzzles_in_the_same_way(records, recipe_of, tmp_path, monkeypatch):
    protocol = "sampled t=0.7 p=0.9"
    card = made([*changed(records, protocol=protocol), *changed(records, protocol=protocol, sample=1)], recipe_of())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(block(card, "yaml"))
    python, dash_m, module, *words = shlex.split(block(card, "sh"))
    assert (python, dash_m, module) == ("python", "-m", "eval_hooks.run")
    asked = parse_request(words)
    assert asked.checkpoint == "FOLDER"
    assert (asked.recipe.eval.split, asked.recipe.eval.final_count, asked.recipe.eval.samples) == ("eval", 3, 2)
    assert protocol_of(asked.recipe).name == protocol
    assert asked.recipe.data == recipe_of().data


def test_a_training_evaluation_is_greedy_whatever_the_recipe_asks_later(records, recipe_of, tmp_path, monkeypatch):
    later = recipe_of("eval.protocol=sampled", "eval.samples=4")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(to_yaml(later))
    asked = parse_request(shlex.split(block(made(records, later), "sh"))[3:]).recipe
    assert protocol_of(asked).name == "greedy"


def test_a_card_of_votes_tells_how_the_answers_are_asked_and_voted_on(records, recipe_of):
    card = made(changed(records, protocol="sampled t=0.7 p=0.9 vote of 8"), recipe_of())
    asked, vote = re.findall(r"^```sh\n(.*?)\n```$", card, re.DOTALL | re.MULTILINE)
    assert protocol_of(parse_request(shlex.split(asked.replace("recipe.yaml", "quickstart"))[3:]).recipe).samples == 8
    assert vote == "python -m eval_hooks.votes records=RECORDS"


def test_a_card_tells_answers_from_puzzles(records, recipe_of):
    card = made([*records, *changed(records, sample=1)], recipe_of())
    assert "| 2x2 | 6 of 3 puzzles | " in card


def test_answers_of_people_have_no_command(records, recipe_of):
    assert "eval_hooks.run" not in made(changed(records, protocol="human"), recipe_of())


def test_no_name_in_a_record_is_markup(records, recipe_of, tmp_path):
    hostile = changed(records, model=HOSTILE, split=HOSTILE)
    parts = [Record(**{**vars(record), "part": f"{record.part}{HOSTILE}"}) for record in hostile]
    (tmp_path / CARD).write_text(made(parts, recipe_of()), encoding="utf-8")
    card = ModelCard.load(tmp_path / CARD)
    assert "<script>" not in card.text.replace(block(card.text, "sh"), "")
    assert [line for line in card.text.splitlines() if line.startswith("## ")] == [
        "## Scores", "## How it was asked", "## Limits", "## Recipe",
    ]  # fmt: skip
    tables = [line for line in card.text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in tables}) == 2  # one width for each task
    assert {each.dataset_config[:4] for each in card.data.eval_results} == {"2x2x", "miss"}


def test_no_block_of_code_ends_before_its_end(records, recipe_of):
    recipe = recipe_of("wandb.project='````\n# Mine'")
    card = made(records, recipe)
    (shown,) = re.findall(r"^(`{5,})yaml\n(.*?)\n\1$", card, re.DOTALL | re.MULTILINE)
    assert "Mine" in shown[1]


def test_a_checkpoint_with_a_rewritten_card_is_whole(tmp_path, records, recipe_of):
    (tmp_path / "weights").write_text("w")
    (tmp_path / CARD).write_text("of PEFT")
    write_manifest(tmp_path)
    write_card(tmp_path, records, recipe_of(), None, {})
    assert what_is_missing(tmp_path) is None
    (tmp_path / CARD).unlink()
    assert what_is_missing(tmp_path) is None
    (tmp_path / "weights").unlink()
    assert what_is_missing(tmp_path) == "weights is missing"


def test_a_card_that_an_older_manifest_counts_may_change(tmp_path):
    (tmp_path / MANIFEST).write_text('{"files": {"README.md": 5174}}')
    (tmp_path / CARD).write_text("another")
    assert what_is_missing(tmp_path) is None


def test_a_full_disk_costs_a_run_the_card_alone(tmp_path, records, recipe_of, caplog):
    (tmp_path / CARD).write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limits[1]))
    try:
        with caplog.at_level(logging.WARNING), or_warn(tmp_path):
            write_card(tmp_path, records, recipe_of(), None, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "goes without a card of its own" in caplog.text
    assert [(path.name, path.read_text()) for path in tmp_path.glob("*.md*")] == [(CARD, "old")]
    assert not list(tmp_path.glob(".*.partial"))


def test_a_runs_best_checkpoint_gets_a_card_that_tells_versions(run_folder, capsys):
    (run_folder / "best.json").write_text('{"step": 25, "score": 0.5}')
    assert main([f"run={run_folder}"]) == 0
    card = (run_folder / "checkpoint-25" / CARD).read_text(encoding="utf-8")
    assert f"card: {run_folder / 'checkpoint-25' / CARD}" in capsys.readouterr().out
    assert '"git_commit": "abc"' in block(card, "json")
    assert list(checkpoints(run_folder)) == [25, 50]


def test_the_final_answers_of_a_step_are_preferred(run_folder, records):
    write_records(records_file(run_folder, 25), [record for record in records if record.index == 0])
    write_records(records_file(run_folder, None), records)
    assert main([f"run={run_folder}", "step=25"]) == 0
    assert "| 2x2 | 3 |" in (run_folder / "checkpoint-25" / CARD).read_text(encoding="utf-8")


def test_any_records_make_a_card_of_any_folder(run_folder, records, tmp_path, recipe_of, capsys):
    (tmp_path / "merged").mkdir()
    file = records_file(run_folder, 25)
    words = [f"checkpoint={tmp_path / 'merged'}", f"records={file}"]
    assert main(words) == 0
    assert "quickstart, step 25" in (tmp_path / "merged" / CARD).read_text(encoding="utf-8")
    file = file.rename(tmp_path / "elsewhere.jsonl")
    words[1] = f"records={file}"
    assert main(words) == 2
    assert "recipe: got nothing, and neither" in capsys.readouterr().err
    assert main([*words, "recipe=mixed_grid", f"out={tmp_path / 'card.md'}"]) == 0
    assert ModelCard.load(tmp_path / "card.md").data.base_model == "Qwen/Qwen3-VL-8B-Instruct"


def test_what_makes_no_card_is_refused(run_folder, records, capsys):
    file = records_file(run_folder, 25)
    refusals = {
        ("step=50", f"run={run_folder}"): "run: got checkpoint-50, without records of its answers",
        (f"run={run_folder}", "step=75"): "which does not exist",
        (f"checkpoint={run_folder / 'checkpoint-50'}", f"records={file}"): "records: got answers of step 25",
        (f"records={file}",): "run: got neither it nor checkpoint",
        (f"checkpoint={run_folder}", f"run={run_folder}"): "run: got checkpoint beside it",
        (f"checkpoint={run_folder / 'none'}", f"records={file}"): "a folder of a model",
    }
    for words, said in refusals.items():
        assert main(words) == 2
        assert said in capsys.readouterr().err
    write_records(file, [*records, *changed(records, model="other")])
    assert main([f"checkpoint={run_folder / 'checkpoint-25'}", f"records={file}"]) == 2
    assert "allowed: one model, step, protocol and split" in capsys.readouterr().err
