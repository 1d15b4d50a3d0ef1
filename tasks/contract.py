"""The contract every task keeps: what a puzzle is, from spec to score, without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict

from tasks.boxes import Boxes
from tasks.grammar import Grammar
from tasks.photo import Board, Photo, as_photo

Span = tuple[int, int]
"""Characters [start, stop) of a text."""

Message = dict[str, Any]
"""`{"role": str, "content": [{"type": "image"} | {"type": "text", "text": str}, ...]}`."""


class Spec(BaseModel):
    """A frozen, validated description of one kind of puzzle. Each task derives its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Invalid:
    """A text that is no answer. `reason` comes from the task's small closed set; `partial` is what a
    lenient reader could still use, None if nothing."""

    reason: str
    partial: Any = None


@dataclass(frozen=True)
class Puzzle:
    """Everything of one instance but its pixels.

    `target` is JSON-able and is all that `score` needs; `image_sizes` are (width, height) in px, in the order of the
    image parts in `messages`; equal `key` means equal bytes.
    """

    task: str
    version: int
    spec: Spec
    photo_id: str | None
    seed: int
    messages: list[Message]
    target: dict[str, Any]
    image_sizes: tuple[tuple[int, int], ...]

    @property
    def key(self) -> str:
        identity = [self.task, self.version, self.spec.model_dump(mode="json"), self.photo_id, self.seed]
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        return f"{self.task}-{hashlib.blake2b(text.encode(), digest_size=10).hexdigest()}"


@dataclass(frozen=True)
class Example:
    """A puzzle with its rendered images, ready for a model."""

    puzzle: Puzzle
    images: list[np.ndarray]
    """RGB, uint8 (height, width, 3), of the puzzle's `image_sizes`, in the order of the image parts in `messages`."""
    ambiguous: bool = False
    """Whether another answer is as right as the target, as far as the task's own quick check sees."""


class Detail(NamedTuple):
    """The smallest things that a model must make out on its images, px as rendered."""

    pieces: int
    """On all images of a puzzle."""
    piece: float
    """Side of a piece without its tabs."""
    tab: float
    """How far a tab sticks out; 0 where there are none."""
    token_px: int | None = None
    """Side of the squares that pieces are laid out on, so that a token of this side never sees two; None: no such."""


