import json
import os
from collections import Counter
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_mix.near_duplicates import MAX_DISTANCE, near_pairs, picture_hash
from data_mix.splits import Row, assign, read_index, write_index
from data_mix.streams import stream

SHARES = {"eval": 0.1, "test": 0.1}


def rows(count, first=0):
    draw = stream("rows", first)
    return [
        Row(0, f"{at}.png", 1, 1, draw.bytes(8).hex(), (8, 8), draw.bytes(16).hex())
        for at in range(first, first + count)
    ]


def near(row, bits, name):
    """A copy of the row as another file, whose hash differs in that many bits."""
    flipped = int(row.hash, 16) ^ ((1 << bits) - 1)
    return replace(row, path=name, id=f"{int(row.id, 16) ^ 1:016x}", hash=f"{flipped:032x}")


def recompressed(image, quality):
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


def test_shares_are_kept_to_the_photo():
    placed, dropped = assign(rows(100), [], SHARES)
    assert Counter(row.split for row in placed.values()) == {"train": 80, "eval": 10, "test": 10}
    assert dropped == {}


def test_a_share_of_zero_gets_nothing():
    placed, _ = assign(rows(50), [], {"eval": 0.2, "test": 0.0})
    assert Counter(row.split for row in placed.values()) == {"train": 40, "eval": 10}


def test_the_order_of_files_does_not_matter():
    found = rows(60)
    assert assign(found, [], SHARES) == assign(found[::-1], [], SHARES)


def test_stored_splits_never_change():
    first = rows(40)
    placed, _ = assign(first, [], SHARES)
    stored = list(placed.values())
    more, _ = assign([*first[5:], *rows(60, first=40)], stored, {"eval": 0.3, "test": 0.0})
    assert all(more[row.id].split == placed[row.id].split for row in first[5:])
    assert Counter(row.split for row in more.values())["eval"] >= 25  # newcomers make up for the new share


def test_newcomers_follow_their_near_duplicates_even_if_those_are_gone():
    first = rows(40)
    placed, _ = assign(first, [], SHARES)
    copies = [near(row, MAX_DISTANCE, f"copy-{row.path}") for row in first]
    later, _ = assign(copies, list(placed.values()), SHARES)
    for row, copy in zip(first, copies, strict=True):
        assert later[copy.id].split == placed[row.id].split
        assert later[copy.id].cluster == placed[row.id].cluster


def test_near_duplicates_are_linked_through_others():
    one = rows(1)[0]
    chain = [one, near(one, 8, "b"), replace(near(one, 16, "c"), id="f" * 16)]
    placed, _ = assign([*chain, *rows(30, first=5)], [], {"eval": 0.4, "test": 0.3})
    assert len({placed[row.id].split for row in chain}) == 1
    assert {placed[row.id].cluster for row in chain} == {min(row.id for row in chain)}


def test_a_photo_further_away_goes_its_own_way():
    one = rows(1)[0]
    placed, _ = assign([one, near(one, MAX_DISTANCE + 1, "b")], [], SHARES)
    assert len({row.cluster for row in placed.values()}) == 2


def test_a_newcomer_that_links_two_splits_is_dropped_and_stays_so():
    one = rows(1)[0]
    other = near(one, 16, "other")
    stored = [replace(one, cluster=one.id, split="train"), replace(other, cluster=other.id, split="eval")]
    bridge = replace(near(one, 8, "bridge"), id="0" * 16)
    placed, dropped = assign([one, other, bridge], stored, SHARES)
    assert dropped == {bridge.id: "resembles photos of two splits, eval and train"}
    assert assign([bridge], [*stored, bridge], SHARES) == ({}, dropped)
    assert placed.keys() == {one.id, other.id}


def test_photos_without_contrast_do_not_form_one_cluster():
    flat = [replace(row, hash=None) for row in rows(20)]
    placed, _ = assign(flat, [], SHARES)
    assert len({row.cluster for row in placed.values()}) == 20
    noise = stream("noise").integers(120, 123, (64, 64, 3)).astype(np.uint8)
    assert picture_hash(Image.fromarray(noise)) is None
    assert picture_hash(Image.new("RGB", (64, 64), "white")) is None


