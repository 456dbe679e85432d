"""The sizes to measure, up to a million."""

from collections.abc import Sequence

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MOST = SIZES[-1]
# For quick runs; the figures mean nothing.
LEAST = 10


def sizes_to(most: int, sizes: Sequence[int] = SIZES) -> list[int]:
    """All sizes smaller than `most`, and `most` itself, which is capped at the largest size."""
    most = min(most, sizes[-1])
    return [*(size for size in sizes if size < most), most]
