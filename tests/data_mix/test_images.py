"""Every kind of image file, made here: by Pillow, and byte by byte where Pillow writes none."""

import contextlib
import random
import struct
import warnings
import zlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from data_mix.images import MAX_PIXELS, BadPhoto, decode_rgb, is_one_color, load_rgb, photo_size, to_rgb

GROUND = (10, 200, 30)
P3_PRIMARIES = [(0.51512, 0.2412, -0.00105), (0.29198, 0.69225, 0.04189), (0.1571, 0.06657, 0.78407)]


def png(rows: bytes, width: int, height: int, depth: int, color: int, before: bytes = b"", after: bytes = b"") -> bytes:
    """A PNG of packed rows without filter bytes; `before` and `after` are chunks around the pixels."""
    stride = len(rows) // height
    raw = b"".join(b"\0" + rows[at * stride : (at + 1) * stride] for at in range(height))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + before + chunk(b"IDAT", zlib.compress(raw)) + after + chunk(b"IEND", b"")


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def tiff(pixels: np.ndarray, tags: dict[int, int]) -> bytes:
    """An uncompressed little-endian TIFF of one strip; `tags` (short values) are added to or replace the basic ones."""
    height, width = pixels.shape[:2]
    data = pixels.tobytes()
    every = {
        256: width,
        257: height,
        258: 8 * pixels.itemsize,
        259: 1,
        262: 1,
        273: 0,
        277: 1,
        278: height,
        279: len(data),
        **tags,
    }
    every[273] = 8 + 2 + 12 * len(every) + 4
    entries = b"".join(struct.pack("<HHII", tag, 4 if tag in (273, 279) else 3, 1, every[tag]) for tag in sorted(every))
    return b"II*\0" + struct.pack("<IH", 8, len(every)) + entries + b"\0\0\0\0" + data


def cmyk_jpeg(ink: tuple[int, int, int, int], marker: bytes | None) -> bytes:
    """A CMYK JPEG of one colour whose stored values are 255 - ink. `marker`: None leaves Adobe's segment out; else its
    transform byte (0: CMYK, 2: YCCK)."""
    buffer = BytesIO()
    Image.new("CMYK", (16, 16), ink).save(buffer, "JPEG", quality=100)
    content = buffer.getvalue()
    at = content.index(b"\xff\xee\x00\x0eAdobe")
    segment = b"" if marker is None else content[at : at + 15] + marker
    return content[:at] + segment + content[at + 16 :]


def icc_profile(space: bytes, primaries: list[tuple[float, float, float]], gamma: float) -> bytes:
    """A matrix (or, for GRAY, curve) profile with D50 white; primaries are the XYZ columns."""

    def fixed(*values: float) -> bytes:
        return struct.pack(f">{len(values)}i", *(round(value * 65536) for value in values))

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"
    tags = {b"wtpt": b"XYZ \0\0\0\0" + fixed(0.9642, 1.0, 0.8249)}
    if space == b"GRAY":
        tags[b"kTRC"] = curve
    for letter, column in zip(b"rgb", primaries, strict=False):
        tags[bytes([letter]) + b"XYZ"] = b"XYZ \0\0\0\0" + fixed(*column)
        tags[bytes([letter]) + b"TRC"] = curve
    table, body, at = b"", b"", 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        table += name + struct.pack(">II", at + len(body), len(data))
        body += data
    head = (
        struct.pack(">I4sI4s4s4s", 0, b"\0\0\0\0", 0x02100000, b"mntr", space, b"XYZ ")
        + bytes(12)
        + b"acsp"
        + bytes(28)
    )
    head += fixed(0.9642, 1.0, 0.8249)
    content = head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body
    return struct.pack(">I", len(content)) + content[4:]


def decoded(content: bytes) -> np.ndarray:
    return np.asarray(decode_rgb(content, GROUND, name="test"))  # (H, W, 3)


