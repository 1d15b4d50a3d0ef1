import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.contract import Invalid
from tasks.jigshape import TASK
from tasks.jigshape.spec import Spec

TWO = Spec(grid=2)
GOLD = '{"0":[1,0],"1":[0,0],"2":[0,1],"3":[1,1]}'
CELLS = [[1, 0], [0, 0], [0, 1], [1, 1]]

EXAMPLES = {
    "no_json": [
        "", "I cannot see it.", "{0: [1, 0]}", "[[1,0],[0,0],[0,1],[1,1]]", "} {", GOLD.replace('"', "'"),
        f"<think>{GOLD}</think>",
    ],
    "truncated": [GOLD[:-1], GOLD[:5], "```json\n" + GOLD[:20] + "\n```", f"<think>{GOLD}", f"{GOLD}<think>", '{"'],
    "several_objects": [
        GOLD + GOLD, f"First {GOLD}\nthen {GOLD}", "{}" + GOLD, GOLD + '{"a', f'{GOLD} or {{"0":[0,0]}}',
    ],
    "malformed": [
        GOLD.replace(":", " "), GOLD.replace("]}", "],}"), GOLD.replace('"1"', "'1'"), GOLD.replace("[1,0]", "[01,0]"),
        GOLD.replace("[1,0]", "[1_0,0]"), GOLD.replace("[1,0]", "[+1,0]"), GOLD.replace("[1,0]", "[１,0]"),
        GOLD.replace("[1,0]", "[" * 10**5 + "]" * 10**5), GOLD.replace(",", "，"), '{"0":[1,0] // top\n}',
    ],
    "duplicate_key": [GOLD[:-1] + ',"0":[1,0]}', GOLD.replace('"1"', '"0"'), GOLD.replace('"1"', '"\\u0030"')],
    "wrong_keys": [
        "{}", GOLD.replace('"3"', '"4"'), GOLD.replace('"0"', '"00"'), GOLD.replace('"0"', '" 0"'),
        GOLD.replace('"0"', '"０"'), GOLD[:-1] + ',"4":[1,1]}', GOLD.replace(',"3":[1,1]', ""), f'{{"answer":{GOLD}}}',
    ],
    "bad_value": [
        GOLD.replace("[1,0]", value)
        for value in ("[1]", "[1,0,0]", '"1,0"', "[true,0]", "[1.0,0]", "[1e0,0]", "[NaN,0]", "null", "{}", '["1",0]',
                      '{"row":1,"col":0}', "[[1],0]", "[-Infinity,0]", "[]", "1")
    ],
    "out_of_range": [
        GOLD.replace("[1,0]", cell) for cell in ("[2,0]", "[0,2]", "[-1,0]", "[-0,0]", f"[{'9' * 5000},0]")
    ],
    "conflict": [GOLD.replace("[1,0]", "[1,1]"), '{"0":[0,0],"1":[0,0],"2":[0,0],"3":[0,0]}'],
}  # fmt: skip
BY_CELL = Spec(grid=2, answer_format="by_cell")
CELL_GOLD = "[[1,2],[0,3]]"

CELL_EXAMPLES = {
    "no_json": ["", "none", "[1,2,0,3]", GOLD, "[ ]", f"<think>{CELL_GOLD}</think>", '["[1,2]","[0,3]"]'],
    "truncated": [CELL_GOLD[:-1], CELL_GOLD[:4], f"<think>{CELL_GOLD}", f"{CELL_GOLD}<think>", "[["],
    "several_arrays": [CELL_GOLD + CELL_GOLD, f"{CELL_GOLD} or [[0,1],[2,3]]", "[[]]" + CELL_GOLD, f"{CELL_GOLD} [["],
    "malformed": [
        "[[1 2],[0,3]]", "[[1,2],[0,3],]", "[[01,2],[0,3]]", "[[1_0,2],[0,3]]", "[[+1,2],[0,3]]", "[[１,2],[0,3]]",
        "[[1,2],,[0,3]]", "[" * 10**5 + "]" * 10**5, "[[1,2]} [0,3]]",
    ],
    "wrong_shape": [
        "[[]]", "[[1,2]]", "[[1,2],[0,3],[]]", "[[1,2,0],[3]]", "[[1,2,0,3],[]]", "[[1,2],3]", '[[1,2],{"0":3}]',
        "[[1,2],null]", '[[1,2],"03"]',
    ],
    "bad_value": [f"[[{value},2],[0,3]]" for value in ("true", "1.0", "1e0", "NaN", "null", '"1"', "[1]", "{}")],
    "out_of_range": [f"[[{value},2],[0,3]]" for value in ("4", "-1", "-0", "9" * 5000)],
    "conflict": ["[[1,2],[1,3]]", "[[0,0],[0,0]]"],
}  # fmt: skip
ROWS = [(reason, text, BY_CELL) for reason, texts in CELL_EXAMPLES.items() for text in texts]
ROWS += [(reason, text, TWO) for reason, texts in EXAMPLES.items() for text in texts]


