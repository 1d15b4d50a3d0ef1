"""A few answers of a part to look at: which ones, and their puzzles posed and drawn again."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from PIL import Image

from data_mix.mixture import Posed
from data_mix.photo_source import CroppedPhoto
from eval_hooks.records import Record, prompt_hash
from tasks import TASKS, Photo

KINDS = ("worst", "best", "random")
_SEED = 0
_CROP = re.compile(r"([^@]+)@(\d{1,9}),(\d{1,9}),(\d{1,9}),(\d{1,9})")


class Case(NamedTuple):
    """An answer, and why it is shown."""

    kind: str
    """One of KINDS."""
    record: Record


def choose(records: Sequence[Record], primary: str, each: int) -> list[Case]:
    """`each` answers of every kind, none twice; the same ones in whatever order the records come.

    Among equal scores, which are many at 0 and 1, a fixed seed decides.
    """
    drawn = sorted(records, key=lambda record: (record.key, record.sample))
    random.Random(_SEED).shuffle(drawn)
    worst_first = sorted(drawn, key=lambda record: record.scores[primary])
    worst, rest = worst_first[:each], worst_first[each:]
    best = rest[::-1][:each]
    taken = {(record.key, record.sample) for record in (*worst, *best)}
    others = [record for record in drawn if (record.key, record.sample) not in taken][:each]
    return [Case(kind, record) for kind, own in zip(KINDS, (worst, best, others), strict=True) for record in own]


def pose_again(record: Record, photos: Mapping[str, Photo]) -> Posed:
    """The puzzle that was asked, out of its task, spec, seed and photo.

    Args:
        photos: id -> photo.

    Raises:
        ValueError: the photo is not there, or this would be another puzzle than the one that was asked.
    """
    task = TASKS[record.task]
    if record.version != task.version:
        raise ValueError(f"asked of version {record.version} of the task, which is version {task.version} here")
    photo = None if record.photo_id is None else _photo(record.photo_id, photos)
    puzzle = task.pose(task.Spec.model_validate_json(json.dumps(record.spec)), photo, record.seed)
    asked = (record.key, record.prompt_hash, json.dumps(record.target, sort_keys=True))
    if asked != (puzzle.key, prompt_hash(puzzle.messages), json.dumps(puzzle.target, sort_keys=True)):
        raise ValueError("not made from a photo and a seed as tasks do it here: a dataset's, or an older prompt's")
    return Posed(record.part, record.split, record.index, puzzle, photo)


def _photo(id_: str, photos: Mapping[str, Photo]) -> Photo:
    crop = _CROP.fullmatch(id_)
    photo = photos.get(crop[1] if crop else id_)
    if photo is None:
        raise ValueError("its photo is not among those of the recipe on this machine")
    if not crop:
        return photo
    left, top, right, bottom = map(int, crop.groups()[1:])
    if not (left < right <= photo.size[0] and top < bottom <= photo.size[1]):
        raise ValueError("its photo has other sides than when it was asked")
    return CroppedPhoto(photo, (left, top, right, bottom))


def drawn_answer(posed: Posed, text: str) -> list[Image.Image]:
    """The answer drawn by its task; where that draws none, the images that were asked about."""
    picture = posed.picture(posed.task.parse(text, posed.puzzle.spec))
    return [picture] if picture is not None else [Image.fromarray(pixels) for pixels in posed.example().images]
