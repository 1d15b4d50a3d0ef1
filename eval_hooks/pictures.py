"""Pictures of answers for a person: the sheet, what the model made of it, the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from data_mix.mixture import Posed
from eval_hooks.evaluate import Puzzles
from eval_hooks.records import Record


def draw(posed: Posed, text: str) -> Image.Image | None:
    """The picture of one answer; None where there is none, see Posed.picture."""
    return posed.picture(posed.task.parse(text, posed.puzzle.spec))


def write_pictures(folder: Path, puzzles: Puzzles, records: Sequence[Record], count: int) -> dict[str, list[Path]]:
    """Draw the first `count` puzzles of every part as PNG files <folder>/<part>-<index>.png.

    Args:
        records: one per puzzle, in the order of `puzzles`.

    Returns:
        Part -> its files, for the parts that have pictures.
    """
    written: dict[str, list[Path]] = {}
    for place, record in enumerate(records):
        if len(written.get(record.part, ())) == count:
            continue
        picture = draw(puzzles[place], record.text)
        if picture is None:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{record.part}-{record.index:04d}.png"
        picture.save(path)
        written.setdefault(record.part, []).append(path)
    return written