@pytest.mark.parametrize(("reason", "text", "spec"), ROWS, ids=[f"{row[0]}-{i}" for i, row in enumerate(ROWS)])
def test_every_broken_answer_gets_its_reason(reason, text, spec):
    answer = TASK.parse(text, spec)
    assert isinstance(answer, Invalid)
    assert answer.reason == reason


def test_every_reason_has_an_example():
    assert set(EXAMPLES) | set(CELL_EXAMPLES) == set(TASK.invalid_reasons)


@pytest.mark.parametrize(
    "text",
    [
        GOLD,
        f"  {GOLD}\n",
        f"```json\n{GOLD}\n```",
        f"```\n{json.dumps(json.loads(GOLD), indent=2)}\n```",
        f"Here is the solution:\n\n{GOLD}\n\nPiece 0 goes to [1,0].",
        f"A set like {{a, b}} is no object. {GOLD} {{done}}",
        f"<think>{GOLD} or rather {{</think>{GOLD}",
        f"the prompt opened the block {GOLD}</think>\n\n{GOLD}",
        f"<think>one</think>{GOLD}<think>two {GOLD}</think>",
        GOLD.replace('"0"', '"\\u0030"'),
        GOLD.replace(",", " ,\r\n\t").replace(":", " : "),
        "\ufeff" + GOLD,
        '{"3":[1,1],"1":[0,0],"2":[0,1],"0":[1,0]}',
    ],
)
def test_fences_prose_thinking_and_spacing_do_not_matter(text):
    assert TASK.parse(text, TWO) == CELLS


def test_what_a_lenient_reader_can_use_is_kept():
    assert TASK.parse(GOLD[:12], TWO).partial == [[1, 0], None, None, None]
    assert TASK.parse(GOLD.replace("[1,1]", "[0,1]"), TWO).partial == [[1, 0], [0, 0], None, None]
    assert TASK.parse(GOLD[:-1] + ',"0":[1,1]}', TWO).partial == [None, [0, 0], [0, 1], None]
    assert TASK.parse(GOLD + GOLD, TWO).partial == CELLS
    assert TASK.parse("no idea", TWO).partial is None


@pytest.mark.parametrize(
    "text",
    [
        CELL_GOLD,
        f" ```json\n{json.dumps(json.loads(CELL_GOLD), indent=1)}\n``` [done]",
        f"Piece [3] is odd; so:\n{CELL_GOLD}\nwhere row 0 is [1,2].",
        f"<think>[[</think>{CELL_GOLD}",
    ],
)
def test_rows_of_ids_are_found_among_prose(text):
    assert TASK.parse(text, BY_CELL) == CELLS


def test_all_formats_say_the_same(pose):
    for grid in (2, 3, 11):
        answers = []
        for answer_format in ("by_id", "by_cell", "cells_then_ids"):
            puzzle = pose(grid, 5, answer_format=answer_format)
            answer = TASK.parse(TASK.gold(puzzle.target), puzzle.spec)
            assert answer == puzzle.target["cells"]
            assert TASK.score(answer, puzzle.target)["em"] == 1
            moved = puzzle.target["cells"][1:] + puzzle.target["cells"][:1]
            said = TASK.parse(TASK.gold(puzzle.target | {"cells": moved}), puzzle.spec)
            answers.append((said, TASK.score(said, puzzle.target)))
        assert answers[0] == answers[1] == answers[2]


def test_rows_before_the_object_are_working_and_do_not_count():
    spec = Spec(grid=2, answer_format="cells_then_ids")
    assert TASK.parse(f"[[0,1],[2,3]]\n{GOLD}", spec) == CELLS
    assert TASK.parse(GOLD, spec) == CELLS
    assert TASK.parse(f"{CELL_GOLD}\n", spec).reason == "no_json"