@dataclass(frozen=True)
class Task:
    """One task: a bundle of pure, deterministic functions. See docs/tasks.md for how to add one."""

    name: str
    version: int
    """Raised whenever prompt, parse or score change; stored with every record."""
    Spec: type[Spec]
    entries: tuple[str, ...]
    """Every score entry the task can give, in the order in which tables show them. Every task has `valid`, 1 for an
    answer in the right form, else 0."""
    primary: str
    """The score entry that ranks."""
    invalid_reasons: tuple[str, ...]
    board: Callable[[Any], Board | None]
    """`board(spec)`: the area cut from a photo; None for a drawn task, which gets no photo."""
    pose: Callable[[Any, Photo | None, int], Puzzle]
    """`pose(spec, photo, seed)`: cheap, no pixels. seed is an int in [0, 2**63)."""
    render: Callable[[Puzzle, Photo | None], Example]
    """`render(puzzle, photo)`: a posed puzzle with its images."""
    parse: Callable[[str, Any], Any]
    """`parse(text, spec)`: a JSON-able Answer, or Invalid. Never raises for any text."""
    gold: Callable[[dict[str, Any]], str]
    """`gold(target)`: the reference answer."""
    score: Callable[[Any, dict[str, Any]], dict[str, float]]
    """`score(answer or Invalid, target)`: entries in [0, 1]; one that does not apply is absent."""
    chance: Callable[[Any], dict[str, dict[str, float]]]
    """`chance(spec)`: {"random": {entry: expectation}, ...}, one row per honest guesser."""
    diagnose: Callable[[Any, dict[str, Any]], dict[str, Any]]
    """`diagnose(answer or Invalid, target)`: what reports draw, JSON-able."""
    informative: Callable[[str], list[Span]]
    """`informative(gold_text)`: the character spans that carry information, in order."""
    picture: Callable[[Puzzle, Any, Photo | None], Image.Image] | None = None
    """`picture(puzzle, answer or Invalid, photo)`: the answer drawn for a person."""
    solvers: Mapping[str, Callable[[Puzzle, Photo | None], str | None]] = field(default_factory=dict)
    """`solvers[name](puzzle, photo)`: the completion of a program that has learnt nothing; empty if it gives up, None
    if it has nothing to work on. It works from the pieces as drawn, and stands beside the guessers as a baseline."""
    certificate: Callable[[Puzzle, Photo | None], dict[str, bool | None]] | None = None
    """`certificate(puzzle, photo)`: whether the puzzle has one right answer (`certified`), and what else holds of it;
    None where that was not decided."""
    caution: Callable[[Any], str | None] | None = None
    """`caution(spec)`: what a user should know before relying on such puzzles; None if nothing."""
    detail: Callable[[Any], Detail] | None = None
    """`detail(spec)`: what must be made out on its images; None where that is nothing of one size."""
    target_of: Callable[[Any, Any], dict[str, Any]] | None = None
    """`target_of(answer, spec)`: the target of a puzzle made elsewhere, of which only the right answer is known; what
    cannot be known is left out, and `score` leaves out the entries that need it. None: no such puzzles are taken."""
    grammar: Callable[[Any, dict[str, Any]], Grammar] | None = None
    """`grammar(spec, asked)`: the valid answers to a question, each as `gold` would write it. `asked` is the target's
    entry of that name, empty if it has none: what the prompt tells, so that no right answer can leak into it. None
    where valid answers are no such set."""
    boxes: Callable[[Any, dict[str, Any]], Boxes] | None = None
    """`boxes(spec, asked)`: what a person fills in; None where it is best written as text. `asked` as for `grammar`."""
    vote: Callable[[Sequence[Any], Any], Any] | None = None
    """`vote(answers, spec)`: the answer that most of several valid ones, at least one, agree on; ties go to the
    earliest, and equal answers give that answer. None where answers are not alike enough to agree."""
    write: Callable[[Any, Any], str] | None = None
    """`write(answer, spec)`: an answer as `gold` writes it; `parse` gives it back. There is one where there is a
    `vote`, whose answer may be nobody's."""
    unsafe: Callable[[Mapping[str, float], Any], str | None] | None = None
    """`unsafe(weights, spec)`: what weights of a reward, by score entry, must keep to, if with these a step towards the
    right answer can earn less; None if it cannot. There is none where no entry can pull away from that answer."""
    partly_right: Callable[[dict[str, Any], float, np.random.Generator], str] | None = None
    """`partly_right(target, share, rng)`: a valid answer with that share of what is asked right, the rest at random.
    None where an answer has no parts."""
    degenerate: Callable[[dict[str, Any], np.random.Generator], dict[str, str]] | None = None
    """`degenerate(target, rng)`: {what it does: answer} of answers that miss the point, to try a reward on."""
    credit: Callable[[str, Any, dict[str, Any], Literal["row", "piece"]], list[tuple[int, float]] | None] | None = None
    """`credit(text, spec, target, per)`: [(character, share of the primary score that is decided from there on), ...]
    of any text, from (0, 0.0) on; what an entry says follows from the text before its character alone. None where
    answers of this spec are not written so that they are decided bit by bit."""
    data_only: bool = False
    """Its examples come out of datasets alone: `pose` and `render` raise ValueError."""

    def make(self, spec: BaseModel, photo: Photo | Image.Image | None, seed: int) -> Example:
        """Pose and render one example; a bare PIL image is wrapped."""
        wrapped = as_photo(photo)
        return self.render(self.pose(spec, wrapped, seed), wrapped)
