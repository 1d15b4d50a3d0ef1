"""Records on disk as they come: each process appends to a file of its own, and at the end they are one file."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from eval_hooks.records import Record, append_records, read_records, to_line, write_records


class Journal:
    """The records of one evaluation that may be stopped at any moment."""

    def __init__(self, out: Path, rank: int) -> None:
        """
        Args:
            out: the file that holds all records in the end.
        """
        self.out = out
        self._parts = out.with_name(f"{out.name}.parts")
        self._own = self._parts / f"rank-{rank}.jsonl"

    def read(self) -> list[Record]:
        """What earlier calls wrote, in no order; each answer once."""
        files = [self.out] if self.out.is_file() else []
        files += sorted(self._parts.glob("rank-*.jsonl")) if self._parts.is_dir() else []
        return list({(one.key, one.sample): one for file in files for one in read_records(file).records}.values())

    def __enter__(self) -> Journal:
        """Make this process's file ready; what an interrupted line left in it is cut off."""
        append_records(self._own, [])
        self._file = self._own.open("a", encoding="ascii", newline="\n")
        return self

    def add(self, records: Iterable[Record]) -> None:
        self._file.writelines(map(to_line, records))
        self._file.flush()

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def gather(self, order: dict[tuple[str, int], int]) -> list[Record]:
        """Make one file of all; one process calls this, when every other one has closed its own.

        Args:
            order: (key, sample) -> place.
        """
        records = sorted(self.read(), key=lambda record: order[record.key, record.sample])
        if records:
            write_records(self.out, records)
        shutil.rmtree(self._parts)
        return records
