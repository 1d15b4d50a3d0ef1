"""The evaluator: each puzzle once, the same records on any number of processes, no trace left in training."""

import dataclasses
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from eval_hooks.evaluate import EvaluationStoppedError, evaluate, plan_batches
from eval_hooks.records import read_records
from models.load import load_model
from models.tokens import answer_ids, prompt_length
from models.towers import train_towers
from recipes.loader import to_yaml

ROOT = Path(__file__).resolve().parents[2]


def without_times(records):
    return [dataclasses.replace(record, seconds=0.0) for record in records]


def test_every_puzzle_is_in_one_batch_and_a_batch_is_of_one_part(loaded, mixture_of):
    mixture = mixture_of(5)
    batches = plan_batches(loaded, mixture, batch=2)
    assert sorted(question.position for batch in batches for question in batch.questions) == list(range(10))
    assert [len(batch.questions) for batch in batches].count(1) == 2  # five puzzles of each part make 2 + 2 + 1
    assert all(len({mixture[question.position].part for question in batch.questions}) == 1 for batch in batches)


def test_the_longest_batch_comes_first(loaded, mixture_of):
    mixture = mixture_of(3)
    lengths = []
    for batch in plan_batches(loaded, mixture, batch=1):
        puzzle = mixture[batch.questions[0].position].puzzle
        prompt = prompt_length(loaded, puzzle.messages, list(puzzle.image_sizes))
        lengths.append(prompt + batch.limits[0])
    assert lengths == sorted(lengths, reverse=True)


def test_the_token_limit_leaves_room_beyond_the_reference_answer(loaded, posed):
    gold = len(answer_ids(loaded, posed.task.gold(posed.puzzle.target)))
    (batch,) = plan_batches(loaded, [posed], batch=8)
    assert batch.limits == (int(np.ceil(1.25 * gold)) + 32,)


def test_a_puzzle_that_does_not_fit_the_model_is_refused_with_key_and_length(loaded, posed):
    prompt = prompt_length(loaded, posed.puzzle.messages, list(posed.puzzle.image_sizes))
    gold = len(answer_ids(loaded, posed.task.gold(posed.puzzle.target)))
    exact = dataclasses.replace(loaded, max_tokens=prompt + gold)
    (batch,) = plan_batches(exact, [posed], batch=1)
    assert batch.limits == (gold,)
    small = dataclasses.replace(loaded, max_tokens=prompt + gold - 1)
    with pytest.raises(ValueError, match=rf"{posed.puzzle.key}.*model\.max_tokens={prompt + gold} "):
        plan_batches(small, [posed], batch=1)


def test_records_come_in_the_order_of_the_mixture(loaded, mixture_of):
    records = evaluate(loaded, mixture_of(3), batch=2, model_name="m", step=4, progress=False)
    assert [(r.part, r.index) for r in records] == [(part, i) for part in ("2x2", "missing") for i in range(3)]
    assert {(r.model, r.step, r.protocol, r.split, r.sample) for r in records} == {("m", 4, "greedy", "eval", 0)}
    for record in records:  # an untrained model rambles until it is cut
        assert record.completion_tokens > 0
        assert record.invalid is not None
    assert any(record.finish_reason == "length" for record in records)


def test_an_evaluation_that_is_told_to_stop_asks_no_further_batch(loaded, mixture_of):
    asked = []
    with pytest.raises(EvaluationStoppedError):
        evaluate(
            loaded, mixture_of(3), batch=2, model_name="m", progress=False,
            beat=lambda: asked.append(1), stop=lambda: bool(asked),
        )  # fmt: skip
    assert asked == [1]


def test_no_puzzles_give_no_records(loaded):
    assert evaluate(loaded, [], batch=2, model_name="m", progress=False) == []


def test_evaluation_leaves_no_trace_in_training(posed, recipe_of):
    recipe = recipe_of("train.method=lora")
    lora = train_towers(load_model(recipe.model, seed=0, dtype=torch.float32), recipe.train)
    model = lora.model
    model.train()
    frozen = next(module for module in model.modules() if isinstance(module, torch.nn.LayerNorm))
    frozen.eval()
    model.activation_checkpointing_enable()
    model.config.text_config.use_cache = False
    trained = [p for p in model.parameters() if p.requires_grad]
    for parameter in trained:
        parameter.grad = torch.ones_like(parameter)
    modes = [module.training for module in model.modules()]
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    expected = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(1), np.random.seed(2), torch.manual_seed(3)

    evaluate(lora, [posed], batch=1, model_name="m", autocast=torch.bfloat16, progress=False)

    assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected
    assert [module.training for module in model.modules()] == modes
    assert model.config.text_config.use_cache is False
    assert model.is_activation_checkpointing
    assert torch.is_grad_enabled()
    assert all(torch.equal(p.grad, torch.ones_like(p)) for p in trained)
    assert all(torch.equal(p, weights[name]) for name, p in model.named_parameters())


def test_training_is_as_found_even_when_an_evaluation_fails(loaded, posed):
    broken = dataclasses.replace(posed, puzzle=dataclasses.replace(posed.puzzle, target={}))
    loaded.model.train()
    state = torch.get_rng_state()
    with pytest.raises(KeyError):
        evaluate(loaded, [broken], batch=1, model_name="m", progress=False)
    assert loaded.model.training
    assert torch.equal(torch.get_rng_state(), state)


def test_two_processes_give_the_records_of_one(loaded, mixture_of, recipe_of, shared_folder, tmp_path):
    """Five puzzles are three batches for two processes; one puzzle leaves a process without any."""
    only_photos = ["data.parts.missing=null"]
    expected = {
        count: evaluate(loaded, mixture_of(count, *only_photos), batch=2, model_name="m", step=1, progress=False)
        for count in (5, 1)
    }
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(to_yaml(recipe_of(*only_photos)))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2",
        str(Path(__file__).with_name("in_processes.py")), str(tmp_path), "5,1", f"recipe={recipe}",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-4000:]
    for count, records in expected.items():
        assert len(records) == count
        for rank in (0, 1):
            got = read_records(tmp_path / f"{count}-of-rank-{rank}.jsonl").records
            assert without_times(got) == without_times(records)
