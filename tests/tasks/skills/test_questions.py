"""What is asked, what the right answer is, and what a report says of another."""

from collections import Counter

import pytest

from tasks import TASKS
from tasks.contract import Invalid

NAMES = ("piece_edges", "piece_kind", "piece_cell", "pieces_fit", "piece_right")
SIDES = {"left of": ((0, 1), 1, 3), "above": ((1, 0), 2, 0)}


@pytest.fixture(scope="module")
def targets(make_photo):
    """targets(name, grid, ...) -> the targets of `count` seeds."""
    photo = make_photo(8, 8)

    def posed(name, grid, count=300, **fields):
        task = TASKS[name]
        spec = task.Spec(puzzle={"grid": grid, **fields})
        return [task.pose(spec, photo, seed).target for seed in range(count)]

    return posed


@pytest.mark.parametrize("grid", [2, 5])
def test_edges_are_those_of_the_signature(targets, grid):
    for target in targets("piece_edges", grid):
        signature = target["jigsaw"]["signatures"][target["asked"]["pieces"][0]]
        assert target["answer"] == [{1: "tab", -1: "blank", 0: "flat"}[edge] for edge in signature]


@pytest.mark.parametrize("grid", [3, 6])
def test_kinds_follow_from_the_cell_and_are_balanced(targets, grid):
    count = 900
    all_targets = targets("piece_kind", grid, count)
    for target in all_targets:
        row, column = target["jigsaw"]["cells"][target["asked"]["pieces"][0]]
        outer = (row in (0, grid - 1)) + (column in (0, grid - 1))
        assert target["answer"] == ("interior", "border", "corner")[outer]
    kinds = Counter(target["answer"] for target in all_targets)
    assert all(abs(kinds[kind] - count / 3) < 4 * (count * 2 / 9) ** 0.5 for kind in ("corner", "border", "interior"))


def test_a_cell_is_the_one_of_the_piece(targets):
    for target in targets("piece_cell", 4):
        assert target["answer"] == target["jigsaw"]["cells"][target["asked"]["pieces"][0]]


@pytest.mark.parametrize("grid", [2, 5])
def test_the_piece_to_the_right_is_one_column_on(targets, grid):
    for target in targets("piece_right", grid):
        cells = target["jigsaw"]["cells"]
        row, column = cells[target["asked"]["pieces"][0]]
        assert cells[target["answer"]] == [row, column + 1]


@pytest.mark.parametrize(("grid", "shape"), [(2, True), (4, True), (4, False)])
def test_pairs_are_neighbours_or_not_and_never_face_the_outside(targets, grid, shape):
    for target in targets("pieces_fit", grid, shape=shape):
        first, second = target["asked"]["pieces"]
        (down, across), facing, faced = SIDES[target["asked"]["relation"]]
        cells, signatures = target["jigsaw"]["cells"], target["jigsaw"]["signatures"]
        next_to_first = [cells[first][0] + down, cells[first][1] + across]
        before_second = [cells[second][0] - down, cells[second][1] - across]
        assert max(next_to_first) < grid
        assert min(before_second) >= 0
        assert first != second
        neighbours = next_to_first == cells[second]
        assert target["answer"] == ("yes" if neighbours else "no")
        if shape:
            fits = signatures[first][facing] * signatures[second][faced] == -1
            assert 0 not in (signatures[first][facing], signatures[second][faced])
            assert target["pair"] == ("neighbours" if neighbours else "shapes fit" if fits else "shapes differ")


def test_half_of_the_pairs_are_neighbours_and_half_of_the_others_fit_in_shape(targets):
    count = 1600
    all_targets = targets("pieces_fit", 4, count)
    pairs = Counter(target["pair"] for target in all_targets)
    for pair, share in (("neighbours", 1 / 2), ("shapes fit", 1 / 4), ("shapes differ", 1 / 4)):
        assert abs(pairs[pair] - share * count) < 4 * (count * share * (1 - share)) ** 0.5
    relations = Counter(target["asked"]["relation"] for target in all_targets)
    assert abs(relations["above"] - count / 2) < 4 * count**0.5 / 2


