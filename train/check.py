"""What is checked before the first step, so that no run dies late of what could be known early."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from accelerate.utils import gather_object
from tqdm import tqdm

from data_mix.mixture import Mixture, Posed
from models.flops import example_flops
from models.lengths import Lengths, example_lengths
from models.load import Loaded
from train.balance import Cost
from train.batches import IGNORED

logger = logging.getLogger(__name__)

_TOGETHER = 512
"""Examples that are measured in one call."""


class Measured(NamedTuple):
    """What is known of an example before it is rendered."""

    part: str
    lengths: Lengths
    flops: int
    """Of a forward pass."""

    @property
    def cost(self) -> Cost:
        return Cost(self.lengths.total, self.flops)


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
                measured.append((at, Measured(one.part, length, flops.total)))
            bar.update(len(posed))
    return dict(gather_object(measured))


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
        part, needed, _ = measured[position]
        longest = mixture[position]
        raise ValueError(
            f"model.max_tokens: got {loaded.max_tokens}, but {len(too_long)} of {len(measured)} examples need more; "
            f"the longest is number {longest.index} of part {part} ({longest.puzzle.key}): {needed.prompt} prompt + "
            f"{needed.answer} answer = {needed.total} tokens; set model.max_tokens={needed.total} if the model can "
            f"take it, lower model.image.max_px, or drop the part: data.parts.{part}=null"
        )


def seen_indices(order: Any, effective_batch: int, steps: int) -> list[int]:
    """The mixture's positions that `steps` steps visit, in the order of the first epoch."""
    return list(order)[: steps * effective_batch]


def check_labels(loaded: Loaded, posed: Posed, batch: dict[str, torch.Tensor]) -> None:
    """Prove on one real batch that what is trained is the answer and the end of turn, nothing else.

    Args:
        posed: the puzzle of the batch's first row.

    Raises:
        ValueError: the unmasked labels decode to another text.
    """
    labels = batch["labels"][0]
    trained = loaded.processor.tokenizer.decode(labels[labels != IGNORED], skip_special_tokens=False)
    expected = posed.task.gold(posed.puzzle.target) + loaded.family.end_of_turn
    if trained != expected:
        raise ValueError(
            f"got labels that decode to {trained[:200]!r}; they must be the answer and the end of turn, "
            f"{expected[:200]!r}; the tokenizer of {loaded.family.name} does not give back what it encoded: "
            "use the tokenizer that belongs to the model"
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
