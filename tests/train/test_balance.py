"""Bins: every example once, within memory, with even work."""

import numpy as np
import pytest
from accelerate.data_loader import BatchSamplerShard, skip_first_batches
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from data_mix.curriculum import CurriculumOrder
from data_mix.order import EpochOrder
from data_mix.scores import Scores
from models.lengths import Lengths
from recipes.schema import Curriculum
from train.balance import Cost, Plain, StepBatches, balanced, shared
from train.check import Measured, example_costs

GRID_COSTS = [Cost(650, 10), Cost(2750, 55), Cost(6900, 190), Cost(13000, 560)]
"""About what the four grids take of an 8B model, TFLOP."""


def mixed_costs(size, seed=0):
    which = np.random.default_rng(seed).choice(4, size=size, p=np.array([6, 4, 2, 1]) / 13)
    return {position: GRID_COSTS[grid] for position, grid in enumerate(which)}


def arranged(size, batch, *, padded, processes, max_tokens=16384, epochs=1, seed=0):
    order, costs = EpochOrder(size, batch, seed), mixed_costs(size)
    steps = epochs * order.steps_per_epoch
    arrange = balanced(costs, order.possible_steps(steps), max_tokens=max_tokens, padded=padded, processes=processes)
    return StepBatches(order, steps, arrange), costs


def dealt(batches, processes):
    """What accelerate gives each process."""
    return [list(BatchSamplerShard(batches, processes, rank)) for rank in range(processes)]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("processes", [1, 2, 8])
def test_the_bins_of_a_step_are_exactly_its_examples_on_any_number_of_processes(padded, processes):
    batches, _ = arranged(150, 32, padded=padded, processes=processes, epochs=2)
    micro_steps = batches.arrange.micro_steps
    for epoch in (0, 1):
        batches.set_epoch(epoch)
        shares = dealt(batches, processes)
        assert {len(share) for share in shares} == {len(batches) // processes}
        for step in range(5):
            examples = batches.order.step(5 * epoch + step)
            bins = [one for share in shares for one in share[step * micro_steps : (step + 1) * micro_steps]]
            assert sorted(example for one in bins for example in one) == sorted(examples)


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 1000)), min_size=1, max_size=40),
    st.integers(100, 400), st.integers(1, 4), st.booleans(),
)  # fmt: skip
def test_no_bin_exceeds_the_tokens_that_fit(given_costs, max_tokens, processes, padded):
    costs = {position: Cost(*cost) for position, cost in enumerate(given_costs)}
    examples = list(costs)
    arrange = balanced(costs, [examples], max_tokens=max_tokens, padded=padded, processes=processes)
    bins = arrange(examples)
    assert len(bins) == arrange.micro_steps * processes
    assert sorted(example for one in bins for example in one) == examples
    for one in bins:
        lengths = [costs[example].tokens for example in one]
        assert (len(lengths) * max(lengths, default=0) if padded else sum(lengths)) <= max_tokens


def test_an_example_that_fits_no_bin_is_refused():
    with pytest.raises(ValueError, match=r"got 12000, but the longest example has 13000 tokens"):
        arranged(100, 32, padded=False, processes=1, max_tokens=12000)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 8))
def test_processes_differ_in_work_by_one_example_at_most(flops, processes):
    costs = {position: Cost(1, one) for position, one in enumerate(flops)}
    loads = [sum(costs[example].flops for example in share) for share in shared(list(costs), costs, processes)]
    assert max(loads) - min(loads) <= max(flops)


