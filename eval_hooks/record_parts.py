"""Files of records, part by part: what one model answered, once each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from eval_hooks.records import Giver, Record, read_records
from eval_hooks.run_records import one_line
from recipes.fields import did_you_mean, problem, shown

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]{0,99}")
"""A recipe's names of parts, and not too long for a file; a part of any other name is written nowhere."""


def read_parts(files: Sequence[Path], part: str | None = None, model: str | None = None) -> dict[str, list[Record]]:
    """Part -> its records, in their order; those of the one part or model alone that is named.

    Raises:
        ValueError: a file is none of records, nothing is left, a part's name could name no file, its
            records are of several tasks or versions, or an answer is there twice.
    """
    parts: dict[str, list[Record]] = {}
    models: dict[str, None] = {}
    for file in files:
        for record in read_records(file).records:
            models[record.model] = None
            if model in (None, record.model):
                parts.setdefault(record.part, []).append(record)
    if model is not None and model not in models:
        known = list(map(one_line, models))
        raise ValueError(problem("model", shown(model), ", ".join(known), did_you_mean(model, known)))
    if not parts:
        got = f"{', '.join(map(str, files))} without a whole record"
        raise ValueError(problem("records", got, "scored answers", "do name the file of an evaluation that has begun"))
    if part is not None:
        if part not in parts:
            known = list(map(one_line, parts))
            raise ValueError(problem("part", shown(part), ", ".join(known), did_you_mean(part, known)))
        parts = {part: parts[part]}
    for name in parts:
        if not _FILE_NAME.fullmatch(name):
            allowed = "at most 100 letters, digits, _, + and -: it names files"
            raise ValueError(problem("part", ascii(name)[:60], allowed, "do choose another with part=NAME"))
    giver_of(parts)
    for name, records in parts.items():
        _check_answers(name, records)
    return parts


def _check_answers(part: str, records: Sequence[Record]) -> None:
    kinds = sorted({(record.task, record.version) for record in records})
    if len(kinds) > 1:
        got = ", ".join(f"{one_line(task)} version {version}" for task, version in kinds)
        raise ValueError(problem(f"part {part}", got, "one task of one version", "do take each by itself"))
    (key, sample), times = Counter((record.key, record.sample) for record in records).most_common(1)[0]
    if times > 1:
        got = f"sample {sample} of {one_line(key)} {times} times"
        raise ValueError(problem(f"part {part}", got, "each answer once", "do drop the copies"))


def giver_of(parts: Mapping[str, Sequence[Record]]) -> Giver:
    """Who gave all the records.

    Raises:
        ValueError: they are of several models, steps, protocols or splits.
    """
    found: dict[Giver, dict[str, None]] = {}
    for part, records in parts.items():
        for record in records:
            found.setdefault(record.giver, {})[part] = None
    if len(found) > 1:
        got = "; ".join(
            f"{one_line(giver.model)} at step {giver.step} ({one_line(giver.protocol)}, {one_line(giver.split)} split) "
            f"in {', '.join(names)}"
            for giver, names in found.items()
        )
        allowed = "one model, step, protocol and split"
        raise ValueError(
            problem("records", got, allowed, "do name fewer files, or choose with model=NAME or part=NAME")
        )
    return next(iter(found))
