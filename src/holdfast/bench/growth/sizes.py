"""The sizes at which is measured what grows to a million."""

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MOST = SIZES[-1]
LEAST = SIZES[0]


def sizes_to(most: int) -> list[int]:
    return [*(size for size in SIZES if size < most), most]
