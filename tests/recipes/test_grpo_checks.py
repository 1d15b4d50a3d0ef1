"""What cannot be trained on with a reward, and what only such a recipe has, is told, each in one line."""

import re

import pytest

from recipes.loader import load_recipe, to_yaml, usage
from recipes.schema import Adaptive, Curriculum, Dataset, Groups, Ladder, Part, Photos, Rollouts, SplitShares, Stage

SHAPE = re.compile(r"[^:]+: got .+; allowed: .+; (do|did) .+")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["train.batching=balanced"], 'train.batching: got balanced; allowed: plain in a recipe with reward'),
        (
            ["train.predictable_weight=0.1"],
            "train.predictable_weight: got 0.1; allowed: 1.0 in a recipe with reward: tokens weigh what their "
            "completion earned; do set train.predictable_weight=1.0",
        ),
        (
            ["train.weighting=inverse_accuracy", "train.inverse_accuracy.records=x"],
            'train.weighting: got "inverse_accuracy"; allowed: "equal" in a recipe with reward',
        ),
        (
            ["train.inverse_accuracy.records=x"],
            "train.inverse_accuracy.records: got a value; allowed: nothing where train.weighting=equal",
        ),
        (
            ["train.effective_batch=20"],
            "train.effective_batch: got 20; allowed: a whole multiple of trainer.num_generations, 8; do set "
            "train.effective_batch=16",
        ),
        (
            ["train.effective_batch=4", "trainer.num_generations=16"],
            "train.effective_batch: got 4; allowed: a whole multiple of trainer.num_generations, 16; do set "
            "train.effective_batch=16",
        ),
        (["trainer.num_generations=1"], "trainer.num_generations: got 1; allowed: a whole number >= 2"),
        (["trainer.num_generations=0"], "trainer.num_generations: got 0; allowed: a whole number >= 2"),
        (["trainer={num_generations: null}"], "trainer.num_generations: got null; allowed: a whole number >= 2"),
        (["trainer.num_generations=many"], 'trainer.num_generations: got "many"; allowed: a whole number'),
        (["trainer.num_iterations=0"], "trainer.num_iterations: got 0; allowed: a whole number >= 1"),
        (
            ["trainer.num_iterations=2"],
            "train.checkpoint_every: got 25; allowed: a whole multiple of trainer.num_iterations, 2: a checkpoint "
            "holds no completions; do set train.checkpoint_every=26",
        ),
        (["rollouts.constrained=true", "trainer.use_vllm=true"], "rollouts.constrained: got true; allowed: false"),
        (["rollouts.batch=0"], "rollouts.batch: got 0; allowed: a whole number >= 1"),
        (["train.worst_batch_first=true"], "train.worst_batch_first: got true; allowed: false in a recipe with reward"),
        (["trainer.vllm_mode=server"], 'trainer.vllm_mode: got "server"; allowed: nothing unless trainer.use_vllm'),
        (["trainer.top_k=20"], "trainer.top_k: got 20; allowed: nothing unless trainer.use_vllm is true"),
        (["trainer.min_p=0.1"], "trainer.min_p: got 0.1; allowed: nothing unless trainer.use_vllm is true"),
        (["trainer.repetition_penalty=1.1"], "trainer.repetition_penalty: got 1.1; allowed: nothing unless"),
        (["trainer.generation_kwargs={a: 1}"], 'trainer.generation_kwargs: got {"a": 1}; allowed: nothing unless'),
        (["trainer.temperature=0"], "trainer.temperature: got 0; allowed: a number > 0: completions must differ"),
        (["trainer.top_p=1.5"], "trainer.top_p: got 1.5; allowed: a number > 0 and <= 1"),
        (["trainer.top_p=0"], "trainer.top_p: got 0; allowed: a number > 0 and <= 1"),
        (["reward.along=column"], 'reward.along: got "column"; allowed: answer | row | piece'),
        (["trainer.assistant_only_loss=true"], "trainer.assistant_only_loss: got an unknown name; allowed: the fields"),
    ],
)  # fmt: skip
def test_what_a_recipe_with_a_reward_could_not_train_on_is_told(problems, overrides, said):
    found = problems("reward.pa=1", *overrides)
    assert [line for line in found if line.startswith(said)] == found != []
    assert all(SHAPE.fullmatch(line) for line in found)


