"""Work that processes share: none of them outlives the one that started it, whatever ends that."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

_shared: Any
"""The worker's own copy; photos' pixels are cached once per process."""


def in_processes(
    work: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item], num_workers: int
) -> Iterator[tuple[Item, Result]]:
    """`work(shared, item)` for every item, in several processes, each as soon as it is done.

    Args:
        work: a function of a module, which the processes import.
        shared: sent to each process once.

    Raises:
        ValueError: a worker was ended from outside.
        Whatever `work` raises; what is not yet begun is then left.
    """
    if not items:
        return
    # Spawned: the libraries' threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(num_workers, len(items)), context, _start, (shared,))
    over = False
    try:
        # Ignored signals are inherited: Ctrl-C is for this process to handle.
        heeded = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            asked = {pool.submit(_work, work, item): item for item in items}
        finally:
            signal.signal(signal.SIGINT, heeded)
        for future in as_completed(asked):
            yield asked[future], future.result()
        over = True
    except BrokenProcessPool:
        raise ValueError(
            "got a worker that was ended from outside, probably for its memory; allowed: as many as fit; do lower "
            "workers or data.photos.cache_mb, and run the command again"
        ) from None
    finally:
        for worker in () if over else multiprocessing.active_children():
            worker.terminate()
        pool.shutdown(cancel_futures=True)


def _start(shared: object) -> None:
    global _shared
    _shared = shared
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(work: Callable[[Any, Item], Result], item: Item) -> Result:
    return work(_shared, item)
