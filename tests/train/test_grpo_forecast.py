"""A GRPO run as it is foreseen, beside the run itself."""

import re

import pytest

from data_mix.prompt_batches import Rollout
from models.outline import outline
from models.towers import train_towers
from recipes.loader import load_recipe
from train.cost import DECODE_S, Machine
from train.grpo import prepare
from train.grpo_cost import grpo_cost, scoring_passes
from train.grpo_forecast import ShuffledRows, grpo_batches, grpo_forecast
from train.memory import reference_memory
from train.script import run

SPEC = "{{grid: {}, piece_px: 8, tab_ratio: 0.3}}"
SMALL = [
    "recipe=mixed_grid", "reward={}", "data.photos.use=reuse", "wandb.mode=disabled",
    *(f"data.parts.{n}x{n}=null" for n in (4, 8, 12, 16)),
    *(f"data.parts.{n}={{task: jigshape, count: 5, spec: {SPEC.format(n)}}}" for n in (2, 3)),
    "train.batching=plain", "train.precision=fp32", "train.workers=0", "train.effective_batch=8",
    "train.micro_batch=4", "trainer.num_generations=2", "trainer.warmup_steps=0",
    "trainer.gradient_checkpointing=false", "eval.count=0", "eval.final_count=0", "rollouts.batch=3",
]  # fmt: skip
TWICE = ["trainer.num_iterations=2", "train.checkpoint_every=2", "trainer.num_train_epochs=1"]
LADDER = "data.curriculum={ladder: {parts: ['2', '3'], up: 0.9}, groups: {every: 1, window: 2}, lag: 4}"
MACHINE = Machine(gpus=1, gpu_memory_gb=80, mfu=0.4, peak_tflops=989)


@pytest.fixture
def foreseen(tmp_path, monkeypatch):
    """`foreseen(*overrides, model=)`: the forecast of a few 2x2 and 3x3 puzzles."""
    monkeypatch.chdir(tmp_path)

    def build(*overrides: str, model: str = "tiny_qwen3_vl"):
        recipe = load_recipe([*SMALL, f"model={model}", *overrides])
        outlined = outline(recipe.model)
        return grpo_forecast(recipe, outlined, train_towers(outlined.loaded, recipe.train), processes=1)

    return build


@pytest.mark.parametrize("model", ["tiny_qwen3_vl", "tiny_gemma3"])
def test_a_run_takes_the_steps_and_its_largest_micro_batch_the_shape_that_was_foreseen(model, foreseen, monkeypatch):
    """What a model that knows nothing writes is as long as it may be: it hardly ever ends its turn."""
    found = foreseen(*TWICE, model=model)
    prepared = prepare([*SMALL, *TWICE, f"model={model}"])
    trainer, rows = prepared.trainer, []
    inner = trainer._logps

    def spied(model, scored, width):
        lengths = [one.encoded["input_ids"].shape[1] + len(each.completion.ids) for one, each in scored]
        rows.append((len(scored), max(lengths)))
        return inner(model, scored, width)

    monkeypatch.setattr(trainer, "_logps", spied)
    assert run(*prepared) == 0
    assert trainer.state.global_step == found.steps == 6
    assert trainer.batches.rollouts == found.schedule.rollouts == 3
    assert trainer.batches.rollout == found.schedule.rollout
    scoring = len(scoring_passes(found)) * found.seen // found.uses
    assert sum(number for number, _ in rows) == found.seen + scoring == 48 + 24
    assert max(rows) == (4, grpo_batches(found, found.rows).largest.length)
    assert trainer.args.max_completion_length == max(one.lengths.answer for one in found.rows.values())


def test_the_micro_batches_are_of_the_completions_that_each_process_is_given():
    rollout = Rollout(puzzles=3, completions=4, processes=2, micro_steps=2)
    rows = ShuffledRows(rollout, micro_batch=3)
    bins = rows([7, 8, 9])
    for rank in range(2):
        own = sorted(one.position for one in rollout.share([7, 8, 9], rank))
        assert sorted(bins[rank] + bins[2 + rank]) == own


