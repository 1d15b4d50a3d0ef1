"""Real tokens per second of supervised fine-tuning on the mixed grid: ours, TRL's SFTTrainer and a bare loop, on a CPU.

    .venv/bin/python benchmarks/sft_throughput.py [repeats=3] [examples=24] [max_pack_tokens=8192] [only=NAME,...]

Qwen3-VL classes from scratch in fp32: language 256 wide, 4 layers, vision 64 wide, 2 layers. JigShape of 4x4, 8x8,
12x12, 16x16 with pieces of 36 px, in the published shares 3,000 : 2,000 : 1,000 : 500, all rendered beforehand. Every
contestant starts from the same weights and takes the same optimizer steps (8 examples, AdamW, gradients clipped at 1,
loss divided by the step's answer tokens); that their losses agree is checked. Real tokens are those of the examples
without padding; useful is their share of the tokens that the language model computes.

  whole     From rendered sheets (RGB bytes) to the last optimizer step, the data path in the main process. For the loop
            and TRL the chat template is filled in beforehand.
      bare          transformers' processor and one example per forward, logits at answer positions alone
      bare all      the same with the model's own loss, which takes all logits
      trl 8x1       TRL's SFTTrainer, micro-batch 8
      trl 1x8       TRL's SFTTrainer, micro-batch 1, accumulation 8
      plain, balanced, packed   train/sft.py's trainer, train.batching=...
  compute   Forward and backward alone of the bare loop and of packs, on batches that are ready (floats, patches,
            labels, positions of packs), in turn step by step.

The contestants take turns, one thread. Speeds are medians over the rounds, ratios medians of each round's ratio. Beside
wall time stands the process's CPU time, which counts less of what else the machine does.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import datasets
import torch
from torch.nn.functional import cross_entropy
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from data_mix.mixture import Mixture, training_mixture
from data_mix.order import EpochOrder
from data_mix.photos import find_photos
from data_mix.scores import Scores
from models.load import Loaded, load_model
from recipes.loader import load_recipe
from recipes.schema import Recipe
from train.arguments import sft_arguments
from train.balance import StepBatches, step_batches
from train.batches import Collator
from train.bins import Cost
from train.check import measure_examples
from train.loss import token_loss
from train.packing import allow_packs, packs
from train.trainer import PuzzleTrainer
from train.weighting import PartWeights

SHARES = {4: 3000, 8: 2000, 12: 1000, 16: 500}
PARTS = tuple(f"{grid}x{grid}" for grid in SHARES)
BATCH = 8
SMALL = (
    "model=tiny_qwen3_vl",
    "model.scratch.text_hidden=256",
    "model.scratch.text_layers=4",
    "model.scratch.vision_hidden=64",
    "model.scratch.vision_layers=2",
    "model.image.max_px=4194304",  # no sheet is scaled down: the largest has 1068 x 1088 px
    *(f"data.parts.{part}.spec.piece_px=36" for part in PARTS),
)
OPTIMIZER = {
    "learning_rate": 1e-5,
    "lr_scheduler_type": "constant",
    "warmup_steps": 0,
    "max_grad_norm": 1.0,
    "gradient_checkpointing": False,
    "logging_steps": 1,
}


def sample_counts(examples: int) -> dict[int, int]:
    """Examples of each grid: the published shares, rounded so that they sum up."""
    exact = {grid: examples * share / sum(SHARES.values()) for grid, share in SHARES.items()}
    counts = {grid: int(number) for grid, number in exact.items()}
    for grid in sorted(exact, key=lambda grid: counts[grid] - exact[grid])[: examples - sum(counts.values())]:
        counts[grid] += 1
    return counts


def mixed_grid(examples: int, *overrides: str) -> Recipe:
    """The mixed_grid recipe with few examples and the bundled photos."""
    counts = (f"data.parts.{grid}x{grid}.count={count}" for grid, count in sample_counts(examples).items())
    return load_recipe(["recipe=mixed_grid", *counts, "data.photos.use=reuse", "wandb.mode=disabled", *overrides])


class Trial(NamedTuple):
    """One run over the sample."""

    seconds: float
    cpu_seconds: float
    """Of this process."""
    losses: list[float]
    """Of each optimizer step, nats per answer token."""
    computed: int
    """Tokens that the language model computed, padding included."""


@dataclass(frozen=True)
class Sample:
    """What all contestants train on."""

    examples: int
    max_pack_tokens: int
    folder: str
    """Where trainers may write."""
    loaded: Loaded
    """Never trained itself."""
    mixture: Mixture
    rows: list[dict[str, Any]]
    """Rendered; beside the fields of `train.batches.as_dataset` the texts `prompt` and `completion`."""
    costs: dict[int, Cost]
    """Of each row."""

    @property
    def tokens(self) -> int:
        """In all examples."""
        return sum(cost.tokens for cost in self.costs.values())

    def steps(self) -> Iterator[list[dict[str, Any]]]:
        for start in range(0, self.examples, BATCH):
            yield self.rows[start : start + BATCH]

    def dataset(self, *fields: str) -> datasets.Dataset:
        """The rows' fields, out of memory."""

        def look_up(asked: dict[str, list[int]]) -> dict[str, list[Any]]:
            return {field: [self.rows[at][field] for at in asked["index"]] for field in fields}

        return datasets.Dataset.from_dict({"index": list(range(self.examples))}).with_transform(look_up)

    def recipe(self, batching: str) -> Recipe:
        limit = [] if batching == "plain" else [f"train.max_pack_tokens={self.max_pack_tokens}"]
        return mixed_grid(
            self.examples, *SMALL, "train.workers=0", "train.precision=fp32", f"train.effective_batch={BATCH}",
            f"train.batching={batching}", *limit,
            f"output_dir={self.folder}", *(f"trainer.{name}={str(value).lower()}" for name, value in OPTIMIZER.items()),
        )  # fmt: skip

    def batches(self, recipe: Recipe) -> StepBatches:
        order, packed = EpochOrder(self.examples, BATCH, seed=0), packs(recipe, self.loaded)
        return step_batches(recipe, order, order.steps_per_epoch, 1, self.costs, packed=packed)


