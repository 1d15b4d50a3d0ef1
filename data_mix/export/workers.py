"""Processes that write shards: none outlives the one that started it, whatever ends that."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from data_mix.export.plan import Shard
from data_mix.export.rows import write_shard
from data_mix.mixture import Mixture

_mixture: Mixture
"""The worker's own; its photos' pixels are cached once per process."""


def write_shards(mixture: Mixture, folder: Path, shards: Sequence[Shard], num_workers: int) -> Iterator[Shard]:
    """Write these shards below `folder`, and give each when it is done.

    Raises:
        BadPhoto: a photo that is gone or was changed since it was checked.
        ValueError: a worker was ended from outside.
    """
    if not shards:
        return
    # Spawned: the libraries' threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(num_workers, len(shards)), context, _start, (mixture,))
    over = False
    try:
        # Ignored signals are inherited: Ctrl-C is for this process to handle.
        heeded = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            asked = {pool.submit(_write, shard, folder): shard for shard in shards}
        finally:
            signal.signal(signal.SIGINT, heeded)
        for future in as_completed(asked):
            future.result()
            yield asked[future]
        over = True
    except BrokenProcessPool:
        raise ValueError(
            "got a worker that was ended from outside, probably for its memory; allowed: as many as fit; do lower "
            "workers or data.photos.cache_mb, and run the command again: it continues"
        ) from None
    finally:
        for worker in () if over else multiprocessing.active_children():
            worker.terminate()
        pool.shutdown(cancel_futures=True)


def _start(mixture: Mixture) -> None:
    global _mixture
    _mixture = mixture
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _write(shard: Shard, folder: Path) -> None:
    write_shard(_mixture, range(shard.start, shard.stop), folder / shard.file)