def first_pixel(content: bytes) -> tuple[int, ...]:
    return tuple(int(value) for value in decoded(content)[0, 0])


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def test_grey_of_16_bits_is_scaled_over_its_whole_range():
    values = np.array([[0, 128, 257, 32768, 65535]], dtype=np.uint16)
    grey = [0, 0, 1, 128, 255]
    for content in (
        png(values.astype(">u2").tobytes(), 5, 1, 16, 0),
        saved(Image.fromarray(values), "TIFF"),
        tiff(values, {}),
        b"P5 5 1 65535\n" + values.astype(">u2").tobytes(),  # Pillow's mode I
    ):
        assert decoded(content)[0].tolist() == [[value] * 3 for value in grey]
    assert (
        np.asarray(to_rgb(Image.frombytes("I;16B", (5, 1), values.astype(">u2").tobytes())))[0, :, 0].tolist() == grey
    )


def test_a_16_bit_tiff_whose_zero_is_white_is_inverted():
    assert decoded(tiff(np.array([[0, 65535]], dtype=np.uint16), {262: 0}))[0, :, 0].tolist() == [255, 0]


def test_colour_of_16_bits_keeps_its_upper_byte():
    values = np.array([0x0000, 0x80FF, 0xFFFF], dtype=">u2")
    assert first_pixel(png(values.tobytes(), 1, 1, 16, 2)) == (0, 128, 255)


def test_grey_of_16_bits_with_alpha_is_laid_over_the_ground():
    values = np.array([0xFFFF, 0x0000, 0x0000, 0xFFFF, 0xFFFF, 0x8000], dtype=">u2")
    result = decoded(png(values.tobytes(), 3, 1, 16, 4))[0].tolist()
    assert result[:2] == [list(GROUND), [0, 0, 0]]
    assert result[2] == pytest.approx([(255 * 128 + ground * 127) / 255 for ground in GROUND], abs=1)


@pytest.mark.parametrize(("white", "top"), [(1.0, 1.0), (255.0, 200.0), (65535.0, 60000.0)])
def test_floats_are_read_in_the_smallest_usual_range_that_holds_them(white, top):
    values = np.array([[0.0, top / 2, top]], dtype=np.float32)
    result = decoded(saved(Image.fromarray(values), "TIFF"))[0, :, 0]
    assert result.tolist() == pytest.approx([0, top / 2 / white * 255, top / white * 255], abs=0.51)


@pytest.mark.parametrize("values", [[-1.0, 1.0], [0.0, 1e6], [0.0, float("nan")], [0.0, float("inf")]])
def test_floats_without_a_white_are_refused(values):
    with pytest.raises(BadPhoto, match="what is white"):
        decoded(saved(Image.fromarray(np.array([values], dtype=np.float32)), "TIFF"))


def test_whole_numbers_beyond_16_bits_are_refused():
    with pytest.raises(BadPhoto, match="what is white"):
        decoded(saved(Image.fromarray(np.array([[0, 70000]], dtype=np.int32)), "TIFF"))


def test_ink_of_a_cmyk_jpeg_is_inverted_only_where_adobes_marker_says_so():
    ink = (255, 128, 0, 0)  # cyan, half magenta
    assert first_pixel(cmyk_jpeg(ink, marker=b"\0")) == pytest.approx((0, 127, 255), abs=2)
    # The same bytes without the marker are plain ink: yellow and black at full.
    assert first_pixel(cmyk_jpeg(ink, marker=None)) == pytest.approx((0, 0, 0), abs=2)
    assert first_pixel(cmyk_jpeg((255, 255, 0, 255), marker=None)) == pytest.approx((255, 255, 0), abs=2)


def test_a_ycck_jpeg_is_turned_over_ycc():
    # Stored Y 100 and neutral chroma are CMY values of 255 - 100, of which Adobe's inversion makes 100 of ink.
    assert first_pixel(cmyk_jpeg((155, 127, 127, 0), marker=b"\2")) == pytest.approx((155, 155, 155), abs=2)


def test_cmyk_in_a_tiff_is_plain_ink():
    assert first_pixel(saved(Image.new("CMYK", (2, 2), (0, 255, 255, 0)), "TIFF")) == (255, 0, 0)


