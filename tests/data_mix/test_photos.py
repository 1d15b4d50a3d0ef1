import errno
import json
import multiprocessing
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_mix.images import BadPhoto, load_rgb
from data_mix.photos import BUNDLED, FilePhoto, file_id, find_photos
from data_mix.pixel_cache import PIXELS, PixelCache
from recipes.schema import Photos


def names(photos):
    return sorted(Path(photo.path).name for photo in photos.photos)


def reasons(photos):
    return {Path(each.path).name: each.reason for each in photos.skipped}


def test_photos_are_found_below_folders_and_junk_is_passed_over_in_silence(folder_of, found, scene):
    folder = folder_of(2)
    for name in (".hidden.jpg", "Thumbs.db", "desktop.ini", ".git/a.png", "__MACOSX/b.png", "deep/er/c"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        scene(7).save(path, "PNG")
    photos = found(folder)
    assert names(photos) == ["000.png", "001.png", "c"]
    assert photos.skipped == ()


def test_what_is_no_photo_is_named_and_counted(folder_of, found):
    folder = folder_of(2)
    (folder / "notes.txt").write_text("no image")
    (folder / "empty.jpg").touch()
    (folder / "cut.png").write_bytes((folder / "000.png").read_bytes()[:200])
    (folder / "white.png").write_bytes(b"")
    Image.new("RGB", (50, 40), "white").save(folder / "white.png")
    (folder / "copy.png").write_bytes((folder / "001.png").read_bytes())
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    os.mkfifo(folder / "pipe.png")  # opening it would wait for ever
    photos = found(folder)
    assert names(photos) == ["000.png", "001.png"]
    said = reasons(photos)
    assert said.keys() == {"notes.txt", "empty.jpg", "cut.png", "white.png", "copy.png", "gone.png", "pipe.png"}
    assert said["notes.txt"].startswith("no image of a known kind")
    assert said["empty.jpg"] == "an empty file"
    assert said["white.png"].startswith("one single colour")
    assert said["copy.png"] == f"the same file as {folder / '001.png'}"
    assert said["gone.png"] == "a link to nothing"
    assert said["pipe.png"] == "no regular file"
    summary = photos.summary()
    assert "2 usable" in summary[0]
    assert "7 files skipped" in summary[1]
    assert all(any(name in line for line in summary) for name in said)


def test_loops_of_links_end_and_linked_folders_count_once(folder_of, found):
    folder = folder_of(2)
    (folder / "loop").symlink_to(folder)
    (folder / "sub").mkdir()
    (folder / "sub" / "up").symlink_to(folder.parent)
    other = folder_of(2, "elsewhere", first=10)
    (folder / "linked").symlink_to(other)
    assert names(found(folder)) == ["000.png", "001.png", "010.png", "011.png"]


def test_several_folders_may_overlap(folder_of, found):
    folder, other = folder_of(2), folder_of(2, "photos/inner", first=5)
    photos = found([folder, other])
    assert names(photos) == ["000.png", "001.png", "005.png", "006.png"]
    assert photos.skipped == ()


def test_a_missing_or_empty_folder_is_told(tmp_path, found, folder_of):
    with pytest.raises(ValueError, match=r"got nothing at data\.photos\.folder .*absent; allowed: a folder"):
        found(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="got a file at"):
        found(tmp_path / "file")
    empty = folder_of(0, "empty")
    (empty / "a.txt").write_text("text")
    with pytest.raises(ValueError, match=r"no usable photo in .*empty \(1 files skipped\)(.|\n)*a\.txt: no image"):
        found(empty)


def test_the_bundled_photos_are_found_without_network(in_tmp_path):
    photos = find_photos(Photos())
    assert len(photos.photos) == len(BUNDLED)
    assert photos.skipped == ()
    assert photos.split("eval")
    assert photos.split("test")
    assert list(Path(".cache/photos").iterdir()) == [photos.index]
    assert find_photos(Photos()) == photos


def test_the_default_index_tells_folders_apart(in_tmp_path, folder_of):
    one, other = (find_photos(Photos(folder=str(folder_of(2, name)))) for name in ("one", "other"))
    assert one.index != other.index
    assert one.index.name.startswith("one-")


def test_pixels_are_the_resized_box_and_cannot_be_written(folder_of, found):
    photo = found(folder_of(1)).photos[0]
    assert photo.size == (96, 80)
    assert photo.id == file_id(Path(photo.path).read_bytes())
    image = load_rgb(photo.path, (255, 255, 255))
    for box in (None, (8, 4, 72, 68)):
        expected = np.asarray(image.resize((32, 16), Image.Resampling.LANCZOS, box=box))
        got = photo.pixels(32, 16, box)
        assert got.dtype == np.uint8
        assert np.array_equal(got, expected)
        with pytest.raises(ValueError, match="read-only"):
            got[0, 0] = 0


def test_a_photo_is_decoded_once_within_the_limit(folder_of, found, monkeypatch):
    folder = folder_of(1)
    opened = []
    monkeypatch.setattr(
        "data_mix.photos.decode_rgb", lambda *given, **named: opened.append(1) or decode(*given, **named)
    )
    from data_mix.images import decode_rgb as decode

    for cache_mb, times in ((1, 1), (0, 3)):
        photo = found(folder, cache_mb=cache_mb).photos[0]
        PIXELS.clear()
        opened.clear()
        for side in (8, 16, 8):
            photo.pixels(side, side)
        assert len(opened) == times


def test_the_cache_drops_what_was_used_longest_ago():
    cache, made = PixelCache(), []

    def get(key):
        return cache.get(key, lambda: made.append(key) or bytes(40), len, limit_bytes=100)

    for key in "abacab":
        get(key)
    assert made == ["a", "b", "c", "b"]
    assert cache.num_bytes == 80
    cache.get("large", lambda: bytes(101), len, limit_bytes=100)
    assert cache.num_bytes == 80


def test_a_changed_or_vanished_file_is_named(folder_of, found, scene):
    photo = found(folder_of(1), cache_mb=0).photos[0]
    scene(99).save(photo.path)
    with pytest.raises(BadPhoto, match=r"000\.png: has been changed"):
        photo.pixels(8, 8)
    Path(photo.path).unlink()
    with pytest.raises(BadPhoto, match=r"000\.png: was a photo when the run started, and now: No such file"):
        photo.pixels(8, 8)


def test_the_ground_shows_through(tmp_path, found, scene):
    folder = tmp_path / "clear"
    folder.mkdir()
    image = scene(1).convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 48, 80))
    image.save(folder / "a.png")
    assert found(folder, ground=(1, 2, 3)).photos[0].pixels(96, 80)[0, 0].tolist() == [1, 2, 3]
    assert found(folder).photos[0].pixels(96, 80)[0, 0].tolist() == [255, 255, 255]


