"""Latencies: exact percentiles of a list, and a histogram for millions of them.

The histogram's buckets grow with their value, like those of HdrHistogram. Each power of two is divided into 32 equal
parts, so a value read from it is at most 3.2 % above the recorded one; a thousand buckets hold anything from a
microsecond to an hour. Two histograms can be added.
"""

from collections.abc import Sequence

from msgspec import Struct

PARTS = 32
_PARTS_BITS = PARTS.bit_length() - 1
# Below twice the number of parts, every microsecond has its own bucket.
_EXACT = 2 * PARTS


class Latency(Struct, frozen=True):
    p50_ms: float
    p99_ms: float


def latency_of(seconds: Sequence[float]) -> Latency | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    return Latency(*(round(ordered[int(len(ordered) * share)] * 1000, 3) for share in (0.5, 0.99)))


def bucket_of(microseconds: int) -> int:
    if microseconds < _EXACT:
        return max(microseconds, 0)
    power = microseconds.bit_length() - 1 - _PARTS_BITS
    return power * PARTS + (microseconds >> power)


def top_of(bucket: int) -> int:
    """The largest value in this bucket."""
    if bucket < _EXACT:
        return bucket
    power = bucket // PARTS - 1
    return ((bucket - power * PARTS + 1) << power) - 1


class Histogram(Struct):
    counts: dict[int, int] = {}
    largest: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def record(self, seconds: float) -> None:
        microseconds = max(int(seconds * 1e6), 0)
        bucket = bucket_of(microseconds)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.largest = max(self.largest, microseconds)

    def add(self, other: "Histogram") -> None:
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.largest = max(self.largest, other.largest)

    def quantile_ms(self, share: float) -> float:
        """The smallest value that this share of all values does not exceed, up to the width of a bucket."""
        wanted, seen = share * self.total, 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return min(top_of(bucket), self.largest) / 1000
        return 0.0

    def percentiles_ms(self) -> dict[str, float]:
        names = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
        found = {name: round(self.quantile_ms(share), 2) for name, share in names.items()}
        return found | {"max": round(self.largest / 1000, 2)}
