import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks import TASKS
from tasks.contract import Invalid

NAMES = ("piece_edges", "piece_kind", "piece_cell", "pieces_fit", "piece_right")
EDGES = ["tab", "blank", "flat", "tab"]

READ = {
    "piece_edges": [
        ("tab, blank, flat, tab", EDGES),
        ("Tab Blank Flat Tab.", EDGES),
        ("**tab**, **blank**, **flat**, **tab**", EDGES),
        ("tab, blank, flat and tab", EDGES),
        ("tab/blank/flat/tab", EDGES),
        ('["tab", "blank", "flat", "tab"]', EDGES),
        ('```json\n["tab","blank","flat","tab"]\n```', EDGES),
        ('{"top": "tab", "right": "blank", "bottom": "flat", "left": "tab"}', EDGES),
        ("top: tab, right: blank, bottom: flat, left: tab", EDGES),
        ("left: tab\nbottom: flat\nright: blank\ntop: tab", EDGES),
        ("- **Top**: tab\n- **Right**: blank\n- **Bottom**: flat\n- **Left**: tab\n", EDGES),
        ("The top edge is a tab, the right edge is a blank, the bottom edge is flat and the left edge a tab.", EDGES),
        ("Top is a tab. Right is a blank. Bottom is flat. Left is a tab.", EDGES),
        ("In the order top, right, bottom, left: tab, blank, flat, tab", EDGES),
        ("The answer is tab, blank, flat, tab. The flat edge makes it a border piece.", EDGES),
        ("tab, blank, flat, tab. A flat edge lies on the border.", EDGES),
        ("flat, flat, flat, flat, or rather tab, blank, flat, tab", EDGES),
        ("Answer: tab, blank, flat, tab (and not flat, flat, tab, tab)", EDGES),
        ("tab, blank, flat, tab; it is not blank, blank", EDGES),
        ("<think>flat, flat, tab, tab</think>tab, blank, flat, tab", EDGES),
        ("flat, flat, tab, tab</think> tab, blank, flat, tab", EDGES),
    ],
    "piece_kind": [
        ("border", "border"),
        ("Border.", "border"),
        ("**corner**", "corner"),
        ('"interior"', "interior"),
        ('{"kind": "interior"}', "interior"),
        ("Piece 3 is a border piece.", "border"),
        ("It is a **border** piece, since corner pieces have two flat edges.", "border"),
        ("The answer is corner.", "corner"),
        ("Answer: an interior piece", "interior"),
        ("The answer is border; a corner has two flat edges.", "border"),
        ("One flat edge, so border, not corner.", "border"),
        ("border and not a corner piece", "border"),
        ("It is a corner. No, it is a border piece.", "border"),
        ("corner, no: interior", "interior"),
        ("<think>corner?</think>border", "border"),
    ],
    "piece_cell": [
        ("[2,1]", [2, 1]),
        (" [ 2 , 1 ]\n", [2, 1]),
        ("(2, 1)", [2, 1]),
        ("**[2, 1]**", [2, 1]),
        ("2, 1", [2, 1]),
        ("2,1.", [2, 1]),
        ("The answer is [2, 1].", [2, 1]),
        ("The answer is 2, 1.", [2, 1]),
        ("Answer: (2,1)", [2, 1]),
        ("The final answer is $\\boxed{[2, 1]}$.", [2, 1]),
        ("Piece 3 goes to row 2, column 1.", [2, 1]),
        ("Row: 2\nColumn: 1", [2, 1]),
        ("**Row** 2 and **column** 1", [2, 1]),
        ('{"row": 2, "column": 1}', [2, 1]),
        ('{"row":2,"col":1}', [2, 1]),
        ('{"answer": [2, 1]}', [2, 1]),
        ("The answer is [2, 1], right of [2, 0].", [2, 1]),
        ("[0, 1]? No: [2, 1]", [2, 1]),
        ("[2, 1], as pieces 3, 4 lie beside it", [2, 1]),
        ("It belongs in the third row (cell [2, 1])", [2, 1]),
        ("<think>[0,0]</think>[2,1]<think>[1,1]</think>", [2, 1]),
        ("[02,1]", [2, 1]),
    ],
    "pieces_fit": [
        ("yes", "yes"),
        ("No.", "no"),
        ("**Yes**", "yes"),
        ('{"answer": "no"}', "no"),
        ("The answer is yes.", "yes"),
        ("Answer: **No**", "no"),
        ("Yes, there is no gap between them.", "yes"),
        ("There is no gap, so yes.", "yes"),
        ("No. 5 has a tab where No. 6 has a blank: yes", "yes"),
        ("Yes. No. 5 fits no. 6", "yes"),
        ("yes they do", "yes"),
        ("no they do not", "no"),
        ("Yes... no, wait: no.", "no"),
        ("No\n\nThe colours differ.", "no"),
        ("The answer is no, although yes, the shapes fit.", "no"),
        ("<think>yes</think>no", "no"),
    ],
    "piece_right": [
        ("5", 5),
        ("0", 0),
        (" 5.\n", 5),
        ("**5**", 5),
        ("#5", 5),
        ('"5"', 5),
        ("Piece 5", 5),
        ("The answer is 5.", 5),
        ("The answer is piece 5, in row 2 of 3.", 5),
        ("The answer is no. 5", 5),
        ("The piece to the right of piece 3 is piece 5.", 5),
        ("Piece 5 goes directly right of piece 3.", 5),
        ("5 goes directly right of 3", 5),
        ("5 lies to the right of no. 3", 5),
        ("Piece 3's right neighbour is piece 5", 5),
        ("Piece 3's right neighbour is 5", 5),
        ('{"answer": 5}', 5),
        ('{"id": 5}', 5),
        ("Piece 4? No, piece 5.", 5),
        ("<think>the answer is 4</think>5", 5),
        ("05", 5),
    ],
}  # fmt: skip

