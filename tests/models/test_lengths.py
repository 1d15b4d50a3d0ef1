"""Lengths of whole puzzles without rendering them."""

from PIL import Image

from models.lengths import example_lengths
from models.tokens import answer_ids, encode_prompt
from tasks import TASKS


def test_lengths_are_those_of_the_encoded_examples_in_order(loaded):
    photo = Image.linear_gradient("L").convert("RGB")
    specs = [("jigshape", {"grid": 2, "piece_px": 30}), ("probes", {}), ("jigshape", {"grid": 4, "piece_px": 16})]
    tasks = [(TASKS[name], TASKS[name].Spec(**fields)) for name, fields in specs]
    examples = [task.make(spec, photo, seed) for seed in range(2) for task, spec in tasks]
    expected = [
        (
            encode_prompt(loaded, example.puzzle.messages, example.images)["input_ids"].shape[1],
            len(answer_ids(loaded, TASKS[example.puzzle.task].gold(example.puzzle.target))),
        )
        for example in examples
    ]
    lengths = example_lengths(loaded, [example.puzzle for example in examples])
    assert [(length.prompt, length.answer) for length in lengths] == expected
    assert [length.total for length in lengths] == [sum(pair) for pair in expected]
    assert len(set(expected)) > 2


def test_no_puzzles_have_no_lengths(loaded):
    assert example_lengths(loaded, []) == []
