"""Perturbations: the same puzzle, harder to see. All are off by default; the spec records which are on."""

from __future__ import annotations

from io import BytesIO
from typing import Annotated

import numpy as np
from PIL import Image
from pydantic import Field

from tasks.contract import Spec as BaseSpec

_BAR = 128
"""Grey of an occlusion bar."""


class Perturbations(BaseSpec):
    """The fields of a spec that change how a puzzle looks, never what its answer is."""

    greyscale: bool = False
    """Photo in grey (ITU-R 601 luma)."""
    brightness: Annotated[float, Field(gt=0, le=4)] = 1.0
    """Factor on the photo's values, clipped at 255; below 1 the ground stands out more, which small models need."""
    mirrored: bool = False
    """Photo mirrored left to right before it is cut."""
    noise: Annotated[float, Field(ge=0, le=128)] = 0.0
    """Standard deviation of normal noise on every value of the image, grey levels."""
    bars: Annotated[int, Field(ge=0, le=64)] = 0
    """Grey bars across the sheet, horizontal and vertical in turn; labels are printed over them."""
    bar_px: Annotated[int, Field(ge=1, le=256)] = 8
    """Width of a bar, px."""
    jpeg_quality: Annotated[int, Field(ge=1, le=95)] | None = None
    """Quality of a JPEG that the image goes through; None: none."""


def perturb_photo(spec: Perturbations, pixels: np.ndarray) -> np.ndarray:
    """What is done to the photo before it is cut. uint8 (H, W, 3) in and out; the input is left as it is."""
    if spec.mirrored:
        pixels = np.ascontiguousarray(pixels[:, ::-1])
    if spec.greyscale:
        pixels = np.asarray(Image.fromarray(pixels).convert("L").convert("RGB"))
    if spec.brightness != 1:
        pixels = np.rint(np.arange(256) * spec.brightness).clip(0, 255).astype(np.uint8)[pixels]
    return pixels


def perturb_sheet(spec: Perturbations, rng: np.random.Generator, sheet: np.ndarray, ink: np.ndarray) -> np.ndarray:
    """Noise and bars on a drawn sheet.

    Args:
        rng: the only source of chance.
        sheet: uint8 (H, W, 3); may be written into.
        ink: bool (H, W), where labels are.
    """
    if spec.bars:
        height, width, _ = sheet.shape
        labels = sheet[ink]
        for bar in range(spec.bars):
            start = int(rng.integers((width if bar % 2 else height) - spec.bar_px + 1))
            if bar % 2:
                sheet[:, start : start + spec.bar_px] = _BAR
            else:
                sheet[start : start + spec.bar_px] = _BAR
        sheet[ink] = labels
    if spec.noise:
        noise = rng.standard_normal(sheet.shape, np.float32) * np.float32(spec.noise)
        sheet = np.rint(sheet + noise).clip(0, 255).astype(np.uint8)
    return sheet


def perturb_image(spec: Perturbations, image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """What is done to each image that the model sees: scaled to `size` (width, height), then through JPEG."""
    if image.shape[1::-1] != size:
        image = np.array(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS))
    if spec.jpeg_quality is not None:
        coded = BytesIO()
        Image.fromarray(image).save(coded, "JPEG", quality=spec.jpeg_quality)
        image = np.array(Image.open(coded, formats=("JPEG",)))
    return image
