"""Which question about which sheet: the specs of the sub-skills."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator

from tasks import jigshape
from tasks.contract import Board, Detail
from tasks.contract import Spec as BaseSpec
from tasks.jigshape.spec import caution as jigsaw_caution
from tasks.jigshape.spec import detail as jigsaw_detail

_ASKING = ("answer_format", "wording", "input", "clues", "clue_layout", "repeat_clues", "hints")
"""Fields of a jigshape spec that say what is asked and how it is handed over: a sub-skill decides these itself."""


class Spec(BaseSpec):
    """A JigShape sheet, and how the question about it is worded."""

    by_shape: ClassVar[bool] = False
    """Whether the answer is a matter of edge shapes alone."""

    puzzle: jigshape.Spec
    """The jigsaw: its grid and how the sheet looks. Fields that say what is asked keep their defaults."""
    wording: Literal["full", "brief"] = "full"
    """Prompt: full for pretrained models; brief, one sentence, for small ones."""

    @model_validator(mode="after")
    def _sheet_must_suit_the_question(self) -> Spec:
        set_here = self.puzzle.model_dump(exclude_defaults=True)
        for name in _ASKING:
            if name in set_here:
                raise ValueError(
                    f"got puzzle.{name} {set_here[name]}; allowed: its default, as only the jigsaw's sheet is used; "
                    f"remove puzzle.{name}"
                )
        if self.by_shape and not self.puzzle.shape:
            raise ValueError(
                "got puzzle.shape false; allowed: true, as the question is about edges; remove puzzle.shape"
            )
        return self


class ShapeSpec(Spec):
    """As `Spec`, for questions that edge shapes alone decide: the pieces must have them."""

    by_shape: ClassVar[bool] = True


def board(spec: Spec) -> Board | None:
    """The square of the photo that is cut into pieces."""
    return jigshape.TASK.board(spec.puzzle)


def detail(spec: Spec) -> Detail:
    """As on that jigsaw's sheet."""
    return jigsaw_detail(spec.puzzle)


def caution(spec: Spec) -> str | None:
    """What jigshape says of such a jigsaw."""
    return jigsaw_caution(spec.puzzle)