def test_what_a_lenient_reader_can_use_of_rows_is_kept():
    assert TASK.parse("[[1,2],[0,", BY_CELL).partial == [None, [0, 0], [0, 1], None]
    assert TASK.parse("[[1,2],[1,3]]", BY_CELL).partial == [None, None, [0, 1], [1, 1]]
    assert TASK.parse("[[1,2],[0,9]]", BY_CELL).partial == [[1, 0], [0, 0], [0, 1], None]
    assert TASK.parse("[[1,2],[0,3],[3,1]]", BY_CELL).partial is None
    assert TASK.parse("[[1,2,0,3]]", BY_CELL).partial == [None, [0, 0], [0, 1], None]
    assert TASK.parse("no idea", BY_CELL).partial is None


@pytest.mark.parametrize("grid", [2, 4, 11, 32])
def test_the_informative_characters_are_coordinates_and_ids(pose, grid):
    by_id = [number for cell in pose(grid).target["cells"] for number in cell]
    by_cell = sorted(range(grid**2), key=lambda index: pose(grid).target["cells"][index])
    expected = {"by_id": by_id, "by_cell": by_cell, "cells_then_ids": by_cell + by_id}
    for answer_format, numbers in expected.items():
        text = TASK.gold(pose(grid, answer_format=answer_format).target)
        assert [int(text[start:stop]) for start, stop in TASK.informative(text)] == numbers


FRAGMENTS = [
    "{", "}", "[", "]", ",", ":", '"', "\\", '"0":[0,0]', ',"1":[1,0]', "{}", "null", "true", "1.0", "-1", "-0", "NaN",
    "00", "0", "1", "9", "３", "٣", " ", "\n", "```json\n", "\n```", "<think>", "</think>", "Answer: ", '"a"', "1e5",
    "\u00a0", "\x00", "[[", "]]", '{"0":[0,1]}', "\\u0030", "1_0", "\ud800",
]  # fmt: skip