def test_the_largest_load_is_of_the_rows_that_may_meet(foreseen):
    """A step with one 3x3 puzzle of two completions and three 2x2: padded to the 3x3, but not four times its image."""
    stages = "data.curriculum={stages: {all: {shares: {'2': 3, '3': 1}}}}"
    found = foreseen(stages, "trainer.max_steps=2")
    by_part = {one.part: one for one in found.rows.values()}
    two, three = by_part["2"], by_part["3"]
    load = grpo_batches(found, found.measured).largest
    assert (load.rows, load.length) == (4, three.lengths.total)
    assert load.answer == 2 * three.lengths.answer + 2 * two.lengths.answer
    refilled = foreseen(stages, "trainer.max_steps=2", "data.refill_tries=1")
    assert len(refilled.measured) == 10 > len(found.measured)


def test_of_a_curriculum_that_groups_decide_every_part_may_come(foreseen):
    found = foreseen(LADDER, "trainer.max_steps=3")
    load = grpo_batches(found, found.measured).largest
    assert load.length == max(one.lengths.total for one in found.rows.values())
    assert load.answer == 4 * max(one.lengths.answer for one in found.rows.values())
    assert {one.part for one in found.measured.values()} == {"2", "3"}


def test_rows_are_longer_than_examples_by_what_a_completion_may_exceed_its_answer(foreseen):
    found = foreseen("trainer.max_steps=2")
    for at, one in found.measured.items():
        answer = one.lengths.answer
        assert found.rows[at].lengths.prompt == one.lengths.prompt
        assert answer + 32 < found.rows[at].lengths.answer <= 1.25 * answer + 33
        assert found.rows[at].flops > one.flops


def test_tokens_are_counted_once_for_each_completion_and_use(foreseen):
    once, twice = foreseen("trainer.max_steps=2"), foreseen("trainer.max_steps=4", *TWICE)
    asked = [at for step in once.batches.order.possible_steps(2) for at in step]
    assert once.tokens == 2 * sum(once.measured[at].lengths.total for at in asked)
    assert (twice.schedule.rollouts, twice.seen, twice.tokens) == (2, 2 * once.seen, 2 * once.tokens)


def test_completions_are_written_batch_after_batch_and_again_where_groups_are_replaced(foreseen):
    """Eight completions of two 2x2 and two 3x3 puzzles in batches of three: 3x3, 3x3 and two 2x2."""
    stages = "data.curriculum={stages: {all: {shares: {'2': 1, '3': 1}}}}"
    found, tried = (foreseen(stages, "trainer.max_steps=1", f"data.refill_tries={tries}") for tries in (0, 2))
    once, thrice = grpo_cost(found, MACHINE), grpo_cost(tried, MACHINE)
    by_part = {one.part: one.lengths.answer for one in found.measured.values()}
    decoded = (2 * by_part["3"] + by_part["2"]) * DECODE_S / 3600
    assert once.least.writing == pytest.approx(decoded, rel=1e-3)  # reading the prompts is nothing beside
    assert thrice.least == once.least
    assert thrice.most.writing == pytest.approx(3 * once.most.writing)
    assert thrice.most.training == once.most.training > once.least.training
    assert once.run.hours == pytest.approx(once.least.training + once.run.saving_h + once.run.evaluation_h)


def test_log_probabilities_are_computed_before_training_for_each_that_is_compared_with(foreseen):
    plain, both = foreseen("trainer.max_steps=2"), foreseen("trainer.max_steps=2", *TWICE, "trainer.beta=0.1")
    assert scoring_passes(plain) == []
    assert grpo_cost(plain, MACHINE).least.scoring == 0
    assert scoring_passes(both) == ["the model's own", "the reference's"]
    assert grpo_cost(both, MACHINE).least.scoring > 0
    by_vllm = foreseen("trainer.max_steps=2", "trainer.use_vllm=true")
    assert scoring_passes(by_vllm) == ["the model's own"]
    assert grpo_cost(by_vllm, MACHINE).most.writing == 0


@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_kl_is_measured_from_takes_what_the_trainers_own_does(method, precision, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = [*SMALL, "model=tiny_gemma3", f"train.method={method}", f"train.precision={precision}", "trainer.beta=0.1"]
    recipe = load_recipe(argv)
    foreseen = reference_memory(train_towers(outline(recipe.model).loaded, recipe.train), recipe)
    trainer = prepare([*argv, "trainer.max_steps=1"]).trainer
    if method == "full":
        taken = sum(parameter.nbytes for parameter in trainer.ref_model.parameters())
    else:
        taken = sum(one.nbytes for name, one in trainer.model.named_parameters() if re.search(r"\.ref\.", name))
    assert foreseen == taken > 0
