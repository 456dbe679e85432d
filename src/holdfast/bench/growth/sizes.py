"""The sizes at which is measured what grows to a million."""

from collections.abc import Sequence

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MOST = SIZES[-1]
# So few that it is quick, and means nothing.
LEAST = 10


def sizes_to(most: int, sizes: Sequence[int] = SIZES) -> list[int]:
    """Those below, and the most itself; no more than there are."""
    most = min(most, sizes[-1])
    return [*(size for size in sizes if size < most), most]
