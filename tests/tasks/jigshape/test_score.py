import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.contract import Invalid
from tasks.jigshape import TASK


def completion(cells):
    return json.dumps({str(i): cell for i, cell in enumerate(cells)})


def score_text(text, puzzle):
    return TASK.score(TASK.parse(text, puzzle.spec), puzzle.target)


def all_cells(grid):
    return [[row, column] for row in range(grid) for column in range(grid)]


@settings(max_examples=300, deadline=None)
@given(grid=st.integers(2, 8), seed=st.integers(0, 2**63 - 1), shape=st.booleans(), data=st.data())
def test_scores_of_any_bijection_equal_the_plain_count(pose, reference_score, grid, seed, shape, data):
    puzzle = pose(grid, seed, shape=shape)
    if data.draw(st.booleans()):
        answer = data.draw(st.permutations(all_cells(grid)))
    else:  # near the truth, where every entry differs from 0
        answer = [*puzzle.target["cells"]]
        for _ in range(data.draw(st.integers(0, 4))):
            i, j = data.draw(st.tuples(*[st.integers(0, grid**2 - 1)] * 2))
            answer[i], answer[j] = answer[j], answer[i]
    assert TASK.score(answer, puzzle.target) == pytest.approx(reference_score(answer, puzzle.target), abs=1e-12)


@pytest.mark.parametrize("grid", [2, 3, 4, 8])
def test_the_truth_scores_one_on_every_entry(pose, grid):
    puzzle = pose(grid)
    scores = TASK.score(puzzle.target["cells"], puzzle.target)
    assert set(scores.values()) == {1.0}
    assert list(scores) == [entry for entry in TASK.entries if grid > 2 or entry not in ("pa_border", "pa_interior")]


def test_without_shape_there_is_no_shape_consistency(pose):
    puzzle = pose(4, shape=False)
    assert "sc" not in TASK.score(puzzle.target["cells"], puzzle.target)
    assert "sc" not in TASK.score(Invalid("no_json"), puzzle.target)


def test_a_flat_that_faces_inwards_fits_nothing(pose):
    puzzle = pose(4, 3)
    flipped = [[3 - row, 3 - column] for row, column in puzzle.target["cells"]]
    sides = puzzle.target["signatures"]
    at = {tuple(cell): i for i, cell in enumerate(flipped)}
    inward = sum(
        0 in (sides[at[r, c]][1], sides[at[r, c + 1]][3]) for r in range(4) for c in range(3)
    ) + sum(0 in (sides[at[r, c]][2], sides[at[r + 1, c]][0]) for r in range(3) for c in range(4))  # fmt: skip
    assert inward == 16
    assert TASK.score(flipped, puzzle.target)["sc"] <= (24 - inward) / 24


def entries_of(pose, grid, cells, seed=1):
    puzzle = pose(grid, seed)
    return score_text(completion(cells(puzzle.target["cells"])), puzzle)


COLLAPSED = {
    "all pieces on two neighbouring cells": lambda truth: [[0, i % 2] for i in range(len(truth))],
    "two cells by the checkerboard's colour": lambda truth: [[0, (row + column) % 2] for row, column in truth],
    "everything on one cell": lambda truth: [[0, 0] for _ in truth],
    "everything shifted out of range": lambda truth: [[row + 1, column + 1] for row, column in truth],
    "negative cells": lambda truth: [[row - max(r for r, _ in truth) - 1, column] for row, column in truth],
}


@pytest.mark.parametrize("grid", [2, 4, 8, 16])
@pytest.mark.parametrize("exploit", COLLAPSED)
def test_answers_that_game_adjacency_earn_nothing(pose, grid, exploit):
    scores = entries_of(pose, grid, COLLAPSED[exploit])
    assert scores.pop("pa_lenient") == 0
    assert set(scores.values()) == {0.0}


@pytest.mark.parametrize("grid", [2, 4, 8])
def test_placing_only_two_compatible_pieces_earns_nothing(pose, grid):
    puzzle = pose(grid, 2)
    cells = puzzle.target["cells"]
    pair = [cells.index([0, 0]), cells.index([0, 1])]
    scores = score_text(json.dumps({str(i): cells[i] for i in pair}), puzzle)
    assert scores.pop("pa_lenient") == 2 / grid**2
    assert set(scores.values()) == {0.0}