def test_rows_that_share_a_bin_waste_little():
    batches, costs = arranged(640, 64, padded=True, processes=1)
    lengths = [[costs[example].tokens for example in one] for one in batches if one]
    useful = sum(map(sum, lengths)) / sum(len(one) * max(one) for one in lengths)
    in_order = [[costs[example].tokens for example in range(start, start + 8)] for start in range(0, 640, 8)]
    assert useful > 0.98 > 0.6 > sum(map(sum, in_order)) / sum(8 * max(one) for one in in_order)


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 1000)), min_size=12, max_size=12), st.booleans())
def test_a_run_by_score_keeps_within_its_micro_steps_whatever_is_found(drawn, padded):
    """Lengths differ within a part; whichever examples come, no step needs more bins than were planned."""
    positions = {part: list(range(4 * at, 4 * at + 4)) for at, part in enumerate("abc")}
    stages = {"one": {"shares": {"a": 3, "b": 1}, "until": {"a": 0.5}}, "two": {"shares": {"b": 1, "c": 2}}}
    scores = Scores()
    order = CurriculumOrder(Curriculum.model_validate({"stages": stages, "lag": 2}), positions, 6, 0, scores)
    part_of = {position: part for part, places in positions.items() for position in places}
    measured = {
        position: Measured(part_of[position], Lengths(tokens, 0), flops)
        for position, (tokens, flops) in enumerate(drawn)
    }
    arrange = balanced(
        example_costs(measured, order), order.possible_steps(9), max_tokens=150, padded=padded, processes=2
    )
    for step in range(9):
        if step == 3:
            scores.add(3, {"a": 0.6})
        bins = arrange(order.step(step))
        assert len(bins) == 2 * arrange.micro_steps
        assert sorted(example for one in bins for example in one) == sorted(order.step(step))


def test_a_step_that_needs_more_than_was_planned_stops_the_run():
    costs = {0: Cost(60, 1), 1: Cost(60, 1)}
    arrange = balanced(costs, [[0]], max_tokens=100, padded=False, processes=1)
    with pytest.raises(RuntimeError, match="needs 2 micro-batches; the run was planned for 1"):
        arrange([0, 1])


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_rows_waste_little_on_any_number_of_processes(processes):
    """About the lengths that the four grids have for a Gemma3, within its 8,192 tokens."""
    grids = [Cost(690, 10), Cost(1030, 15), Cost(1680, 25), Cost(2720, 42)]
    which = np.random.default_rng(0).choice(4, size=640, p=np.array([6, 4, 2, 1]) / 13)
    costs, order = {at: grids[grid] for at, grid in enumerate(which)}, EpochOrder(640, 64, seed=0)
    steps = list(order.possible_steps(10))
    arrange = balanced(costs, steps, max_tokens=8192, padded=True, processes=processes)
    assert arrange.useful(steps) >= 0.98
    assert sorted(example for step in steps for bin_ in arrange(step) for example in bin_) == list(range(640))


def test_batches_depend_on_seed_and_epoch_alone():
    bins = {}
    for seed in (0, 1):
        for epoch in (0, 1):
            batches, _ = arranged(100, 20, padded=False, processes=2, epochs=2, seed=seed)
            batches.set_epoch(epoch)
            bins[seed, epoch] = list(batches)
            assert list(batches) == bins[seed, epoch]
    assert bins[0, 0] != bins[0, 1] != bins[1, 1]


def test_a_loader_that_skips_steps_gives_the_steps_behind_them():
    batches, _ = arranged(100, 20, padded=False, processes=1)
    loader = DataLoader(range(100), batch_sampler=batches, collate_fn=list)
    skipped = 2 * batches.arrange.micro_steps
    assert list(skip_first_batches(loader, skipped)) == list(loader)[skipped:]


def test_an_epoch_ends_where_the_run_ends():
    batches = StepBatches(EpochOrder(10, 4, seed=0), 4, Plain(micro_batch=2, micro_steps=2, processes=1))
    assert list(batches) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], []]
    batches.set_epoch(1)
    assert len(list(batches)) == 2
    assert len(batches) == 6


def test_plain_bins_keep_the_order_and_lose_nothing_at_an_epochs_end():
    batches = StepBatches(EpochOrder(11, 8, seed=0), 2, Plain(micro_batch=2, micro_steps=2, processes=2))
    first, second = dealt(batches, 2)
    assert first == [[0, 1], [4, 5], [8, 9], []]
    assert second == [[2, 3], [6, 7], [10], []]
