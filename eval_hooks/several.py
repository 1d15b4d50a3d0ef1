"""What several answers to each puzzle come to: one by one, by vote, one of k right; how far they differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

from eval_hooks.intervals import Estimate, estimate
from eval_hooks.percent import percent
from eval_hooks.records import Record
from eval_hooks.rescore import scored_again
from eval_hooks.run_records import answer_of, one_line
from recipes.fields import problem
from recipes.text_table import aligned
from tasks import TASKS, Invalid

NOTE = "pass@k: how often one of k answers or more solves the puzzle. Different: of puzzles with two valid answers."


@dataclass(frozen=True)
class Several:
    """Of one part. An answer solves its puzzle if its primary score is 1."""

    part: str
    primary: str
    """The score entry that ranks."""
    k: int
    """Answers to each puzzle."""
    each: Estimate
    """The primary score over all answers."""
    votes: list[Record]
    """The record of each puzzle's vote; empty where there can be none."""
    no_vote: str
    """Why there is none; empty where there is."""
    passed: dict[int, Estimate]
    """Number of answers -> how often at least one of so many solves the puzzle."""
    puzzles_differ: Estimate | None
    """Share of puzzles with different answers, of those with at least two valid ones; None if there are none."""
    items_differ: Estimate | None
    """Share of the items of an answer that differ, of the same puzzles; None where answers are no lists or mappings."""

    def rows(self) -> list[tuple[str, Estimate]]:
        """Every number by its name."""
        voted = [(record.key, record.scores[self.primary]) for record in self.votes]
        rows = [
            (f"{self.primary} of each answer", self.each),
            (f"{self.primary} of the vote", estimate(voted) if voted else None),
            *((f"pass@{size}", share) for size, share in self.passed.items()),
            ("solved by the vote", estimate((key, float(score == 1)) for key, score in voted) if voted else None),
            ("puzzles with different answers", self.puzzles_differ),
            ("items with different answers", self.items_differ),
        ]
        return [(name, found) for name, found in rows if found is not None]


def answers_each(records: Iterable[Record]) -> Counter[int]:
    """Number of answers -> how many puzzles have so many."""
    return Counter(Counter((record.part, record.key) for record in records).values())


def several(part: str, records: Sequence[Record]) -> Several | None:
    """What the answers of one part come to.

    Args:
        records: of one part, model, step, protocol, split and task version; no answer twice.

    Returns:
        None where puzzles have only one answer, or not all as many.

    Raises:
        ValueError: a record is none that can be ranked, or voted on.
    """
    numbers = answers_each(records)
    k = max(numbers)
    if len(numbers) > 1 or k == 1:
        return None
    for record in records:
        answer_of(record)
    task = TASKS[records[0].task]
    puzzles: dict[str, list[Record]] = {record.key: [] for record in records}
    for record in sorted(records, key=lambda record: record.sample):
        puzzles[record.key].append(record)
    right = {key: sum(one.scores[task.primary] == 1 for one in own) for key, own in puzzles.items()}
    sizes = [*(2**power for power in range(k.bit_length()) if 2**power < k), k]
    valid = {key: [one.answer for one in own if one.invalid is None] for key, own in puzzles.items()}
    told = {key: answers for key, answers in valid.items() if len(answers) > 1}
    items = {key: differing_items(answers) for key, answers in told.items()}
    no_vote = _no_vote(records[0])
    return Several(
        part=part,
        primary=task.primary,
        k=k,
        each=estimate((record.key, record.scores[task.primary]) for record in records),
        votes=[] if no_vote else [vote_record(own) for own in puzzles.values()],
        no_vote=no_vote,
        passed={size: estimate((key, pass_at(size, k, count)) for key, count in right.items()) for size in sizes},
        puzzles_differ=_estimate((key, float(_differ(answers))) for key, answers in told.items()),
        items_differ=_estimate((key, share) for key, share in items.items() if share is not None),
    )


def pass_at(k: int, n: int, right: int) -> float:
    """How likely at least one of k answers is right, given n of which c are: the unbiased 1 - C(n - c, k) / C(n, k) of
    Chen et al. 2021, arXiv 2107.03374.

    Raises:
        ValueError: not 1 <= k <= n, or right is not between 0 and n.
    """
    if not (1 <= k <= n and 0 <= right <= n):
        raise ValueError(f"got pass@{k}, {right} of {n} right; allowed: pass@1 to pass@{n}; do count again")
    return 1 - comb(n - right, k) / comb(n, k)


