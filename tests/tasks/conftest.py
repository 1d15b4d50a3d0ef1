"""Photos made of arithmetic, so that their bytes are the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tasks.photo import ImagePhoto


def pattern(width: int, height: int) -> ImagePhoto:
    """A photo without two equal regions: ramps whose periods share no divisor."""
    y, x = np.mgrid[:height, :width]
    bands = [(3 * x + 5 * y + x * y // 7) % 251, (7 * x + 2 * y + x * x // 11) % 241, (x + 11 * y + y * y // 13) % 239]
    return ImagePhoto(Image.fromarray(np.stack(bands, axis=-1).astype(np.uint8)))


@pytest.fixture(scope="session")
def make_photo():
    return pattern
