"""Loss weights of parts: equal ones are none, 0 is absence, only ratios count."""

import dataclasses

import pytest
import torch
from transformers import TrainerCallback

from data_mix.scores import Scores
from eval_hooks.records import Record, write_records
from recipes.loader import load_recipe
from train.weighting import PartWeights

GRIDS = ("4x4", "8x8", "12x12")
EXACT = ["trainer.max_grad_norm=0", "train.predictable_weight=0.3", "data.parts.16x16=null", "train.effective_batch=6"]


def weighing(**weights):
    """Overrides that give each part this weight."""
    accuracy = ", ".join(f"{part}: {1 - weight}" for part, weight in weights.items())
    return ["train.weighting=inverse_accuracy", f"train.inverse_accuracy.accuracy={{{accuracy}}}"]


class GradientRecorder(TrainerCallback):
    """Keeps every trained parameter's gradient before the optimizer uses it."""

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        self.gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.fixture
def step_of(mixed_recipe, trainer_of, tmp_path):
    """`step_of(model, *overrides)`: (loss, gradients) of the first step."""

    def run(model, *overrides):
        output = tmp_path / str(len(list(tmp_path.iterdir())))
        trainer = trainer_of(mixed_recipe(model, *EXACT, f"output_dir={output}", *overrides))
        recorder = GradientRecorder()
        trainer.add_callback(recorder)
        trainer.train()
        return trainer.state.log_history[0]["loss"], recorder.gradients

    return run


def assert_equal_steps(one, other):
    (loss, gradients), (other_loss, other_gradients) = one, other
    assert other_loss == pytest.approx(loss, abs=1e-5)
    assert other_gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(other_gradients[name], gradient, atol=1e-5, rtol=1e-5)


WAYS = [
    ("tiny_qwen3_vl", "train.micro_batch=2"),
    ("tiny_qwen3_vl", "train.batching=packed"),
    ("tiny_gemma3", "train.batching=balanced"),
]


@pytest.mark.parametrize(("model", "way"), WAYS)
def test_equal_weights_are_no_weights_and_only_ratios_count(model, way, step_of):
    plain = step_of(model, way)
    assert_equal_steps(plain, step_of(model, way, *weighing(**dict.fromkeys(GRIDS, 0.25))))
    uneven = dict(zip(GRIDS, (0.1, 0.7, 0.4), strict=True))
    weighted = step_of(model, way, *weighing(**uneven))
    assert not all(torch.allclose(weighted[1][name], gradient, rtol=0.1) for name, gradient in plain[1].items())
    assert_equal_steps(weighted, step_of(model, way, *weighing(**{part: w / 10 for part, w in uneven.items()})))


@pytest.mark.parametrize(("model", "way"), WAYS)
def test_a_part_that_weighs_nothing_is_absent(model, way, step_of):
    weights = {"4x4": 0.5, "8x8": 0.0, "12x12": 0.25}
    silent = step_of(model, way, *weighing(**weights))
    left = {part: weight for part, weight in weights.items() if weight}
    removed = ["data.parts.8x8=null", "train.effective_batch=4"]
    assert_equal_steps(silent, step_of(model, way, *removed, *weighing(**left)))


def test_weighted_gradients_do_not_depend_on_the_micro_batch(step_of):
    weights = weighing(**dict(zip(GRIDS, (0.1, 0.7, 0.4), strict=True)))
    one, *others = (step_of("tiny_qwen3_vl", *weights, f"train.micro_batch={micro}") for micro in (6, 2, 1))
    for other in others:
        assert_equal_steps(one, other)


def test_a_step_of_parts_that_weigh_nothing_has_no_loss(mixed_recipe, trainer_of):
    parts = ["data.parts.8x8=null", "data.parts.12x12=null", "data.parts.16x16.count=1", "train.effective_batch=1"]
    recipe = mixed_recipe("tiny_qwen3_vl", *parts, *weighing(**{"4x4": 0, "16x16": 1}), "trainer.max_steps=3")
    trainer = trainer_of(recipe)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    shown = [trainer.train_dataset[index]["posed"].part for index in range(3)]
    assert [entry["loss"] > 0 for entry in logged] == [part == "16x16" for part in shown]
    assert [entry["grad_norm"] > 0 for entry in logged] == [part == "16x16" for part in shown]
    assert set(shown) == {"4x4", "16x16"}


class Measures(TrainerCallback):
    """An evaluation after the second step, as far as weights can see."""

    def __init__(self, scores):
        self.scores = scores

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 2:
            self.scores.add(2, {"4x4": 0.75, "8x8": 0.5})


