"""The order in which a run sees its mixture."""

from itertools import chain

from data_mix.order import EpochOrder


def epoch(order, number):
    steps = range(number * order.steps_per_epoch, (number + 1) * order.steps_per_epoch)
    return [list(order.step(step)) for step in steps]


def test_each_epoch_visits_every_example_once_in_its_own_order():
    order = EpochOrder(100, 30, seed=3)
    epochs = [epoch(order, number) for number in range(3)]
    assert all([len(step) for step in steps] == [30, 30, 30, 10] for steps in epochs)
    assert all(sorted(chain(*steps)) == list(range(100)) for steps in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_the_order_depends_on_seed_and_step_alone():
    first, second, other = (EpochOrder(50, 8, seed) for seed in (1, 1, 2))
    backwards = [second.step(step) for step in reversed(range(21))]
    assert [first.step(step) for step in range(21)] == backwards[::-1]
    assert first.step(15) != other.step(15)


def test_a_short_run_sees_the_beginning_of_the_mixture():
    order = EpochOrder(50, 8, seed=0)
    assert order.positions(3) == list(range(24)) == list(chain(*order.possible_steps(3)))
    assert order.positions(30) == list(range(50))
