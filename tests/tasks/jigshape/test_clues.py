import itertools
import json
import re

import numpy as np
import pytest

from tasks.contract import Invalid
from tasks.jigshape import TASK
from tasks.jigshape.prompt import messages
from tasks.jigshape.spec import Spec

KINDS = [
    {"grid": 3, "clues": 4},
    {"grid": 4, "clues": 7, "repeat_clues": False},
    {"grid": 4, "clues": 12, "clue_layout": "block"},
    {"grid": 5, "clues": 16, "clue_layout": "block", "answer_format": "by_cell"},
    {"grid": 8, "clues": 60, "clue_layout": "block"},
    {"grid": 4, "clues": 6, "shape": False, "answer_format": "cells_then_ids"},
]
each_kind = pytest.mark.parametrize("fields", KINDS, ids=[str(i) for i in range(len(KINDS))])


@each_kind
def test_the_prompt_gives_the_true_cells_of_as_many_pieces_as_asked(pose, fields):
    for seed in range(10):
        puzzle = pose(seed=seed, **fields)
        text = puzzle.messages[-1]["content"][-1]["text"]
        placed = re.findall(r"(\d+) at \[(\d+), (\d+)\]", text)
        assert [int(index) for index, _, _ in placed] == puzzle.target["clues"]
        assert len(placed) == fields["clues"]
        assert all(puzzle.target["cells"][int(i)] == [int(row), int(column)] for i, row, column in placed)
        assert ("must contain them" in text) == fields.get("repeat_clues", True)
        assert ("Leave them out" in text) == (not fields.get("repeat_clues", True))


@each_kind
def test_the_puzzle_is_the_one_without_clues(pose, fields):
    plain = {name: value for name, value in fields.items() if name not in ("clues", "repeat_clues", "clue_layout")}
    assert pose(seed=4, **fields).target["cells"] == pose(seed=4, **plain).target["cells"]


def test_a_block_leaves_a_square_of_cells_open(pose):
    corners = set()
    for seed in range(80):
        target = pose(8, seed, clues=60, clue_layout="block").target
        left = sorted(tuple(cell) for i, cell in enumerate(target["cells"]) if i not in target["clues"])
        top, side = left[0]
        assert left == [(top, side), (top, side + 1), (top + 1, side), (top + 1, side + 1)]
        corners.add((top, side))
    assert len(corners) > 30


@each_kind
def test_only_the_other_pieces_count(pose, fields):
    puzzle = pose(seed=2, **fields)
    truth, given = puzzle.target["cells"], set(puzzle.target["clues"])
    others = [index for index in range(len(truth)) if index not in given]
    assert list(TASK.score(truth, puzzle.target)) == ["pa", "em", "valid", "pa_lenient"]
    swapped = [*truth]
    swapped[others[0]], swapped[others[1]] = truth[others[1]], truth[others[0]]
    assert TASK.score(swapped, puzzle.target)["pa"] == pytest.approx(1 - 2 / len(others))
    one, two = sorted(given)[:2]
    wrong_clues = [*truth]
    wrong_clues[one], wrong_clues[two] = truth[two], truth[one]
    assert TASK.score(wrong_clues, puzzle.target)["em"] == 1
    only_clues = [cell if index in given else None for index, cell in enumerate(truth)]
    assert TASK.score(Invalid("wrong_keys", only_clues), puzzle.target)["pa_lenient"] == 0


def test_pieces_that_are_to_be_left_out_must_be_left_out(pose):
    puzzle = pose(3, 1, clues=5, repeat_clues=False)
    gold = TASK.gold(puzzle.target)
    said = json.loads(gold)
    assert sorted(map(int, said)) == [index for index in range(9) if index not in puzzle.target["clues"]]
    whole = {str(index): cell for index, cell in enumerate(puzzle.target["cells"])}
    assert TASK.parse(json.dumps(whole), puzzle.spec).reason == "wrong_keys"
    answer = TASK.parse(gold, puzzle.spec)
    assert [index for index, cell in enumerate(answer) if cell is None] == puzzle.target["clues"]
    assert TASK.score(answer, puzzle.target)["em"] == 1


def test_an_answer_that_leaves_out_what_is_asked_for_is_no_valid_one(pose):
    puzzle = pose(3, 1, clues=4, repeat_clues=False)
    clues, others = puzzle.target["clues"], [i for i in range(9) if i not in puzzle.target["clues"]]
    cells = puzzle.target["cells"]
    for chosen in (clues + others[:1], others[:4] + clues[:1]):
        answer = TASK.parse(json.dumps({str(i): cells[i] for i in chosen}), puzzle.spec)
        right = len(set(chosen) & set(others))
        assert TASK.score(answer, puzzle.target) == {"pa": 0, "em": 0, "valid": 0, "pa_lenient": right / 5}
        assert TASK.diagnose(answer, puzzle.target)["reason"] == "wrong_keys"


