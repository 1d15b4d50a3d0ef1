"""How fast puzzles are made: `make` of the task against copying the sheet's bytes and against a plain Pillow loop.

    python benchmarks/sheets.py [grids=4,8,12,16] [repeats=30]

One core, one cached photo, medians of calls in turn. `make` poses, draws, checks for interchangeable pieces. The Pillow
loop poses, crops each piece with a margin, pastes it through a mask made beforehand and stamps its label: the same
picture. It is timed with masks of mode L, the usual ones, and of mode 1, the fastest; and once more up to the array of
RGB bytes that `make` gives and an image processor works on.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np
import skimage
from PIL import Image

from tasks.jigshape import TASK
from tasks.jigshape.digits import draw_number
from tasks.jigshape.geometry import board, geometry
from tasks.jigshape.sheet import piece_mask
from tasks.jigshape.spec import Spec
from tasks.photo import ImagePhoto


class CachedPhoto:
    """A photo whose resized pixels are kept, as data_mix keeps them."""

    def __init__(self, image: Image.Image) -> None:
        self._photo, self._kept = ImagePhoto(image), {}
        self.id, self.size = self._photo.id, self._photo.size

    def pixels(self, width: int, height: int, box: tuple[float, ...] | None = None) -> np.ndarray:
        key = (width, height, box)
        if key not in self._kept:
            self._kept[key] = self._photo.pixels(width, height, box)
        return self._kept[key]


class PillowLoop:
    """The plain way: crop, paste with a mask, stamp a label, piece by piece."""

    def __init__(self, spec: Spec, pixels: np.ndarray, mask_mode: str) -> None:
        self._spec, self._shape, self._mode = spec, geometry(spec), mask_mode
        self._photo = Image.fromarray(pixels)
        self._labels = [
            Image.fromarray(draw_number(index, self._shape.face)).convert(mask_mode) for index in range(spec.num_pieces)
        ]
        self._masks: dict[tuple[int, ...], Image.Image] = {}

    def make(self, photo: CachedPhoto, seed: int) -> Image.Image:
        spec, shape = self._spec, self._shape
        target = TASK.pose(spec, photo, seed).target
        sheet = Image.new("RGB", (shape.width, shape.height), spec.ground)
        for index, ((row, column), edges) in enumerate(zip(target["cells"], target["signatures"], strict=True)):
            signature = tuple(edges)
            if signature not in self._masks:
                self._masks[signature] = Image.fromarray(piece_mask(spec, signature)).convert(self._mode)
            left, top = column * shape.piece - shape.reach, row * shape.piece - shape.reach
            y, x = shape.body(index, spec.grid)
            crop = self._photo.crop((left, top, left + shape.canvas, top + shape.canvas))
            sheet.paste(crop, (x - shape.reach, y - shape.reach), self._masks[signature])
            label = self._labels[index]
            over = y - shape.reach - spec.band_px + (spec.band_px - label.height) // 2
            sheet.paste(spec.label_color, (x + int((shape.piece - label.width) / 2), over), label)
        return sheet


def copied_twice(sheet: np.ndarray) -> None:
    """What moving the sheet's bytes twice costs at least: into fresh memory, as a new sheet needs it."""
    sheet.copy()
    sheet.copy()


def medians_ms(works: Sequence[Callable[[int], object]], repeats: int) -> list[float]:
    """Median ms of each work(seed). They take turns, so that what else the machine does slows all alike; each is called
    once untimed before it is timed, so that none pays for the caches that another has filled."""
    times: list[list[float]] = [[] for _ in works]
    for seed in range(repeats):
        for work, taken in zip(works, times, strict=True):
            work(seed)
            started = time.perf_counter()
            work(seed)
            taken.append(1e3 * (time.perf_counter() - started))
    return [median(taken) for taken in times]


def main(argv: list[str]) -> None:
    given = dict(argument.split("=", 1) for argument in argv)
    grids = [int(grid) for grid in given.get("grids", "4,8,12,16").split(",")]
    repeats = int(given.get("repeats", 30))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    photo = CachedPhoto(Image.fromarray(skimage.data.astronaut()))
    print("grid  make ms  per s  copies ms | make / two copies; Pillow / make: L masks, 1 masks, L masks to array")
    for grid in grids:
        spec = Spec(grid=grid)
        sheet = TASK.make(spec, photo, 0).images[0]
        pixels = photo.pixels(*board(spec)[:2], (0, 0, *photo.size))
        usual, fastest = PillowLoop(spec, pixels, "L"), PillowLoop(spec, pixels, "1")
        for loop in (usual, fastest):
            if not np.array_equal(np.asarray(loop.make(photo, 0)), sheet):
                sys.exit(f"grid {grid}: the Pillow loop draws another sheet")
        make, copies, *others = medians_ms(
            [
                lambda seed, spec=spec: TASK.make(spec, photo, seed),
                lambda _, sheet=sheet: copied_twice(sheet),
                lambda seed, loop=usual: loop.make(photo, seed),
                lambda seed, loop=fastest: loop.make(photo, seed),
                lambda seed, loop=usual: np.asarray(loop.make(photo, seed)),
            ],
            repeats,
        )
        ratios = "  ".join(f"{other / make:5.2f}" for other in others)
        print(f"{grid:>4} {make:>8.2f} {1e3 / make:>6.0f} {copies:>10.2f} | {make / copies:5.2f}; {ratios}")


if __name__ == "__main__":
    main(sys.argv[1:])
