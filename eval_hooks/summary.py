"""Records as numbers: sums and counts per part, divided once; never means of means."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from eval_hooks.board import chance_of
from eval_hooks.percent import percent
from eval_hooks.records import Record
from recipes.text_table import aligned
from tasks import TASKS


@dataclass(frozen=True)
class PartSummary:
    """All answers of one part. Shares and means are in [0, 1]."""

    part: str
    task: str
    primary: str
    """The score entry that ranks."""
    n: int
    """Answers counted."""
    puzzles: int
    """Puzzles that they answer: fewer than n where there are several to one."""
    sums: dict[str, float]
    """Entry -> sum over the answers that it applies to, in the task's order of entries."""
    counts: dict[str, int]
    """Entry -> number of answers that it applies to."""
    invalid_reasons: dict[str, int]
    """Reason -> number of answers, most frequent first."""
    truncated: int
    """Answers cut at the token limit."""
    completion_tokens: int
    """Sum over the answers."""
    baselines: dict[str, dict[str, float]]
    """Honest guesser (random, flats only) -> entry -> expectation; program that solved all these -> entry -> mean."""

    @property
    def means(self) -> dict[str, float]:
        """Entry -> mean over the answers that it applies to; an entry that applies to none is absent."""
        return {entry: total / self.counts[entry] for entry, total in self.sums.items() if self.counts[entry]}

    @property
    def invalid(self) -> int:
        return sum(self.invalid_reasons.values())

    @property
    def counted(self) -> str:
        """For a person: n, and the number of puzzles where that is another."""
        return str(self.n) if self.n == self.puzzles else f"{self.n} of {self.puzzles} puzzles"


Solved = Mapping[tuple[str, str], Mapping[str, float]]
"""(Program, puzzle's key) -> its scores; `eval_hooks.baselines.read_solved` gives them."""

Summary = Mapping[str, PartSummary]
"""Part -> its summary, in the order of the records."""


def summarize(records: Iterable[Record], solved: Solved | None = None) -> Summary:
    """Summarize records part by part.

    Args:
        solved: what programs earned; one that has not solved every puzzle of a part is left out there.

    Raises:
        ValueError: a part's records do not belong together, or hold one answer twice.
    """
    parts: dict[str, list[Record]] = {}
    for record in records:
        parts.setdefault(record.part, []).append(record)
    return {part: _summarize_part(part, answers, solved or {}) for part, answers in parts.items()}


def _summarize_part(part: str, records: Sequence[Record], solved: Solved) -> PartSummary:
    kinds = {(r.task, r.version, r.split, r.protocol, r.model, r.step) for r in records}
    if len(kinds) > 1:
        raise ValueError(
            f"part {part}: got records of {len(kinds)} kinds: {sorted(kinds, key=str)}; allowed: one task, version, "
            "split, protocol, model and step; summarize each kind by itself"
        )
    repeated = [key for key, times in Counter((r.key, r.sample) for r in records).items() if times > 1]
    if repeated:
        raise ValueError(f"part {part}: got {repeated[0]} more than once; each answer counts once: drop the copies")
    task = TASKS[records[0].task]
    return PartSummary(
        part=part,
        task=task.name,
        primary=task.primary,
        n=len(records),
        puzzles=len({r.key for r in records}),
        sums={entry: sum(r.scores[entry] for r in records if entry in r.scores) for entry in task.entries},
        counts={entry: sum(entry in r.scores for r in records) for entry in task.entries},
        invalid_reasons=dict(Counter(r.invalid for r in records if r.invalid is not None).most_common()),
        truncated=sum(r.finish_reason == "length" for r in records),
        completion_tokens=sum(r.completion_tokens for r in records),
        baselines=chance_of(task.name, (json.dumps(record.spec) for record in records))
        | {name: row for name in task.solvers if (row := _earned(name, records, solved))},
    )


def _earned(solver: str, records: Sequence[Record], solved: Solved) -> dict[str, float]:
    """Entry -> a program's mean over the puzzles of these records; empty if it has not solved them all."""
    scores = [solved.get((solver, record.key)) for record in records]
    if any(each is None for each in scores):
        return {}
    entries = dict.fromkeys(entry for each in scores if each for entry in each)
    return {entry: fmean(each[entry] for each in scores if each and entry in each) for entry in entries}