def test_adaptive_weights_follow_each_evaluation_from_the_next_step_on(mixed_recipe, trainer_of, tmp_path):
    overrides = [*EXACT, "trainer.max_steps=4", "trainer.num_train_epochs=4", "trainer.learning_rate=0"]
    adaptive = ["train.weighting=inverse_accuracy", "train.inverse_accuracy.adaptive=true"]
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", *overrides, *adaptive))
    trainer.add_callback(Measures(trainer.weights.scores))
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    of_4x4 = [entry["weight/4x4"] for entry in logged]
    assert of_4x4 == [1, 1, 0.25, 0.25]
    assert [entry["weight/12x12"] for entry in logged] == [1, 1, 1, 1]

    def loss(*weights):
        recipe = mixed_recipe("tiny_qwen3_vl", *overrides, *weights, f"output_dir={tmp_path / str(len(weights))}")
        fixed = trainer_of(recipe)
        fixed.train()
        return fixed.state.log_history[0]["loss"]

    # nothing learns, and every step is the whole mixture
    unweighted, weighted = loss(), loss(*weighing(**{"4x4": 0.25, "8x8": 0.5, "12x12": 1}))
    assert [entry["loss"] for entry in logged] == pytest.approx([unweighted] * 2 + [weighted] * 2, abs=1e-5)
    assert abs(unweighted - weighted) > 1e-4


def test_the_log_tells_each_parts_loss_and_accuracy(mixed_recipe, trainer_of):
    trainer = trainer_of(mixed_recipe("tiny_qwen3_vl", "train.predictable_weight=0", "data.parts.12x12=null",
                                      "data.parts.16x16=null", "train.effective_batch=4"))  # fmt: skip
    trainer.train()
    logged = trainer.state.log_history[0]
    digits = {"4x4": 2 * 2 * 16, "8x8": 2 * 2 * 64}
    total = sum(logged[f"informative_nll/{part}"] * count for part, count in digits.items())
    assert logged["informative_nll"] == pytest.approx(total / sum(digits.values()))
    assert logged["loss"] == pytest.approx(logged["informative_nll"], abs=1e-5)
    right = sum(logged[f"informative_accuracy/{part}"] * count for part, count in digits.items())
    assert logged["informative_accuracy"] == pytest.approx(right / sum(digits.values()))
    assert not any("12x12" in name for name in logged)


# ---- where accuracies come from ----


def record(part, pa, number, task="jigshape"):
    zero = {field.name: None for field in dataclasses.fields(Record)}
    return Record(**zero | {
        "key": f"{part}-{number}", "task": task, "version": 2, "split": "eval", "part": part, "index": number,
        "spec": {"grid": 2}, "seed": 0, "target": {}, "prompt_hash": "", "text": "", "finish_reason": "stop",
        "completion_tokens": 1, "scores": {"pa": pa}, "seconds": 0.0, "sample": 0, "protocol": "greedy", "model": "m",
    })  # fmt: skip


def recipe_with(tmp_path, records, *overrides):
    write_records(tmp_path / "final.jsonl", records)
    return load_recipe(
        [
            "recipe=mixed_grid", "data.parts.12x12=null", "data.parts.16x16=null",
            "train.weighting=inverse_accuracy", f"train.inverse_accuracy.records={tmp_path / 'final.jsonl'}",
            *overrides,
        ]
    )  # fmt: skip


def test_accuracies_are_read_from_the_records_of_an_evaluation(tmp_path):
    records = [record("4x4", 1.0, 0), record("4x4", 0.5, 1), record("8x8", 0.25, 0), record("other", 0.0, 0)]
    assert PartWeights(recipe_with(tmp_path, records), Scores()).at(0) == {"4x4": 0.25, "8x8": 0.75}


def test_a_runs_own_evaluations_take_over_from_the_records(tmp_path):
    records = [record("4x4", 1.0, 0), record("8x8", 0.25, 0)]
    scores = Scores()
    weights = PartWeights(recipe_with(tmp_path, records, "train.inverse_accuracy.adaptive=true"), scores)
    scores.add(10, {"8x8": 0.5})
    assert [weights.at(step) for step in (9, 10)] == [{"4x4": 0, "8x8": 0.75}, {"4x4": 0, "8x8": 0.5}]


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([record("4x4", 1.0, 0)], r"records of 4x4 \(jigshape\); .* and 8x8 is missing"),
        ([], r"records of none; .* and 4x4, 8x8 is missing"),
        ([record("4x4", 1.0, 0), record("8x8", 1.0, 0)], "every part has accuracy 1"),
    ],
)
def test_records_that_do_not_serve_are_refused(records, told, tmp_path):
    with pytest.raises(ValueError, match=f"train.inverse_accuracy.records: got .*{told}"):
        PartWeights(recipe_with(tmp_path, records), Scores())


def test_records_that_are_not_there_are_refused(tmp_path):
    recipe = recipe_with(tmp_path, [])
    (tmp_path / "final.jsonl").unlink()
    with pytest.raises(ValueError, match="which is no file"):
        PartWeights(recipe, Scores())