def test_straight_cuts_fit_everywhere_so_that_only_content_tells_the_pairs_apart(targets):
    assert {target["pair"] for target in targets("pieces_fit", 3, shape=False)} == {"neighbours", "shapes fit"}


# A 2x2 has two pairs beside the neighbours, so that often both fit in shape or neither does.
def test_where_no_pair_is_of_the_wanted_kind_one_of_the_other_is_asked_about(targets):
    count = 1600
    pairs = Counter(target["pair"] for target in targets("pieces_fit", 2, count))
    assert abs(pairs["neighbours"] - count / 2) < 4 * count**0.5 / 2
    assert min(pairs["shapes fit"], pairs["shapes differ"]) > 0


def test_all_sub_skills_ask_about_the_sheet_that_jigshape_draws_from_the_seed(make_photo):
    photo = make_photo(90, 70)
    fields = {"grid": 3, "piece_px": 24}
    jigsaw = TASKS["jigshape"].make(TASKS["jigshape"].Spec(**fields), photo, 17)
    for name in NAMES:
        example = TASKS[name].make(TASKS[name].Spec(puzzle=fields), photo, 17)
        assert example.puzzle.target["jigsaw"] == jigsaw.puzzle.target
        assert [image.tobytes() for image in example.images] == [image.tobytes() for image in jigsaw.images]


def test_every_piece_is_asked_about(targets):
    for name in ("piece_edges", "piece_cell", "piece_kind", "piece_right"):
        assert {target["asked"]["pieces"][0] for target in targets(name, 3)} == set(range(9)), name


@pytest.mark.parametrize(
    ("given", "edges", "wrong"),
    [
        (["tab", "blank", "flat", "tab"], 1.0, []),
        (["tab", "blank", "tab", "flat"], 0.5, ["bottom", "left"]),
        (["flat", "flat", "tab", "blank"], 0.0, ["top", "right", "bottom", "left"]),
        (Invalid("no_edges"), 0.0, []),
    ],
)
def test_edges_are_counted_one_by_one(given, edges, wrong):
    target = {"answer": ["tab", "blank", "flat", "tab"]}
    scores = TASKS["piece_edges"].score(given, target)
    assert scores == {"correct": float(edges == 1), "edges": edges, "valid": float(not isinstance(given, Invalid))}
    assert TASKS["piece_edges"].diagnose(given, target)["wrong"] == wrong


def test_reports_say_how_far_off_a_cell_is():
    diagnose = TASKS["piece_cell"].diagnose
    target = {"answer": [0, 1]}
    assert diagnose([1, 0], target) == {"displacement": [1, -1], "transposed": True, "reason": None}
    assert diagnose([0, 1], target) == {"displacement": [0, 0], "transposed": False, "reason": None}
    assert diagnose([1, 1], {"answer": [1, 1]})["transposed"] is False
    assert diagnose(Invalid("no_cell"), target) == {"displacement": None, "transposed": False, "reason": "no_cell"}


@pytest.mark.parametrize("name", NAMES)
def test_reports_say_why_an_answer_is_invalid(targets, name):
    target, task = targets(name, 3, 1)[0], TASKS[name]
    assert task.diagnose(Invalid("truncated"), target)["reason"] == "truncated"
    assert task.diagnose(target["answer"], target)["reason"] is None


def test_reports_say_which_kind_of_pair_was_asked_about(targets):
    for target in targets("pieces_fit", 3, 20):
        assert TASKS["pieces_fit"].diagnose("yes", target)["pair"] == target["pair"]


def test_questions_do_not_change_with_the_looks_of_the_sheet(make_photo):
    photo = make_photo(8, 8)
    for name in NAMES:
        task = TASKS[name]
        plain, dim = ({"grid": 4, "piece_px": 40, "brightness": value} for value in (1.0, 0.5))
        posed = [[task.pose(task.Spec(puzzle=p), photo, seed).target for seed in range(20)] for p in (plain, dim)]
        assert posed[0] == posed[1]
