"""From an image file of any kind to upright 8-bit RGB, or to the reason why not.

The content decides what a file is, never its name. What is done to each kind is listed in docs/photos.md.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, ImageChops, ImageCms, UnidentifiedImageError
from PIL.ExifTags import Base as ExifTag

Ground = tuple[int, int, int]

FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""What is tried. Pillow knows more, but some of it starts programs (EPS) or takes text for an image (XPM)."""

MAX_PIXELS = 178_956_970
"""Largest photo. Where Pillow itself refuses: 0.7 GiB decoded, and cameras' largest files (151 MP) still pass."""

_TRANSPOSE = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> what sets the picture upright; any other value leaves it as it is."""

_SRGB_NAMES = {"sRGB", "sRGB built-in", "sRGB IEC61966-2.1"}
"""Profiles that need no conversion. Others with sRGB in their name exist that are linear."""

_BROKEN = (
    OSError, SyntaxError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, EOFError,
    MemoryError, RuntimeError, struct.error, zlib.error, Image.DecompressionBombError, ImageCms.PyCMSError,
)  # fmt: skip
"""What Pillow raises for malformed files; there is no common base below Exception."""


class BadPhoto(ValueError):  # noqa: N818
    """A file that is no usable photo; `reason` says why, without the file's name."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Pillow's warnings about odd files are ignored inside. Enter it once around threads that decode."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def photo_size(path: str | Path) -> tuple[int, int]:
    """Upright (width, height) in px, from the file's header alone.

    A PNG may carry its orientation behind the pixels, where only decoding finds it.

    Raises:
        BadPhoto: no image, a broken header, or more than MAX_PIXELS.
    """
    return _upright_size(path, str(path))


def encoded_size(file: IO[bytes], *, name: str) -> tuple[int, int]:
    """Like photo_size, from an open file; `name` is for the error."""
    return _upright_size(file, name)


def _upright_size(source: str | Path | IO[bytes], name: str) -> tuple[int, int]:
    with _opened(source, name) as image:
        width, height = image.size
        # Pillow has already turned the size of a TIFF.
        turned = image.format != "TIFF" and _orientation(image) >= 5
        return (height, width) if turned else (width, height)


