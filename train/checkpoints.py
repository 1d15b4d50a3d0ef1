"""Checkpoints: written aside, renamed when whole, pruned by rule."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from eval_hooks.run_files import checkpoints, read_best, write_manifest

PARTIAL = ".partial"
"""Folder inside the run folder where a checkpoint is written before it is renamed into place."""


def publish(run: Path, step: int, keep: int | None) -> Path:
    """Move the checkpoint of `step` out of PARTIAL, then prune.

    All its bytes are on disk before its name appears, so a checkpoint that can be seen is whole, and its manifest tells
    a copy that is not. Pruning keeps the `keep` newest complete ones (None: all) and never removes the best one that
    evaluation has named in best.json.
    """
    aside, final = run / PARTIAL / f"checkpoint-{step}", run / f"checkpoint-{step}"
    write_manifest(aside)
    for path in [*aside.rglob("*"), aside]:
        _flush(path)
    if final.exists():
        _remove(final)
    aside.rename(final)
    _flush(run)
    if keep is not None:
        best = read_best(run)
        old = list(checkpoints(run).items())[:-keep]
        for earlier, folder in old:
            if best is None or earlier != best.step:
                _remove(folder)
    return final


def not_saved(run: Path, step: int, error: Exception) -> str:
    """What to say when the checkpoint of `step` could not be written. Clears what there is of it."""
    free = shutil.disk_usage(run).free / 2**20
    shutil.rmtree(run / PARTIAL, ignore_errors=True)
    kept = list(checkpoints(run).values())
    return (
        f"the checkpoint of step {step} could not be written: {error}; {free:,.0f} MiB were left in {run}; "
        + (f"{kept[-1].name} is complete and kept" if kept else "there is no earlier one")
        + "; free some space, or keep fewer (train.keep_checkpoints), then continue with resume=true"
    )


def _remove(folder: Path) -> None:
    doomed = folder.parent / PARTIAL / f"{folder.name}.removed"
    folder.rename(doomed)  # gone at once for readers, even when the removal is interrupted
    shutil.rmtree(doomed, ignore_errors=True)  # what a reader still holds open goes when the run starts again


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