def test_lab_is_turned_by_its_meaning():
    image = Image.merge("LAB", [Image.new("L", (2, 2), value) for value in (255, 128, 128)])
    assert first_pixel(saved(image, "TIFF")) == pytest.approx((255, 255, 255), abs=2)
    red = ImageCms.profileToProfile(
        Image.new("RGB", (2, 2), (200, 40, 30)),
        ImageCms.createProfile("sRGB"),
        ImageCms.createProfile("LAB"),
        outputMode="LAB",
    )
    assert first_pixel(saved(red, "TIFF")) == pytest.approx((200, 40, 30), abs=3)


def test_alpha_is_laid_over_the_ground_in_every_form():
    half = (100, 0, 200, 128)
    over = [round(value * 128 / 255 + ground * 127 / 255) for value, ground in zip(half, GROUND, strict=False)]
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True}), ("TIFF", {})):
        assert first_pixel(saved(Image.new("RGBA", (4, 4), half), kind, **options)) == pytest.approx(over, abs=1)
    assert first_pixel(saved(Image.new("LA", (4, 4), (77, 0)), "PNG")) == GROUND
    assert first_pixel(saved(Image.new("LA", (4, 4), (77, 255)), "PNG")) == (77, 77, 77)
    for mode, color in (("PA", (0, 0)), ("La", (0, 0)), ("RGBa", (0, 0, 0, 0))):
        assert to_rgb(Image.new(mode, (1, 1), color), GROUND).getpixel((0, 0)) == GROUND


def test_a_palette_with_transparency_is_laid_over_the_ground():
    image = Image.new("P", (2, 1))
    image.putpalette([9, 8, 7, 50, 60, 70])
    image.putpixel((1, 0), 1)
    assert decoded(saved(image, "PNG", transparency=0))[0].tolist() == [list(GROUND), [50, 60, 70]]
    assert decoded(saved(image, "PNG", transparency=b"\0\xff"))[0].tolist() == [list(GROUND), [50, 60, 70]]
    assert decoded(saved(image, "GIF", transparency=1))[0].tolist() == [[9, 8, 7], list(GROUND)]


@pytest.mark.parametrize(
    ("depth", "row", "key", "kept"),
    [
        (1, b"\x40", 1, 0),
        (2, b"\x70", 3, 85),
        (4, b"\x5f", 15, 85),
        (8, b"\x55\xff", 255, 85),
        (16, b"\x55\x55\xff\xff", 65535, 85),
    ],
)
def test_a_transparent_grey_counts_in_the_files_own_depth(depth, row, key, kept):
    content = png(row, 2, 1, depth, 0, before=chunk(b"tRNS", struct.pack(">H", key)))
    assert decoded(content)[0].tolist() == [[kept] * 3, list(GROUND)]


@pytest.mark.parametrize("depth", [8, 16])
def test_a_transparent_colour_counts_in_the_files_own_depth(depth):
    kind = f">u{depth // 8}"
    row = np.array([1, 2, 3, 255, 0, 255], dtype=kind) * (257 if depth == 16 else 1)
    key = np.array([255, 0, 255], dtype=">u2") * (257 if depth == 16 else 1)
    content = png(row.astype(kind).tobytes(), 2, 1, depth, 2, before=chunk(b"tRNS", key.astype(">u2").tobytes()))
    assert decoded(content)[0].tolist() == [[1, 2, 3], list(GROUND)]


def test_grey_and_single_bits_become_rgb():
    assert first_pixel(saved(Image.new("L", (2, 2), 77), "JPEG", quality=100)) == pytest.approx((77, 77, 77), abs=1)
    assert decoded(png(b"\x40", 2, 1, 1, 0))[0].tolist() == [[0, 0, 0], [255, 255, 255]]
    assert to_rgb(Image.new("HSV", (1, 1), (0, 255, 255))).getpixel((0, 0)) == (255, 0, 0)
    assert to_rgb(Image.new("YCbCr", (1, 1), (255, 128, 128))).getpixel((0, 0)) == (255, 255, 255)


