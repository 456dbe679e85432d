"""The sizes to measure, up to a million."""

from collections.abc import Sequence

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MOST = SIZES[-1]
# For quick runs; the figures mean nothing.
LEAST = 10


def sizes_to(most: int, sizes: Sequence[int] = SIZES) -> list[int]:
    """All smaller sizes and `most` itself, at most the largest."""
    most = min(most, sizes[-1])
    return [*(size for size in sizes if size < most), most]
