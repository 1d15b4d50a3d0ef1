"""Which puzzles a process has at hand, and which completions it is to write."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_mix.curriculum import CurriculumOrder
from data_mix.phases import Curriculum
from data_mix.prompt_batches import Asked, PromptBatches, Rollout
from data_mix.scores import Scores


def order(puzzles, size=12):
    curriculum = Curriculum.model_validate({"stages": {"all": {"shares": {"a": 1.0}}}})
    return CurriculumOrder(curriculum, {"a": list(range(size))}, puzzles, 0, Scores())


def test_groups_follow_one_another_and_may_be_cut_between_processes():
    rollout = Rollout(puzzles=3, completions=4, processes=2, micro_steps=1)
    first, second = rollout.share([7, 8, 9], 0), rollout.share([7, 8, 9], 1)
    assert first == [Asked(0, 7, 0), Asked(0, 7, 1), Asked(0, 7, 2), Asked(0, 7, 3), Asked(1, 8, 0), Asked(1, 8, 1)]
    assert second == [Asked(1, 8, 2), Asked(1, 8, 3), *(Asked(2, 9, sample) for sample in range(4))]
    assert (rollout.at_hand([7, 8, 9], 0), rollout.at_hand([7, 8, 9], 1)) == ([7, 8], [8, 9])


@given(
    positions=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    completions=st.integers(2, 6),
    processes=st.integers(1, 8),
    first=st.integers(0, 9),
)
def test_every_completion_is_written_once_and_all_processes_write_as_many(positions, completions, processes, first):
    rollout = Rollout(len(positions), completions, processes, micro_steps=1)
    shares = [rollout.share(positions, rank, first) for rank in range(processes)]
    assert len({len(share) for share in shares}) == 1
    every = [asked for share in shares for asked in share]
    wanted = [
        Asked(first + at, position, sample)
        for at, position in enumerate(positions)
        for sample in range(completions)
    ]  # fmt: skip
    assert every[: len(wanted)] == wanted
    assert max(Counter(every).values()) == 1
    assert all(asked.place < 0 for asked in every[len(wanted) :])  # so none is taken for a group of a later try
    assert len(every) - len(wanted) < completions * processes


@pytest.mark.parametrize("uses", [1, 2])
def test_puzzles_are_at_hand_when_completions_are_written_and_not_again(uses):
    rollout = Rollout(puzzles=2, completions=2, processes=2, micro_steps=3, uses=uses)
    batches = PromptBatches(order(2), 2, rollout)
    each = list(batches)
    of_first, of_second = each[0::2], each[1::2]
    asked = [batches.order.step(number) for number in range(2)]
    for of_rank, rank in ((of_first, 0), (of_second, 1)):
        assert len(of_rank) == 2 * 3 * uses
        assert of_rank[:: 3 * uses] == [[positions[rank]] for positions in asked]
        assert [len(batch) for at, batch in enumerate(of_rank) if at % (3 * uses)] == [0] * (2 * (3 * uses - 1))


def test_a_later_epoch_goes_on_where_the_first_has_ended():
    rollout = Rollout(puzzles=4, completions=2, processes=1, micro_steps=1)
    batches = PromptBatches(order(4, size=8), 3, rollout)
    assert len(batches) == 2
    first = list(batches)
    batches.set_epoch(1)
    assert [*first, *batches] == [list(batches.order.step(number)) for number in range(3)]
