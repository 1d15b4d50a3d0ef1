from hypothesis import given
from hypothesis import strategies as st

from data_mix.streams import stream, stream_seed

NAMES = st.lists(st.text(max_size=4) | st.integers(-3, 30), max_size=4).map(tuple)


@given(NAMES, NAMES)
def test_different_names_have_different_seeds_and_equal_names_equal_ones(one, other):
    same = [(type(name), name) for name in one] == [(type(name), name) for name in other]
    assert (stream_seed(*one) == stream_seed(*other)) == same


def test_a_seed_stays_what_it_is():
    assert stream_seed("puzzle", "jigshape", "train", 0, "4x4", 7) == 104171043722900465
    assert 0 <= stream_seed() < 2**63


def test_neighbouring_run_seeds_share_no_puzzle_seed():
    seeds = {
        stream_seed("puzzle", "jigshape", "train", seed, "4x4", index) for seed in (42, 43) for index in range(500)
    }
    assert len(seeds) == 1000


def test_a_stream_starts_anew_each_time():
    assert stream("a", 1).integers(0, 2**60) == stream("a", 1).integers(0, 2**60)
