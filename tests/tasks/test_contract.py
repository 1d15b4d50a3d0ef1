"""What every task promises, checked on every task."""

import json
from itertools import groupby

import numpy as np
import pytest

from tasks import TASKS
from tasks.contract import Invalid

SPECS = {
    "jigshape": [
        {"grid": 2, "piece_px": 24, "tab_ratio": 0.3},
        {"grid": 3, "piece_px": 24, "wording": "brief", "label": "none"},
        {"grid": 4, "piece_px": 25, "shape": False},
        {"grid": 5, "piece_px": 24, "layout": "aligned", "brightness": 0.5},
        {"grid": 4, "piece_px": 24, "answer_format": "by_cell", "noise": 5.0, "bars": 3, "jpeg_quality": 50},
        {"grid": 3, "piece_px": 24, "answer_format": "cells_then_ids", "mirrored": True, "greyscale": True},
        {"grid": 3, "piece_px": 24, "input": "pieces", "sheet_scale": 1.5},
        {"grid": 3, "piece_px": 24, "input": "pieces", "layout": "aligned", "wording": "brief"},
    ],
    "probes": [
        {"kind": "grid_missing", "grid": 2, "cell_px": 16},
        {"kind": "grid_missing", "grid": 3, "cell_px": 21, "wording": "brief"},
        {"kind": "grid_missing", "grid": 5, "cell_px": 16, "line_px": 1},
    ],
    "piece_edges": [
        {"puzzle": {"grid": 2, "piece_px": 24, "tab_ratio": 0.3}},
        {"puzzle": {"grid": 3, "piece_px": 24, "label": "none"}, "wording": "brief"},
        {"puzzle": {"grid": 4, "piece_px": 25, "layout": "aligned", "brightness": 0.5}},
        {"puzzle": {"grid": 5, "piece_px": 24, "sheet_scale": 0.5, "noise": 9.0}},
    ],
    "piece_kind": [
        {"puzzle": {"grid": 3, "piece_px": 24}, "wording": "brief"},
        {"puzzle": {"grid": 4, "piece_px": 25, "layout": "aligned"}},
    ],
    "piece_cell": [
        {"puzzle": {"grid": 2, "piece_px": 24, "tab_ratio": 0.3}, "wording": "brief"},
        {"puzzle": {"grid": 3, "piece_px": 24, "shape": False, "label": "none"}},
    ],
    "pieces_fit": [
        {"puzzle": {"grid": 2, "piece_px": 24, "tab_ratio": 0.3}},
        {"puzzle": {"grid": 3, "piece_px": 24, "shape": False}, "wording": "brief"},
        {"puzzle": {"grid": 4, "piece_px": 25}},
    ],
    "piece_right": [
        {"puzzle": {"grid": 2, "piece_px": 24, "tab_ratio": 0.3}},
        {"puzzle": {"grid": 3, "piece_px": 24, "shape": False}, "wording": "brief"},
        {"puzzle": {"grid": 4, "piece_px": 25, "layout": "aligned"}},
    ],
}
NONSENSE = ["", "no", "{}", "\x00", "None", "[[0,0]]", '{"0":', "<think>", "-", "1e9", "NaN", "🧩" * 50, "]" * 500]
NUM_PUZZLES = 400
NEIGHBOURS = range(10**6, 10**6 + NUM_PUZZLES)


def _shown(fields):
    """The values of a spec, nested ones too, as a test's name."""
    return "-".join(_shown(value) if isinstance(value, dict) else str(value) for value in fields.values())


CASES = [
    pytest.param(TASKS[name], TASKS[name].Spec(**fields), id=f"{name}-{_shown(fields)}")
    for name, all_fields in SPECS.items()
    for fields in all_fields
]
each_case = pytest.mark.parametrize(("task", "spec"), CASES)


def each_case_with(function):
    """The cases whose task has an optional function."""
    return pytest.mark.parametrize(("task", "spec"), [case for case in CASES if getattr(case.values[0], function)])


@pytest.fixture(scope="module")
def photo(make_photo):
    return make_photo(160, 120)


@pytest.fixture(scope="module")
def posed(photo):
    """posed(task, spec) -> puzzles of neighbouring seeds."""
    return lambda task, spec: [task.pose(spec, photo, seed) for seed in NEIGHBOURS]