def test_a_photo_travels_without_its_pixels(folder_of, found):
    photo = found(folder_of(1)).photos[0]
    photo.pixels(96, 80)
    sent = pickle.dumps(photo)  # what a data loader does between processes
    assert len(sent) < 1000
    assert isinstance(photo, FilePhoto)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_other_processes_see_the_same_bytes(folder_of, found, method):
    photos = found(folder_of(3)).photos
    with multiprocessing.get_context(method).Pool(2) as pool:
        theirs = pool.map(pixel_bytes, photos)
    assert theirs == [pixel_bytes(photo) for photo in photos]


def pixel_bytes(photo):
    return photo.pixels(40, 40).tobytes()


def test_a_second_start_decodes_nothing_again(folder_of, found, monkeypatch):
    folder = folder_of(3)
    first = found(folder)
    monkeypatch.setattr("data_mix.scan.decode_rgb", lambda *given, **named: pytest.fail("decoded again"))
    assert found(folder) == first


def test_processes_that_start_at_once_agree(folder_of, tmp_path):
    given = Photos(folder=str(folder_of(12)), index=str(tmp_path / "index.jsonl"))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        sets = pool.map(find_photos, [given] * 3, chunksize=1)
    assert sets[0] == sets[1] == sets[2] == find_photos(given)
    assert [file.name for file in tmp_path.iterdir() if "index" in file.name] == ["index.jsonl"]


def test_a_file_that_changed_is_checked_again(folder_of, found, scene):
    folder = folder_of(2)
    before = found(folder)
    scene(50).save(folder / "000.png")
    after = found(folder)
    assert len({photo.id for photo in before.photos} & {photo.id for photo in after.photos}) == 1
    (folder / "001.png").write_bytes(b"spoilt")
    assert reasons(found(folder)).keys() == {"001.png"}


def test_names_that_are_no_text_do_no_harm(folder_of, found):
    folder = folder_of(1)
    strange = os.fsencode(folder) + b"/caf\xe9.txt"
    try:
        Path(os.fsdecode(strange)).write_text("x")
    except OSError as error:
        if error.errno not in (errno.EILSEQ, errno.EINVAL):
            raise
        pytest.skip(
            f"{error.strerror} for a file name that is not UTF-8; --basetemp on another file system lets this run"
        )
    photos = found(folder)
    assert "caf\\xe9.txt" in "\n".join(photos.summary())
    "\n".join(photos.summary()).encode()


def test_the_index_holds_one_line_per_photo(folder_of, found):
    photos = found(folder_of(3))
    header, *rows = map(json.loads, photos.index.read_text().splitlines())
    assert header["version"] == 1
    assert [row["path"] for row in rows] == ["000.png", "001.png", "002.png"]
    assert {row["id"]: row["split"] for row in rows} == dict(photos.splits)
    assert {tuple(row["size"]) for row in rows} == {(96, 80)}


def test_photos_load_no_torch():
    code = "import sys, data_mix.mixture; sys.exit('torch' in sys.modules)"
    assert os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", code) == 0