def differing_items(answers: Sequence[Any]) -> float | None:
    """Share of the items on which answers differ; an item is an element of a list or a value of a mapping. None where
    answers are neither, or empty."""
    by_name = [dict(enumerate(answer)) if isinstance(answer, list) else answer for answer in answers]
    if not all(isinstance(items, dict) for items in by_name):
        return None
    names = {name for items in by_name for name in items}
    unlike = [_differ([[items[name]] if name in items else [] for items in by_name]) for name in names]
    return sum(unlike) / len(unlike) if unlike else None


def _differ(values: Iterable[Any]) -> bool:
    return len({json.dumps(value, sort_keys=True) for value in values}) > 1


def _estimate(shares: Iterable[tuple[str, float]]) -> Estimate | None:
    listed = list(shares)
    return estimate(listed) if listed else None


def _no_vote(record: Record) -> str:
    task = TASKS[record.task]
    if task.vote is None or task.write is None:
        return f"{task.name} has no vote"
    if record.version != task.version:
        return f"scored by {task.name} version {record.version}, which is version {task.version} here: rescore first"
    return ""


def vote_record(samples: Sequence[Record]) -> Record:
    """The vote of several answers to one puzzle, as a record like any other.

    Its text is the voted answer, written as a reference answer is; invalid answers have no vote, and where there are no
    others it is the first one's. Tokens and seconds are those of all answers, as that is what a vote costs.

    Args:
        samples: in their order, of a task that has a vote.

    Raises:
        ValueError: today's task cannot read their spec or target.
    """
    first = samples[0]
    task = TASKS[first.task]
    spec = task.Spec.model_validate_json(json.dumps(first.spec))
    assert task.vote is not None  # else there is no vote, see `several`
    assert task.write is not None
    read = [task.parse(one.text, spec) for one in samples]
    answers = [answer for answer in read if not isinstance(answer, Invalid)]
    voted = replace(
        first,
        text=task.write(task.vote(answers, spec), spec) if answers else first.text,
        finish_reason="stop" if answers else first.finish_reason,
        completion_tokens=sum(one.completion_tokens for one in samples),
        seconds=sum(one.seconds for one in samples),
        sample=0,
        protocol=f"{first.protocol} vote of {len(samples)}",
    )
    return scored_again(voted)


def table(parts: Sequence[Several]) -> str:
    """For a terminal: per part each number in percent, with its 95 % interval."""
    rows = [[f"{parts[0].k} answers to each puzzle", "%", "low", "high", "n"]]
    for part in parts:
        rows.append([one_line(part.part), "", "", "", ""])
        for name, found in part.rows():
            shown = map(percent, (found.mean, found.low, found.high))
            rows.append([f"  {name}", *shown, str(found.n)])
    missing = [f"part {one_line(part.part)}: no vote ({part.no_vote})" for part in parts if part.no_vote]
    return "\n".join([aligned(rows), *missing, NOTE])


def by_part(records: Sequence[Record]) -> list[Several]:
    """What the answers of each part come to.

    Args:
        records: at least one, of one model, step, protocol and split; no answer twice.

    Raises:
        ValueError: puzzles have only one answer, or not all as many; or see `several`.
    """
    numbers = answers_each(records)
    if numbers.keys() == {1}:
        allowed, do = "two or more to each puzzle", "do ask with eval.protocol=sampled eval.samples=8"
        raise ValueError(problem("records", "one answer to each puzzle", allowed, do))
    if len(numbers) > 1:
        got = ", ".join(f"{count} puzzles with {number}" for number, count in sorted(numbers.items()))
        do = "do run the same evaluation again, which asks what is missing"
        raise ValueError(problem("records", got, "as many answers to each puzzle", do))
    parts: dict[str, list[Record]] = {}
    for record in records:
        parts.setdefault(record.part, []).append(record)
    return [found for part, own in parts.items() if (found := several(part, own)) is not None]


def describe(records: Sequence[Record]) -> str:
    """What several answers to each puzzle come to, for a terminal; see `by_part`."""
    return table(by_part(records))