def test_copies_of_a_picture_have_near_hashes_and_other_pictures_do_not(scene):
    originals = [scene(number, 480, 400) for number in range(12)]
    copies = [
        [image.resize((240, 200)), image.resize((333, 301), Image.Resampling.LANCZOS), recompressed(image, 35),
         recompressed(image.resize((160, 134)), 60), image.convert("L").convert("RGB")]
        for image in originals
    ]  # fmt: skip
    hashes = [picture_hash(image) for image in originals]
    for number, each in enumerate(copies):
        pairs = list(near_pairs([picture_hash(copy.convert("RGB")) for copy in each], hashes))
        assert pairs == [(at, number) for at in range(len(each))]


def test_pairs_are_those_that_a_slow_count_finds():
    hashes = [row.hash for row in rows(30)]
    hashes += [f"{int(hash_, 16) ^ ((1 << bits) - 1):032x}" for bits, hash_ in enumerate(hashes[:25])]
    slow = {
        (i, j)
        for i, one in enumerate(hashes)
        for j, other in enumerate(hashes)
        if (int(one, 16) ^ int(other, 16)).bit_count() <= MAX_DISTANCE
    }
    assert set(near_pairs(hashes, hashes)) == slow
    assert list(near_pairs([], hashes)) == []


def test_copies_never_cross_a_split(folder_of, found, scene):
    folder = folder_of(20, width=240, height=200)
    for number in range(20):
        scene(number, 240, 200).resize((120, 100)).save(folder / f"small-{number:03}.jpg", quality=70)
        scene(number, 240, 200).save(folder / f"same-{number:03}.tif")
    photos = found(folder, shares={"eval": 0.3, "test": 0.3})
    assert len(photos.photos) == 60
    by_scene = {}
    for photo in photos.photos:
        by_scene.setdefault(Path(photo.path).stem[-3:], set()).add(photos.splits[photo.id])
    assert all(len(splits) == 1 for splits in by_scene.values())
    assert {len(photos.split(name)) for name in ("train", "eval", "test")} <= set(range(15, 28))


def test_adding_and_removing_photos_moves_none(folder_of, found):
    folder = folder_of(15)
    before = dict(found(folder).splits)
    folder_of(25, first=15)
    for number in (0, 3, 7):
        (folder / f"{number:03}.png").rename(folder.parent / f"{number:03}.png")
    between = found(folder).splits
    assert len(between) == 37
    assert all(between[id_] == split for id_, split in before.items() if id_ in between)
    for number in (0, 3, 7):
        (folder.parent / f"{number:03}.png").rename(folder / f"back-{number:03}.png")
    after = found(folder).splits
    assert before.items() <= after.items()
    assert between.items() <= after.items()


def test_splits_do_not_depend_on_where_the_photos_lie(folder_of, found, tmp_path):
    one = found(folder_of(20, "one"), index=str(tmp_path / "a.jsonl"))
    other = found(folder_of(20, "other"), index=str(tmp_path / "b.jsonl"))
    assert one.splits == other.splits


def test_an_index_is_read_back_as_written(tmp_path):
    path = tmp_path / "deep" / "index.jsonl"
    placed, _ = assign(rows(5), [], SHARES)
    write_index(path, list(placed.values()))
    assert sorted(read_index(path), key=lambda row: row.id) == sorted(placed.values(), key=lambda row: row.id)
    assert [file.name for file in path.parent.iterdir()] == ["index.jsonl"]
    assert read_index(tmp_path / "none") == ()


def test_an_unchanged_index_is_left_alone(tmp_path):
    path = tmp_path / "index.jsonl"
    write_index(path, rows(3))
    os.utime(path, ns=(1, 1))
    write_index(path, rows(3))
    assert path.stat().st_mtime_ns == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: text[:-30],
        lambda text: text.replace('"split": null', '"split": "dev"', 1),
        lambda text: text.replace('"size"', '"sizes"', 1),
        lambda text: "",
    ],
)
def test_a_spoilt_index_is_refused_and_kept(tmp_path, spoil):
    path = tmp_path / "index.jsonl"
    write_index(path, rows(3))
    path.write_text(spoil(path.read_text()))
    spoilt = path.read_text()
    with pytest.raises(
        ValueError, match=r"photo index that cannot be read, .*index\.jsonl .*do restore it, or delete it"
    ):
        read_index(path)
    assert path.read_text() == spoilt


def test_an_index_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot be written, .*data\.photos\.index=FILE"):
        write_index(tmp_path / "file" / "index.jsonl", rows(1))


def test_every_line_is_json(tmp_path):
    path = tmp_path / "index.jsonl"
    write_index(path, rows(2))
    assert all(isinstance(json.loads(line), dict) for line in path.read_text().splitlines())
