"""What several answers to each puzzle come to, and their vote as records of its own.

    python -m eval_hooks.votes records=runs/mixed_grid/records/FILE.jsonl [out=FILE.jsonl]

Told are for each part the mean over all answers, the vote, pass@k and how far answers differ. The records of the vote
are of protocol "<protocol> vote of <k>", and tables, reports and leaderboards take them like any others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_hooks.record_parts import giver_of, read_parts
from eval_hooks.records import write_records
from eval_hooks.run_records import one_line
from eval_hooks.several import by_part, table
from recipes.command import CommandLine, run_command
from recipes.fields import problem, shown

USAGE = """\
usage: python -m eval_hooks.votes records=FILE [out=FILE]
  records     a file of scored answers, several to each puzzle (eval.protocol=sampled eval.samples=8); of one model
              and step
  out         where the votes are written; default: <name>-vote-of-<k>.jsonl beside the records"""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    records: Path
    out: Path | None


def parse_request(argv: Sequence[str]) -> Request:
    """
    Raises:
        RecipeError: every problem of the command line at once.
    """
    line = CommandLine(argv, ("records", "out"))
    records, out = Path(line.required("records", "a file of records")).expanduser(), line.text("out")
    if line.text("records") and not records.is_file():
        line.problems.append(problem("records", shown(str(records)), "a file of records", "do name one that exists"))
    if out and Path(out).expanduser().resolve() == records.resolve():
        line.problems.append(problem("out", shown(out), "another file than the records", "do leave it out"))
    line.without_recipe()
    return Request(records, Path(out).expanduser() if out else None)


def report(argv: Sequence[str]) -> str:
    """Write the votes, and say what they and the answers come to."""
    request = parse_request(argv)
    read = read_parts([request.records])
    giver = giver_of(read)
    parts = by_part([record for records in read.values() for record in records])
    step = "" if giver.step is None else f" at step {giver.step}"
    said = [
        f"{one_line(giver.model, 80)}{step} ({one_line(giver.split)} split, {one_line(giver.protocol)})",
        table(parts),
    ]
    votes = [record for part in parts for record in part.votes]
    if votes:
        out = request.out or request.records.with_name(f"{request.records.stem}-vote-of-{parts[0].k}.jsonl")
        write_records(out, votes)
        said.append(f"written: {len(votes)} votes to {out}")
    return "\n".join(said)


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
