"""How well JigShape is solved without a model: edges and pixels together, and edges alone.

    .venv/bin/python benchmarks/solver.py [PHOTO_FOLDER ...]

Takes the photos that scikit-image bundles if no folder is named; one puzzle per photo and kind. Prints a table, every
puzzle that the joint solver does not certify with its cause, and how many 4x4 puzzles the edges alone decide.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from data_mix.photos import FilePhoto, find_photos
from recipes.schema import Photos
from tasks.jigshape import TASK
from tasks.jigshape.sheet import cut_photo, draw_sheet
from tasks.jigshape.signatures import count_solutions, solve_signatures
from tasks.jigshape.solve import certificate, solve_pieces
from tasks.jigshape.spec import Spec

GRIDS = (4, 8, 12, 16)
NUM_UNIQUE = 2000
NUM_VISION_FREE = 500
HEADER = "solver          N  puzzles     pa     em   search  ambiguous  seconds (median, max)"


class Outcome(NamedTuple):
    pa: float
    seconds: float
    cause: str | None = None
    detail: str = ""


def main(folders: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        photos = find_photos(Photos(folder=list(folders) or None, index=str(Path(folder) / "index.jsonl"))).photos
    print(f"{len(photos)} photos\n{HEADER}")
    details = []
    for name, shape in (("joint", True), ("joint, no shape", False)):
        for grid in GRIDS:
            spec = Spec(grid=grid, shape=shape)
            outcomes = [solve_jointly(spec, photo) for photo in photos]
            print(row(name, grid, outcomes), flush=True)
            details += [f"{name} {outcome.detail}" for outcome in outcomes if outcome.cause]
    for grid in GRIDS:
        outcomes = [solve_blindly(Spec(grid=grid), photos[0], seed) for seed in range(NUM_VISION_FREE)]
        print(row("vision-free", grid, outcomes), flush=True)
    print("not certified:", *details, sep="\n  ")
    counts = [count_solutions(signatures(Spec(grid=4), photos[0], seed), 4, limit=2) for seed in range(NUM_UNIQUE)]
    print(f"4x4 puzzles that edges alone decide: {100 * counts.count(1) / NUM_UNIQUE:.1f} % of {NUM_UNIQUE}")
    return 0


def solve_jointly(spec: Spec, photo: FilePhoto) -> Outcome:
    target = TASK.pose(spec, photo, seed=spec.grid).target
    pixels = cut_photo(spec, photo)
    sheet = draw_sheet(spec, target, pixels)
    started = time.monotonic()
    solution = solve_pieces(spec, sheet)
    seconds = time.monotonic() - started
    pa = TASK.score(solution.cells, target)["pa"]
    found = certificate(spec, target, pixels)
    detail = f"{spec.grid}x{spec.grid} {Path(photo.path).name}: pa {pa:.3f}, {len(found.wrong)} pieces, {found.cause}"
    return Outcome(pa, seconds, found.cause, f"{detail} {found.content or ''}".rstrip())


def solve_blindly(spec: Spec, photo: FilePhoto, seed: int) -> Outcome:
    target = TASK.pose(spec, photo, seed).target
    started = time.monotonic()
    cells = solve_signatures(np.array(target["signatures"]), spec.grid, seed)
    seconds = time.monotonic() - started
    return Outcome(TASK.score(cells, target)["pa"] if cells else 0.0, seconds, None if cells else "search")


def signatures(spec: Spec, photo: FilePhoto, seed: int) -> np.ndarray:
    return np.array(TASK.pose(spec, photo, seed).target["signatures"])


def row(name: str, grid: int, outcomes: Sequence[Outcome]) -> str:
    pa = [outcome.pa for outcome in outcomes]
    causes = [outcome.cause for outcome in outcomes]
    seconds = [outcome.seconds for outcome in outcomes]
    return (
        f"{name:<15} {grid:>2} {len(pa):>7} {100 * np.mean(pa):>6.1f} {100 * pa.count(1.0) / len(pa):>6.1f} "
        f"{causes.count('search'):>8} {causes.count('ambiguous'):>10} {median(seconds):>10.3f} {max(seconds):.2f}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
