"""Records on disk as they come: each process appends to a file of its own, and at the end they are one file."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from eval_hooks.records import Record, append_records, read_records, to_line, write_records
from recipes.fields import problem


class Journal:
    """The records of one evaluation that may be stopped at any moment.

    Beside the records stands <name>.source.json: what is asked, apart from its name.
    """

    def __init__(self, out: Path, rank: int, source: Mapping[str, str] | None = None) -> None:
        """
        Args:
            out: the file that holds all records in the end.
            source: see `eval_hooks.source`.
        """
        self.out = out
        self._source = dict(source or {})
        self._kept = out.with_name(f"{out.stem}.source.json")
        self._rank = rank
        self._parts = out.with_name(f"{out.name}.parts")
        self._own = self._parts / f"rank-{rank}.jsonl"

    def read(self) -> list[Record]:
        """What earlier calls wrote, in no order; each answer once.

        Raises:
            ValueError: these are answers of another source.
        """
        files = [self.out] if self.out.is_file() else []
        files += sorted(self._parts.glob("rank-*.jsonl")) if self._parts.is_dir() else []
        records = {(one.key, one.sample): one for file in files for one in read_records(file).records}
        if records and self._source and self._kept.is_file():
            kept = json.loads(self._kept.read_text(encoding="utf-8"))
            if kept != self._source:
                got = f"{self.out} with answers of {kept}"
                advice = "do choose another out=..., or remove the file if that one is no more"
                raise ValueError(problem("out", got, f"those of {self._source}", advice))
        return list(records.values())

    def __enter__(self) -> Journal:
        """Make this process's file ready; what an interrupted line left in it is cut off.

        Raises:
            ValueError: another call is writing to it.
        """
        self._parts.mkdir(parents=True, exist_ok=True)
        self._lock = (self._parts / f"rank-{self._rank}.lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            got = f"{self.out}, which another call is writing to"
            raise ValueError(problem("out", got, "one call at a time", "do wait for it, or choose another")) from None
        append_records(self._own, [])
        if self._source and self._rank == 0:
            self._kept.write_text(json.dumps(self._source, indent=2) + "\n", encoding="utf-8")
        self._file = self._own.open("a", encoding="ascii", newline="\n")
        return self

    def add(self, records: Iterable[Record]) -> None:
        self._file.writelines(map(to_line, records))
        self._file.flush()

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._lock.close()

    def gather(self, order: dict[tuple[str, int], int]) -> list[Record]:
        """Make one file of all; one process calls this, when every other one has closed its own.

        Args:
            order: (key, sample) -> place.
        """
        records = sorted(self.read(), key=lambda record: order[record.key, record.sample])
        if records:
            write_records(self.out, records)
        else:
            self._kept.unlink(missing_ok=True)
        if self._parts.is_dir():
            shutil.rmtree(self._parts)
        return records
