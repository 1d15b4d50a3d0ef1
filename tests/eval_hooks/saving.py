"""Checkpoints as training saves them, without a model in them. Imported by other processes, too: it loads no torch."""

import json
from pathlib import Path

from train.checkpoints import PARTIAL, publish


def save(run: Path, step: int, *, keep: int | None = None, last: int = 9, weights: int | None = None) -> None:
    """Save a checkpoint of a run whose last step is `last`, and prune."""
    aside = run / PARTIAL / f"checkpoint-{step}"
    aside.mkdir(parents=True)
    (aside / "weights").write_text(str(weights or step))
    (aside / "trainer_state.json").write_text(json.dumps({"max_steps": last}))
    publish(run, step, keep)
