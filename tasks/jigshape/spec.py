"""Which JigShape puzzle: every choice that makes one kind of puzzle differ from another."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.contract import Detail
from tasks.jigshape.geometry import MAX_PIXELS, Layout, geometry, image_sizes
from tasks.jigshape.perturb import Perturbations


class Spec(Perturbations, Layout):
    """A jigsaw of grid x grid square pieces, shuffled on one sheet."""

    shape: bool = True
    """True: edges are tabs and blanks; False: straight cuts on the same sheet."""
    certify: Literal["count", "redraw", "full"] = "count"
    """count: a puzzle with interchangeable pieces is marked as ambiguous when it is rendered. redraw: its edges are
    drawn anew when it is posed, which reads the photo. full: the joint solver must find the truth, too (seconds)."""

    answer_format: Literal["by_id", "by_cell", "cells_then_ids"] = "by_id"
    """by_id: {"id": [row, col], ...}. by_cell: N rows of N ids. cells_then_ids: the rows as working, then by_id."""
    wording: Literal["full", "brief"] = "full"
    """Prompt: full for pretrained models; brief, one sentence, for small ones."""
    clues: Annotated[int, Field(ge=0)] = 0
    """Pieces whose cells the prompt gives; the scores count the others."""
    clue_layout: Literal["scattered", "block"] = "scattered"
    """Cells without a clue: scattered over the picture, or one square block of it."""
    repeat_clues: bool = True
    """Whether the answer must repeat the given pieces. False leaves them out of it (by_id only)."""
    hints: Literal["none", "color"] = "none"
    """color: the prompt says which pieces resemble each other in colour."""

    @property
    def num_open(self) -> int:
        """Pieces without a clue: what is scored."""
        return self.grid**2 - self.clues

    @model_validator(mode="after")
    def _must_be_drawable(self) -> Spec:
        sheet = geometry(self)
        if self.shape and sheet.radius < 1:
            raise ValueError(
                f"got a tab radius of {sheet.radius:g} px (tab_ratio x piece_px / 2); allowed: 1 px or more; "
                "raise piece_px or tab_ratio"
            )
        if self.label == "band" and sheet.face is None:
            raise ValueError(
                f"got a label band of {self.band_px} px, {sheet.label_width} px wide; allowed: at least 5 px, at least "
                f"{4 * len(str(self.grid**2 - 1)) - 1} px wide; raise band_px or piece_px, or set label: none"
            )
        if self.label == "band" and self.label_color == self.ground:
            raise ValueError(f"got label_color and ground both {self.ground}; allowed: two colours; change one")
        if self.bars and self.bar_px > min(sheet.width, sheet.height):
            side = min(sheet.width, sheet.height)
            raise ValueError(
                f"got bars of {self.bar_px} px on a sheet of {side} px; allowed: up to {side}; lower bar_px"
            )
        width, height = image_sizes(self)[0]
        if max(width * height, sheet.width * sheet.height) > MAX_PIXELS:
            raise ValueError(
                f"got a sheet of {sheet.width}x{sheet.height} px, shown at {width}x{height}; allowed: up to "
                f"{MAX_PIXELS} pixels; lower grid, piece_px or sheet_scale"
            )
        if self.layout == "aligned" and self.sheet_scale != 1:
            raise ValueError(
                f"got layout aligned with sheet_scale {self.sheet_scale:g}; allowed: 1, as scaling moves the pieces "
                "off the model's token grid; set layout: published, or piece_px instead of sheet_scale"
            )
        return self

    @model_validator(mode="after")
    def _clues_must_leave_a_question(self) -> Spec:
        if self.clues > self.grid**2 - 2:
            raise ValueError(
                f"got {self.clues} clues for {self.grid**2} pieces; allowed: 0 to {self.grid**2 - 2}; lower clues"
            )
        if self.clue_layout == "block" and self.clues and math.isqrt(self.num_open) ** 2 != self.num_open:
            square = max(2, math.isqrt(self.num_open)) ** 2
            raise ValueError(
                f"got {self.clues} clues, which leave {self.num_open} cells open; allowed with clue_layout block: a "
                f"square number of them; set clues: {self.grid**2 - square}"
            )
        if not self.repeat_clues and self.answer_format != "by_id":
            raise ValueError(
                f"got repeat_clues false with answer_format {self.answer_format}; allowed: by_id, where pieces can be "
                "left out; set answer_format: by_id"
            )
        return self


def detail(spec: Spec) -> Detail:
    """A piece and its tabs on the image that the model sees."""
    sheet = geometry(spec)
    return Detail(
        pieces=spec.num_pieces,
        piece=sheet.piece * spec.sheet_scale,
        tab=sheet.radius * spec.sheet_scale if spec.shape else 0.0,
        token_px=spec.token_px if spec.layout == "aligned" else None,
    )


def caution(spec: Spec) -> str | None:
    """What to know before using puzzles of a spec."""
    if not spec.shape and spec.grid > 4:
        return (
            f"without shape a {spec.grid}x{spec.grid} puzzle may have several right answers (a plain border lets whole "
            "rows shift); the published ablation is 4x4"
        )
    return None