def make_sample(examples: int, max_pack_tokens: int, folder: str) -> Sample:
    recipe = mixed_grid(examples, *SMALL)
    loaded = load_model(recipe.model, seed=0, dtype=torch.float32)
    mixture = training_mixture(recipe, find_photos(recipe.data.photos))
    rows = []
    for posed in mixture:
        made = posed.example()
        prompt = loaded.processor.apply_chat_template(posed.puzzle.messages, add_generation_prompt=True, tokenize=False)
        completion = posed.task.gold(posed.puzzle.target) + loaded.family.end_of_turn
        rows.append(
            {
                "posed": posed,
                "images": made.images,
                "ambiguous": made.ambiguous,
                "prompt": prompt,
                "completion": completion,
            }
        )
    measured = measure_examples(loaded, mixture, range(examples), rank=0, processes=1)
    costs = {position: one.cost for position, one in measured.items()}
    return Sample(examples, max_pack_tokens, folder, loaded, mixture, rows, costs)


class ComputedTokens:
    """Counts the tokens that a model is fed."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.count = 0
        model.register_forward_pre_hook(self._add, with_kwargs=True)

    def _add(self, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.count += kwargs["input_ids"].numel()


# ---- bare loops --------------------------------------------------------------------------------

MicroLoss = Callable[[torch.nn.Module, dict[str, Any]], torch.Tensor]


def trained(model: torch.nn.Module, steps: Iterable[Sequence[dict[str, Any]]], summed_loss: MicroLoss) -> Trial:
    """A plain loop; a step's micro-batches are at hand before its first forward, which needs their answer tokens."""
    model.train()
    computed = ComputedTokens(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=OPTIMIZER["learning_rate"], weight_decay=0.0, fused=True)
    losses = []
    started, started_cpu = time.perf_counter(), time.process_time()
    for micro_batches in steps:
        tokens = sum(int((batch["labels"] >= 0).sum()) for batch in micro_batches)
        total = 0.0
        for batch in micro_batches:
            loss = summed_loss(model, batch) / tokens
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER["max_grad_norm"])
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return Trial(time.perf_counter() - started, time.process_time() - started_cpu, losses, computed.count)


