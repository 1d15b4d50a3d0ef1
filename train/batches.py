"""Batches: how puzzles become tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import torch

from data_mix.mixture import Mixture, Posed
from models.load import Loaded
from models.tokens import SEQUENCES, answer_encoding, encode_prompt

IGNORED = -100
"""Label of a position that carries no loss."""

LOSS_FIELDS = ("labels", "loss_weights", "informative", "part", "ambiguous", "keys")
"""What a batch holds beside the model's own inputs."""

_PER_TOKEN = (*SEQUENCES, *LOSS_FIELDS, "position_ids")
"""Fields with one entry per token, along the last axis."""


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
    """Turns rows of `as_dataset` into one batch: a right-padded row for each, or one row that packs them all.

    A packed batch has `position_ids` (4, 1, L), from which the model tells its examples apart. No rows make a batch
    of one blank image that carries no loss: what a process computes where the others still have examples.

    Adds to the model's own inputs `labels` (B, L), IGNORED outside answer and end of turn; `loss_weights` (B, L)
    float32, 0 there; `informative` (B, L) bool, the answer tokens that carry information; `part` (B, L), the number
    in `parts` of the part that an answer token is of, 0 elsewhere; `ambiguous` (examples,) bool, those with more than
    one right answer; and `keys`, a list of the puzzles' keys. The model is fed none of these.
    """

    loaded: Loaded
    parts: tuple[str, ...]
    predictable_weight: float
    packed: bool = False
    always_image: bool = False
    """Put the blank image into a batch that has none, so that every process calls the vision tower every time."""

    def encode(self, posed: Posed, images: list[np.ndarray]) -> dict[str, torch.Tensor]:
        """One example, unpadded: every sequence field is (1, L); images as `Example` has them."""
        gold = posed.task.gold(posed.puzzle.target)
        ids, spans = answer_encoding(self.loaded, gold)
        informative = torch.from_numpy(informative_tokens(spans, posed.task.informative(gold)))[None]
        weights = torch.where(informative, 1.0, self.predictable_weight)
        part = torch.full((1, len(ids)), self.parts.index(posed.part))
        encoded = encode_prompt(self.loaded, posed.puzzle.messages, images)
        return self._fields(encoded, ids, informative, weights, part)

    def _blank(self) -> dict[str, torch.Tensor]:
        ids, _ = answer_encoding(self.loaded, "")
        none = torch.zeros(1, len(ids))
        return self._fields(blank(self.loaded), ids, none.bool(), none, none.long())

    def _fields(
        self,
        encoded: Mapping[str, torch.Tensor],
        ids: list[int],
        informative: torch.Tensor,
        weights: torch.Tensor,
        part: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        prompt, fields = encoded["input_ids"], answered(encoded, ids)
        for name, of_answer in (("loss_weights", weights), ("informative", informative), ("part", part)):
            fields[name] = torch.cat([torch.zeros(prompt.shape, dtype=of_answer.dtype), of_answer], dim=1)
        return fields

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        encoded = [self.encode(row["posed"], row["images"]) for row in rows] or [self._blank()]
        if self.always_image and not any("pixel_values" in one for one in encoded):
            encoded.append(self._blank())
        batch = packed(self.loaded, encoded) if self.packed else padded(self.loaded, encoded)
        batch["ambiguous"] = torch.tensor([row["ambiguous"] for row in rows], dtype=torch.bool)
        return {**batch, "keys": [row["posed"].puzzle.key for row in rows]}


def answered(encoded: Mapping[str, torch.Tensor], ids: Sequence[int]) -> dict[str, torch.Tensor]:
    """An encoded prompt with the tokens of its answer behind it, and `labels` (1, L), IGNORED before the answer."""
    fields, prompt = dict(encoded), encoded["input_ids"]
    answer = torch.tensor([list(ids)], dtype=prompt.dtype)
    fields["labels"] = torch.cat([torch.full_like(prompt, IGNORED), answer], dim=1)
    fields["input_ids"] = torch.cat([prompt, answer], dim=1)
    for name in SEQUENCES:
        if name in fields and name != "input_ids":
            filler = torch.ones_like(answer) if name == "attention_mask" else torch.zeros_like(answer)
            fields[name] = torch.cat([fields[name], filler.to(fields[name].dtype)], dim=1)
    return fields


def blank(loaded: Loaded) -> dict[str, torch.Tensor]:
    """One image without anything on it as an encoded prompt: what keeps a vision tower busy where others' is."""
    image = np.zeros((64, 64, 3), np.uint8)
    return encode_prompt(loaded, [{"role": "user", "content": [{"type": "image"}]}], [image])


def padded(loaded: Loaded, examples: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Encoded examples as the rows of one batch, filled up on the right; images in order."""
    length = max(example["input_ids"].shape[1] for example in examples)
    filler = {**dict.fromkeys(_PER_TOKEN, 0), "labels": IGNORED, "input_ids": loaded.processor.tokenizer.pad_token_id}

    def part(example: dict[str, torch.Tensor], name: str) -> torch.Tensor:
        if name not in filler:
            return example[name]
        return torch.nn.functional.pad(example[name], (0, length - example[name].shape[1]), value=filler[name])

    return {name: torch.cat([part(one, name) for one in examples if name in one]) for name in _names(examples)}


def packed(loaded: Loaded, examples: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Encoded examples one after another in one row, each with positions of its own; images in order."""
    assert loaded.family.positions is not None
    placed = [{**example, "position_ids": loaded.family.positions(loaded.model, example)} for example in examples]
    return {
        name: torch.cat([one[name] for one in placed if name in one], dim=-1 if name in _PER_TOKEN else 0)
        for name in _names(placed)
    }


def _names(examples: list[dict[str, torch.Tensor]]) -> list[str]:
    """Fields of any example: one without images has fewer."""
    return list(dict.fromkeys(name for example in examples for name in example))