def test_every_task_is_checked_here():
    assert set(SPECS) == {name for name, task in TASKS.items() if not task.data_only}  # those have tests of their own
    assert all(name == task.name for name, task in TASKS.items())


@each_case
def test_the_reference_answer_is_parsed_back_and_scores_one(task, spec, photo):
    for seed in (0, 1, 2**63 - 1):
        target = task.pose(spec, photo, seed).target
        text = task.gold(target)
        answer = task.parse(text, spec)
        assert not isinstance(answer, Invalid)
        assert json.loads(json.dumps(answer)) == answer
        scores = task.score(answer, target)
        assert scores[task.primary] == 1
        assert {scores.get("em", 1), scores.get("valid", 1)} == {1}


@each_case
def test_nonsense_is_invalid_for_a_known_reason_and_scores_zero(task, spec, photo):
    target = task.pose(spec, photo, 3).target
    answers = {task.gold(task.pose(spec, photo, seed).target) for seed in range(20)}
    for text in set(NONSENSE) - answers:  # "no" may be one
        answer = task.parse(text, spec)
        assert isinstance(answer, Invalid), text
        assert answer.reason in task.invalid_reasons
        assert task.score(answer, target)[task.primary] == 0
        json.dumps(task.diagnose(answer, target))


@each_case
def test_scores_are_known_entries_in_their_order_and_within_zero_and_one(task, spec, photo):
    target = task.pose(spec, photo, 3).target
    other = task.parse(task.gold(task.pose(spec, photo, 4).target), spec)
    own = task.parse(task.gold(target), spec)
    for answer in (own, other, Invalid(task.invalid_reasons[0])):
        scores = task.score(answer, target)
        assert list(scores) == [entry for entry in task.entries if entry in scores]
        assert set(scores) == set(task.score(own, target))
        assert all(type(value) is float and 0 <= value <= 1 for value in scores.values())
    for row in task.chance(spec).values():
        assert list(row) == [entry for entry in task.entries if entry in task.score(own, target)]
        assert all(0 <= value <= 1 for value in row.values())
    assert {task.primary, "valid"} <= set(task.entries)


@each_case
def test_equal_inputs_give_equal_puzzles_and_equal_bytes(task, spec, make_photo):
    one, two = (task.make(spec, make_photo(160, 120), 8) for _ in range(2))
    assert one.puzzle == two.puzzle
    assert one.puzzle.key == two.puzzle.key
    assert [image.tobytes() for image in one.images] == [image.tobytes() for image in two.images]
    again = task.render(one.puzzle, make_photo(160, 120)).images
    assert [image.tobytes() for image in again] == [image.tobytes() for image in one.images]


@each_case
def test_keys_tell_puzzles_apart(task, spec, posed, make_photo):
    puzzles = [*posed(task, spec), task.pose(spec, make_photo(161, 120), NEIGHBOURS[0])]
    assert len({puzzle.key for puzzle in puzzles}) == len(puzzles)


@each_case
def test_images_are_rgb_of_the_promised_sizes_and_each_has_its_place(task, spec, photo):
    example = task.make(spec, photo, 5)
    assert all(image.dtype == np.uint8 and image.shape[2:] == (3,) for image in example.images)
    assert tuple(image.shape[1::-1] for image in example.images) == example.puzzle.image_sizes
    parts = [part for message in example.puzzle.messages for part in message["content"]]
    assert sum(part["type"] == "image" for part in parts) == len(example.images)
    assert {part["type"] for part in parts} <= {"image", "text"}


@each_case
def test_a_bare_image_and_a_wrapped_one_are_the_same_photo(task, spec, photo):
    assert task.make(spec, photo.image, 5).puzzle == task.make(spec, photo, 5).puzzle


@each_case
def test_targets_survive_json(task, spec, photo):
    for seed in range(20):
        target = task.pose(spec, photo, seed).target
        copy = json.loads(json.dumps(target))
        assert copy == target
        assert task.gold(copy) == task.gold(target)
        answer = task.parse(task.gold(task.pose(spec, photo, seed + 1).target), spec)
        assert task.score(answer, copy) == task.score(answer, target)


