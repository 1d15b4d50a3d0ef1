"""A cache of decoded and resized photos, bounded in bytes, one per process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

Value = TypeVar("Value")


class PixelCache:
    """Least recently used entries go first. Not for use from several threads."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self.num_bytes = 0

    def get(self, key: Hashable, make: Callable[[], Value], size_of: Callable[[Value], int], limit_bytes: int) -> Value:
        """The value kept under `key`, else `make()`, which is kept while everything fits into `limit_bytes`."""
        if key in self._entries:
            self._entries.move_to_end(key)
            return self._entries[key][0]  # type: ignore[return-value]
        value = make()
        size = size_of(value)
        if size <= limit_bytes:
            self._entries[key] = (value, size)
            self.num_bytes += size
            while self.num_bytes > limit_bytes:
                _, (_, dropped) = self._entries.popitem(last=False)
                self.num_bytes -= dropped
        return value

    def clear(self) -> None:
        self._entries.clear()
        self.num_bytes = 0


PIXELS = PixelCache()
"""This process's cache; never sent to another."""
