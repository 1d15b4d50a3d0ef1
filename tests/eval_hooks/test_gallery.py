"""Which answers are shown, and puzzles posed again from their records."""

import base64
import dataclasses
import io
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from eval_hooks.data_urls import lossless, lossy
from eval_hooks.gallery import KINDS, choose, drawn_answer, pose_again
from eval_hooks.records import Record, score_completion


def record_of(index, score):
    return Record(
        key=f"jigshape-{index}", task="jigshape", version=2, split="eval", part="4x4", index=index, spec={"grid": 4},
        photo_id=None, seed=index, target={}, prompt_hash="", text="{}", finish_reason="stop", completion_tokens=1,
        answer=None, invalid=None, scores={"pa": score}, seconds=0.0, sample=0, protocol="greedy", model="m", step=1,
    )  # fmt: skip


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), max_size=30), st.integers(1, 4), st.randoms())
def test_no_answer_is_shown_twice_and_the_order_of_the_records_does_not_matter(scores, each, rng):
    records = [record_of(index, score) for index, score in enumerate(scores)]
    cases = choose(records, "pa", each)
    shown = [case.record.index for case in cases]
    assert len(set(shown)) == len(shown) == min(len(records), 3 * each)
    rng.shuffle(records)
    assert choose(records, "pa", each) == cases


def test_worst_and_best_are_what_they_are_called():
    scores = [index / 20 for index in range(20)]
    random.Random(1).shuffle(scores)
    cases = choose([record_of(index, score) for index, score in enumerate(scores)], "pa", 2)
    assert [case.kind for case in cases] == [kind for kind in KINDS for _ in range(2)]
    shown = [case.record.scores["pa"] for case in cases]
    assert (shown[:2], shown[2:4]) == ([0, 1 / 20], [19 / 20, 18 / 20])


def test_a_puzzle_is_posed_again_with_the_same_pixels_even_from_a_crop(posed, photos, completion_of):
    record = score_completion(posed, completion_of("no idea"), model="m")
    assert "@" in record.photo_id
    again = pose_again(record, {photo.id: photo for photo in photos.photos})
    assert again.puzzle == posed.puzzle
    assert np.array_equal(again.example().images[0], posed.example().images[0])
    (drawn,) = drawn_answer(again, record.text)
    assert np.array_equal(drawn, posed.picture(posed.task.parse("no idea", posed.puzzle.spec)))


def test_another_puzzle_than_was_asked_is_refused(posed, photos, completion_of):
    record = score_completion(posed, completion_of("no idea"), model="m")
    at_hand = {photo.id: photo for photo in photos.photos}
    wrong = {
        "version": record.version + 1, "seed": record.seed + 1, "prompt_hash": "0" * 16, "photo_id": "gone",
        "target": {}, "key": "jigshape-0",
    }  # fmt: skip
    for field, value in wrong.items():
        with pytest.raises(ValueError):
            pose_again(dataclasses.replace(record, **{field: value}), at_hand)
    outside = record.photo_id.split("@")[0] + "@0,0,99999,99999"
    with pytest.raises(ValueError, match="other sides"):
        pose_again(dataclasses.replace(record, photo_id=outside), at_hand)


def test_images_of_a_page_are_exact_or_no_larger_than_told():
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8))
    for url, most in ((lossless(noise), None), (lossy(noise, 20_000), 20_000), (lossy(noise, 4_000), 4_000)):
        content = base64.b64decode(url.removeprefix("data:image/webp;base64,"))
        image = Image.open(io.BytesIO(content))
        if most is None:
            assert np.array_equal(image, noise)
        else:
            assert len(content) <= most
            assert image.width / image.height == pytest.approx(1.5, rel=0.05)
