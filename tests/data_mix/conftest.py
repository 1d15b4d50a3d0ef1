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


GRID = "{task: jigshape, spec: {grid: 2, piece_px: 16}, count: 7}"
PROBE = "{task: probes, spec: {grid: 3, cell_px: 16}, count: 6}"
PLAIN = "{task: jigshape, spec: {grid: 2, piece_px: 16, shape: false}, count: 5, paired_with: 2x2}"


@pytest.fixture
def asked(folder_of, tmp_path, monkeypatch) -> Callable[..., list[str]]:
    """asked(*tokens): a command line for 18 rows in 3 parts, small photos, everything in the test's folder."""
    monkeypatch.chdir(tmp_path)
    folder = folder_of(30)
    return lambda *tokens: [
        "recipe=quickstart", f"data.photos.folder={folder}", f"data.photos.index={tmp_path / 'index.jsonl'}",
        "data.photos.use=distinct", "eval.require=null", "data.parts.2x2=null", f"data.parts={{2x2: {GRID}}}",
        f"data.parts.probe={PROBE}", f"data.parts.plain={PLAIN}", *tokens,
    ]  # fmt: skip