def test_all_problems_of_grpo_are_told_at_once(problems):
    found = problems(
        "reward={}", "train.batching=packed", "train.effective_batch=9", "train.predictable_weight=0",
        "trainer.top_k=5", "trainer.num_iterations=3", "trainer.max_completion_length=100", "reward.emm=1",
    )  # fmt: skip
    assert [line.split(":")[0] for line in found] == [
        "reward.emm", "trainer.max_completion_length", "train.batching", "train.predictable_weight",
        "train.effective_batch", "train.checkpoint_every", "trainer.top_k",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["rollouts.constrained=true"],
            "rollouts: got a value; allowed: nothing in a recipe without reward; do remove",
        ),
        (["rollouts.batch=8"], "rollouts: got a value; allowed: nothing in a recipe without reward; do remove it, or"),
        (
            ["trainer.beta=0.1"],
            "trainer.beta: got an unknown name; allowed: the fields of TRL's SFTConfig; do remove it",
        ),
        (["data.refill_tries=1"], "data.refill_tries: got 1; allowed: 0 in a recipe without reward; do remove it, or"),
    ],
)
def test_what_only_grpo_has_is_told_in_a_recipe_without_reward(problems, overrides, said):
    (line,) = problems(*overrides)
    assert line.startswith(said)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["trainer.num_generations=16", "train.effective_batch=48", "train.micro_batch=3"],
        ["trainer.num_iterations=5"],
        ["rollouts.constrained=true", "rollouts.batch=64", "trainer.temperature=0.8", "trainer.top_p=0.9"],
        ["trainer.use_vllm=true", "trainer.top_k=20", "trainer.min_p=0.1", "trainer.generation_kwargs={seed: 1}"],
        ["trainer.loss_type=dr_grpo", "trainer.beta=0.001", "trainer.scale_rewards=none"],
        ["train.start=runs/earlier/checkpoint-100", "reward.along=row"],
    ],
)
def test_what_grpo_can_train_on_loads_and_survives_printing(small, in_tmp_path, overrides):
    recipe = load_recipe([f"recipe={small}", "reward.pa=1", *overrides])
    (in_tmp_path / "again.yaml").write_text(to_yaml(recipe), encoding="utf-8")
    assert load_recipe(["recipe=again.yaml"]) == recipe


def test_existing_examples_can_be_rewarded_where_their_task_has_a_rewarded_entry(small, problems):
    part = "data.parts.old={task: %s, spec: %s, count: 3, dataset: {name: rows}}"
    assert load_recipe([f"recipe={small}", "reward={}", part % ("jigshape", "{grid: 4}")]).reward is not None
    (line,) = problems("reward={}", part % ("chat", "{}"))
    assert line.startswith('reward: got {"valid": 0.05} for part old; allowed: a weight for one of match there')
    assert load_recipe([f"recipe={small}", "reward.match=1", part % ("chat", "{}")]).reward.weights["match"] == 1


def test_how_an_answer_is_credited_is_no_weight(small):
    reward = load_recipe([f"recipe={small}", "reward.along=piece"]).reward
    assert reward.along == "piece"
    assert reward.weights == {"pa": 1.0, "sc": 0.125, "correct": 1.0, "valid": 0.05}


def test_without_a_word_rollouts_are_free_and_training_starts_from_the_model(small):
    recipe = load_recipe([f"recipe={small}", "reward={}"])
    assert recipe.rollouts == Rollouts(constrained=False, batch=16)
    assert recipe.reward.along == "answer"
    assert recipe.train.start is None


def test_the_help_lists_the_sections_of_other_modules_too():
    lines = usage().splitlines()
    for line in (
        "  rollouts.constrained: true or false [false]",
        "  rollouts.batch: a whole number >= 1 [16]",
        "  reward.along: answer | row | piece [\"answer\"]",
        "  train.start: text, or null [null]",
        "  data.photos.shares.eval: a number >= 0 and <= 1 [0.1]",
        "  data.curriculum.ladder.up: a number >= 0 and <= 1 [0.8]",
    ):  # fmt: skip
        assert line in lines


def test_the_schema_gives_the_sections_of_data_as_well():
    sections = (Adaptive, Curriculum, Dataset, Groups, Ladder, Part, Photos, SplitShares, Stage)
    assert {section.__module__ for section in sections} == {"recipes.data_sections"}
