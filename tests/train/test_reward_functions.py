"""What completions earn, against an independent reading of the rules that is written out here."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from trl.trainer.utils import get_callable_name, is_async_callable

from data_mix.source import Posed
from recipes.loader import load_recipe
from tasks import TASKS
from tasks.photo import ImagePhoto
from train.reward_functions import RewardFunction, earned, reward_of, reward_weights

PHOTO = ImagePhoto(Image.new("RGB", (8, 8)))
WEIGHTS = {"pa": 1.0, "sc": 0.125, "valid": 0.05}
EVERY = ("pa", "em", "aa", "aa_oriented", "sc", "valid", "pa_lenient")


def posed(grid, seed=0, **fields):
    return posed_as("jigshape", seed, grid=grid, **fields)


def posed_as(task, seed=0, **fields):
    return Posed("part", "train", 0, TASKS[task].pose(TASKS[task].Spec(**fields), PHOTO, seed), PHOTO)


def columns(puzzles, texts):
    """What TRL is given of these completions: {entry: a value each}, from a function of its own per entry."""
    scores = [
        earned(puzzle.task, text, puzzle.puzzle.spec, puzzle.puzzle.target)
        for puzzle, text in zip(puzzles, texts, strict=True)
    ]
    others = {"prompts": [[]], "completions": [[]], "completion_ids": [[]], "trainer_state": None, "log_extra": None}
    return {entry: RewardFunction(entry)(scores=scores, **others) for entry in (*EVERY, "correct")}


def told(puzzle, text):
    """What a completion earns on each entry that it has."""
    return {entry: values[0] for entry, values in columns([puzzle], [text]).items() if values[0] is not None}


# ---- the reference: loops and json only --------------------------------------------------------


def reference_read(text, grid):
    """[row, col] by id of a valid text, else None."""
    said = []
    for stretch in re.split(r"(</?think>)", text):
        if stretch == "</think>" and said[-1:] != ["<think>"]:
            said = []
        elif stretch == "</think>":
            said.pop()
        elif said[-1:] != ["<think>"]:
            said.append(stretch)
    if said[-1:] == ["<think>"]:
        return None
    heard = "".join(said)
    starts = [match.start() for match in re.finditer(r'\{(?=[ \t\n\r]*["}])', heard)]
    digits = {str(number): number for number in range(grid)}
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: (pairs,), parse_int=digits.get, parse_float=repr)
    try:
        (pairs,), end = decoder.raw_decode(heard, starts[0])
    except (IndexError, ValueError, RecursionError):
        return None
    cells = [cell for _, cell in sorted(pairs, key=lambda pair: (len(pair[0]), pair[0]))]
    if starts[-1] >= end or sorted(key for key, _ in pairs) != sorted(map(str, range(grid**2))):
        return None
    in_form = all(isinstance(cell, list) and len(cell) == 2 for cell in cells)
    in_form = in_form and all(type(number) is int for cell in cells for number in cell)
    return cells if in_form and len(set(map(tuple, cells))) == grid**2 else None


def reference_scores(text, target):
    """Every entry of EVERY, counted one by one."""
    grid, truth = target["grid"], target["cells"]
    cells = reference_read(text, grid)
    if cells is None:
        return dict.fromkeys(EVERY, 0.0)
    at, true_at = ({tuple(cell): index for index, cell in enumerate(each)} for each in (cells, truth))
    touching = in_order = fitting = 0
    steps = [((r, c), (r, c + 1), 1, 3) for r in range(grid) for c in range(grid - 1)]
    steps += [((r, c), (r + 1, c), 2, 0) for r in range(grid - 1) for c in range(grid)]
    true_pairs = [(true_at[one], true_at[other], side) for one, other, side, _ in steps]
    for one, other, side, facing in steps:
        pair = (at[one], at[other], side)
        in_order += pair in true_pairs
        touching += any(set(pair[:2]) == set(true[:2]) for true in true_pairs)
        fitting += target["signatures"][at[one]][side] * target["signatures"][at[other]][facing] == -1
    right = sum(cell == true for cell, true in zip(cells, truth, strict=True))
    pa = right / grid**2
    values = (pa, float(pa == 1), touching / len(steps), in_order / len(steps), fitting / len(steps), 1.0, pa)
    return dict(zip(EVERY, values, strict=True))


# ---- adversarial completions -------------------------------------------------------------------

PUZZLE = posed(4, 3)
CELLS = PUZZLE.puzzle.target["cells"]
GOLD = TASKS["jigshape"].gold(PUZZLE.puzzle.target)


def text_of(change):
    """The right answer with each cell changed: `change(id, row, column)`."""
    return json.dumps({str(index): change(index, *cell) for index, cell in enumerate(CELLS)})


def with_item(text, key="0"):
    """The right answer with one item written otherwise."""
    return re.sub(rf'"{key}":\[[0-9],[0-9]\]', lambda _: text, GOLD)


ROW, COLUMN = CELLS[0]
INVALID = {
    "nothing": "",
    "blanks": " \n\t",
    "an apology": "I cannot solve this puzzle.",
    "the prompt": "".join(part.get("text", "") for m in PUZZLE.puzzle.messages for part in m["content"]),
    "an empty object": "{}",
    "null": "null",
    "a number": "1.0",
    "NUL": "\x00",
    "cut before the end": GOLD[:-1],
    "cut in the middle": GOLD[: len(GOLD) // 2],
    "the answer twice": GOLD + GOLD,
    "the answer and then another": GOLD + "\nor " + text_of(lambda i, r, c: [c, r]),
    "a wrong answer first": text_of(lambda i, r, c: [c, r]) + GOLD,
    "all items twice": GOLD[:-1] + "," + GOLD[1:],
    "an id twice, right last": GOLD[:-1] + f',"0":[{ROW},{COLUMN}]}}',
    "an id twice, right first": f'{{"0":[{ROW},{COLUMN}],' + GOLD[1:],
    "a piece missing": json.dumps({str(i): CELLS[i] for i in range(15)}),
    "two compatible pieces alone": json.dumps({str(CELLS.index(cell)): cell for cell in ([0, 0], [0, 1])}),
    "a piece too many": GOLD[:-1] + ',"16":[0,0]}',
    "an id with a leading zero": with_item(f'"00":[{ROW},{COLUMN}]'),
    "an id with an underscore": with_item('"1_0":[0,0]', "10"),
    "an id with a blank": with_item(f'" 0":[{ROW},{COLUMN}]'),
    "an id in full-width digits": with_item(f'"\uff10":[{ROW},{COLUMN}]'),
    "an id without quotes": with_item(f"0:[{ROW},{COLUMN}]"),
    "a float": with_item(f'"0":[{ROW}.0,{COLUMN}]'),
    "an exponent": with_item(f'"0":[{ROW}e0,{COLUMN}]'),
    "true": text_of(lambda i, r, c: [r == 1 if r < 2 else r, c]),
    "numbers as text": text_of(lambda i, r, c: [str(r), str(c)]),
    "negative zero": text_of(lambda i, r, c: [r, c]).replace("[0,", "[-0,").replace("[0, ", "[-0, "),
    "negative cells, which wrap": text_of(lambda i, r, c: [r - 4, c - 4]),
    "counted from one": text_of(lambda i, r, c: [r + 1, c + 1]),
    "all on one cell": text_of(lambda i, r, c: [0, 0]),
    "all on two neighbouring cells": text_of(lambda i, r, c: [0, i % 2]),
    "two cells like a checkerboard": text_of(lambda i, r, c: [0, (r + c) % 2]),
    "two pieces on one cell": with_item(f'"0":[{CELLS[1][0]},{CELLS[1][1]}]'),
    "not a number": with_item('"0":[NaN,NaN]'),
    "infinity": with_item('"0":[Infinity,0]'),
    "a number of 5,000 digits": with_item(f'"0":[{"1" * 5000},0]'),
    "deep nesting": '{"0":' + "[" * 50_000 + "]" * 50_000 + "}",
    "an object in an object": '{"answer":' + GOLD + "}",
    "three coordinates": text_of(lambda i, r, c: [r, c, 0]),
    "one coordinate": text_of(lambda i, r, c: [r]),
    "row and column by name": text_of(lambda i, r, c: {"row": r, "col": c}),
    "a trailing comma": GOLD[:-1] + ",}",
    "single quotes": GOLD.replace('"', "'"),
    "rows of ids": json.dumps([[CELLS.index([r, c]) for c in range(4)] for r in range(4)]),
    "thought only": f"<think>{GOLD}</think>",
    "a thought without end": f"<think>{GOLD}",
    "taken back by an end of thought": f"{GOLD}</think>",
}
VALID = {
    "the right answer": GOLD,
    "in prose": f"Sure! Here is the answer:\n{GOLD}\nI am 100% sure.",
    "in a code fence": f"```json\n{GOLD}\n```",
    "after a thought": f"<think>{text_of(lambda i, r, c: [c, r])}</think>{GOLD}",
    "mirrored": text_of(lambda i, r, c: [r, 3 - c]),
    "turned over": text_of(lambda i, r, c: [3 - r, 3 - c]),
    "rows and columns exchanged": text_of(lambda i, r, c: [c, r]),
    "shifted by a row": text_of(lambda i, r, c: [(r + 1) % 4, c]),
    "in the order of the ids": text_of(lambda i, r, c: [i // 4, i % 4]),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_completion_earns_nothing(name):
    assert set(reference_scores(INVALID[name], PUZZLE.puzzle.target).values()) == {0.0}
    assert set(told(PUZZLE, INVALID[name]).values()) == {0.0}


@pytest.mark.parametrize("name", VALID)
def test_a_valid_completion_earns_what_the_reference_says(name):
    expected = reference_scores(VALID[name], PUZZLE.puzzle.target)
    assert expected["valid"] == 1
    assert told(PUZZLE, VALID[name]) == pytest.approx(expected, abs=1e-12)


SCRAPS = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "0",
    "1",
    "-",
    ".",
    " ",
    "\n",
    '"0":[0,0],',
    "<think>",
    "</think>",
    "x",
    "é",
]


@st.composite
def malformed(draw, gold):
    """The right answer, or one with pieces exchanged, after a few random cuts, copies and scraps."""
    text = gold
    for _ in range(draw(st.integers(0, 3))):
        cells = re.findall(r"\[[0-9],[0-9]\]", text)
        one, other = draw(st.sampled_from(cells)), draw(st.sampled_from(cells))
        text = text.replace(one, "here").replace(other, one).replace("here", other)
    for _ in range(draw(st.integers(0, 3))):
        start, stop = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        scrap = draw(st.sampled_from(SCRAPS))
        text = draw(
            st.sampled_from(
                [text[:start] + text[stop:], text[:stop] + text[start:], text[:start] + scrap + text[start:],
                 text[:start] + scrap + text[start + len(scrap) :], scrap + text, text + scrap, f" {text}\n"]
            )
        )  # fmt: skip
    return text


@settings(max_examples=400, deadline=None)
@given(grid=st.integers(2, 3), seed=st.integers(0, 50), data=st.data())
def test_random_malformed_completions_earn_what_the_reference_says(grid, seed, data):
    puzzle = posed(grid, seed, piece_px=48)
    text = data.draw(malformed(TASKS["jigshape"].gold(puzzle.puzzle.target)))
    assert told(puzzle, text) == pytest.approx(reference_scores(text, puzzle.puzzle.target), abs=1e-12)


# ---- as TRL calls them -------------------------------------------------------------------------


def test_trl_logs_each_function_under_its_entry_and_calls_it_directly():
    functions = [RewardFunction(entry) for entry in WEIGHTS]
    assert [get_callable_name(function) for function in functions] == list(WEIGHTS)
    assert not any(is_async_callable(function) for function in functions)


def test_a_puzzle_without_an_entry_gives_none_for_it_even_when_it_is_answered_badly():
    puzzles = [
        posed(2), posed(4, shape=False), posed(4, clues=4),
        posed_as("piece_kind", puzzle={"grid": 3}), posed_as("probes", kind="grid_missing", grid=2),
    ]  # fmt: skip
    for texts in ([puzzle.task.gold(puzzle.puzzle.target) for puzzle in puzzles], [""] * 5):
        found, value = columns(puzzles, texts), 1.0 if texts[0] else 0.0
        assert found["pa"] == [value, value, value, None, None]
        assert found["sc"] == [value, None, None, None, None]
        assert found["correct"] == [None, None, None, value, value]
        assert found["valid"] == [value] * 5


def test_a_reward_is_the_weighted_sum_of_the_entries_that_are_there():
    weights = {"pa": 1.0, "sc": 0.125, "correct": 1.0, "valid": 0.05, "em": 0.0}
    assert reward_of({"pa": 0.5, "sc": 0.5, "em": 1.0, "valid": 1.0, "aa": 1.0}, weights) == 0.6125
    assert reward_of({"correct": 1.0, "valid": 1.0}, weights) == 1.05


def test_clues_that_are_left_out_are_right_and_pieces_that_are_left_out_are_not():
    puzzle = posed(2, clues=1, repeat_clues=False)
    gold = TASKS["jigshape"].gold(puzzle.puzzle.target)
    assert (told(puzzle, gold)["pa"], told(puzzle, gold)["valid"]) == (1, 1)
    given = puzzle.puzzle.target["clues"][0]
    missing = next(index for index in range(4) if index != given)
    items = json.loads(gold) | {str(given): puzzle.puzzle.target["cells"][given]}
    del items[str(missing)]
    assert set(told(puzzle, json.dumps(items)).values()) == {0.0}


def test_a_recipe_rewards_what_its_parts_have(in_tmp_path):
    words = ["recipe=quickstart", "train.predictable_weight=1"]
    mixed = [*words, "reward.em=0", "data.parts.x={task: probes, count: 1}"]
    assert reward_weights(load_recipe(mixed)) == {"pa": 1.0, "sc": 0.125, "correct": 1.0, "valid": 0.05, "em": 0.0}
    assert list(reward_weights(load_recipe([*words, "reward={}"]))) == ["pa", "sc", "valid"]
    with pytest.raises(ValueError, match=r"reward: got nothing; .*do set reward=\{\}"):
        reward_weights(load_recipe(["recipe=quickstart"]))
