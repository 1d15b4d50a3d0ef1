"""Checkpoints held by hard links, so that a training which prunes them cannot take them away before they are judged."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eval_hooks.run_files import MANIFEST, RECIPE, checkpoint_folders, checkpoints, what_is_missing
from recipes.fields import problem

logger = logging.getLogger(__name__)

WATCH = ".watch"
"""Folder inside the run folder. With the run's recipe in it, it reads like a run folder whose checkpoints are held."""


@contextmanager
def holding(run: Path) -> Iterator[Held]:
    """The held checkpoints of a run, for one process at a time; what an earlier one left behind is taken up.

    When the block ends, nothing is held.

    Raises:
        ValueError: another process holds checkpoints of this run.
    """
    folder = run / WATCH
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = os.path.samestat(os.fstat(lock.fileno()), (folder / "lock").stat())
        except (BlockingIOError, FileNotFoundError):
            ours = False
        if not ours:  # or one that is just ending has removed the file
            advice = "do stop that one, or let it go on"
            raise ValueError(problem("run", f"{run}, which another watch judges", "one watch for each run", advice))
        try:
            shutil.copyfile(run / RECIPE, folder / RECIPE)
            yield Held(run)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Held:
    """What is held of a run."""

    def __init__(self, run: Path) -> None:
        self._run, self._folder = run, run / WATCH
        self._possible = True

    def log(self, name: str) -> Path:
        """A file for what a process says; it goes when nothing is held any more."""
        return self._folder / name

    def complete(self) -> dict[int, Path]:
        """Step -> folder of what is held, oldest first."""
        return checkpoints(self._folder)

    def take(self, checkpoint: Path) -> None:
        """Hold a checkpoint of the run; one that was saved again under its name replaces what was held."""
        held = self._folder / checkpoint.name
        if not self._possible or _same(held, checkpoint):
            return
        shutil.rmtree(held, ignore_errors=True)
        try:
            shutil.copytree(checkpoint, held, copy_function=os.link)
        except OSError as error:
            shutil.rmtree(held, ignore_errors=True)
            if what_is_missing(checkpoint) is None:  # else it has been pruned meanwhile
                self._possible = False
                logger.warning(
                    "%s cannot be held by hard links (%s): what training prunes before it is judged is lost; "
                    "keep more of them (train.keep_checkpoints)", checkpoint, error,
                )  # fmt: skip

    def keep_only(self, steps: set[int]) -> None:
        """Let go of all others, and of what is not whole."""
        for step, folder in checkpoint_folders(self._folder).items():
            if step not in steps or what_is_missing(folder) is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def restore(self, step: int) -> bool:
        """Give a checkpoint back to the run where it is there no more, and say whether that was done.

        Only what a newer one has outlived: training never takes a restored checkpoint for the newest one, nor saves
        one under its name.
        """
        held, newest = self._folder / f"checkpoint-{step}", max(checkpoints(self._run), default=0)
        if step >= newest or (self._run / held.name).exists() or what_is_missing(held) is not None:
            return False
        held.rename(self._run / held.name)
        return True


def _same(held: Path, checkpoint: Path) -> bool:
    """Whether `held` is whole and of the very files of `checkpoint`."""
    try:
        same = os.path.samefile(held / MANIFEST, checkpoint / MANIFEST)
    except FileNotFoundError:
        return False
    return same and what_is_missing(held) is None
