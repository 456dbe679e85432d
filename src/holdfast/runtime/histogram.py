"""Quantiles of a histogram."""

from collections.abc import Sequence


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """`counts` has one more entry than `bounds`, for values beyond the last; those are reported as the last bound."""
    wanted = share * sum(counts)
    if wanted <= 0:
        return None
    below = 0
    for index, (upper, number) in enumerate(zip(bounds, counts, strict=False)):
        if below + number >= wanted:
            lower = bounds[index - 1] if index else 0.0
            return lower + (upper - lower) * (wanted - below) / number
        below += number
    return float(bounds[-1])
