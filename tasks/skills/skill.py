"""What the sub-skills share: the sheet of a JigShape puzzle, one question about it, one right answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from tasks import jigshape
from tasks.contract import Example, Invalid, Photo, Puzzle, Span, Task
from tasks.grammar import Grammar, OneOf
from tasks.jigshape.sheet import cut_photo
from tasks.jigshape.twins import twins
from tasks.photo import needed
from tasks.skills.picture import picture_of
from tasks.skills.prompt import messages
from tasks.skills.spec import Spec, board, caution, detail
from tasks.voting import majority

VERSION = 1
_QUESTION_STREAM = 7


def score(answer: Any, target: dict[str, Any]) -> dict[str, float]:
    """correct: 1 for the right answer; valid: 1 for any answer."""
    return {"correct": float(answer == target["answer"]), "valid": float(not isinstance(answer, Invalid))}


def diagnose(answer: Any, target: dict[str, Any]) -> dict[str, Any]:
    """reason: why the answer is invalid, None if it is valid."""
    return {"reason": answer.reason if isinstance(answer, Invalid) else None}


def informative(gold_text: str) -> list[Span]:
    """Its words and numbers: what lies between them follows from the format."""
    return [match.span() for match in re.finditer(r"\w+", gold_text)]


@dataclass(frozen=True)
class Skill:
    """A sub-skill: what it asks about a sheet, and how its answers are read.

    The jigsaw is drawn from the seed exactly as jigshape draws it, the question from a stream of its own: so under one
    seed all sub-skills ask about the same sheet.
    """

    name: str
    spec: type[Spec]
    ask: Callable[[dict[str, Any], np.random.Generator], dict[str, Any]]
    """`ask(jigsaw, rng)`: from a jigshape target `{"asked": ..., "answer": ...}`, JSON-able. `asked` is all that the
    prompt knows of the question: `pieces`, the ids it is about, and perhaps other words."""
    full: str
    """The question for pretrained models, as a template; see `prompt.messages`."""
    brief: str
    """The whole prompt for small models, likewise."""
    parse: Callable[[str, Any], Any]
    write: Callable[[Any], str]
    """`write(answer)`: the answer as text."""
    possible: Callable[[Any, dict[str, Any]], Iterable[Any]]
    """`possible(spec, asked)`: the answers that such a question can have."""
    invalid_reasons: tuple[str, ...]
    chance: Callable[[Any], dict[str, dict[str, float]]]
    entries: tuple[str, ...] = ("correct", "valid")
    score: Callable[[Any, dict[str, Any]], dict[str, float]] = score
    diagnose: Callable[[Any, dict[str, Any]], dict[str, Any]] = diagnose

    def pose(self, spec: Spec, photo: Photo | None, seed: int) -> Puzzle:
        """The question that (spec, photo, seed) stand for; its target holds the jigsaw's target, too."""
        jigsaw = jigshape.TASK.pose(spec.puzzle, photo, seed)
        question = self.ask(jigsaw.target, np.random.default_rng([seed, _QUESTION_STREAM]))
        return replace(
            jigsaw,
            task=self.name,
            version=VERSION,
            spec=spec,
            messages=messages(spec, self.full, self.brief, question["asked"]),
            target={**question, "jigsaw": jigsaw.target},
        )

    def render(self, puzzle: Puzzle, photo: Photo | None) -> Example:
        """The sheet of the jigsaw. Ambiguous if a piece of the question or its answer has a twin; twins share their
        edges, so a question about shape stays clear."""
        spec = puzzle.spec
        assert isinstance(spec, Spec)
        jigsaw = replace(puzzle, task=jigshape.TASK.name, spec=spec.puzzle, target=puzzle.target["jigsaw"])
        drawn = jigshape.TASK.render(jigsaw, photo)
        doubtful = drawn.ambiguous and not spec.by_shape and self._in_doubt(puzzle, needed(photo, self.name))
        return Example(puzzle, drawn.images, ambiguous=doubtful)

    def _in_doubt(self, puzzle: Puzzle, photo: Photo) -> bool:
        """Whether a piece of the question, or its answer, looks exactly like another."""
        spec, target = puzzle.spec, puzzle.target
        assert isinstance(spec, Spec)
        concerned = {*target["asked"]["pieces"], target["answer"] if isinstance(target["answer"], int) else None}
        groups = twins(spec.puzzle, target["jigsaw"], cut_photo(spec.puzzle, photo))
        return any(concerned & set(group) for group in groups)

    def gold(self, target: dict[str, Any]) -> str:
        """The reference answer: nothing but what is asked for."""
        return self.write(target["answer"])

    def written(self, answer: Any, spec: Spec) -> str:
        """An answer as the reference answer is written."""
        return self.write(answer)

    def grammar(self, spec: Spec, asked: dict[str, Any]) -> Grammar:
        """The possible answers, as `gold` writes them."""
        return OneOf(tuple(self.write(answer) for answer in self.possible(spec, asked)))

    def picture(self, puzzle: Puzzle, answer: Any, photo: Photo | None) -> Image.Image:
        """The sheet with the pieces in question framed, the answer and the truth above it."""
        spec = puzzle.spec
        assert isinstance(spec, Spec)
        pieces, true = puzzle.target["asked"]["pieces"], puzzle.target["answer"]
        given = f"no valid answer, {answer.reason}" if isinstance(answer, Invalid) else self.write(answer)
        title = f"{self.name} {', '.join(map(str, pieces))}: {given} (truth: {self.write(true)})"
        return picture_of(spec.puzzle, self.render(puzzle, photo).images[0], pieces, title, answer == true)

    def task(self) -> Task:
        """The sub-skill as one of TASKS."""
        return Task(
            name=self.name,
            version=VERSION,
            Spec=self.spec,
            entries=self.entries,
            primary="correct",
            invalid_reasons=self.invalid_reasons,
            board=board,
            pose=self.pose,
            render=self.render,
            parse=self.parse,
            gold=self.gold,
            score=self.score,
            chance=self.chance,
            diagnose=self.diagnose,
            informative=informative,
            picture=self.picture,
            detail=detail,
            caution=caution,
            grammar=self.grammar,
            vote=majority,
            write=self.written,
        )
