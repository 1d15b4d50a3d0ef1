"""Evaluation inside training: at every checkpoint, and once after the last step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from data_mix.mixture import Mixture, evaluation_parts
from data_mix.scores import Scores
from eval_hooks.baselines import solved_or_nothing
from eval_hooks.evaluate import evaluate, plan_batches
from eval_hooks.model_card import or_warn, write_card
from eval_hooks.percent import percent
from eval_hooks.pictures import write_pictures
from eval_hooks.records import Record, read_records, write_records
from eval_hooks.run_files import checkpoint_folders, evaluated_steps, keep_best, pictures_folder, records_file
from eval_hooks.summary import Summary, metrics, primary_scores, summarize, table
from eval_hooks.wandb_log import log_evaluation, set_summary, standing
from eval_hooks.wandb_points import Points
from models.load import Loaded
from recipes.schema import Recipe
from tasks import TASKS


class Clocked(Protocol):
    """A trainer that can leave the time of an evaluation out of its speed, hear that it goes on, say that it must stop,
    and have all weights on every process while it does not."""

    def off_the_clock(self) -> AbstractContextManager[None]: ...
    def whole_model(self) -> AbstractContextManager[None]: ...
    def beat(self) -> None: ...
    def signalled(self) -> bool: ...


class EvalCallback(TrainerCallback):
    """Scores the model after each save (`eval.count` puzzles per part) and after the last step (`eval.final_count`).

    Writes <output_dir>/records/step-000025.jsonl and final.jsonl, pictures/, best.json and the checkpoint's card;
    prints the tables; logs `eval/<part>/<entry>` and `final/<part>/<entry>` to the trainer's log history and W&B, which
    gets `eval/score`, `final/score`, `best/score` and `best/step` besides. All processes take part. At the last step
    one evaluation of the larger count serves both.
    """

    def __init__(
        self,
        trainer: Clocked,
        recipe: Recipe,
        loaded: Loaded,
        checkpoint_mixture: Mixture,
        final_mixture: Mixture,
        scores: Scores,
    ) -> None:
        """
        Args:
            scores: gets each checkpoint evaluation's mean primary scores, on every process.

        Raises:
            ValueError: a puzzle does not fit the model, see `eval_hooks.evaluate.plan_batches`.
        """
        self._trainer = trainer
        self._recipe = recipe
        self._loaded = loaded
        self._mixture, self._final = checkpoint_mixture, final_mixture
        self._larger = max(final_mixture, checkpoint_mixture, key=len)
        self._scores = scores
        self._parts = evaluation_parts(recipe)
        self._run = Path(recipe.output_dir)
        self.final_summary: Summary = {}
        """The summary after the last step; empty before it, and with final_count 0."""
        self._solved = solved_or_nothing()
        self._points = Points(self._run)
        plan_batches(loaded, self._larger, recipe.eval.batch)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self._take_up(state)
        if state.global_step == 0:
            return
        found = [self._history(state)]  # the main process's has what the records added
        if dist.is_available() and dist.is_initialized():
            dist.broadcast_object_list(found)
        for step, primary in found[0].items():
            self._scores.add(step, primary)
        due = state.global_step % args.save_steps == 0  # else a signal made this checkpoint
        missing = due and state.global_step not in found[0]
        if missing and state.global_step < state.max_steps:  # the run was stopped between saving and evaluating
            self._checkpoint(state)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step < state.max_steps and not control.should_training_stop:  # then it is made up for later
            self._checkpoint(state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        count, final_count = self._recipe.eval.count, self._recipe.eval.final_count
        if not len(self._larger) or state.global_step < state.max_steps:
            return
        records = self._evaluate(self._larger, state.global_step)
        self._write_card(state, records)
        if count:
            self._report("eval", state, self._mixture, _first(records, count))
        if final_count:
            chosen = _first(records, final_count)
            self.final_summary = self._report("final", state, self._final, chosen)

    def _checkpoint(self, state: TrainerState) -> None:
        if len(self._mixture):
            records = self._evaluate(self._mixture, state.global_step)
            self._write_card(state, records)
            self._report("eval", state, self._mixture, records)

    def _write_card(self, state: TrainerState, records: Sequence[Record]) -> None:
        """Before the records: what these tell is never asked again, so a card that a kill prevented would stay out."""
        folder = checkpoint_folders(self._run).get(state.global_step)
        if state.is_world_process_zero and folder:
            with or_warn(folder):
                write_card(folder, records, self._recipe, self._run, self._solved)

    def _evaluate(self, mixture: Mixture, step: int) -> list[Record]:
        recipe = self._recipe
        with self._trainer.off_the_clock(), self._trainer.whole_model():
            return evaluate(
                self._loaded,
                mixture,
                batch=recipe.eval.batch,
                model_name=recipe.model.name,
                step=step,
                autocast=torch.bfloat16 if recipe.train.precision == "bf16" else None,
                beat=self._trainer.beat,
                stop=self._trainer.signalled,
            )

    def _report(self, name: str, state: TrainerState, mixture: Mixture, records: list[Record]) -> Summary:
        """Write, print and log one evaluation; name is eval (at a checkpoint) or final."""
        summary = summarize(records, self._solved)
        step = state.global_step
        if name == "eval":
            self._scores.add(step, primary_scores(summary))
        state.log_history.append(_history_entry(name, step, summary, state.epoch))
        if not state.is_world_process_zero:
            return summary
        of_step = None if name == "final" else step
        write_records(records_file(self._run, of_step), records)
        best = keep_best(self._run, step, summary) if name == "eval" else None
        pictures = write_pictures(pictures_folder(self._run, of_step), mixture, records, self._recipe.eval.pictures)
        log_evaluation(self._points, name, step, standing(name, summary, best), records, pictures)
        title = f"{'final ' if name == 'final' else ''}evaluation at step {step} ({records[0].split} split, %)"
        tqdm.write(f"\n{title}\n{table(summary)}")
        if best:
            tqdm.write(f"best so far: step {best.step}, mean primary {percent(best.score)}")
        tqdm.write("")
        return summary

    def _take_up(self, state: TrainerState) -> None:
        """Bring records, log history and best.json to the state of the step where training begins."""
        seen = {entry["step"] for entry in state.log_history if any(name.startswith("eval/") for name in entry)}
        (self._run / "best.json").unlink(missing_ok=True)  # it may name a later step that is no more
        for step in evaluated_steps(self._run):
            if step > state.global_step:  # of weights that are no more
                old = records_file(self._run, step)
                old.rename(old.with_suffix(".jsonl.old"))
                continue
            summary = summarize(read_records(records_file(self._run, step)).records)
            best = keep_best(self._run, step, summary)
            set_summary(standing("eval", summary, best))  # steps that are no more may have left others
            if step not in seen:
                epoch = state.epoch if step == state.global_step else None
                state.log_history.append(_history_entry("eval", step, summary, epoch))

    def _history(self, state: TrainerState) -> dict[int, dict[str, float]]:
        """Step -> {part: mean primary score} of each checkpoint evaluation in the log history."""
        names = {name: f"eval/{name}/{TASKS[part.task].primary}" for name, part in self._parts.items()}
        return {
            int(entry["step"]): {part: entry[name] for part, name in names.items() if name in entry}
            for entry in state.log_history
            if any(name in entry for name in names.values())
        }


def _first(records: list[Record], count: int) -> list[Record]:
    """The records of each part's first `count` puzzles."""
    return [record for record in records if record.index < count]


def _history_entry(name: str, step: int, summary: Summary, epoch: float | None) -> dict[str, float]:
    entry: dict[str, float] = {f"{name}/{metric}": value for metric, value in metrics(summary).items()}
    return {**entry, "step": step} if epoch is None else {**entry, "epoch": epoch, "step": step}
