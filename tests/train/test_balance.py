"""Bins: every example once, within memory, with even work."""

from dataclasses import replace
from itertools import combinations, pairwise

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
from train.balance import Plain, StepBatches, balanced
from train.bins import Cost, bin_work, level_packs, level_rows, makespan, shared
from train.check import Measured, example_costs

GRID_COSTS = [Cost(650, 10), Cost(2750, 55), Cost(6900, 190), Cost(13000, 560)]
"""About what the four grids take of an 8B model, TFLOP."""
GEMMA_COSTS = [Cost(690, 20), Cost(1030, 29), Cost(1680, 45), Cost(2720, 70)]
"""The same of a Gemma3-12B, whose model file allows 8,192 tokens."""
ANY_COSTS = st.lists(st.tuples(st.integers(1, 100), st.integers(1, 1000)), min_size=1, max_size=40)


def mixed_costs(size, seed=0, grids=GRID_COSTS):
    which = np.random.default_rng(seed).choice(4, size=size, p=np.array([6, 4, 2, 1]) / 13)
    return {position: grids[grid] for position, grid in enumerate(which)}


def arranged(size, batch, *, padded, processes, max_tokens=16384, epochs=1, seed=0, lockstep=False):
    order, costs = EpochOrder(size, batch, seed), mixed_costs(size)
    steps = epochs * order.steps_per_epoch
    arrange = balanced(
        costs, order.possible_steps(steps), max_tokens=max_tokens, padded=padded, processes=processes, lockstep=lockstep
    )
    return StepBatches(order, steps, arrange), costs


def lasting(arrange, examples):
    """What a step takes where processes wait for each other after every micro-step, padding included."""
    work = [bin_work(bin_, arrange.costs, padded=arrange.padded) for bin_ in arrange(examples)]
    return makespan(work, arrange.processes, lockstep=True)


def dealt(batches, processes):
    """What accelerate gives each process."""
    return [list(BatchSamplerShard(batches, processes, rank)) for rank in range(processes)]


@pytest.mark.parametrize("lockstep", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("processes", [1, 2, 8])
def test_the_bins_of_a_step_are_exactly_its_examples_on_any_number_of_processes(padded, processes, lockstep):
    batches, _ = arranged(150, 32, padded=padded, processes=processes, epochs=2, lockstep=lockstep)
    micro_steps = batches.arrange.micro_steps
    for epoch in (0, 1):
        batches.set_epoch(epoch)
        shares = dealt(batches, processes)
        assert {len(share) for share in shares} == {len(batches) // processes}
        for step in range(5):
            examples = batches.order.step(5 * epoch + step)
            bins = [one for share in shares for one in share[step * micro_steps : (step + 1) * micro_steps]]
            assert sorted(example for one in bins for example in one) == sorted(examples)


@given(ANY_COSTS, st.integers(100, 400), st.integers(1, 4), st.booleans(), st.booleans())
def test_no_bin_exceeds_the_tokens_that_fit(given_costs, max_tokens, processes, padded, lockstep):
    costs = {position: Cost(*cost) for position, cost in enumerate(given_costs)}
    examples = list(costs)
    arrange = balanced(costs, [examples], max_tokens=max_tokens, padded=padded, processes=processes, lockstep=lockstep)
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


def test_a_step_lasts_as_long_as_the_busiest_process_or_in_lockstep_as_the_dearest_bins():
    work = [3, 1, 2, 5]  # two processes in two micro-steps
    assert makespan(work, 2, lockstep=False) == max(3 + 2, 1 + 5)
    assert makespan(work, 2, lockstep=True) == 3 + 5


@given(ANY_COSTS, st.integers(100, 400), st.integers(1, 4), st.booleans())
def test_bins_for_lockstep_never_last_longer_than_those_of_even_sums(given_costs, max_tokens, processes, padded):
    costs = {position: Cost(*cost) for position, cost in enumerate(given_costs)}
    examples = list(costs)
    arrange = balanced(costs, [examples], max_tokens=max_tokens, padded=padded, processes=processes, lockstep=True)
    assert lasting(arrange, examples) <= lasting(replace(arrange, lockstep=False), examples)
    assert arrange(examples) == arrange(examples)


@pytest.mark.parametrize(
    ("grids", "max_tokens", "padded"), [(GRID_COSTS, 16384, False), (GEMMA_COSTS, 8192, True)], ids=["packs", "rows"]
)
@pytest.mark.parametrize("processes", [2, 8])
def test_a_mixed_run_in_lockstep_is_shorter_than_with_even_sums_alone(grids, max_tokens, padded, processes):
    costs, order = mixed_costs(640, grids=grids), EpochOrder(640, 64, seed=0)
    steps = list(order.possible_steps(10))
    together, apart = (
        balanced(costs, steps, max_tokens=max_tokens, padded=padded, processes=processes, lockstep=lockstep)
        for lockstep in (True, False)
    )
    assert sum(lasting(together, step) for step in steps) < sum(lasting(apart, step) for step in steps)
    assert together.useful(steps) >= 0.98


def test_packs_for_lockstep_share_each_micro_step_evenly():
    costs = {at: Cost(1, flops) for at, flops in enumerate([8, 8, 2, 2, 2, 2])}
    packs = level_packs(list(costs), costs, max_tokens=4, micro_steps=2, processes=2)
    assert [bin_work(pack, costs, padded=False) for pack in packs] == [8, 8, 4, 4]


def test_the_last_micro_step_takes_what_cannot_be_shared_evenly():
    costs = dict.fromkeys(range(3), Cost(1, 3))
    assert level_packs(list(costs), costs, max_tokens=4, micro_steps=1, processes=2) == [[0, 2], [1]]


def test_packs_that_would_leave_an_example_out_are_none():
    """The dearest are short, and together they leave the long ones no room."""
    costs = {0: Cost(1, 9), 1: Cost(1, 9), 2: Cost(4, 1), 3: Cost(4, 1)}
    assert level_packs(list(costs), costs, max_tokens=4, micro_steps=1, processes=2) is None


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 100)), min_size=1, max_size=7),
    st.integers(20, 100), st.integers(1, 3), st.integers(1, 2),
)  # fmt: skip
def test_no_cut_of_rows_has_a_cheaper_dearest_bin(given_costs, max_tokens, micro_steps, processes):
    """Where longer examples are dearer ones."""
    lengths, flops = (sorted(values, reverse=True) for values in zip(*given_costs, strict=True))
    costs = {at: Cost(*cost) for at, cost in enumerate(zip(lengths, flops, strict=True))}
    dearest = []
    for count in range(1, micro_steps * processes + 1):
        for cuts in combinations(range(1, len(costs)), count - 1):
            bins = [range(*ends) for ends in pairwise((0, *cuts, len(costs)))]
            if all(len(bin_) * lengths[bin_[0]] <= max_tokens for bin_ in bins):
                dearest.append(max(bin_work(bin_, costs, padded=True) for bin_ in bins))
    rows = level_rows(list(costs), costs, max_tokens, micro_steps, processes)
    assert (rows is None) == (not dearest)
    if rows is not None:
        assert max(bin_work(bin_, costs, padded=True) for bin_ in rows) == min(dearest)