def mutated(rng, text):
    """A few random edits of a completion."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.randrange(8)
        start = rng.randrange(len(text) + 1)
        stop = min(len(text), start + rng.choice((1, 1, 2, 8, 10)))
        if kind == 0:
            text = text[:start] + text[stop:]
        elif kind == 1:
            text = text[:start] + rng.choice(FRAGMENTS) + text[start:]
        elif kind == 2:
            text = text[:start] + chr(rng.randrange(32, 127)) + text[start + 1 :]
        elif kind == 3:
            text = text[:stop] + text[start:]
        elif kind == 4:
            text = text[:start]
        elif kind == 5:
            text = rng.choice(("```json\n{}\n```", "So: {} ok", "<think>{0}</think>{0}", "x</think>{}")).replace(
                "{}", text
            )
        elif kind == 6:
            i, j = sorted((start, rng.randrange(len(text) + 1)))
            text = (
                text[:i] + rng.choice(("0", "1", "2")) + text[i + 1 : j] + rng.choice(("0", "1", "3")) + text[j + 1 :]
            )
        else:
            text = text[:start] + "".join(rng.choice('{}[],:"019 ') for _ in range(3)) + text[stop:]
    return text


def exchanged(rng, cells):
    cells = [*cells]
    for _ in range(rng.choice((0, 1, 2))):
        i, j = rng.randrange(len(cells)), rng.randrange(len(cells))
        cells[i], cells[j] = cells[j], cells[i]
    return cells


READERS = {"by_id": ("reference_read", EXAMPLES), "by_cell": ("reference_read_rows", CELL_EXAMPLES)}


@pytest.mark.parametrize(
    ("answer_format", "grid", "num_texts"),
    [("by_id", 2, 200_000), ("by_id", 3, 70_000), ("by_id", 4, 30_000), ("by_cell", 2, 20_000), ("by_cell", 3, 20_000)],
)
def test_hundreds_of_thousands_of_broken_answers_are_read_as_plainly_as_by_hand(
    request, pose, reference_score, answer_format, grid, num_texts
):
    reader, examples = READERS[answer_format]
    read = request.getfixturevalue(reader)
    rng = random.Random(grid)
    puzzles = [pose(grid, seed, answer_format=answer_format) for seed in range(8)]
    seen, scored = set(), set()
    num_valid = 0
    for number in range(num_texts):
        puzzle = puzzles[number % 8]
        text = TASK.gold(puzzle.target | {"cells": exchanged(rng, puzzle.target["cells"])})
        if number % 50:
            text = mutated(rng, text)
        answer = TASK.parse(text, puzzle.spec)
        expected = read(text, grid)
        if isinstance(answer, Invalid):
            assert expected is None, (answer.reason, text)
            seen.add(answer.reason)
            scores = TASK.score(answer, puzzle.target)
            assert 0 <= scores.pop("pa_lenient") <= 1
            assert set(scores.values()) == {0.0}
        else:
            assert answer == expected, text
            num_valid += 1
            same = (number % 8, str(answer))
            if same not in scored:
                scored.add(same)
                scores, counted = TASK.score(answer, puzzle.target), reference_score(answer, puzzle.target)
                assert scores.keys() == counted.keys()
                assert all(abs(scores[entry] - counted[entry]) < 1e-12 for entry in counted), text
    assert num_valid > num_texts / 50
    assert seen == set(examples)


@settings(max_examples=400, deadline=None)
@given(text=st.text() | st.text('{}[]",:01\\ \n', max_size=80) | st.lists(st.sampled_from(FRAGMENTS)).map("".join))
def test_no_text_is_too_odd_to_be_read(reference_read, text):
    answer = TASK.parse(text, TWO)
    if isinstance(answer, Invalid):
        assert answer.reason in TASK.invalid_reasons
        assert answer.partial is None or len(answer.partial) == 4
        answer = None
    assert answer == reference_read(text, 2)


@settings(max_examples=400, deadline=None)
@given(text=st.text() | st.text('[]",01\\ \n', max_size=60) | st.lists(st.sampled_from(FRAGMENTS)).map("".join))
def test_no_text_is_too_odd_to_be_read_as_rows(reference_read_rows, text):
    answer = TASK.parse(text, BY_CELL)
    if isinstance(answer, Invalid):
        assert answer.reason in TASK.invalid_reasons
        assert answer.partial is None or len(answer.partial) == 4
        answer = None
    assert answer == reference_read_rows(text, 2)


@settings(max_examples=200, deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("0123"), inner, max_size=4),
))  # fmt: skip
def test_any_json_is_read_as_plainly_as_by_hand(reference_read, value):
    text = json.dumps(value)
    answer = TASK.parse(text, TWO)
    assert (None if isinstance(answer, Invalid) else answer) == reference_read(text, 2)


# Sizes at which reading in quadratic time would run into the suite's timeout.
HUGE = {
    "letters": "a" * 10**6,
    "opening braces": "{" * 10**6,
    "closing braces": "}" * 10**6,
    "quotes": '"' * 10**6,
    "an object of quotes": '{"' * 500_000,
    "an open string": '{"' + "a" * 10**6,
    "backslashes": '{"' + "\\" * 10**6,
    "braces and spaces": ("{" + " " * 999) * 1000,
    "one brace and spaces": "{" + " " * 10**6,
    "nested lists": '{"0":' + "[" * 10**5 + "]" * 10**5 + "}",
    "nested objects": '{"0":' * 10**5 + "0" + "}" * 10**5,
    "unclosed nested objects": '{"0":' * 200_000,
    "small objects": "{}" * 500_000,
    "small objects and prose": '{"0":[0,0]} and ' * 60_000,
    "repeated items": "{" + ",".join(['"0":[0,0]'] * 100_000) + "}",
    "many keys": "{" + ",".join(f'"{i}":[0,0]' for i in range(100_000)) + "}",
    "a huge number": '{"0":[' + "1" * 10**6 + ",0]}",
    "a huge fraction": '{"0":[0.' + "1" * 10**6 + ",0]}",
    "a huge exponent": '{"0":[1e' + "9" * 10**6 + ",0]}",
    "items without an end": '"0":[0,' * 140_000,
    "an item and spaces": '"0"' + " " * 10**6 + ":",
    "keys and spaces": ('"0":' + " " * 996) * 1000,
    "opened thoughts": "<think>" * 140_000,
    "closed thoughts": "</think>" * 125_000,
    "alternating thoughts": "<think>a</think>" * 60_000,
    "answers": GOLD * 25_000,
    "opening brackets": "[" * 10**6,
    "opening brackets and spaces": ("[" + " " * 999) * 1000,
    "an array of quotes": '[["' * 300_000,
    "rows": "[0,1]" * 200_000,
    "arrays": CELL_GOLD * 80_000,
    "a huge row": "[[" + "1," * 500_000 + "1]]",
    "a row without an end": "[[" + "1," * 500_000,
    "a number and spaces": ("[1" + " " * 998) * 1000,
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.timeout(60)
def test_huge_texts_are_read_in_linear_time(name):
    for spec in (TWO, BY_CELL):
        answer = TASK.parse(HUGE[name], spec)
        assert isinstance(answer, Invalid)
        assert answer.reason in TASK.invalid_reasons


def test_an_answer_after_a_huge_text_is_still_found():
    assert TASK.parse("{ " * 400_000 + GOLD, TWO) == CELLS
    assert TASK.parse("<think>" + '{"' * 400_000 + "</think>" + GOLD, TWO) == CELLS