def primary_scores(summary: Summary) -> dict[str, float]:
    """{part: mean primary score}."""
    return {name: part.means[part.primary] for name, part in summary.items()}


def mean_primary(summary: Summary) -> float:
    """The parts' mean primary scores, each part weighing the same: what ranks checkpoints of one run."""
    return fmean(primary_scores(summary).values())


def metrics(summary: Summary) -> dict[str, float]:
    """Flat names for logs: `4x4/pa`, `4x4/invalid`, `4x4/truncated`, `4x4/completion_tokens`, ..."""
    flat: dict[str, float] = {}
    for name, part in summary.items():
        flat |= {f"{name}/{entry}": mean for entry, mean in part.means.items()}
        flat[f"{name}/invalid"] = part.invalid / part.n
        flat[f"{name}/truncated"] = part.truncated / part.n
        flat[f"{name}/completion_tokens"] = part.completion_tokens / part.n
    return flat


def table(summary: Summary) -> str:
    """The summary for a terminal: per task one table, per part one line for the model and one for each baseline.

    Scores and shares are percentages; an entry that does not apply is "-". Reasons of invalid answers follow below.
    """
    blocks = []
    for task in dict.fromkeys(part.task for part in summary.values()):
        parts = [part for part in summary.values() if part.task == task]
        entries = [e for e in TASKS[task].entries if any(part.counts[e] for part in parts)]
        primary = parts[0].primary
        entries.sort(key=lambda entry: entry != primary)
        counts = ["n", "puzzles"] if any(part.n != part.puzzles for part in parts) else ["n"]
        names = (*counts, *entries, "invalid", "truncated", "tokens")
        # names of two words take two lines, so that all of JigShape's columns fit 120 characters
        words = [("", "", task)] + [name.partition("_") for name in names]
        header = [[upper if lower else "" for upper, _, lower in words], [lower or upper for upper, _, lower in words]]
        rows = [line for line in header if any(line)] + _rows(parts, counts, entries)
        blocks.append("\n".join([aligned(rows), *_reasons(parts)]))
    return "\n\n".join(blocks)


def _rows(parts: Sequence[PartSummary], counts: Sequence[str], entries: Sequence[str]) -> list[list[str]]:
    rows = []
    for part in parts:
        shares = [_percent(part.invalid / part.n), _percent(part.truncated / part.n)]
        scores = [_percent(part.means.get(entry)) for entry in entries]
        counted = [str(part.n), str(part.puzzles)][: len(counts)]
        rows.append([part.part, *counted, *scores, *shares, f"{part.completion_tokens / part.n:.0f}"])
        for guesser, expected in part.baselines.items():
            scores = [_percent(expected.get(entry)) for entry in entries]
            rows.append([f"  {guesser}", *[""] * len(counts), *scores, "", "", ""])
    return rows


def _reasons(parts: Sequence[PartSummary]) -> list[str]:
    return [
        f"{part.part} invalid: " + ", ".join(f"{reason} {count}" for reason, count in part.invalid_reasons.items())
        for part in parts
        if part.invalid
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else percent(share)


def check_require(summary: Summary, require: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What the final summary misses of `eval.require` ({part: {entry: least mean}}), one line each; [] if nothing."""
    missed = []
    for name, entries in require.items():
        part = summary.get(name)
        for entry, least in entries.items():
            where = f"eval.require.{name}.{entry}"
            if part is None:
                missed.append(
                    f"{where}: got no evaluation of part {name}; evaluated: {', '.join(summary) or 'nothing'}"
                )
            elif entry not in part.means:
                missed.append(f"{where}: got no score entry {entry}; part {name} has: {', '.join(part.means)}")
            elif part.means[entry] < least:
                missed.append(
                    f"{where}: got {part.means[entry]:.4f} over {part.puzzles} puzzles; required: at least {least:g}"
                )
    return missed
