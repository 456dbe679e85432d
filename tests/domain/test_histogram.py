"""Quantiles from counts between bounds."""

import pytest

from holdfast.runtime.histogram import quantile

BOUNDS = (10, 20, 40)


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0, 0, 0, 0], 0.5, None),
        ([10, 0, 0, 0], 0.5, 5.0),
        ([0, 10, 0, 0], 0.5, 15.0),
        ([5, 5, 0, 0], 0.5, 10.0),
        ([98, 0, 2, 0], 0.99, 30.0),
        ([0, 0, 0, 7], 0.5, 40.0),
    ],
)
def test_a_quantile_lies_between_the_bounds_it_fell_into(
    counts: list[int], share: float, expected: float | None
) -> None:
    assert quantile(BOUNDS, counts, share) == expected
