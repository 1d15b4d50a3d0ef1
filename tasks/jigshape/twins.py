"""Pieces that look exactly alike: who sees only the pieces cannot tell which of them belongs where."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from tasks.jigshape.geometry import geometry
from tasks.jigshape.sheet import draw_piece
from tasks.jigshape.spec import Spec


def twins(spec: Spec, target: dict[str, Any], pixels: np.ndarray) -> list[list[int]]:
    """Groups of two or more ids whose pieces are pixel for pixel the same, tabs and blanks included. Given pieces are
    left out: the prompt tells their cells.

    pixels: what the pieces are cut from, uint8 (N*p, N*p, 3), before noise and bars.
    """
    grid, piece = spec.grid, geometry(spec).piece
    inset = piece // 8  # so near a corner no blank can reach, whatever the tab ratio
    rows = np.array([inset, inset, -1 - inset, -1 - inset])
    columns = np.array([inset, -1 - inset, inset, -1 - inset])
    probes = pixels.reshape(grid, piece, grid, piece, 3)[:, rows, :, columns].transpose(1, 2, 0, 3)  # (N, N, 4, 3)
    given = set(target.get("clues", ()))
    suspects: dict[tuple[bytes, tuple[int, ...]], list[int]] = defaultdict(list)
    for index, ((row, column), signature) in enumerate(zip(target["cells"], target["signatures"], strict=True)):
        if index not in given:
            suspects[probes[row, column].tobytes(), tuple(signature)].append(index)
    found = []
    for ids in suspects.values():
        if len(ids) > 1:
            alike: dict[bytes, list[int]] = defaultdict(list)
            for index in ids:
                drawn = draw_piece(spec, target["signatures"][index], pixels, target["cells"][index])
                alike[drawn.tobytes()].append(index)
            found += [group for group in alike.values() if len(group) > 1]
    return sorted(found)