@pytest.mark.parametrize("grid", [2, 4, 8])
def test_a_repeated_key_earns_nothing_whichever_copy_is_right(pose, grid):
    puzzle = pose(grid)
    gold = TASK.gold(puzzle.target)
    for text in (gold[:-1] + ',"0":[0,0]}', '{"0":[0,0],' + gold[1:], gold[:-1] + "," + gold[1:]):
        scores = score_text(text, puzzle)
        scores.pop("pa_lenient")
        assert set(scores.values()) == {0.0}


@pytest.mark.parametrize("key", ["00", "0_0", "０", " 0", "0 ", "+0", "-0", "0.0", "0x0", "\\u00a00", "zero", ""])
def test_only_the_canonical_form_of_an_id_counts(pose, key):
    puzzle = pose(4)
    text = TASK.gold(puzzle.target).replace('"0":', f'"{key}":')
    scores = score_text(text, puzzle)
    assert scores.pop("pa_lenient") == 15 / 16
    assert set(scores.values()) == {0.0}


@pytest.mark.parametrize(
    "value",
    ["true", "1.0", "1e0", "-1", "-0", "NaN", "Infinity", '"1"', "null", "[1]", "{}", "01", "1_0", "１", "9" * 5000],
)
def test_only_plain_whole_numbers_count_as_coordinates(pose, value):
    puzzle = pose(4)
    cell = puzzle.target["cells"][0]
    text = TASK.gold(puzzle.target).replace(f'"0":[{cell[0]},', f'"0":[{value},')
    scores = score_text(text, puzzle)
    assert scores.pop("pa_lenient") == 15 / 16
    assert set(scores.values()) == {0.0}


WARPS = {
    "mirrored": lambda grid, row, column: [row, grid - 1 - column],
    "turned by half": lambda grid, row, column: [grid - 1 - row, grid - 1 - column],
    "transposed": lambda grid, row, column: [column, row],
    "one row too low": lambda grid, row, column: [(row + 1) % grid, column],
}


@pytest.mark.parametrize("grid", [2, 4, 5, 8, 16])
@pytest.mark.parametrize("warp", WARPS)
def test_warped_truths_score_what_the_plain_count_says(pose, reference_score, grid, warp):
    puzzle = pose(grid, 4)
    answer = [WARPS[warp](grid, *cell) for cell in puzzle.target["cells"]]
    scores = score_text(completion(answer), puzzle)
    assert scores == pytest.approx(reference_score(answer, puzzle.target))
    if warp == "one row too low":
        assert scores["pa"] == 0
        assert scores["aa_oriented"] == pytest.approx(1 - 1 / (2 * (grid - 1)))
    else:
        assert scores["aa"] == 1
        assert scores["em"] == 0
    if warp == "turned by half":
        assert scores["aa_oriented"] == 0


@settings(max_examples=200, deadline=None)
@given(grid=st.integers(2, 5), seed=st.integers(0, 2**32), data=st.data())
def test_leaving_pieces_out_never_beats_a_well_formed_answer(pose, grid, seed, data):
    puzzle = pose(grid, seed)
    cells = st.lists(st.integers(-1, grid), min_size=2, max_size=2)
    items = data.draw(st.lists(st.tuples(st.integers(0, grid**2), cells), max_size=grid**2 + 2))
    items += [(i, puzzle.target["cells"][i]) for i in data.draw(st.sets(st.integers(0, grid**2 - 1)))]
    answer = TASK.parse("{" + ",".join(f'"{i}":{json.dumps(cell)}' for i, cell in items) + "}", puzzle.spec)
    if not isinstance(answer, Invalid):
        return
    lenient = TASK.score(answer, puzzle.target)["pa_lenient"]
    partial = answer.partial or [None] * grid**2
    free = [cell for cell in all_cells(grid) if cell not in partial]
    completed = [cell if cell is not None else free.pop() for cell in partial]
    assert not free
    assert TASK.score(completed, puzzle.target)["pa"] >= lenient