def test_the_form_in_the_prompt_names_no_piece_that_is_to_be_left_out(pose):
    for wording in ("full", "brief"):
        text = pose(3, 1, clues=4, repeat_clues=False, wording=wording).messages[-1]["content"][-1]["text"]
        assert '{"id"' in text
        assert '"0"' not in text
        assert '{"0"' in pose(3, 1, clues=4, wording=wording).messages[-1]["content"][-1]["text"]


@each_kind
def test_all_that_the_prompt_depends_on_is_what_is_asked(pose, fields):
    for seed in range(5):
        puzzle = pose(seed=seed, **fields)
        assert messages(puzzle.spec, json.loads(json.dumps(puzzle.target["asked"]))) == puzzle.messages


def test_puzzles_made_elsewhere_have_no_clues_and_no_hints():
    for fields in ({"clues": 3}, {"hints": "color"}):
        with pytest.raises(ValueError, match="remove clues and hints"):
            TASK.target_of([[0, 0], [0, 1], [1, 0], [1, 1]], Spec(grid=3, **fields))


def guess(rng, puzzle, *, by_flats):
    """Shuffles the open pieces among the open cells, within their kind if flats are read."""
    target, last = puzzle.target, puzzle.spec.grid - 1
    answer = [*target["cells"]]
    ids, cells = {}, {}
    for index, cell in enumerate(target["cells"]):
        if index in target["clues"]:
            continue
        row, column = cell
        kind = (row == 0, column == last, row == last, column == 0) if by_flats else None
        ids.setdefault(kind, []).append(index)
        cells.setdefault(kind, []).append(cell)
    for kind, members in ids.items():
        for index, choice in zip(members, rng.permutation(len(members)), strict=True):
            answer[index] = cells[kind][choice]
    return answer


@pytest.mark.parametrize("row", ["random", "flats only"])
@pytest.mark.parametrize("fields", [k for k in KINDS if k.get("shape", True)] + [{"grid": 2, "clues": 1}], ids=str)
def test_chance_is_that_of_the_rest(pose, fields, row):
    rng = np.random.default_rng(3)
    expected = TASK.chance(Spec(**fields))[row]
    scores = []
    for seed in range(3000):
        puzzle = pose(seed=seed, **fields)
        scores.append(TASK.score(guess(rng, puzzle, by_flats=row == "flats only"), puzzle.target))
    assert list(expected) == list(scores[0])
    for entry, value in expected.items():
        sample = np.array([score[entry] for score in scores])
        spread = max(sample.std(), (value * (1 - value)) ** 0.5 if entry == "em" else 0.0)
        assert abs(sample.mean() - value) <= 4 * spread / len(scores) ** 0.5 + 1e-9, entry


def test_extreme60_leaves_a_quarter_to_chance():
    random = TASK.chance(Spec(grid=8, clues=60, clue_layout="block"))["random"]
    assert random["pa"] == 1 / 4
    assert random["em"] == pytest.approx(1 / 24)


def test_the_chance_of_scattered_clues_is_the_mean_over_all_sets():
    expected = TASK.chance(Spec(grid=3, clues=5))["flats only"]
    assert expected["pa"] == expected["em"] == 1  # at grid 3 every cell is the only one of its kind
    four = TASK.chance(Spec(grid=4, clues=12))["flats only"]
    cells = list(itertools.product(range(4), repeat=2))
    pa, em = [], []
    for chosen in itertools.combinations(cells, 4):
        sizes = {}
        for row, column in chosen:
            kind = (row == 0, column == 3, row == 3, column == 0)
            sizes[kind] = sizes.get(kind, 0) + 1
        pa.append(len(sizes) / 4)
        em.append(np.prod([1 / np.prod(range(1, size + 1)) for size in sizes.values()]))
    assert four["pa"] == pytest.approx(np.mean(pa), rel=1e-12)
    assert four["em"] == pytest.approx(np.mean(em), rel=1e-12)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"grid": 3, "clues": 8}, "0 to 7"),
        ({"grid": 4, "clues": 11, "clue_layout": "block"}, "set clues: 12"),
        ({"grid": 4, "clues": 3, "repeat_clues": False, "answer_format": "by_cell"}, "allowed: by_id"),
        ({"grid": 4, "clues": -1}, "greater than or equal to 0"),
    ],
)
def test_clues_that_make_no_sense_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        Spec(**fields)