UNREAD = {
    "piece_edges": {
        "no_edges": [
            "", "I cannot tell.", "tab", "tab, blank, flat", "tab, blank, flat, tab, tab", "tab blank flat tabs",
            "top: tab, right: blank, bottom: flat", "top: tab, top: blank, bottom: flat, left: tab",
            "bump, hollow, flat, bump", "1, -1, 0, 1", '["tab", "blank"]', "tab or blank, then flat, then tab",
            "<think>tab, blank, flat, tab</think>",
        ],
        "truncated": ["<think>tab, blank, flat, tab", "tab, blank, flat, tab<think>"],
    },
    "piece_kind": {
        "no_kind": ["", "an edge piece", "not a corner", "corners", "cornered", "ınterior", "<think>corner</think>"],
        "truncated": ["<think>corner", "corner <think>"],
    },
    "piece_cell": {
        "no_cell": [
            "", "2", "[2]", "[2,1,0]", "2, 1, 0", "[[2,1]]", "[-1,0]", "-1, 0", "[2.0, 1]", "2.5, 1", "[２,1]", "row 2",
            '["2","1"]', "row -1, column 0", "[2;1]", "[" + "9" * 5000 + ",0]", "<think>[2,1]</think>",
        ],
        "truncated": ["<think>[2,1]", "[2,1]<think>"],
        "out_of_range": ["[3,0]", "[0,3]", "3, 0", "row 0, column 3", "[999999999,0]", "Answer: [5,5], not [2,1]"],
    },
    "pieces_fit": {
        "no_verdict": ["", "true", "they fit", "nothing", "yesterday", "yeſ", "No. 5", "<think>yes</think>"],
        "truncated": ["<think>yes", "yes<think>"],
    },
    "piece_right": {
        "no_number": [
            "", "five", "５", "0.5", "x5", "right of piece 5", "[5]", "[[5,4]]", '{"5":', "9" * 5000,
            "<think>5</think>",
        ],
        "truncated": ["<think>5", "5 <think>"],
        "out_of_range": ["9", "The answer is 12, not 5", "piece 9"],
    },
}  # fmt: skip


def read(name, text):
    task = TASKS[name]
    return task.parse(text, task.Spec(puzzle={"grid": 3}))


@pytest.mark.parametrize(("name", "text", "answer"), [(name, *row) for name, rows in READ.items() for row in rows])
def test_the_stated_answer_is_found(name, text, answer):
    assert read(name, text) == answer


@pytest.mark.parametrize(
    ("name", "reason", "text"),
    [(name, reason, text) for name in NAMES for reason, texts in UNREAD[name].items() for text in texts],
)
def test_other_texts_are_invalid_for_a_reason(name, reason, text):
    assert read(name, text) == Invalid(reason)


@pytest.mark.parametrize("name", NAMES)
def test_every_reason_has_an_example(name):
    assert tuple(UNREAD[name]) == TASKS[name].invalid_reasons


WORDS = [
    "tab", "blank", "flat", "top", "right:", "bottom", "left", "and", "is", "a", "not", "of", "the", "answer", "row",
    "column", "cell", "corner", "border", "interior", "yes", "no", "No.", "piece", "id", "0", "1", "2", "33", ",", ".",
    ":", ";", "-", "[", "]", "(", ")", "{", "}", '"', "'", "*", "#", "\n", "<think>", "</think>",
]  # fmt: skip
SNIPPETS = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(text=st.text() | SNIPPETS | SNIPPETS.map(lambda text: text.replace(" ", "")))
def test_no_text_is_too_odd_to_be_read(name, text):
    task = TASKS[name]
    answer = read(name, text)
    if isinstance(answer, Invalid):
        assert answer.reason in task.invalid_reasons
    else:
        assert read(name, task.gold({"answer": answer})) == answer
        assert json.loads(json.dumps(answer)) == answer


LONG = [
    part * (200_000 // len(part))
    for part in (
        "answer ", "answer is the edges are ", "tab, ", "tab, tab, tab. ", "top: tab, ", "top: ", "and the ", "not a ",
        "top: tab, right: blank, bottom: flat, left ", "corner pieces ", "is a ", "row 1, ", "row 1, column 1.5 ",
        "[1, ", "1, ", "(", "1", " ", "*", "of piece 3 ", "piece no. ", "3's ", "no ", "no. 5 ", "<think>",
    )
]  # fmt: skip


@pytest.mark.parametrize("text", LONG, ids=[text[:12].strip() for text in LONG])
def test_long_texts_are_read_in_one_go(text):
    for name in NAMES:
        read(name, text)
