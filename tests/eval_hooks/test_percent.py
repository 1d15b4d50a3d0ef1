"""Shares as tables show them."""

import pytest

from eval_hooks.percent import percent


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0.0"), (-0.0, "0.0"), (1e-6, "0.1"), (-1e-6, "-0.1"), (0.0005, "0.1"), (0.12345, "12.3"), (1.0, "100.0"),
        (0.9999, "99.9"), (0.99949, "99.9"), (-0.9999, "-99.9"), (-1.0, "-100.0"), (-3.5, "-350.0"),
    ],
)  # fmt: skip
def test_only_what_is_exactly_none_or_all_is_shown_so(share, shown):
    assert percent(share) == shown


def test_errors_of_floating_point_are_no_difference():
    assert percent(0.1 + 0.2 - 0.3) == "0.0"
    assert percent(1 - 1e-16 * 5) == "100.0"


def test_a_difference_has_its_sign():
    assert [percent(share, "+") for share in (0.015, 0.0, -0.0001)] == ["+1.5", "+0.0", "-0.1"]
