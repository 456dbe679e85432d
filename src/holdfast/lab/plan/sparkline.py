"""Numbers as a row of block characters, for a terminal."""

from collections.abc import Sequence
from itertools import pairwise

BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The maximum of each column, relative to the overall maximum. Values above zero are always visible."""
    most = max(values, default=0)
    if most <= 0:
        return BLOCKS[0] * min(width, len(values))
    columns = min(width, len(values))
    edges = [index * len(values) // columns for index in range(columns + 1)]
    tops = [max(values[start:end]) for start, end in pairwise(edges)]
    return "".join(BLOCKS[0 if top <= 0 else max(1, round(top / most * (len(BLOCKS) - 1)))] for top in tops)
