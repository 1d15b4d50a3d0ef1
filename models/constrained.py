"""Answers within a grammar, greedy or drawn: every one is valid, and what the form dictates is appended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import PeftModel
from transformers import DynamicCache

from models.drawing import GumbelDraw
from models.generation import Completion, evaluating, left_padded
from models.load import Loaded
from models.spelling import Place, Speller
from models.tokens import SEQUENCES, AnyPrompt, encoded
from tasks.grammar import Grammar


@dataclass(frozen=True, slots=True)
class Decision:
    """A token of an answer that was chosen."""

    index: int
    """In the answer's `ids`."""
    allowed: tuple[int, ...]
    """The tokens it was chosen from, at least two, ascending."""
    log_prob: float
    """Of the chosen one among these, nats, at the temperature it was drawn at (top_p aside); greedy: at 1."""


@dataclass(frozen=True)
class ConstrainedCompletion(Completion):
    """An answer within a grammar."""

    decisions: tuple[Decision, ...] = ()

    @property
    def decided(self) -> list[int]:
        """1 for each of `ids` that was chosen, 0 for each that the grammar dictated: that says nothing of a model."""
        mask = [0] * len(self.ids)
        for decision in self.decisions:
            mask[decision.index] = 1
        return mask


def generate_constrained(
    loaded: Loaded,
    prompts: Sequence[AnyPrompt],
    grammars: list[Grammar],
    draw: GumbelDraw | None = None,
) -> list[ConstrainedCompletion]:
    """As `generate`, but at each step the most likely of the tokens that keep to the prompt's grammar.

    With `draw`, which has a seed for each prompt, one of these tokens is drawn; top_p is a share of them alone.

    The model is asked once per choice that the tokens leave: it reads the token chosen last and all that the grammar
    dictates after it together. All answers are in one batch, and none depends on the others. As a grammar is finite,
    every answer ends, with "stop"; its tokens are counted whether chosen or dictated. Raises ValueError if the
    tokenizer has no way to write what a grammar asks for.
    """
    if not prompts:
        return []
    started = time.perf_counter()
    stop_ids = loaded.family.stop_token_ids(loaded.processor)
    draws = draw.rows() if draw else [None] * len(prompts)
    answers = [Answer(Speller(loaded, grammar), stop_ids, one) for grammar, one in zip(grammars, draws, strict=True)]
    asked = [(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True) if not answer.done]
    with evaluating(loaded.model), torch.no_grad():
        if asked:
            _write(_Reader(loaded), [answer for _, answer in asked], [_begun(loaded, *one) for one in asked])
    seconds = (time.perf_counter() - started) / len(prompts)
    return [
        ConstrainedCompletion(
            answer.place.text, "stop", len(answer.ids), seconds, tuple(answer.ids), tuple(answer.decisions)
        )
        for answer in answers
    ]


def _write(reader: _Reader, answers: list[Answer], begun: list[dict[str, torch.Tensor]]) -> None:
    """Chooses until all answers are done. begun: of each, its prompt and its first tokens."""
    logits = reader.read_prompts(begun)
    while True:
        for likely, answer in zip(_among(logits, [one.allowed for one in answers]), answers, strict=True):
            answer.choose(likely)
        rows = [row for row, answer in enumerate(answers) if not answer.done]
        if not rows:
            return
        reader.keep(rows)
        answers = [answers[row] for row in rows]
        logits = reader.read([answer.unread for answer in answers])


def _among(logits: torch.Tensor, allowed: list[tuple[int, ...]]) -> Sequence[torch.Tensor]:
    """Of each row the logits of these tokens, on the CPU: from an accelerator in one transfer."""
    rows = torch.tensor([row for row, tokens in enumerate(allowed) for _ in tokens], device=logits.device)
    tokens = torch.tensor([token for some in allowed for token in some], device=logits.device)
    return logits[rows, tokens].cpu().split([len(some) for some in allowed])


def _begun(loaded: Loaded, prompt: AnyPrompt, answer: Answer) -> dict[str, torch.Tensor]:
    """A prompt and the first tokens of its answer."""
    begun = encoded(loaded, prompt)
    count = len(answer.unread)
    more = {"input_ids": torch.tensor([answer.unread], dtype=torch.long), "attention_mask": torch.ones(1, count)}
    for name in begun.keys() & SEQUENCES:
        added = more.get(name, torch.zeros(1, count))  # answers hold no image tokens
        begun[name] = torch.cat([begun[name], added.to(begun[name].dtype)], dim=1)
    return begun


