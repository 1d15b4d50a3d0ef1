"""Which photos show the same picture, resized, recompressed or in another container."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

HASH_BITS = 128
MAX_DISTANCE = 10
"""Bits in which the hashes of one picture's copies may differ."""
_MIN_CONTRAST = 2.0
_CHUNK = 128


def picture_hash(image: Image.Image) -> str | None:
    """A 128-bit difference hash (64 bits of left-right, 64 of up-down gradients over 9x9 cells) as 32 hex digits.

    None for a picture with so little contrast that its gradients are noise: it resembles nothing but itself.
    """
    grey = image.convert("L").resize((72, 72), Image.Resampling.BOX)
    cells = np.asarray(grey, dtype=np.float64).reshape(9, 8, 9, 8).mean(axis=(1, 3))  # (9, 9)
    across = np.diff(cells, axis=1)[:8]  # (8, 8)
    down = np.diff(cells, axis=0)[:, :8]  # (8, 8)
    steps = np.concatenate([across.ravel(), down.ravel()])
    if np.mean(np.abs(steps)) < _MIN_CONTRAST:
        return None
    return np.packbits(steps > 0).tobytes().hex()


def near_pairs(some: Sequence[str], all_: Sequence[str]) -> Iterator[tuple[int, int]]:
    """(i, j) with some[i] and all_[j] at most MAX_DISTANCE bits apart; hashes as picture_hash gives them."""
    if not some or not all_:
        return
    left, right = _words(some), _words(all_)
    for start in range(0, len(left), _CHUNK):
        block = left[start : start + _CHUNK]
        distance = sum(np.bitwise_count(block[:, None, word] ^ right[None, :, word]) for word in (0, 1))  # (chunk, n)
        for i, j in np.argwhere(distance <= MAX_DISTANCE):
            yield start + int(i), int(j)


def _words(hashes: Sequence[str]) -> np.ndarray:
    return np.frombuffer(bytes.fromhex("".join(hashes)), dtype=np.uint64).reshape(-1, HASH_BITS // 64)  # (n, 2)
