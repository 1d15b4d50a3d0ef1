"""Independent random streams by name, so that nothing depends on workers, ranks or the order of access."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def stream_seed(*names: str | int) -> int:
    """A seed in [0, 2**63) of its own for every sequence of names; "1" and 1 are different names."""
    text = json.dumps(names, ensure_ascii=True, separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def stream(*names: str | int) -> np.random.Generator:
    """A fresh generator at the start of the stream with these names."""
    return np.random.default_rng(stream_seed(*names))