def test_over_a_step_in_lockstep_the_sums_of_the_processes_stay_even_too():
    costs = {at: Cost(1, flops) for at, flops in enumerate([5, 4, 3, 2])}
    for level in (level_rows, level_packs):
        assert level(list(costs), costs, max_tokens=1, micro_steps=2, processes=2) == [[0], [1], [3], [2]]


@given(ANY_COSTS, st.integers(100, 400), st.integers(1, 8), st.integers(1, 4))
def test_bins_for_lockstep_hold_all_examples_within_the_tokens_or_are_none(
    given_costs, max_tokens, micro_steps, processes
):
    costs = {position: Cost(*cost) for position, cost in enumerate(given_costs)}
    for level in (level_rows, level_packs):
        bins = level(list(costs), costs, max_tokens, micro_steps, processes)
        if bins is None:
            continue
        lengths = [[costs[example].tokens for example in bin_] for bin_ in bins]
        assert len(bins) == micro_steps * processes
        assert sorted(example for bin_ in bins for example in bin_) == list(costs)
        for one in lengths:
            assert (len(one) * max(one, default=0) if level is level_rows else sum(one)) <= max_tokens


def test_rows_that_share_a_bin_waste_little():
    batches, costs = arranged(640, 64, padded=True, processes=1)
    lengths = [[costs[example].tokens for example in one] for one in batches if one]
    useful = sum(map(sum, lengths)) / sum(len(one) * max(one) for one in lengths)
    in_order = [[costs[example].tokens for example in range(start, start + 8)] for start in range(0, 640, 8)]
    assert useful > 0.98 > 0.6 > sum(map(sum, in_order)) / sum(8 * max(one) for one in in_order)


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 1000)), min_size=12, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_a_run_by_score_keeps_within_its_micro_steps_whatever_is_found(drawn, padded, lockstep):
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
        example_costs(measured, order), order.possible_steps(9), max_tokens=150, padded=padded, processes=2,
        lockstep=lockstep,
    )  # fmt: skip
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
    costs, order = mixed_costs(640, grids=GEMMA_COSTS), EpochOrder(640, 64, seed=0)
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
