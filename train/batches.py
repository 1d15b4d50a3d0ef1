"""Batches: which puzzles a step sees, in which order, and how they become tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import torch
from torch.utils.data import Sampler

from data_mix.mixture import Mixture, Posed
from data_mix.streams import stream
from models.load import Loaded
from models.tokens import SEQUENCES, answer_encoding, encode_prompt

IGNORED = -100
"""Label of a position that carries no loss."""

LOSS_FIELDS = ("labels", "loss_weights", "informative", "ambiguous")
"""What a batch holds beside the model's own inputs."""


def as_dataset(mixture: Mixture) -> datasets.Dataset:
    """The mixture as the map-style dataset that TRL asks for; a puzzle is posed and rendered when it is read."""

    def examples(rows: dict[str, list[int]]) -> dict[str, list[Any]]:
        posed = [mixture[index] for index in rows["index"]]
        made = [puzzle.example() for puzzle in posed]
        return {
            "posed": posed,
            "images": [example.images for example in made],  # TRL tells vision data by this name
            "ambiguous": [example.ambiguous for example in made],
        }

    return datasets.Dataset.from_dict({"index": list(range(len(mixture)))}).with_transform(examples)


class EpochOrder(Sampler[int]):
    """A permutation of the mixture for each epoch, a function of (seed, epoch) alone.

    The first epoch keeps the mixture's own order, which is shuffled already.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        if self.epoch == 0:
            return iter(range(self.size))
        return iter(stream("epoch order", self.seed, self.epoch).permutation(self.size).tolist())


def informative_tokens(spans: list[tuple[int, int]], informative: list[tuple[int, int]]) -> np.ndarray:
    """Which answer tokens carry information.

    Args:
        spans: the characters [start, stop) of the answer that each token spells; T of them.
        informative: the characters [start, stop) that carry information, sorted, disjoint.

    Returns:
        bool (T,): whether the token spells at least one informative character.
    """
    token_starts, token_stops = np.array(spans).T
    starts, stops = np.array(informative).reshape(-1, 2).T
    ended = np.searchsorted(stops, token_starts, side="right")  # informative spans that end before the token starts
    begun = np.searchsorted(starts, token_stops, side="left")  # informative spans that start before the token stops
    return begun > ended


@dataclass(frozen=True)
class Collator:
    """Turns rows of `as_dataset` into one right-padded batch.

    Adds to the model's own inputs `labels` (B, L), IGNORED outside answer and end of turn; `loss_weights` (B, L)
    float32, 0 there; `informative` (B, L) bool, the answer tokens that carry information; and `ambiguous` (B,) bool,
    the examples with more than one right answer. The model is fed none of the four.
    """

    loaded: Loaded
    predictable_weight: float

    def encode(self, posed: Posed, images: list[np.ndarray]) -> dict[str, torch.Tensor]:
        """One example, unpadded: every sequence field is (1, L); images as `Example` has them."""
        fields = dict(encode_prompt(self.loaded, posed.puzzle.messages, images))
        gold = posed.task.gold(posed.puzzle.target)
        ids, spans = answer_encoding(self.loaded, gold)
        informative = torch.from_numpy(informative_tokens(spans, posed.task.informative(gold)))[None]
        weights = torch.where(informative, 1.0, self.predictable_weight)
        prompt = fields["input_ids"]
        answer = torch.tensor([ids], dtype=prompt.dtype)
        fields["labels"] = torch.cat([torch.full_like(prompt, IGNORED), answer], dim=1)
        fields["loss_weights"] = torch.cat([torch.zeros(prompt.shape), weights], dim=1)
        fields["informative"] = torch.cat([torch.zeros(prompt.shape, dtype=torch.bool), informative], dim=1)
        fields["input_ids"] = torch.cat([prompt, answer], dim=1)
        for name in SEQUENCES:
            if name in fields and name != "input_ids":
                filler = torch.ones_like(answer) if name == "attention_mask" else torch.zeros_like(answer)
                fields[name] = torch.cat([fields[name], filler.to(fields[name].dtype)], dim=1)
        return fields

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        encoded = [self.encode(row["posed"], row["images"]) for row in rows]
        length = max(example["input_ids"].shape[1] for example in encoded)
        padding = dict.fromkeys((*SEQUENCES, *LOSS_FIELDS), 0)
        padding |= {"labels": IGNORED, "input_ids": self.loaded.processor.tokenizer.pad_token_id}
        batch = {}
        for name in encoded[0]:
            parts = [example[name] for example in encoded]
            if name in padding:
                parts = [
                    torch.nn.functional.pad(part, (0, length - part.shape[1]), value=padding[name]) for part in parts
                ]
            batch[name] = torch.cat(parts)
        batch["ambiguous"] = torch.tensor([row["ambiguous"] for row in rows])
        return batch
