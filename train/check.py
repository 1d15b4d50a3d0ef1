"""What is checked before the first step, so that no run dies late of what could be known early."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from accelerate.utils import gather_object
from tqdm import tqdm

from data_mix.mixture import Mixture
from data_mix.order import Order
from data_mix.phases import by_scores
from models.flops import example_flops
from models.lengths import Lengths, example_lengths
from models.load import CheckpointError, Loaded, is_adapter
from recipes.schema import Curriculum, Recipe
from train.bins import Cost

logger = logging.getLogger(__name__)

_TOGETHER = 512
"""Examples that are measured in one call."""


class Measured(NamedTuple):
    """What is known of an example before it is rendered."""

    part: str
    lengths: Lengths
    flops: int
    """Of a forward pass."""
    image_sizes: tuple[tuple[int, int], ...] = ()
    """(width, height) in px of its images."""

    @property
    def cost(self) -> Cost:
        return Cost(self.lengths.total, self.flops)


def check_start(recipe: Recipe) -> None:
    """Refuse a `train.start` that the model of the recipe cannot take, before that is loaded.

    Raises:
        ValueError: there are no weights, or they are of the other kind.
    """
    if recipe.train.start is None:
        return
    adapters = "lora" in recipe.train.methods().values()
    try:
        if is_adapter(recipe.train.start) == adapters:
            return
    except CheckpointError as error:
        raise CheckpointError(f"train.start: {error}") from error
    if adapters:
        raise ValueError(
            f"train.start: got {recipe.train.start}, full weights, in a recipe with adapters; allowed there: a "
            f"checkpoint of adapters; set model.pretrained={recipe.train.start}, which new adapters are then put on"
        )
    raise ValueError(
        f"train.start: got {recipe.train.start}, an adapter, in a recipe without; allowed there: full weights; set "
        f"train.method=lora, or merge it first: python -m models.merge checkpoint={recipe.train.start} out=merged"
    )


def measure_examples(
    loaded: Loaded, mixture: Mixture, indices: Sequence[int], rank: int, processes: int
) -> dict[int, Measured]:
    """Every example that the run will see, by its position in the mixture.

    Args:
        indices: positions in the mixture; each process measures its share of them, and all get all.
    """
    measured = []
    mine = indices[rank::processes]
    with tqdm(total=len(mine), desc="measuring examples", unit="ex", disable=rank != 0, leave=False) as bar:
        for start in range(0, len(mine), _TOGETHER):
            positions = mine[start : start + _TOGETHER]
            posed = [mixture[position] for position in positions]
            lengths = example_lengths(loaded, [one.puzzle for one in posed])
            for at, one, length in zip(positions, posed, lengths, strict=True):
                flops = example_flops(loaded, loaded.model.config, length, one.puzzle.image_sizes)
                measured.append((at, Measured(one.part, length, flops.total, one.puzzle.image_sizes)))
            bar.update(len(posed))
    return dict(gather_object(measured))


def example_costs(measured: Mapping[int, Measured], order: Order) -> dict[int, Cost]:
    """What each example takes; where steps are not decided, what the dearest example of its part does.

    How many bins a step takes then depends on its parts alone, and is known before its examples are.
    """
    costs = {position: one.cost for position, one in measured.items()}
    if order.decided:
        return costs
    dearest: dict[str, Cost] = {}
    for one in measured.values():
        dearest[one.part] = Cost(*map(max, one.cost, dearest.get(one.part, one.cost)))
    return {position: dearest[one.part] for position, one in measured.items()}


def check_lag(curriculum: Curriculum | None, micro_steps: int, workers: int, prefetch: int) -> None:
    """Refuse a curriculum whose decisions would come after the batches that they are about.

    Args:
        micro_steps: micro-batches per step and process.
        workers: data loader processes per training process.
        prefetch: micro-batches that each of them prepares ahead.

    Raises:
        ValueError: a decision could change a step whose batches are made already.
    """
    if curriculum is None or not by_scores(curriculum):
        return
    ahead = -(-(1 + workers * prefetch) // micro_steps)  # the loop itself holds one that it has not come to
    if curriculum.lag < ahead:
        raise ValueError(
            f"data.curriculum.lag: got {curriculum.lag}, but {workers} workers prepare up to {ahead} steps ahead; "
            f"set data.curriculum.lag={ahead} or more, or lower train.workers"
        )


def idle_decisions(recipe: Recipe, steps: int) -> list[str]:
    """A line for each choice by score that comes too late to change anything, in a run of so many steps."""
    every, curriculum, lines = recipe.train.checkpoint_every, recipe.data.curriculum, []
    if recipe.train.inverse_accuracy.adaptive and every >= steps:
        lines.append(f"adaptive weights stay as they are: the first evaluation is after step {every}, of {steps}")
    if curriculum is None:
        return lines
    decided = every if recipe.reward is None else curriculum.groups.every
    if curriculum.stages is None and decided + curriculum.lag >= steps:
        start = decided + curriculum.lag
        lines.append(f"the curriculum never changes: its first decision holds from step {start} on, of {steps}")
    start = 0
    for name, stage in list((curriculum.stages or {}).items())[:-1]:
        evaluated = (start // decided + 1) * decided
        ends = [start + stage.steps] if stage.steps else []
        start = min([*ends, evaluated + curriculum.lag] if stage.until else ends)
        if start >= steps:
            lines.append(f"the curriculum's stage {name} lasts to the end: the next begins at step {start}, of {steps}")
            break
    return lines


def check_lengths(loaded: Loaded, mixture: Mixture, measured: Mapping[int, Measured]) -> None:
    """Log tokens per part.

    Raises:
        ValueError: an example needs more than `model.max_tokens` tokens. Nothing is ever cut.
    """
    parts: dict[str, list[Lengths]] = defaultdict(list)
    for one in measured.values():
        parts[one.part].append(one.lengths)
    for part, lengths in sorted(parts.items()):
        logger.info(
            "part %s: %s examples measured, tokens per example %.0f on average, %s at most (answer %s)",
            part, f"{len(lengths):,}", sum(length.total for length in lengths) / len(lengths),
            f"{max(length.total for length in lengths):,}", f"{max(length.answer for length in lengths):,}",
        )  # fmt: skip
    too_long = [position for position, one in measured.items() if one.lengths.total > loaded.max_tokens]
    if too_long:
        position = max(too_long, key=lambda position: measured[position].lengths.total)
        part, needed, *_ = measured[position]
        longest = mixture[position]
        raise ValueError(
            f"model.max_tokens: got {loaded.max_tokens}, but {len(too_long)} of {len(measured)} examples need more; "
            f"the longest is number {longest.index} of part {part} ({longest.puzzle.key}): {needed.prompt} prompt + "
            f"{needed.answer} answer = {needed.total} tokens; set model.max_tokens={needed.total} if the model can "
            f"take it, lower model.image.max_px, or drop the part: data.parts.{part}=null"
        )


def num_steps(examples: int, effective_batch: int, epochs: float, max_steps: int) -> int:
    """Optimizer steps of a run; the last step of an epoch may hold fewer examples.

    Raises:
        ValueError: there would be none.
    """
    if max_steps <= 0 and epochs <= 0:
        raise ValueError(
            f"trainer.num_train_epochs: got {epochs:g}; allowed: more than 0; set it, or trainer.max_steps"
        )
    return max_steps if max_steps > 0 else math.ceil(epochs * math.ceil(examples / effective_batch))
