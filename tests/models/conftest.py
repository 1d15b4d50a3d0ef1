"""Small models of both families. `loaded` is shared: a test that changes a model uses `build`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch

from models.load import Loaded, load_model
from recipes.schema import ImageSize, Model, Scratch

MODELS = {
    "qwen3_vl": Model(
        name="small_qwen3_vl",
        family="qwen3_vl",
        scratch=Scratch(),
        image=ImageSize(min_px=1024, max_px=128 * 128),
        max_tokens=2048,
    ),
    "gemma3": Model(
        name="small_gemma3", family="gemma3", scratch=Scratch(), image=ImageSize(side_px=112), max_tokens=2048
    ),
}


def _build(model: Model, seed: int = 0, dtype: torch.dtype = torch.float32) -> Loaded:
    return load_model(model, seed=seed, dtype=dtype)


@cache
def _shared(family: str) -> Loaded:
    return _build(MODELS[family])


def _conversation(*texts_and_images: str | None, system: str | None = "You solve puzzles.") -> list[dict]:
    parts = [{"type": "image"} if text is None else {"type": "text", "text": text} for text in texts_and_images]
    start = [{"role": "system", "content": [{"type": "text", "text": system}]}] if system else []
    return [*start, {"role": "user", "content": parts}]


def _picture(width: int, height: int, seed: int = 0) -> np.ndarray:
    pixels = torch.randint(0, 256, (height, width, 3), generator=torch.Generator().manual_seed(seed))
    return pixels.to(torch.uint8).numpy()


@pytest.fixture(scope="session", params=sorted(MODELS))
def model(request: pytest.FixtureRequest) -> Model:
    """The recipe section of a small model, of each family in turn."""
    return MODELS[request.param]


@pytest.fixture(scope="session")
def loaded(model: Model) -> Loaded:
    """The shared model of that section: do not change it."""
    return _shared(model.family)


@pytest.fixture(scope="session")
def qwen() -> Loaded:
    """The shared Qwen3-VL: do not change it."""
    return _shared("qwen3_vl")


@pytest.fixture(scope="session")
def gemma() -> Loaded:
    """The shared Gemma3: do not change it."""
    return _shared("gemma3")


@pytest.fixture(scope="session")
def build() -> Callable[..., Loaded]:
    """`build(model, seed=0, dtype=torch.float32)`: a model of one's own."""
    return _build


@pytest.fixture(scope="session")
def conversation() -> Callable[..., list[dict]]:
    """`conversation("text", None, "text")`: a user turn of texts and, for None, images, after a system turn."""
    return _conversation


@pytest.fixture(scope="session")
def picture() -> Callable[..., np.ndarray]:
    """`picture(width, height, seed=0)`: coloured noise."""
    return _picture


@pytest.fixture
def prompts(conversation: Callable[..., list[dict]], picture: Callable[..., np.ndarray]) -> list[tuple]:
    """(messages, images) of one image, of two, and of none."""
    return [
        (conversation("Solve", None, "now."), [picture(64, 64, 1)]),
        (
            conversation("A longer prompt, two images: ", None, " and ", None),
            [picture(96, 40), picture(33, 70)],
        ),
        (conversation("No image at all."), []),
    ]