def load_rgb(path: str | Path, ground: Ground) -> Image.Image:
    """The photo, upright, as RGB; transparent parts over `ground`; of several frames or pages the first.

    Raises:
        BadPhoto: the file cannot be read to its end, or has more than MAX_PIXELS.
    """
    photo_size(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise BadPhoto(str(path), _reason(error)) from error
    return decode_rgb(content, ground, name=str(path))


def decode_rgb(content: bytes, ground: Ground, *, name: str) -> Image.Image:
    """Like load_rgb, from a file's bytes; `name` is for the error."""
    with _opened(BytesIO(content), name) as image:
        _scale_transparent_color(image)
        image.load()
        orientation = _orientation(image)  # for a TIFF Pillow has applied and removed it by now
        rgb = to_rgb(image, ground)
        return rgb if orientation == 1 else rgb.transpose(_TRANSPOSE[orientation])


def to_rgb(image: Image.Image, ground: Ground = (255, 255, 255)) -> Image.Image:
    """Any Pillow mode as 8-bit RGB in sRGB, transparent parts laid over `ground`. Orientation is left alone.

    16-bit grey is scaled by 255/65535. Whole numbers of 32 bits are taken as 16-bit values; floats as 0..1, 0..255 or
    0..65535, the first that holds them. An embedded profile that fits the mode is followed, a broken one ignored.

    Raises:
        ValueError: numbers outside those ranges: nothing says which is white.
    """
    opaque, alpha = _without_alpha(image)
    rgb = _by_profile(opaque, image.info.get("icc_profile")) or _with_ink_polarity(opaque).convert("RGB")
    if alpha is None:
        return rgb
    laid = Image.new("RGB", rgb.size, ground)
    laid.paste(rgb, mask=alpha)
    return laid


@contextmanager
def _opened(source: str | Path | IO[bytes], name: str) -> Iterator[Image.Image]:
    """The image with only its header read; whatever goes wrong inside comes out as BadPhoto."""
    try:
        with quiet_pillow(), Image.open(source, formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                # Pillow's own limit can be switched off by any library.
                raise BadPhoto(name, f"image size ({width * height} pixels) exceeds limit of {MAX_PIXELS} pixels")
            yield image
    except BadPhoto:
        raise
    except _BROKEN as error:
        raise BadPhoto(name, _reason(error)) from error


def is_one_color(rgb: Image.Image) -> bool:
    """Whether all pixels are equal, so that no puzzle can be cut from the picture."""
    return all(low == high for low, high in (band.getextrema() for band in rgb.split()))


def _reason(error: BaseException) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"no image of a known kind ({', '.join(FORMATS)})"
    if isinstance(error, Image.DecompressionBombError):
        return str(error).partition(",")[0].lower()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"cannot be decoded: {error or type(error).__name__}"


def _orientation(image: Image.Image) -> int:
    """EXIF orientation 1..8; 1 for none, an illegal one or unreadable EXIF."""
    try:
        # The PNG reader's own getexif would decode the pixels first.
        value = Image.Image.getexif(image).get(ExifTag.Orientation)
    except _BROKEN:
        return 1
    return value if isinstance(value, int) and value in _TRANSPOSE else 1


def _scale_transparent_color(image: Image.Image) -> None:
    """Bring a PNG's transparent colour from the file's bit depth to that of Pillow's pixels; before loading."""
    key = image.info.get("transparency")
    tiles = getattr(image, "tile", [])
    if image.format != "PNG" or not tiles or not isinstance(key, int | tuple):
        return
    raw_mode = tiles[0][3]
    if isinstance(key, tuple):
        if raw_mode == "RGB;16B":
            image.info["transparency"] = tuple(value >> 8 for value in key)
    else:
        image.info["transparency"] = key * {"L;2": 85, "L;4": 17}.get(raw_mode, 1)


def _without_alpha(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """The image without transparency, at 8 bits per channel, and its alpha (mode L), None if opaque."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        values = np.asarray(image)  # (H, W)
        key = image.info.get("transparency")
        alpha = Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8)) if isinstance(key, int) else None
        return _deep_grey(image, values), alpha
    if not image.has_transparency_data:
        return image, None
    rgba = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
    return rgba.convert("RGB"), rgba.getchannel("A")


def _deep_grey(image: Image.Image, values: np.ndarray) -> Image.Image:
    """Grey of more than 8 bits as mode L."""
    low, high = float(values.min()), float(values.max())
    whites = (1.0, 255.0, 65535.0) if image.mode == "F" else (65535.0,)
    white = next((white for white in whites if high <= white), None)
    if white is None or not (low >= 0 and high <= white):  # also refuses NaN
        raise ValueError(f"numbers from {low:g} to {high:g}, of which nothing says what is white")
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(258, (16,))[0]
    if image.mode.startswith("I;16") and bits < 16:
        white = float(2**bits - 1)
    scaled = np.rint(values.astype(np.float32) * np.float32(255 / white)).clip(0, 255).astype(np.uint8)
    white_is_zero = image.mode.startswith("I;16") and tags.get(262) == 0
    return Image.fromarray(255 - scaled if white_is_zero else scaled)


def _with_ink_polarity(image: Image.Image) -> Image.Image:
    """Pillow inverts every CMYK JPEG; right only where Adobe's marker stands."""
    if image.mode == "CMYK" and image.format in ("JPEG", "MPO") and "adobe" not in image.info:
        return ImageChops.invert(image)
    return image


def _by_profile(image: Image.Image, icc: bytes | None) -> Image.Image | None:
    """sRGB by the embedded profile; None where there is none to follow."""
    if not icc:
        return None
    try:
        profile = ImageCms.ImageCmsProfile(BytesIO(icc))
        space = profile.profile.xcolor_space.strip()
        if space == "GRAY" and image.mode in ("1", "L", "RGB"):
            # 16-bit grey with alpha reaches us as RGB of three equal channels.
            image = image.getchannel(0) if image.mode == "RGB" else image.convert("L")
        elif space == "RGB" and image.mode in ("RGB", "P"):
            if (profile.profile.profile_description or "").strip() in _SRGB_NAMES:
                return None
            image = image.convert("RGB")
        elif space == "CMYK" and image.mode == "CMYK":
            image = _with_ink_polarity(image)
        else:
            return None
        return ImageCms.profileToProfile(image, profile, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except _BROKEN:
        return None
