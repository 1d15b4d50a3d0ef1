"""python -m train.rewards: what right, random and degenerate answers earn, and when it fails."""

import pytest

from recipes.loader import load_recipe
from train.rewards import PARTLY, RIGHT, Row, cheating, main, table, try_reward

SMALL = [
    "recipe=mixed_grid", "model=tiny_qwen3_vl", "data.photos.use=reuse", "data.photos.index=index.jsonl",
    "train.batching=plain",
    "data.parts.12x12=null", "data.parts.16x16=null",
    *(f"data.parts.{name}.spec.piece_px=24" for name in ("4x4", "8x8")),
    "data.parts.fit={task: pieces_fit, spec: {puzzle: {grid: 4, piece_px: 24}}, count: 20}",
    "data.parts.clued={task: jigshape, spec: {grid: 4, piece_px: 24, clues: 6, answer_format: by_cell}, count: 20}",
]  # fmt: skip


@pytest.fixture
def rows(in_tmp_path):
    """{(part, answer): row} of the default reward."""
    recipe = load_recipe([*SMALL, "reward={}"])
    return {(row.part, row.answer): row for row in try_reward(recipe, "train", 20)}


def test_no_answer_earns_more_than_a_better_one_under_the_default_weights(rows):
    assert cheating(list(rows.values())) == []
    assert rows["8x8", "edges fit"].entries["sc"] == 1
    assert rows["8x8", "edges fit"].reward < rows["8x8", PARTLY].reward


def test_the_right_answer_earns_all_weights_that_apply_and_what_is_invalid_nothing(rows):
    for part, most in (("4x4", 1.175), ("8x8", 1.175), ("fit", 1.05), ("clued", 1.05)):
        assert rows[part, RIGHT].reward == pytest.approx(most)
        assert rows[part, "nothing"].reward == 0
    for part in ("4x4", "8x8", "clued"):
        for invalid in ("two cells", "said twice", "the prompt"):
            assert rows[part, invalid].reward == 0
            assert set(rows[part, invalid].entries.values()) == {0.0}


def test_a_reward_is_the_weighted_sum_of_its_entries(rows):
    weights = {"pa": 1.0, "sc": 0.125, "correct": 1.0, "valid": 0.05}
    for row in rows.values():
        assert row.reward == pytest.approx(sum(weights[entry] * mean for entry, mean in row.entries.items()))


def test_the_table_has_a_block_for_each_part(rows):
    blocks = [block.splitlines() for block in table(list(rows.values())).split("\n\n")]
    assert [block[0].split() for block in blocks] == [
        ["4x4", "(jigshape)", "reward", "pa", "sc", "valid"],
        ["8x8", "(jigshape)", "reward", "pa", "sc", "valid"],
        ["fit", "(pieces_fit)", "reward", "correct", "valid"],
        ["clued", "(jigshape)", "reward", "pa", "valid"],
    ]
    assert blocks[0][1].split() == ["right", "1.175", "1.000", "1.000", "1.000"]
    assert blocks[2][-1].split() == ["nothing", "0.000", "0.000", "0.000"]


def test_the_command_fails_and_says_which_answers_earn_too_much(in_tmp_path, capsys):
    assert main([*SMALL, "reward={}", "count=6"]) == 0
    assert "earns" not in capsys.readouterr().out
    assert main([*SMALL, "reward.sc=1", "reward.accept_unsafe_weights=true", "count=6"]) == 1
    said = capsys.readouterr().out.rsplit("\n\n", 1)[-1].splitlines()
    assert {"8x8: shifted", "8x8: edges fit"} <= {line.partition(" earns ")[0] for line in said}
    assert all("more than 30 % right with" in line for line in said)


def test_what_cannot_be_tried_is_refused(in_tmp_path, capsys):
    assert main([*SMALL]) == 2
    assert "reward: got nothing; allowed: weights of score entries" in capsys.readouterr().err
    assert main([*SMALL, "reward.sc=1", "count=0"]) == 2
    said = capsys.readouterr().err
    assert 'count: got "0"' in said
    assert "pa at least 5.333 times sc, at grid 4" in said


def row(answer, reward, primary, part="4x4"):
    return Row(part, "jigshape", answer, reward, primary, {})


def test_only_a_worse_answer_of_the_same_part_can_cheat():
    best, partly = row(RIGHT, 1.0, 1.0), row(PARTLY, 0.5, 0.3)
    worse, better, elsewhere = row("a", 0.6, 0.2), row("b", 0.6, 0.4), row("c", 0.6, 0.2, part="8x8")
    assert cheating([best, partly, worse, better, elsewhere]) == [(worse, partly)]
    too_good = row("d", 1.1, 0.4)
    assert cheating([best, partly, too_good]) == [(too_good, best)]