@dataclass
class Answer:
    """An answer as far as it is written."""

    speller: Speller
    stop_ids: list[int]
    draw: GumbelDraw | None = None
    """Of one row; None: greedy."""
    place: Place = field(init=False)
    unread: list[int] = field(init=False)
    """Tokens that the model has not read yet."""
    ids: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    done: bool = False
    choices: dict[int, Place | None] = field(init=False)
    """The tokens of which one comes next, and where each leads; None: the answer ends."""
    allowed: tuple[int, ...] = ()
    """The same tokens, ascending."""

    def __post_init__(self) -> None:
        self.place, self.unread = self.speller.start(), []
        self._go_on()

    def choose(self, logits: torch.Tensor) -> None:
        """Writes one of `allowed`, and what must follow. logits: of these."""
        scores = logits if self.draw is None else self.draw(None, logits[None])[0]
        chosen = int(scores.argmax())
        temperature = 1.0 if self.draw is None else self.draw.drawing.temperature
        log_prob = float(torch.log_softmax(logits.double() / temperature, dim=0)[chosen])
        self.decisions.append(Decision(len(self.ids), self.allowed, log_prob))
        self.unread = []
        self._append(self.allowed[chosen])
        self._go_on()

    def _append(self, token: int) -> None:
        reached = self.choices[token]
        self.ids.append(token)
        self.unread.append(token)
        self.done = reached is None
        self.place = reached or self.place

    def _go_on(self) -> None:
        """Up to the next choice or the end."""
        while not self.done:
            tokens, self.place = self.speller.forced(self.place)
            self.unread += tokens
            self.ids += tokens
            self.choices = {**self.speller.choices(self.place)}
            if self.place.complete:  # with nothing to follow, any end will do
                self.choices |= dict.fromkeys(self.stop_ids if self.choices else self.stop_ids[:1])
            if not self.choices:
                raise ValueError(
                    f"got a tokenizer that has no token for {self.place.next_characters} after {self.place.text!r}; "
                    "allowed are those that can write every character; use the one that came with the model"
                )
            if len(self.choices) > 1:
                self.allowed = tuple(sorted(self.choices))
                return
            self._append(next(iter(self.choices)))


class _Reader:
    """A model and what it has read of several texts.

    Each text's last token is in the last column, all before it without a gap: so columns are as far apart as tokens,
    and windows of sliding attention are as long as they should be.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        # Adapters live inside the base model, which knows the family's inputs.
        self._model: Any = loaded.model.get_base_model() if isinstance(loaded.model, PeftModel) else loaded.model
        self._cache: Any = DynamicCache()  # of no config: sliding layers too keep all, so that columns can be moved
        self._seen = torch.empty(0)  # (texts, columns): 1 where there is a token
        self._next = torch.empty(0)  # (axes, texts, 1): position of the next token

    def read_prompts(self, prompts: list[dict[str, torch.Tensor]]) -> torch.Tensor:
        """What comes after each, (texts, vocabulary)."""
        family, processor, device = self._loaded.family, self._loaded.processor, self._model.device
        padded = left_padded(prompts, processor.tokenizer.pad_token_id)
        batch = family.model_inputs(processor, {name: tensor.to(device) for name, tensor in padded.items()})
        longest = batch["input_ids"].shape[1]
        positions = [self._positions(one) for one in prompts]
        self._seen = batch["attention_mask"]
        self._next = torch.cat([one.amax(dim=(0, 2), keepdim=True) + 1 for one in positions], dim=1).to(device)
        aligned = [torch.nn.functional.pad(one, (longest - one.shape[2], 0)) for one in positions]
        return self._forward(torch.cat(aligned, dim=1).to(device), **batch, logits_to_keep=1)[:, 0]

    def keep(self, rows: list[int]) -> None:
        """Forgets all other texts."""
        if len(rows) < len(self._seen):
            kept = torch.tensor(rows, device=self._seen.device)
            self._cache.batch_select_indices(kept)
            self._seen, self._next = self._seen[kept], self._next[:, kept]

    def read(self, blocks: list[list[int]]) -> torch.Tensor:
        """What comes after the next tokens of each text, at least one, (texts, vocabulary)."""
        device, width = self._seen.device, max(map(len, blocks))
        pad_id = self._loaded.processor.tokenizer.pad_token_id
        ids = torch.tensor([block + [pad_id] * (width - len(block)) for block in blocks], device=device)
        lengths = torch.tensor([len(block) for block in blocks], device=device)
        columns = torch.arange(width, device=device)
        new = (columns < lengths[:, None]).to(self._seen.dtype)  # (texts, width)
        self._seen = torch.cat([self._seen, new], dim=1)
        logits = self._forward(self._next + columns, input_ids=ids, attention_mask=self._seen)
        self._next = self._next + lengths[:, None]
        self._close_gaps(width - lengths)
        return logits[torch.arange(len(blocks), device=device), lengths - 1]

    def _forward(self, positions: torch.Tensor, **inputs: Any) -> torch.Tensor:
        """Logits; positions: (axes, texts, tokens)."""
        position_ids = positions if len(positions) > 1 else positions[0]
        return self._model(**inputs, position_ids=position_ids, cache=self._cache, use_cache=True).logits

    def _positions(self, prompt: dict[str, torch.Tensor]) -> torch.Tensor:
        """Of one text, (axes, 1, tokens)."""
        if self._loaded.family.positions is None:
            return torch.arange(prompt["input_ids"].shape[1])[None, None]
        return self._loaded.family.positions(self._model, prompt)[1:]

    def _close_gaps(self, unused: torch.Tensor) -> None:
        """Moves each text to the right by its unused last columns, and drops what no text reaches."""
        if not unused.any():
            return
        columns = self._seen.shape[1]
        first = columns - int(self._seen.sum(dim=1).max())
        sources = torch.arange(first, columns, device=unused.device) - unused[:, None]  # (texts, columns left)
        inside = sources.clamp(min=0)
        self._seen = self._seen.gather(1, inside) * (sources >= 0)
        for layer in self._cache.layers:
            layer.keys = layer.keys.take_along_dim(inside[:, None, :, None], dim=2)
            layer.values = layer.values.take_along_dim(inside[:, None, :, None], dim=2)
