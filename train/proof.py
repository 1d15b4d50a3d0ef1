"""What is proved on real batches, on the real model, before the first step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from data_mix.mixture import Posed
from models.generation import evaluating
from models.load import Loaded
from train.batches import IGNORED, LOSS_FIELDS, packed
from train.check import Measured
from train.trainer import PuzzleTrainer

_FAR = 4
"""How many times nearer to the example alone than to one that sees its neighbour a packed example must be: rounding in
16 bits moves logits, too."""


def prove(trainer: PuzzleTrainer, measured: Mapping[int, Measured]) -> None:
    """All proofs, on the two shortest examples.

    Raises:
        ValueError: one fails.
    """
    shortest = sorted(measured, key=lambda position: measured[position].lengths.total)
    rows = [trainer.train_dataset[shortest[at]] for at in (0, min(1, len(shortest) - 1))]
    collator = trainer.data_collator
    check_labels(collator.loaded, rows[0]["posed"], collator(rows[:1]))
    if collator.packed:
        first, second = (collator.encode(row["posed"], row["images"]) for row in rows)
        with trainer.whole_model():
            check_packs(collator.loaded, first, second, trainer._prepare_inputs, bf16=trainer.args.bf16)


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


@torch.no_grad()
def check_packs(
    loaded: Loaded,
    first: dict[str, torch.Tensor],
    second: dict[str, torch.Tensor],
    prepare: Callable[[dict[str, torch.Tensor]], dict[str, Any]],
    *,
    bf16: bool,
) -> None:
    """Prove that the second of two packed examples does not see the first.

    Its answer's logits must be those of the example alone, and not those of one row that is told of no boundary.

    Args:
        first, second: encoded examples.
        prepare: puts a batch where the model is.
        bf16: compute as training does.

    Raises:
        ValueError: it sees it.
    """
    length, whole = second["input_ids"].shape[1], packed(loaded, [first, second])
    merged = {**whole, "position_ids": whole["position_ids"].clone()}
    merged["position_ids"][0] = torch.arange(whole["input_ids"].shape[1])

    def logits(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        features = {name: value for name, value in prepare(batch).items() if name not in LOSS_FIELDS}
        answer = batch["labels"][:, -length:] != IGNORED
        answer = torch.nn.functional.pad(answer, (batch["labels"].shape[1] - length, 0)).to(loaded.model.device)
        with torch.autocast(loaded.model.device.type, torch.bfloat16, enabled=bf16):
            found = loaded.model(**features, logits_to_keep=answer, use_cache=False).logits
        return found.float()

    with evaluating(loaded.model):
        alone, in_pack, seeing = (logits(batch) for batch in (packed(loaded, [second]), whole, merged))
    moved, would_move = (in_pack - alone).norm(), (seeing - alone).norm()
    if moved * _FAR > would_move:
        used = loaded.model.config.text_config._attn_implementation
        raise ValueError(
            f"train.batching: got packs, but attention {used} does not keep an example apart from its neighbour (its "
            f"logits move by {moved:.2g} in a pack, and by {would_move:.2g} in one row without boundaries); set "
            "train.batching=balanced"
        )
