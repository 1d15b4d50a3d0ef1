"""Photos made in the test, from fixed streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

from data_mix.photos import PhotoSet, find_photos
from data_mix.pixel_cache import PIXELS
from data_mix.streams import stream
from recipes.schema import Photos


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    PIXELS.clear()


@pytest.fixture(autouse=True)
def datasets_are_cached_in_the_tests_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "datasets_cache"))
    datasets.disable_progress_bars()


@pytest.fixture
def scene() -> Callable[..., Image.Image]:
    """scene(number, width, height): a picture of its own per number, smooth enough to be compressed and resized."""

    def draw(number: int, width: int = 96, height: int = 80) -> Image.Image:
        colors = stream("scene", number).integers(0, 256, (12, 12, 3), dtype=np.uint8)
        return Image.fromarray(colors).resize((width, height), Image.Resampling.BICUBIC)

    return draw


@pytest.fixture
def folder_of(tmp_path: Path, scene: Callable[..., Image.Image]) -> Callable[..., Path]:
    """folder_of(count, name, width, height): a folder with that many photos."""

    def make(count: int, name: str = "photos", width: int = 96, height: int = 80, first: int = 0) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for number in range(first, first + count):
            scene(number, width, height).save(folder / f"{number:03}.png")
        return folder

    return make


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., PhotoSet]:
    """found(folder, **fields): the photos there, with an index in the test's folder."""

    def find(folder: Path | list[Path], **given: object) -> PhotoSet:
        folders = [str(each) for each in folder] if isinstance(folder, list) else str(folder)
        return find_photos(Photos.model_validate({"folder": folders, "index": str(tmp_path / "index.jsonl"), **given}))

    return find
