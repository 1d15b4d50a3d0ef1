"""The callback in a real Trainer: records, table, best checkpoint, log history, and training undisturbed."""

import json
import shutil
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch
import wandb
from huggingface_hub import ModelCard
from transformers import Trainer, TrainerCallback, TrainingArguments

from data_mix.scores import Scores
from eval_hooks.callback import EvalCallback
from eval_hooks.records import read_records, score_completion, write_records
from eval_hooks.run_files import keep_best, read_best, records_file
from eval_hooks.summary import mean_primary, summarize
from eval_hooks.wandb_log import start_wandb
from eval_hooks.wandb_points import Points, TrainerPoints
from models.load import load_model
from models.tokens import answer_ids, encode_prompt


class PlainTrainer(Trainer):
    """The library's own, one puzzle over and over, with a dropout that draws from the global random state."""

    restarts = 0

    @contextmanager
    def off_the_clock(self):
        self.restarts += 1
        yield

    def whole_model(self):
        return nullcontext()

    def beat(self):
        pass

    def signalled(self):
        return False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = model(**inputs).loss
        return loss * (1 + torch.rand(1)[0])


class StopAfter(TrainerCallback):
    """Ends training after a step, as a signal does."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = control.should_training_stop or state.global_step == self.step


@pytest.fixture
def train(mixture_of, recipe_of, tmp_path):
    """`train(*overrides, steps, callback=True, resume=None, before=(), report=False)`: (trainer, callback) after
    training, with callbacks called `before` the tested one, and W&B told of it."""

    def run(*overrides, steps=4, callback=True, resume=None, before=(), report=False):
        recipe = recipe_of(*overrides, f"resume={str(resume is not None).lower()}")
        if report:
            start_wandb(recipe)
        loaded = load_model(recipe.model, seed=0, dtype=torch.float32)
        posed = mixture_of(1)[0]
        batch = encode_prompt(loaded, posed.puzzle.messages, posed.example().images)
        batch = loaded.family.model_inputs(loaded.processor, batch)
        answer = torch.tensor([answer_ids(loaded, posed.task.gold(posed.puzzle.target))])
        extra = {"input_ids": answer, "attention_mask": torch.ones_like(answer), "mm_token_type_ids": 0 * answer}
        example = {k: torch.cat([v, extra[k]], dim=1) if k in extra else v for k, v in batch.items()}
        example["labels"] = example["input_ids"].clone()
        arguments = TrainingArguments(
            output_dir=recipe.output_dir, max_steps=steps, save_steps=2, logging_steps=1, learning_rate=1e-3,
            per_device_train_batch_size=1, report_to=[], use_cpu=True, disable_tqdm=True,
            save_strategy="steps", seed=0, dataloader_pin_memory=False, remove_unused_columns=False,
        )  # fmt: skip
        trainer = PlainTrainer(loaded.model, arguments, train_dataset=[example] * 4, data_collator=lambda rows: rows[0])
        evaluation = None
        for each in before:
            trainer.add_callback(each)
        if callback:
            final = mixture_of(recipe.eval.final_count) if recipe.eval.final_count else []
            first = mixture_of(recipe.eval.count) if recipe.eval.count else []
            evaluation = EvalCallback(trainer, recipe, loaded, first, final, Scores())
            trainer.add_callback(evaluation)
        if report:
            trainer.add_callback(TrainerPoints(Points(Path(recipe.output_dir))))
        trainer.train(resume_from_checkpoint=resume)
        if report:
            wandb.finish()
            wandb.teardown()  # returns when W&B's own process has written everything
        return trainer, evaluation

    return run


def entries(trainer, name):
    return [entry for entry in trainer.state.log_history if any(key.startswith(f"{name}/") for key in entry)]


def test_checkpoints_and_the_end_are_evaluated_and_written(train, tmp_path, capsys):
    trainer, evaluation = train()
    run = tmp_path / "run"
    assert sorted(p.name for p in (run / "records").iterdir()) == [
        "final.jsonl", "step-000002.jsonl", "step-000004.jsonl",
    ]  # fmt: skip
    for name, step, count in (("step-000002", 2, 2), ("step-000004", 4, 2), ("final", 4, 3)):
        records = read_records(run / "records" / f"{name}.jsonl").records
        assert [(r.part, r.index) for r in records] == [(p, i) for p in ("2x2", "missing") for i in range(count)]
        assert {r.step for r in records} == {step}
    assert [entry["step"] for entry in entries(trainer, "eval")] == [2, 4]
    (final,) = entries(trainer, "final")
    assert final["final/2x2/pa"] == evaluation.final_summary["2x2"].means["pa"]
    assert {"eval/2x2/pa", "eval/2x2/invalid", "eval/2x2/truncated"} <= entries(trainer, "eval")[0].keys()
    assert evaluation.final_summary["2x2"].n == 3
    assert json.loads((run / "best.json").read_text())["step"] in (2, 4)
    assert (run / "pictures/step-000002/2x2-0000.png").is_file()
    assert (run / "pictures/final/2x2-0000.png").is_file()
    assert trainer.restarts == 2  # one evaluation at step 2, and one at step 4 that serves as checkpoint's and final
    printed = capsys.readouterr().out
    assert "evaluation at step 2 (eval split" in printed
    assert "flats only" in printed


def test_losses_and_weights_are_those_of_a_run_without_evaluation(train, tmp_path):
    with_evaluation, _ = train()
    without, _ = train(f"output_dir={tmp_path / 'other'}", callback=False)
    losses = [[e["loss"] for e in t.state.log_history if "loss" in e] for t in (with_evaluation, without)]
    assert losses[0] == losses[1]
    for one, other in zip(with_evaluation.model.parameters(), without.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_resumed_run_overwrites_its_records_and_keeps_one_history(train, tmp_path):
    first, _ = train()
    records = tmp_path / "run/records"
    before = {path.name: path.read_text().count("\n") for path in records.iterdir()}
    (records / "step-000002.jsonl").unlink()  # as if stopped after saving, before the evaluation
    (records / "step-000004.jsonl").unlink()
    (records / "final.jsonl").unlink()
    (tmp_path / "run/best.json").write_text('{"step": 99, "score": 1.0}')
    resumed, _ = train(resume=str(tmp_path / "run/checkpoint-2"))
    assert {path.name: path.read_text().count("\n") for path in records.iterdir()} == before
    for name in ("eval", "final"):
        assert entries(resumed, name) == entries(first, name)
    assert read_best(tmp_path / "run").step in (2, 4)


def test_a_resumed_run_takes_earlier_evaluations_from_their_records(train, tmp_path):
    first, _ = train()
    resumed, _ = train(resume=str(tmp_path / "run/checkpoint-2"))
    assert entries(resumed, "eval") == entries(first, "eval")
    assert resumed.restarts == 1


def test_a_run_does_not_count_evaluations_of_weights_that_are_no_more(train, tmp_path):
    train()
    stale = tmp_path / "run/records/step-000006.jsonl"
    shutil.copy(tmp_path / "run/records/step-000004.jsonl", stale)
    (tmp_path / "run/best.json").write_text('{"step": 99, "score": 1.0}')
    train()
    assert not stale.exists()
    assert stale.with_suffix(".jsonl.old").is_file()
    assert read_best(tmp_path / "run").step in (2, 4)


KEY = "0123456789abcdef0123456789abcdef01234567"


def points(history, name):
    """(step, value) of each point with such a number, in their order."""
    return [(row["train/global_step"], row[name]) for row in history if name in row]


def test_w_and_b_gets_every_point_once_of_a_run_that_was_stopped_and_resumed_twice(
    train, no_login, monkeypatch, tmp_path, read_offline_runs, read_summary
):
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    run = tmp_path / "run"
    train(before=[StopAfter(2)], report=True)
    train(resume=str(run / "checkpoint-2"), report=True)
    _, evaluation = train(resume=str(run / "checkpoint-4"), report=True)
    ids, _, history = read_offline_runs(run)
    assert ids == {(run / "wandb_id.txt").read_text().strip()}
    assert [step for step, _ in points(history, "train/loss")] == [1, 2, 3, 4]
    for name in ("eval/score", "eval/2x2/pa", "best/score", "best/step"):
        assert [step for step, _ in points(history, name)] == [2, 4]
    assert points(history, "final/score") == [(4, mean_primary(evaluation.final_summary))]
    best, summary = read_best(run), read_summary(run)
    assert (summary["best/step"], summary["best/score"]) == (best.step, best.score)
    assert summary["eval/score"] == points(history, "eval/score")[-1][1]
    tables = [path.parent.name for path in run.glob("wandb/*/files/media/table/*/*.table.json")]
    assert Counter(tables) == {"eval": 2, "final": 1}
    files = [path for path in run.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_of_a_killed_run_the_steps_that_it_takes_again_come_once(
    train, no_login, tmp_path, read_offline_runs, read_summary
):
    run = tmp_path / "run"
    train("eval.final_count=0", before=[StopAfter(3)], report=True)  # killed after step 3, which is nowhere saved
    shutil.rmtree(run / "checkpoint-3", ignore_errors=True)
    train("eval.final_count=0", resume=str(run / "checkpoint-2"), report=True)
    train("eval.final_count=0", resume=str(run / "checkpoint-2"), report=True)  # as if step 4 had not been saved
    ids, _, history = read_offline_runs(run)
    assert len(ids) == 1
    assert [step for step, _ in points(history, "train/loss")] == [1, 2, 3, 4]
    assert [step for step, _ in points(history, "eval/score")] == [2, 4]
    assert read_summary(run)["best/step"] == read_best(run).step


def test_the_summary_of_a_resumed_run_is_that_of_the_step_where_it_goes_on(
    train, no_login, mixture_of, completion_of, tmp_path, read_summary
):
    run = tmp_path / "run"
    train("eval.final_count=0", "eval.count=0", before=[StopAfter(2)])
    mixture = mixture_of(1)
    for step, text in ((2, "{"), (4, None)):  # step 4 was all right, and is no more
        posed = [mixture[index] for index in range(len(mixture))]
        texts = [text or p.task.gold(p.puzzle.target) for p in posed]
        scored = zip(posed, texts, strict=True)
        found = [score_completion(p, completion_of(t), model="m", step=step) for p, t in scored]
        write_records(records_file(run, step), found)
    train(before=[StopAfter(3)], resume=str(run / "checkpoint-2"), report=True)
    assert [read_summary(run)[f"best/{name}"] for name in ("step", "score")] == [2, 0]


def test_each_checkpoint_has_a_card_with_the_most_answers_there_are(train, tmp_path):
    _, evaluation = train()
    cards = [ModelCard.load(tmp_path / f"run/checkpoint-{step}/README.md") for step in (2, 4)]
    assert ["| 2x2 | 2 |" in card.text for card in cards] == [True, False]
    told = {(each.dataset_config, each.metric_type): each.metric_value for each in cards[1].data.eval_results}
    means = {(part, entry): mean for part, own in evaluation.final_summary.items() for entry, mean in own.means.items()}
    assert told == pytest.approx(means, abs=1e-6)


class InTheWay(TrainerCallback):
    """A folder where the card should be."""

    def on_save(self, args, state, control, **kwargs):
        Path(args.output_dir, f"checkpoint-{state.global_step}", "README.md").mkdir()


def test_a_run_goes_on_where_a_card_cannot_be_written(train, caplog):
    trainer, _ = train(before=[InTheWay()])
    assert "goes without a card of its own" in caplog.text
    assert [entry["step"] for entry in entries(trainer, "eval")] == [2, 4]


def test_a_final_count_that_is_no_larger_reuses_the_checkpoint_evaluation(train, tmp_path):
    trainer, evaluation = train("eval.final_count=1")
    assert trainer.restarts == 2
    assert evaluation.final_summary["2x2"].n == 1
    final = read_records(tmp_path / "run/records/final.jsonl").records
    last = read_records(tmp_path / "run/records/step-000004.jsonl").records
    assert final == [record for record in last if record.index == 0]
    pictures = sorted((tmp_path / "run/pictures/final").iterdir())
    assert len(pictures) == 2
    of_last = tmp_path / "run/pictures/step-000004"
    assert [path.read_bytes() for path in pictures] == [(of_last / path.name).read_bytes() for path in pictures]


def test_counts_of_zero_evaluate_nothing(train, tmp_path):
    trainer, evaluation = train("eval.count=0", "eval.final_count=0", steps=2)
    assert evaluation.final_summary == {}
    assert not (tmp_path / "run/records").exists()
    assert entries(trainer, "eval") == []


def test_the_best_step_changes_only_for_a_better_one(mixture_of, completion_of, tmp_path):
    posed = mixture_of(1)[0]
    texts = {"right": posed.task.gold(posed.puzzle.target), "wrong": "{"}
    summaries = {
        name: summarize([score_completion(posed, completion_of(text), model="m")]) for name, text in texts.items()
    }
    order = ["wrong", "right", "right", "wrong"]
    best = [keep_best(tmp_path, step, summaries[name]) for step, name in enumerate(order, start=1)]
    assert [b.step for b in best] == [1, 2, 2, 2]
    assert read_best(tmp_path) == (2, 1.0)
