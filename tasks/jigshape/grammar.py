"""The answers that are in the asked form, place every piece once and keep the given ones where they are.

They are written as `gold` writes them. In cells_then_ids the object says what the rows say, so it leaves no choice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.grammar import Grammar
from tasks.jigshape import by_id
from tasks.jigshape.spec import Spec

Cell = tuple[int, int]


def grammar(spec: Spec, asked: dict[str, Any]) -> Grammar:
    """Of a puzzle that asks this; `asked` is what the prompt is made from, see `prompt.messages`."""
    given = {index: (row, column) for index, row, column in asked.get("given", ())}
    return _ById(spec, given) if spec.answer_format == "by_id" else _Rows(spec, given)


@dataclass(frozen=True)
class _ById:
    """`{"0":[2,1],...}`: a choice of row, then of column, for each id."""

    spec: Spec
    given: dict[int, Cell]

    def options(self, written: str) -> Sequence[str]:
        ids = [index for index in range(self.spec.num_pieces) if self.spec.repeat_clues or index not in self.given]
        if not written:
            return (f'{{"{ids[0]}":[',)
        if written.endswith("}"):
            return ()
        numbers = [int(digits) for digits in re.findall(r"(?<=[\[,])[0-9]+", written)]
        done, half = divmod(len(numbers), 2)
        cells = self._open_to(ids[done], set(zip(numbers[::2], numbers[1::2], strict=False)))
        if not half:
            return [f"{row}," for row in dict.fromkeys(row for row, _ in cells)]
        after = f'],"{ids[done + 1]}":[' if done + 1 < len(ids) else "]}"
        return [f"{column}{after}" for row, column in cells if row == numbers[-1]]

    def _open_to(self, index: int, taken: set[Cell]) -> list[Cell]:
        if index in self.given:
            return [self.given[index]]
        closed = taken | set(self.given.values())
        grid = range(self.spec.grid)
        return [(row, column) for row in grid for column in grid if (row, column) not in closed]


@dataclass(frozen=True)
class _Rows:
    """`[[7,0,...],...]`: a choice of id for each cell; then, in cells_then_ids, the object."""

    spec: Spec
    given: dict[int, Cell]

    def options(self, written: str) -> Sequence[str]:
        grid, count = self.spec.grid, self.spec.num_pieces
        if not written:
            return ("[[",)
        if written.endswith("}"):
            return ()
        placed = [int(digits) for digits in re.findall("[0-9]+", written)]
        if len(placed) == count:
            return self._object(placed) if self.spec.answer_format == "cells_then_ids" else ()
        after = "," if (len(placed) + 1) % grid else "],["
        return [f"{index}{after if len(placed) + 1 < count else ']]'}" for index in self._fitting(placed)]

    def _fitting(self, placed: list[int]) -> list[int]:
        """Ids that may lie in the next cell."""
        cell = divmod(len(placed), self.spec.grid)
        given = [index for index, where in self.given.items() if where == cell]
        taken = {*placed, *self.given}
        return given or [index for index in range(self.spec.num_pieces) if index not in taken]

    def _object(self, placed: list[int]) -> Sequence[str]:
        cells = {index: divmod(place, self.spec.grid) for place, index in enumerate(placed)}
        return (f"\n{by_id.write(dict(sorted(cells.items())))}",)
