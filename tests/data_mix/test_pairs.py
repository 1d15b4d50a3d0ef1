"""Parts that are paired: puzzle i of both shows the same photo, cut by the same seed."""

import numpy as np
import pytest

from data_mix.mixture import Mixture
from recipes.schema import Part

SHAPE = {"grid": 4, "piece_px": 16, "tab_ratio": 0.3}


def paired(count=6, **spec):
    return {
        "4x4": Part(task="jigshape", spec=SHAPE, count=8),
        "4x4-plain": Part(task="jigshape", spec={**SHAPE, "shape": False, **spec}, count=count, paired_with="4x4"),
    }


@pytest.fixture
def photos(folder_of, found):
    folder_of(4, width=40, height=40)
    return found(folder_of(12, first=4), shares={"eval": 0, "test": 0})


@pytest.mark.parametrize("use", ["distinct", "reuse"])
def test_puzzles_of_a_pair_differ_in_the_spec_alone(photos, use):
    both = Mixture(paired(), photos, split="train", seed=7, use=use, shuffle=False, min_piece_px=8)
    shape, plain = list(both)[:8], list(both)[8:]
    assert [posed.part for posed in plain] == ["4x4-plain"] * 6
    assert len({posed.puzzle.photo_id for posed in shape}) == 8
    for one, other in zip(shape, plain, strict=False):
        assert one.puzzle.photo_id == other.puzzle.photo_id
        assert one.puzzle.seed == other.puzzle.seed
        assert one.puzzle.target["cells"] == other.puzzle.target["cells"]
        assert one.puzzle.key != other.puzzle.key
        assert (one.puzzle.spec.shape, other.puzzle.spec.shape) == (True, False)
        assert not np.array_equal(one.example().images[0], other.example().images[0])


def test_a_pair_leaves_the_first_part_as_it_is_alone(photos):
    keys = lambda parts: [  # noqa: E731
        posed.puzzle.key
        for posed in Mixture(parts, photos, split="train", seed=7, min_piece_px=8, shuffle=False)
        if posed.part == "4x4"
    ]
    assert keys(paired()) == keys({"4x4": paired()["4x4"]})


def test_pairs_of_other_boards_are_refused_beside_all_other_problems(photos):
    parts = paired(piece_px=20) | {"many": Part(task="jigshape", spec=SHAPE, count=99)}
    with pytest.raises(ValueError) as caught:
        Mixture(parts, photos, split="train", seed=7)
    pair, many = str(caught.value).splitlines()
    assert pair.startswith("got part 4x4-plain, which takes 4x4 pieces on 80x80 px, paired with 4x4; allowed: ")
    assert "what 4x4 takes, 4x4 pieces on 64x64 px; do give both specs the same grid" in pair
    assert "for part many" in many


def test_a_pair_needs_as_many_photos_as_it_has_puzzles(photos):
    with pytest.raises(ValueError, match=r"got 16 photos for part 4x4-plain .*lower data\.parts\.4x4-plain\.count"):
        Mixture(paired(count=17), photos, split="train", seed=7, min_piece_px=8)