def single(sample: Sample, row: dict[str, Any]) -> dict[str, torch.Tensor]:
    """One example by transformers' processor; labels are -100 outside the answer."""
    processor = sample.loaded.processor
    inputs = processor(
        text=[row["prompt"] + row["completion"]],
        images=row["images"],
        return_tensors="pt",
        text_kwargs={"add_special_tokens": False},
    )
    answer = len(processor.tokenizer(row["completion"], add_special_tokens=False)["input_ids"])
    labels = inputs["input_ids"].clone()
    labels[:, :-answer] = -100
    return {**inputs, "labels": labels}


def singles(sample: Sample) -> Iterator[list[dict[str, torch.Tensor]]]:
    for rows in sample.steps():
        yield [single(sample, row) for row in rows]


def answer_logits_loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Of a single example, which ends in its answer."""
    answer = batch["labels"][batch["labels"] >= 0]
    features = {name: value for name, value in batch.items() if name != "labels"}
    logits = model(**features, logits_to_keep=len(answer) + 1, use_cache=False).logits
    return cross_entropy(logits[0, :-1], answer, reduction="sum")


def own_loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(**batch, num_items_in_batch=1, use_cache=False).loss


def ready_packs(sample: Sample) -> list[list[dict[str, Any]]]:
    loaded, batches = sample.loaded, sample.batches(sample.recipe("packed"))
    collator = Collator(loaded, PARTS, predictable_weight=1.0, packed=True)
    collated = [collator([sample.rows[at] for at in bin_]) for bin_ in batches]
    ready = [loaded.family.model_inputs(loaded.processor, batch) for batch in collated]
    per_step = batches.arrange.micro_steps
    return [ready[start : start + per_step] for start in range(0, len(ready), per_step)]


def packed_loss(model: torch.nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    return token_loss(model, batch, len(PARTS)).weighted_nll


def seconds_of(model: torch.nn.Module, batches: list[dict[str, Any]], summed_loss: MicroLoss) -> tuple[float, float]:
    """(wall, CPU) of forward and backward."""
    started, started_cpu = time.perf_counter(), time.process_time()
    for batch in batches:
        summed_loss(model, batch).backward()
    model.zero_grad()
    return time.perf_counter() - started, time.process_time() - started_cpu


def compute_ratios(sample: Sample, rounds: int) -> tuple[list[float], list[float]]:
    """(wall, CPU) time of the bare loop over that of packs, for each step in each round."""
    alone, loaded = copy.deepcopy(sample.loaded.model).train(), copy.deepcopy(sample.loaded)
    allow_packs(loaded)
    together = loaded.model.train()
    wall, cpu = [], []
    steps = list(zip(singles(sample), ready_packs(sample), strict=True))
    for _ in range(rounds):
        for examples, joined in steps:
            bare = seconds_of(alone, examples, answer_logits_loss)
            packed = seconds_of(together, joined, packed_loss)
            wall.append(bare[0] / packed[0])
            cpu.append(bare[1] / packed[1])
    return wall, cpu


# ---- trainers ----------------------------------------------------------------------------------


class Clock(TrainerCallback):
    """(wall, CPU) seconds, from before the first batch is made."""

    def __init__(self) -> None:
        self.started = (0.0, 0.0)
        self.stopped: list[tuple[float, float]] = []
        """The end of each optimizer step."""

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self.started = (time.perf_counter(), time.process_time())

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.stopped.append((time.perf_counter(), time.process_time()))


def timed(trainer: SFTTrainer) -> Trial:
    clock, computed = Clock(), ComputedTokens(trainer.model)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(clock)
    trainer.train()
    losses = [logged["loss"] for logged in trainer.state.log_history if "loss" in logged]
    seconds, cpu_seconds = (stop - start for start, stop in zip(clock.started, clock.stopped[-1], strict=True))
    return Trial(seconds, cpu_seconds, losses, computed.count)


def trl(sample: Sample, micro_batch: int) -> Trial:
    args = SFTConfig(
        output_dir=sample.folder,
        num_train_epochs=1,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=BATCH // micro_batch,
        train_sampling_strategy="sequential",
        max_length=None,
        remove_unused_columns=False,
        bf16=False,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **OPTIMIZER,
    )
    trainer = SFTTrainer(
        model=copy.deepcopy(sample.loaded.model),
        args=args,
        train_dataset=sample.dataset("prompt", "completion", "images"),
        processing_class=sample.loaded.processor,
    )
    trainer.model_accepts_loss_kwargs = True  # else a mean of the micro-batches' means
    return timed(trainer)


def ours(sample: Sample, batching: str) -> Trial:
    recipe = sample.recipe(batching)
    args = sft_arguments(recipe, processes=1)
    args.save_strategy = "no"
    weights = PartWeights(recipe, Scores())
    trainer = PuzzleTrainer(recipe, copy.deepcopy(sample.loaded), sample.mixture, sample.batches(recipe), weights, args)
    trainer.train_dataset = sample.dataset("posed", "images", "ambiguous")
    return timed(trainer)


CONTESTANTS: dict[str, Callable[[Sample], Trial]] = {
    "bare": lambda sample: trained(copy.deepcopy(sample.loaded.model), singles(sample), answer_logits_loss),
    "bare all": lambda sample: trained(copy.deepcopy(sample.loaded.model), singles(sample), own_loss),
    "trl 8x1": lambda sample: trl(sample, 8),
    "trl 1x8": lambda sample: trl(sample, 1),
    "plain": lambda sample: ours(sample, "plain"),
    "balanced": lambda sample: ours(sample, "balanced"),
    "packed": lambda sample: ours(sample, "packed"),
}
RATIOS = (("packed", "bare"), ("packed", "trl 8x1"), ("packed", "trl 1x8"))


def ratio(rounds: list[float]) -> str:
    return f"{median(rounds):.2f} ({min(rounds):.2f} to {max(rounds):.2f})"


def main(argv: list[str]) -> None:
    given = dict(argument.split("=", 1) for argument in argv)
    names = given["only"].split(",") if "only" in given else list(CONTESTANTS)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)
    with tempfile.TemporaryDirectory() as folder:
        sample = make_sample(int(given.get("examples", 24)), int(given.get("max_pack_tokens", 8192)), folder)
        counts = ", ".join(f"{count} of {grid}x{grid}" for grid, count in sample_counts(sample.examples).items())
        print(f"{sample.examples} examples ({counts}), {sample.tokens:,} tokens; load {os.getloadavg()[0]:.1f}")
        trials: dict[str, list[Trial]] = {name: [] for name in names}
        rounds = int(given.get("repeats", 3))
        for _ in range(rounds):
            for name in names:
                trials[name].append(CONTESTANTS[name](sample))
                seconds, cpu_seconds, *_ = trials[name][-1]
                print(f"  {name}: {seconds:.1f} s, CPU {cpu_seconds:.1f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        wall, cpu = compute_ratios(sample, rounds)
    print(f"\ncompute, packed / bare: {ratio(wall)}; by CPU time {ratio(cpu)}")
    print(f"\n{'':<14}{'tokens/s':>9}{'by CPU time':>13}{'useful':>8}  loss of each step")
    for name, runs in trials.items():
        wall, cpu = (sample.tokens / median(run[clock] for run in runs) for clock in (0, 1))
        losses = " ".join(f"{loss:.6f}" for loss in runs[0].losses)
        print(f"{name:<14}{wall:>9,.0f}{cpu:>13,.0f}{sample.tokens / runs[0].computed:>8.1%}  {losses}")
    for name, reference in RATIOS:
        if {name, reference} <= trials.keys():
            pairs = list(zip(trials[name], trials[reference], strict=True))
            wall, cpu = ([other[clock] / own[clock] for own, other in pairs] for clock in (0, 1))
            print(f"{name} / {reference}: {ratio(wall)}; by CPU time {ratio(cpu)}")
    all_losses = torch.tensor([runs[0].losses for runs in trials.values()])
    apart = (all_losses - all_losses[0]).abs().max().item()
    print(f"losses differ by at most {apart:.1e}")
    if apart > 1e-4:
        sys.exit("the contestants do not do the same work")


if __name__ == "__main__":
    main(sys.argv[1:])
