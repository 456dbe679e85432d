"""Latencies in buckets that grow with their value, as HdrHistogram has them.

Each power of two is divided into 32 equal parts, so whatever is read off is at most 3.2 % above what was noted; a
thousand buckets hold anything from a microsecond to an hour. Two histograms add up to that of both.
"""

from collections.abc import Iterable

PARTS = 32
_PARTS_BITS = PARTS.bit_length() - 1
# Twice as many as the parts: below that every microsecond has a bucket of its own.
_EXACT = 2 * PARTS


def bucket_of(microseconds: int) -> int:
    if microseconds < _EXACT:
        return max(microseconds, 0)
    power = microseconds.bit_length() - 1 - _PARTS_BITS
    return power * PARTS + (microseconds >> power)


def top_of(bucket: int) -> int:
    """The largest value that falls into it."""
    if bucket < _EXACT:
        return bucket
    power = bucket // PARTS - 1
    return ((bucket - power * PARTS + 1) << power) - 1


class Histogram:
    __slots__ = ("counts", "largest", "total")

    def __init__(self, counts: dict[int, int] | None = None, largest: int = 0) -> None:
        self.counts: dict[int, int] = {} if counts is None else counts
        self.total = sum(self.counts.values())
        self.largest = largest

    def note(self, seconds: float) -> None:
        microseconds = int(seconds * 1e6)
        bucket = bucket_of(microseconds)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.total += 1
        self.largest = max(self.largest, microseconds)

    def add(self, counts: dict[int, int], largest: int) -> None:
        for bucket, count in counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
            self.total += count
        self.largest = max(self.largest, largest)

    def quantile_ms(self, part: float) -> float:
        """The least value such that this part of all is not above it, up to the width of a bucket."""
        wanted, seen = part * self.total, 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return min(top_of(bucket), self.largest) / 1000
        return 0.0

    def told(self) -> dict[str, float]:
        names = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
        return {name: round(self.quantile_ms(part), 2) for name, part in names.items()} | {
            "max": round(self.largest / 1000, 2)
        }


def sum_of(histograms: Iterable[Histogram]) -> Histogram:
    whole = Histogram()
    for histogram in histograms:
        whole.add(histogram.counts, histogram.largest)
    return whole
