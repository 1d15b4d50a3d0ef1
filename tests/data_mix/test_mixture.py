import multiprocessing
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import tasks
from data_mix.mixture import Mixture, evaluation_mixture, training_mixture
from data_mix.photo_source import CroppedPhoto
from recipes.loader import load_recipe
from recipes.schema import Part

CUT = {"task": "jigshape", "spec": {"grid": 2, "piece_px": 16}}


@pytest.fixture
def photos(folder_of, found):
    return found(folder_of(40), shares={"eval": 0.2, "test": 0.1})


def parts(**counts):
    return {name: Part.model_validate({**CUT, "count": count}) for name, count in counts.items()}


def keys(mixture):
    return [(posed.part, posed.index, posed.puzzle.key, posed.photo.id) for posed in mixture]


def test_each_part_gives_its_count_mixed_or_in_order(photos):
    mixture = Mixture(parts(a=20, b=8), photos, split="train", seed=0)
    assert len(mixture) == 28
    assert Counter(posed.part for posed in mixture) == {"a": 20, "b": 8}
    mixed = [(posed.part, posed.index) for posed in mixture]
    plain = [
        (posed.part, posed.index) for posed in Mixture(parts(a=20, b=8), photos, split="train", seed=0, shuffle=False)
    ]
    assert plain == [("a", index) for index in range(20)] + [("b", index) for index in range(8)]
    assert sorted(mixed) == plain != mixed
    for position in (-1, 28):
        with pytest.raises(IndexError, match="allowed: 0 to 27"):
            mixture[position]


def test_distinct_gives_each_puzzle_of_a_part_a_photo_of_its_own(photos):
    mixture = Mixture(parts(a=28, b=28), photos, split="train", seed=3)
    for part in "ab":
        dealt = [posed.photo.id for posed in mixture if posed.part == part]
        assert len(set(dealt)) == 28
        assert set(dealt) <= {photo.id for photo in photos.split("train")}
    orders = {part: [posed.photo.id for posed in mixture if posed.part == part] for part in "ab"}
    assert orders["a"] != orders["b"]


def test_a_mixture_depends_on_seed_split_and_part_alone(photos):
    make = lambda **given: Mixture(parts(a=8), photos, **{"split": "train", "seed": 0, "use": "reuse", **given})  # noqa: E731
    assert keys(make()) == keys(make())
    here = {key for *_, key, _ in keys(make())}
    for other in (make(seed=1), make(split="eval"), Mixture(parts(b=8), photos, split="train", seed=0, use="reuse")):
        assert here.isdisjoint(key for *_, key, _ in keys(other))
    small, large = (
        make(shuffle=False),
        Mixture(parts(a=20, b=4), photos, split="train", seed=0, use="reuse", shuffle=False),
    )
    assert keys(small) == keys(large)[:8]


def test_the_order_of_access_does_not_matter(photos):
    mixture = Mixture(parts(a=10, b=10), photos, split="train", seed=0, use="reuse")
    backwards = [mixture[position].puzzle.key for position in reversed(range(20))]
    assert backwards[::-1] == [posed.puzzle.key for posed in mixture]


@pytest.mark.parametrize("use", ["distinct", "reuse"])
def test_workers_make_the_same_bytes(photos, use):
    mixture = Mixture(parts(a=6), photos, split="train", seed=0, use=use)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        theirs = pool.starmap(rendered, [(mixture, position) for position in range(6)])
    assert theirs == [rendered(mixture, position) for position in range(6)]


def rendered(mixture, position):
    posed = mixture[position]
    return posed.puzzle.key, [image.tobytes() for image in posed.example().images]


def test_too_few_photos_are_refused_for_all_parts_at_once(photos):
    with pytest.raises(ValueError) as caught:
        Mixture(parts(a=29, fits=28, b=3000), photos, split="train", seed=0)
    first, second = str(caught.value).splitlines()
    assert first.startswith(
        "got 28 photos for part a in the train split (28 there, of which 0 are smaller than 32 x 32 px)"
    )
    assert "allowed: at least 29; do name a folder" in first
    assert "data.photos.use=reuse" in first
    assert "lower data.parts.a.count to 28" in first
    assert "part b" in second
    with pytest.raises(ValueError, match=r"eval split.*lower the number of puzzles .* to 8"):
        Mixture(parts(a=9), photos, split="eval", seed=0)


def test_small_photos_are_left_out_or_scaled_up_as_far_as_allowed(folder_of, found):
    folder_of(10, width=64, height=90)
    photos = found(folder_of(30, first=10, width=200, height=180), shares={"eval": 0, "test": 0})
    wants = {"a": Part.model_validate({"task": "jigshape", "spec": {"grid": 2, "piece_px": 50}, "count": 35})}
    with pytest.raises(ValueError, match=r"got 30 .*40 there, of which 10 are smaller than 100 x 100 px.*min_piece_px"):
        Mixture(wants, photos, split="train", seed=0)
    with pytest.raises(ValueError, match="10 are smaller than 66 x 66 px"):
        Mixture(wants, photos, split="train", seed=0, min_piece_px=33)
    mixture = Mixture(wants, photos, split="train", seed=0, min_piece_px=32)
    num_small = sum(min(posed.photo.size) < 100 for posed in mixture)
    assert f"{num_small} of the 35 used are smaller than 100x100 px and scaled up" in mixture.summary()[0]
    assert all(
        image.shape[1::-1] == posed.puzzle.image_sizes[0] for posed in mixture for image in posed.example().images
    )
    # More px than the board has are never asked for.
    assert len(Mixture(parts(a=40), photos, split="train", seed=0, min_piece_px=500)) == 40