@each_case
def test_informative_spans_are_in_order_disjoint_and_within_the_text(task, spec, photo):
    text = task.gold(task.pose(spec, photo, 5).target)
    ends = [end for span in task.informative(text) for end in span]
    assert ends
    assert ends == sorted(ends)
    assert ends[0] >= 0
    assert ends[-1] <= len(text)
    assert all(start < stop for start, stop in task.informative(text))


def _beyond(values, expected):
    """By how many standard errors the mean of values lies above what is expected."""
    spread = max(np.std(values), 1e-9)
    return (np.mean(values) - expected) / (spread / len(values) ** 0.5)


def _fixed_answers(task, spec, photo):
    """Those of other puzzles, numbers alone, and both sorted: cells by id then are in reading order, or in columns."""
    texts = {task.gold(task.pose(spec, photo, seed).target) for seed in range(12)} | {str(n) for n in range(10)}
    answers = [task.parse(text, spec) for text in sorted(texts)]
    several = [answer for answer in answers if isinstance(answer, list)]
    in_order = [sorted(parts, key=order) for parts in several for order in (json.dumps, lambda p: json.dumps(p)[::-1])]
    return {repr(answer): answer for answer in answers + in_order}.values()


@each_case
def test_no_fixed_answer_beats_chance(task, spec, posed, photo):
    puzzles = posed(task, spec)
    chance = task.chance(spec)["random"][task.primary]
    for answer in _fixed_answers(task, spec, photo):
        earned = [task.score(answer, puzzle.target)[task.primary] for puzzle in puzzles]
        assert _beyond(earned, chance) < 4, answer


def _copied(task, spec, puzzles, step=1):
    """What each puzzle's answer earns on the puzzle `step` places on."""
    answers = [task.parse(task.gold(puzzle.target), spec) for puzzle in puzzles[:-step]]
    return [
        task.score(answer, puzzle.target)[task.primary] for answer, puzzle in zip(answers, puzzles[step:], strict=True)
    ]


@each_case
def test_the_answer_of_one_seed_says_nothing_about_the_next(task, spec, posed):
    puzzles = posed(task, spec)
    chance = task.chance(spec)["random"][task.primary]
    earned = _copied(task, spec, puzzles)
    assert _beyond(earned, chance) < 4
    # Where some answers are likelier than others, copying any earns less than the best one.
    apart = np.mean([score for step in (50, 100, 150) for score in _copied(task, spec, puzzles, step)])
    assert abs(_beyond(earned, apart)) < 4
    answers = [task.parse(task.gold(puzzle.target), spec) for puzzle in puzzles]
    ranks = np.unique(answers, return_inverse=True)[1]
    numbers = ranks.reshape(len(answers), -1).astype(float)  # (puzzles, parts of an answer)
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    correlation = (numbers[1:] * numbers[:-1]).mean(axis=0)
    assert np.abs(correlation).max() < 5 / NUM_PUZZLES**0.5


def test_neighbouring_seeds_never_pose_the_same_jigsaw(posed):
    task = TASKS["jigshape"]
    puzzles = posed(task, task.Spec(grid=4))
    assert len({json.dumps(puzzle.target["cells"]) for puzzle in puzzles}) == NUM_PUZZLES
    assert len({json.dumps(puzzle.target["signatures"]) for puzzle in puzzles}) == NUM_PUZZLES


@each_case
def test_the_prompt_holds_nothing_but_the_question(task, spec, posed):
    puzzles = posed(task, spec)
    questions = {json.dumps(puzzle.target.get("asked")) for puzzle in puzzles}
    prompts = {json.dumps(puzzle.messages) for puzzle in puzzles}
    both = {json.dumps([puzzle.target.get("asked"), puzzle.messages]) for puzzle in puzzles}
    assert len(prompts) == len(questions) == len(both)


@each_case
def test_the_question_says_nothing_of_the_answer(task, spec, posed):
    puzzles = sorted(posed(task, spec), key=lambda puzzle: json.dumps(puzzle.target.get("asked")))
    runs = [list(run) for _, run in groupby(puzzles, key=lambda puzzle: puzzle.target.get("asked"))]
    earned = [score for run in runs if len(run) > 1 for score in _copied(task, spec, run)]
    assert len(earned) > NUM_PUZZLES / 4
    assert _beyond(earned, task.chance(spec)["random"][task.primary]) < 4


