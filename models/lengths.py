"""How many tokens a puzzle takes, by arithmetic: nothing is rendered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from models.load import Encoder
from models.tokens import answer_lengths, prompt_length
from tasks import TASKS, Puzzle


class Lengths(NamedTuple):
    """Tokens of one example."""

    prompt: int
    """Images included."""
    answer: int
    """The reference answer with its end of turn."""

    @property
    def total(self) -> int:
        return self.prompt + self.answer


def example_lengths(encoder: Encoder, puzzles: Sequence[Puzzle]) -> list[Lengths]:
    """The lengths of each puzzle, as `encode_prompt` and `answer_ids` would give them."""
    answers = answer_lengths(encoder, [TASKS[puzzle.task].gold(puzzle.target) for puzzle in puzzles])
    prompts: dict[tuple[str, tuple[tuple[int, int], ...]], int] = {}  # most puzzles of a part share their prompt
    lengths = []
    for puzzle, answer in zip(puzzles, answers, strict=True):
        same = (repr(puzzle.messages), puzzle.image_sizes)
        if same not in prompts:
            try:
                prompts[same] = prompt_length(encoder, puzzle.messages, list(puzzle.image_sizes))
            except ValueError as error:
                raise ValueError(f"puzzle {puzzle.key} of task {puzzle.task}: {error}") from error
        lengths.append(Lengths(prompts[same], answer))
    return lengths