def test_reuse_serves_random_crops_of_the_boards_aspect(photos):
    mixture = Mixture(parts(a=300), photos, split="train", seed=0, use="reuse")
    crops = [posed.photo for posed in mixture]
    assert all(isinstance(crop, CroppedPhoto) for crop in crops)
    for crop in crops:
        left, top, right, bottom = crop.box
        assert 0 <= left < right <= 96
        assert 0 <= top < bottom <= 80
        assert right - left == bottom - top >= 32
    sides = [crop.size[0] for crop in crops]
    assert min(sides) < 36
    assert max(sides) > 76
    assert len({crop.photo.id for crop in crops}) == 28
    assert len({crop.id for crop in crops}) > 290


def test_reuse_still_needs_one_photo_that_is_large_enough(folder_of, found):
    photos = found(folder_of(3, width=40, height=40), shares={"eval": 0, "test": 0})
    wants = {"a": Part.model_validate({"task": "jigshape", "spec": {"grid": 2, "piece_px": 50}, "count": 5})}
    with pytest.raises(ValueError, match=r"got 0 photos for part a .*allowed: at least 1"):
        Mixture(wants, photos, split="train", seed=0, use="reuse")
    small = Mixture(wants, photos, split="train", seed=0, use="reuse", min_piece_px=10)
    assert {min(posed.photo.size) >= 20 for posed in small} == {True}


def test_a_crop_is_a_photo_of_its_own(photos):
    photo = photos.photos[0]
    crop = CroppedPhoto(photo, (10, 20, 50, 60))
    assert crop.id == f"{photo.id}@10,20,50,60"
    assert crop.size == (40, 40)
    assert np.array_equal(crop.pixels(16, 16), photo.pixels(16, 16, (10, 20, 50, 60)))
    assert np.array_equal(crop.pixels(8, 8, (4, 0, 20, 16)), photo.pixels(8, 8, (14, 20, 30, 36)))


def test_a_drawn_task_gets_no_photo_and_needs_none(monkeypatch):
    jigshape = tasks.TASKS["jigshape"]
    seen = []

    def pose(spec, photo, seed):
        seen.append((photo, seed))
        return jigshape.pose(spec, FlatPhoto(), seed)

    drawn = replace(jigshape, name="drawn", board=lambda spec: None, pose=pose)
    monkeypatch.setitem(tasks.TASKS, "drawn", drawn)
    mixture = Mixture({"a": Part(task="drawn", spec={"grid": 2}, count=3)}, None, split="train", seed=0)
    assert [posed.photo for posed in mixture] == [None] * 3
    assert [photo for photo, _ in seen] == [None] * 3
    assert len({seed for _, seed in seen}) == 3
    assert mixture.summary() == ["train part a: 3 puzzles of drawn, drawn"]
    with pytest.raises(ValueError, match="got 0 photos"):
        Mixture(parts(a=1), None, split="train", seed=0)


class FlatPhoto:
    id = "flat"
    size = (400, 400)

    def pixels(self, width, height, box=None):
        return np.zeros((height, width, 3), np.uint8)


def test_posing_reads_no_file(photos, monkeypatch):
    mixture = Mixture(parts(a=20), photos, split="train", seed=0)
    monkeypatch.setattr("data_mix.photos.decode_rgb", lambda *given, **named: pytest.fail("decoded"))
    assert len({posed.puzzle.key for posed in mixture}) == 20


def test_a_recipe_gives_both_mixtures(photos):
    recipe = load_recipe(
        ["recipe=mixed_grid", "model=tiny_qwen3_vl", "seed=5", "data.photos.use=reuse", "data.photos.min_piece_px=4",
         *(f"data.parts.{n}x{n}.spec.piece_px=20" for n in (4, 8, 12, 16))]
    )  # fmt: skip
    training = training_mixture(recipe, photos)
    assert len(training) == 6500
    assert training[0].task is tasks.TASKS["jigshape"]
    held_out = {photo.id for photo in photos.split("eval")}
    small, large = evaluation_mixture(recipe, photos, 2), evaluation_mixture(recipe, photos, 5)
    assert [(posed.part, posed.index) for posed in small] == [(f"{n}x{n}", at) for n in (4, 8, 12, 16) for at in (0, 1)]
    assert {posed.photo.photo.id for posed in large} <= held_out
    assert {posed.puzzle.key for posed in small} <= {posed.puzzle.key for posed in large}
    assert {posed.split for posed in large} == {"eval"}
    assert len(evaluation_mixture(recipe, photos, 0)) == 0


def test_evaluation_may_have_parts_of_its_own_and_the_test_split(photos):
    recipe = load_recipe(["recipe=quickstart", "data.photos.use=distinct", "eval.split=test"])
    own = recipe.model_copy(update={"eval": recipe.eval.model_copy(update={"parts": parts(other=99)})})
    mixture = evaluation_mixture(own, photos, 4)
    assert [posed.part for posed in mixture] == ["other"] * 4
    assert {posed.photo.id for posed in mixture} == {photo.id for photo in photos.split("test")}
    with pytest.raises(ValueError, match="got 4 photos for part other in the test split"):
        evaluation_mixture(own, photos, 5)


def test_the_log_warns_of_puzzles_that_may_have_several_answers(photos):
    parts = {
        name: Part(task="jigshape", spec={"grid": grid, "shape": shape, "piece_px": 16, "tab_ratio": 0.3}, count=1)
        for name, grid, shape in (("fine", 8, True), ("published", 4, False), ("doubtful", 8, False))
    }
    lines = Mixture(parts, photos, split="train", seed=0, use="reuse", min_piece_px=1).summary()
    assert ["several right answers" in line for line in lines] == [False, False, True]