def test_the_first_frame_and_page_counts():
    red, blue = Image.new("RGB", (3, 3), (255, 0, 0)), Image.new("RGB", (3, 3), (0, 0, 255))
    for kind in ("GIF", "TIFF", "PNG", "WEBP"):
        content = saved(
            red, kind, save_all=True, append_images=[blue], **({"lossless": True} if kind == "WEBP" else {})
        )
        assert first_pixel(content) == (255, 0, 0)


def upright_pixels() -> np.ndarray:
    return np.arange(6 * 4 * 3, dtype=np.uint8).reshape(4, 6, 3) * 3


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_comes_out_upright(orientation, kind, tmp_path):
    upright = Image.fromarray(upright_pixels()).resize((48, 32), Image.Resampling.NEAREST)
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    stored = upright.transpose(undo[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[0x112] = orientation
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}}.get(kind, {})
    path = tmp_path / "photo"
    path.write_bytes(saved(stored, kind, exif=exif, **options))
    assert photo_size(path) == (48, 32)
    difference = np.abs(np.asarray(load_rgb(path, GROUND)).astype(int) - np.asarray(upright))
    assert difference.max() <= (12 if kind == "JPEG" else 0)


def test_orientation_is_found_in_a_png_text_and_behind_its_pixels():
    exif = Image.Exif()
    exif[0x112] = 6
    block = exif.tobytes()
    text = PngImagePlugin.PngInfo()
    text.add_text("Raw profile type exif", f"\nexif\n{len(block):8}\n{block.hex()}\n")
    assert decoded(saved(Image.new("RGB", (6, 4)), "PNG", pnginfo=text)).shape == (6, 4, 3)
    behind = png(bytes(6 * 4), 6, 4, 8, 0, after=chunk(b"eXIf", block.removeprefix(b"Exif\0\0")))
    assert decoded(behind).shape == (6, 4, 3)


@pytest.mark.parametrize("value", [0, 9, 255, 65535])
def test_an_illegal_orientation_is_ignored(value):
    exif = Image.Exif()
    exif[0x112] = value
    assert decoded(saved(Image.new("RGB", (6, 4)), "JPEG", exif=exif)).shape == (4, 6, 3)


