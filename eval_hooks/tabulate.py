"""Records as one flat table, for pandas and `datasets`.

    python -m eval_hooks.tabulate records=runs/mixed_grid out=answers.parquet

A column for each field of a record and for each score entry (scores.pa); nested fields are JSON text. Characters that a
table cannot hold, or a person not see, are written as escapes: the raw text stays in the records.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from eval_hooks.leaderboard_text import no_formula
from eval_hooks.records import Record, printable, read_records
from eval_hooks.run_records import one_line
from recipes.command import CommandLine, run_command
from recipes.fields import problem, shown

USAGE = """\
usage: python -m eval_hooks.tabulate records=FILE_OR_DIR out=FILE
  records     a file of scored answers; or a folder: its own *.jsonl, and records/*.jsonl of all run folders in it
  out         the table, FILE.parquet or FILE.csv"""

_NESTED = ("spec", "target", "answer")
_NUMBERS = {"seed": pyarrow.uint64(), "seconds": pyarrow.float64()} | dict.fromkeys(
    ("version", "index", "completion_tokens", "sample", "step"), pyarrow.int64()
)


def tabulate(files: Sequence[tuple[str, Sequence[Record]]]) -> pyarrow.Table:
    """One row for each record, in their order.

    Args:
        files: (name, records); the name is the column `file`, as one answer may be in several.

    Raises:
        ValueError: a number that no column holds.
    """
    rows = [(name, record) for name, records in files for record in records]
    columns: dict[str, pyarrow.Array] = {"file": pyarrow.array([printable(name) for name, _ in rows], pyarrow.string())}
    for field in (field.name for field in dataclasses.fields(Record)):
        values = [getattr(record, field) for _, record in rows]
        if field == "scores":
            for entry in dict.fromkeys(entry for scores in values for entry in scores):
                name, scored = f"scores.{printable(entry)}", [scores.get(entry) for scores in values]
                columns[name] = _column(name, scored, pyarrow.float64())
        elif field in _NUMBERS:
            columns[field] = _column(field, values, _NUMBERS[field])
        else:
            as_text: Callable[[Any], str] = json.dumps if field in _NESTED else printable
            texts = [None if value is None else as_text(value) for value in values]
            columns[field] = pyarrow.array(texts, pyarrow.string())
    return pyarrow.table(columns)


def _column(name: str, values: Sequence[float | None], kind: pyarrow.DataType) -> pyarrow.Array:
    try:
        return pyarrow.array(values, kind)
    except (OverflowError, pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        raise ValueError(
            problem(name, f"a value that is no {kind}: {error}", f"numbers of {kind}", "do mend it")
        ) from error


def table_csv(table: pyarrow.Table) -> str:
    """The table as CSV, empty where there is no value; a text that a spreadsheet would take for a formula gets a '."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        writer.writerow([no_formula(value) if isinstance(value, str) else value for value in row])
    return file.getvalue()


def files_of(place: Path) -> list[Path]:
    """
    Raises:
        ValueError: there is no file of records.
    """
    found = [place] if place.is_file() else sorted({*place.glob("*.jsonl"), *place.rglob("records/*.jsonl")})
    if not found:
        got = f"{shown(str(place))}, which is no file and holds none"
        raise ValueError(problem("records", got, "a file of records, or a folder of such", "do name one that exists"))
    return found


def read_files(place: Path) -> tuple[list[tuple[str, list[Record]]], list[str]]:
    """(name, records) of each file, and why others cannot be read.

    Raises:
        ValueError: there is no file that can be read.
    """
    files, damaged = [], []
    for path in files_of(place):
        try:
            files.append((str(path.relative_to(place) if path != place else path), read_records(path).records))
        except (ValueError, OSError) as error:
            damaged.append(one_line(str(error), 300))
    if not files:
        raise ValueError("; ".join(damaged[:3]))
    return files, damaged


def report(argv: Sequence[str]) -> tuple[str, bool]:
    """Write the table, and say where it is; and whether all files are in it."""
    line = CommandLine(argv, ("records", "out"))
    place = Path(line.required("records", "a file or folder of records")).expanduser()
    out = Path(line.required("out", "a file to write")).expanduser()
    if line.text("out") and out.suffix not in (".parquet", ".csv"):
        line.problems.append(problem("out", shown(str(out)), "FILE.parquet or FILE.csv", "do name such a file"))
    line.without_recipe()
    files, damaged = read_files(place)
    table = tabulate(files)
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{out.name}.partial")
    try:
        if out.suffix == ".csv":
            aside.write_text(table_csv(table), encoding="utf-8", newline="")
        else:
            pyarrow.parquet.write_table(table, aside)
        aside.replace(out)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    said = [f"left out: {reason}" for reason in damaged]
    said.append(f"table: {out} ({table.num_rows:,} answers of {len(files)} files, {table.num_columns} columns)")
    return "\n".join(said), not damaged


def main(argv: Sequence[str]) -> int:
    return run_command(argv, USAGE, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
