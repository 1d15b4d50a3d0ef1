"""Images inside of a page, as data: URLs."""

from __future__ import annotations

import base64
import io
from itertools import product

from PIL import Image

_SCALES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
_QUALITIES = (80, 50)


def lossless(image: Image.Image) -> str:
    """The very pixels."""
    return _url(_webp(image, lossless=True, method=2))


def lossy(image: Image.Image, most_bytes: int) -> str:
    """Of at most so many bytes: as large and as good as that allows, or as small as it goes."""
    content = b""
    for scale, quality in product(_SCALES, _QUALITIES):
        width, height = (max(1, round(side * scale)) for side in image.size)
        scaled = image if scale == 1 else image.resize((width, height), Image.Resampling.LANCZOS)
        content = _webp(scaled, quality=quality)
        if len(content) <= most_bytes:
            break
    return _url(content)


def _webp(image: Image.Image, **how: int) -> bytes:
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "WEBP", **how)
    return buffer.getvalue()


def _url(content: bytes) -> str:
    return f"data:image/webp;base64,{base64.b64encode(content).decode()}"
