"""How statements of each kind are taken together, and the table of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_hooks.aggregate import Said, aggregate
from eval_hooks.diagnosis_table import table


def of(*reports):
    return aggregate((report, 0.0) for report in reports)


def test_truths_and_numbers_are_means_over_the_answers_that_have_them():
    said = of({"a": True, "b": 0.5}, {"a": False, "b": None}, {"a": True})
    assert said.shares == {"a": pytest.approx(2 / 3), "b": 0.5}
    assert (said.n, said.counts) == (3, {"a": 3, "b": 1})


def test_lists_are_mean_numbers_and_their_texts_are_counted():
    said = of({"wrong": [3, 4]}, {"wrong": []}, {"wrong": [[0, 1]]}, {"wrong": ["top"]})
    assert said.lengths == {"wrong": 1.0}
    assert {text: each.count for text, each in said.texts["wrong"].items()} == {"top": 1}


def test_rows_of_truths_are_a_mean_at_each_place():
    said = of({"fits": [[True, False]]}, {"fits": [[True, True]]}, {})
    assert said.grids == {"fits": [[1.0, 0.5]]}
    with pytest.raises(ValueError, match="fits: got sizes"):
        of({"fits": [[True]]}, {"fits": [[True], [True]]})


def test_texts_are_counted_with_the_score_of_their_answers():
    said = aggregate([({"pair": "far"}, 1.0), ({"pair": "near"}, 1.0), ({"pair": "near"}, 0.0), ({"pair": None}, 1.0)])
    assert list(said.texts["pair"].items()) == [("near", Said(2, 0.5)), ("far", Said(1, 1.0))]


def test_a_displacement_alone_and_one_in_a_list_count_the_same():
    listed = of({"displacement": [None, [0, 0], [1, -1]]}, {"displacement": [[0, 0], None]})
    alone = of(*({"displacement": move} for move in ([0, 0], [1, -1], [0, 0], None)))
    assert listed.displacement == alone.displacement == [[0, 0, 0], [0, 2, 0], [1, 0, 0]]
    assert listed.in_place == pytest.approx(2 / 3)


def test_where_nothing_is_placed_there_is_no_map():
    said = of({"displacement": None}, {"displacement": [None, None]}, {"displacement": []})
    assert said.displacement is None
    assert said.in_place is None


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1), st.integers(2, 12))
def test_every_displacement_is_in_the_map_at_its_place(moves, grid):
    counts = aggregate([({"displacement": [list(move) for move in moves]}, 0.0)], grid).displacement
    middle = len(counts) // 2
    assert all(len(row) == len(counts) == 2 * middle + 1 for row in counts)
    assert middle + 1 >= grid
    assert sum(map(sum, counts)) == len(moves)
    assert all(counts[middle + rows][middle + columns] == moves.count((rows, columns)) for rows, columns in moves)


def test_a_wide_table_goes_on_below_in_lines_of_at_most_120_characters():
    names = [f"statement_number_{i}" for i in range(30)]
    said = aggregate([(dict.fromkeys(names, True) | {"why": f"reason {i}"}, 0.0) for i in range(40)])
    lines = table("task", "score", {"one": said, "two": of({"other": [1]})}).splitlines()
    assert max(map(len, lines)) <= 120
    rows = [line.split() for line in lines if line.startswith("one ") and "why" not in line]
    assert len(rows) > 1
    assert sum(row.count("100.0") for row in rows) == 30
    assert sum(line.count("reason ") for line in lines) == 40


def test_a_text_is_told_with_a_score_only_if_it_earned_one():
    said = aggregate([({"pair": "near", "reason": None}, 1.0), ({"pair": "far", "reason": "bad\x1b"}, 0.0)])
    lines = table("task", "correct", {"p": said}).splitlines()
    assert "p pair (correct, %): near 1 (100.0), far 1 (0.0)" in lines
    assert "p reason: bad\\x1b 1" in lines
