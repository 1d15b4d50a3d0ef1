"""Which probe: its spec, the area it takes from a photo, and what the model is told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.contract import Board, Message
from tasks.contract import Spec as BaseSpec

Channel = Annotated[int, Field(ge=0, le=255)]
RGB = tuple[Channel, Channel, Channel]


class Spec(BaseSpec):
    """A picture under a grid of lines, one cell of which is hidden."""

    kind: Literal["grid_missing"] = "grid_missing"
    grid: Annotated[int, Field(ge=2, le=10)] = 3
    """Cells per side."""
    cell_px: Annotated[int, Field(ge=8, le=1024)] = 160
    """Side of a cell, px; the picture's side is grid x cell_px."""
    line_px: Annotated[int, Field(ge=1, le=64)] = 4
    """Width of the lines between cells, px."""
    line_color: RGB = (255, 255, 255)
    missing_color: RGB = (128, 128, 128)
    wording: Literal["full", "brief"] = "full"
    """Prompt: full for pretrained models; brief, one sentence, for small ones."""

    @model_validator(mode="after")
    def _cell_must_show(self) -> Spec:
        if self.line_px > self.cell_px // 2:
            raise ValueError(
                f"got lines of {self.line_px} px and cells of {self.cell_px} px; allowed: lines of at most half a "
                "cell; lower line_px or raise cell_px"
            )
        return self


def board(spec: Spec) -> Board:
    """The square of the photo that is shown."""
    side = spec.grid * spec.cell_px
    return Board(side, side, spec.grid, spec.grid)


_FULL = (
    "The picture is divided by lines into {grid} rows and {grid} columns of cells. The cells are numbered from 1 to "
    "{count}, row by row from the top-left corner: the first row is 1 to {grid}. One cell is covered in plain grey. "
    "Which one? Answer with its number only."
)
_BRIEF = "Cells are numbered 1 to {count} row by row. Which one is grey?"


def messages(spec: Spec) -> list[Message]:
    """One user message: the picture, then the question."""
    text = (_BRIEF if spec.wording == "brief" else _FULL).format(grid=spec.grid, count=spec.grid**2)
    return [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]