def test_unreadable_exif_leaves_the_photo_alone():
    for block in (b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\0\0"):
        assert decoded(saved(Image.new("RGB", (6, 4)), "JPEG", exif=block)).shape == (4, 6, 3)


def test_an_embedded_colour_profile_is_followed():
    p3 = icc_profile(b"RGB ", P3_PRIMARIES, gamma=2.2)
    content = saved(Image.new("RGB", (4, 4), (200, 100, 50)), "PNG", icc_profile=p3)
    linear = (np.array([200, 100, 50]) / 255) ** 2.2
    xyz_d50 = np.array(P3_PRIMARIES).T @ linear
    to_srgb = np.linalg.inv(
        np.array([[0.43607, 0.22249, 0.01392], [0.38515, 0.71687, 0.09708], [0.14307, 0.06061, 0.7141]]).T
    )
    srgb = to_srgb @ xyz_d50
    expected = 255 * (1.055 * srgb ** (1 / 2.4) - 0.055)
    assert first_pixel(content) == pytest.approx(tuple(expected), abs=2)
    assert first_pixel(content)[0] > 205  # P3's red is stronger than sRGB's


def test_a_grey_profile_is_followed_even_where_pillow_made_rgb_of_the_grey():
    linear = icc_profile(b"GRAY", [], gamma=1.0)
    expected = 255 * (1.055 * (128 / 255) ** (1 / 2.4) - 0.055)
    assert first_pixel(saved(Image.new("L", (2, 2), 128), "PNG", icc_profile=linear)) == pytest.approx(
        [expected] * 3, abs=2
    )
    profile = chunk(b"iCCP", b"grey\0\0" + zlib.compress(linear))
    sixteen = png(struct.pack(">HH", 128 * 257, 65535), 1, 1, 16, 4, before=profile)
    assert first_pixel(sixteen) == pytest.approx([expected] * 3, abs=2)


@pytest.mark.parametrize(
    "icc", [b"broken", icc_profile(b"CMYK", [], 1.0), icc_profile(b"RGB ", P3_PRIMARIES, 2.2)[:200]]
)
def test_a_profile_that_is_broken_or_does_not_fit_is_ignored(icc):
    assert first_pixel(saved(Image.new("RGB", (2, 2), (200, 100, 50)), "PNG", icc_profile=icc)) == (200, 100, 50)


def test_a_bomb_is_refused_from_its_header(tmp_path, monkeypatch):
    path = tmp_path / "bomb.png"
    path.write_bytes(png(bytes(30000), 30000, 30000, 1, 0))  # the pixels are cut short, too: nobody may look at them
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(BadPhoto, match=rf"900000000 pixels\) exceeds limit of {MAX_PIXELS} pixels"):
        photo_size(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)  # as some libraries do
    with pytest.raises(BadPhoto, match=rf"900000000 pixels\) exceeds limit of {MAX_PIXELS} pixels"):
        load_rgb(path, GROUND)


def test_a_large_but_allowed_photo_raises_no_warning_as_error(tmp_path):
    path = tmp_path / "large.png"
    path.write_bytes(png(bytes(11000 * 1375), 11000, 11000, 1, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert photo_size(path) == (11000, 11000)  # Pillow warns of a bomb from 89 MP on


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "AVIF", "JPEG2000", "BMP", "PPM"])
def test_a_truncated_file_is_refused_and_a_whole_one_is_read(kind, scene):
    content = saved(scene(1), kind)
    assert decoded(content).shape == (80, 96, 3)
    with pytest.raises(BadPhoto, match="test: "):
        decoded(content[: len(content) // 2])


def test_a_truncated_progressive_jpeg_is_refused(scene):
    content = saved(scene(1, 384, 256), "JPEG", progressive=True)
    with pytest.raises(BadPhoto, match="truncated"):
        decoded(content[: len(content) // 3])


def test_a_broken_pixel_stream_is_refused(scene):
    content = bytearray(saved(scene(1), "PNG"))
    at = content.index(b"IDAT") + 40
    content[at : at + 40] = bytes(40)
    with pytest.raises(BadPhoto, match="cannot be decoded"):
        decoded(bytes(content))


def test_content_decides_not_the_name(tmp_path, scene):
    for name in ("photo.jpg", "photo", "photo.txt"):
        scene(1).save(tmp_path / name, "PNG")
        assert load_rgb(tmp_path / name, GROUND).tobytes() == scene(1).tobytes()
    (tmp_path / "text.jpg").write_text("no picture at all\n" * 50)
    with pytest.raises(BadPhoto, match=r"text\.jpg: no image of a known kind"):
        load_rgb(tmp_path / "text.jpg", GROUND)
    with pytest.raises(BadPhoto, match="no such file"):
        load_rgb(tmp_path / "missing.jpg", GROUND)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "PPM", "JPEG2000"])
def test_mutated_files_give_a_photo_or_a_reason(kind, scene):
    exif = Image.Exif()
    exif[0x112] = 6
    content = saved(scene(2, 24, 20), kind, **({"exif": exif} if kind in ("PNG", "JPEG", "TIFF", "WEBP") else {}))
    draw = random.Random(0)
    for _ in range(150):
        broken = bytearray(content)
        for _ in range(draw.randint(1, 6)):
            broken[draw.randrange(min(len(broken), 200) if draw.random() < 0.7 else len(broken))] = draw.randrange(256)
        with contextlib.suppress(BadPhoto):
            assert decoded(bytes(broken)).dtype == np.uint8


def test_one_colour_is_told_from_a_picture(scene):
    assert is_one_color(Image.new("RGB", (5, 5), (1, 2, 3)))
    assert not is_one_color(scene(1))