@each_case
def test_what_reports_draw_is_json(task, spec, photo):
    target = task.pose(spec, photo, 3).target
    for seed in (3, 4):
        report = task.diagnose(task.parse(task.gold(task.pose(spec, photo, seed).target), spec), target)
        assert json.loads(json.dumps(report)) == report


def _allows(grammar, text, written=""):
    """Whether stretches of a grammar can make a text."""
    if written == text:
        return not grammar.options(written)
    starts = [written + option for option in grammar.options(written)]
    return any(_allows(grammar, text, start) for start in starts if text.startswith(start))


@each_case
def test_the_grammar_allows_the_reference_answer_as_it_is_written(task, spec, photo):
    for seed in range(20):
        target = task.pose(spec, photo, seed).target
        grammar = task.grammar(spec, target.get("asked", {}))
        assert _allows(grammar, task.gold(target))
        assert not _allows(grammar, f" {task.gold(target)}")
        assert not _allows(grammar, f"{task.gold(target)}.")


@each_case
def test_choosing_at_random_within_the_grammar_ends_in_a_valid_answer(task, spec, photo):
    rng = np.random.default_rng(5)
    for seed in range(20):
        target = task.pose(spec, photo, seed).target
        grammar, text = task.grammar(spec, target.get("asked", {})), ""
        while options := grammar.options(text):
            assert all(options)
            assert len(set(options)) == len(options)
            text += options[rng.integers(len(options))]
        assert not isinstance(task.parse(text, spec), Invalid), text


@each_case
def test_a_vote_is_an_answer_and_is_written_as_the_reference_answer(task, spec, photo):
    targets = [task.pose(spec, photo, seed).target for seed in range(5)]
    answers = [task.parse(task.gold(target), spec) for target in targets]
    for answer, target in zip(answers, targets, strict=True):
        assert task.write(answer, spec) == task.gold(target)
        assert task.vote([answer], spec) == answer
    voted = task.vote(answers, spec)
    assert task.parse(task.write(voted, spec), spec) == voted
    assert task.vote([answers[0], answers[1], answers[1]], spec) == answers[1]


@each_case_with("degenerate")
def test_degenerate_answers_follow_from_target_and_stream_and_leave_the_target_as_it_is(task, spec, photo):
    target = task.pose(spec, photo, 3).target
    before = json.dumps(target)
    one, other, another = (task.degenerate(target, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert one == other != another
    assert json.dumps(target) == before


@each_case_with("partly_right")
def test_an_answer_that_is_partly_right_is_valid_and_at_least_that_right(task, spec, photo):
    rng = np.random.default_rng(5)
    for seed in range(10):
        target = task.pose(spec, photo, seed).target
        for share in (0.0, 0.3, 1.0):
            answer = task.parse(task.partly_right(target, share, rng), spec)
            assert not isinstance(answer, Invalid)
            # A whole number of parts is right, so half a part may be missing.
            assert task.score(answer, target)[task.primary] >= share - 0.5 / len(answer) - 1e-12


@each_case_with("unsafe")
def test_weights_on_what_ranks_and_on_the_form_alone_are_safe(task, spec):
    assert task.unsafe({task.primary: 1.0, "valid": 0.1}, spec) is None


@each_case
def test_answers_and_failures_can_be_drawn(task, spec, photo):
    example = task.make(spec, photo, 3)
    answer = task.parse(task.gold(example.puzzle.target), spec)
    for given in (answer, *(Invalid(reason) for reason in task.invalid_reasons)):
        assert task.picture(example.puzzle, given, photo).mode == "RGB"


@each_case
def test_boards_take_their_area_from_photos_of_any_aspect(task, spec, make_photo):
    area = task.board(spec)
    assert area.width % area.columns == area.height % area.rows == 0
    for size in ((area.width, 3 * area.height), (3 * area.width, area.height), (area.width, area.height)):
        task.make(spec, make_photo(*size), 0)


@each_case
def test_specs_are_frozen_and_survive_json(task, spec):
    assert task.Spec(**spec.model_dump(mode="json")) == spec
    assert hash(spec) == hash(spec.model_copy())
    with pytest.raises(ValueError, match="frozen"):
        setattr(spec, next(iter(task.Spec.model_fields)), None)
