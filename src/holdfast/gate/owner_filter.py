"""A set of owners that may contain more than were added, and never fewer."""

from collections.abc import Iterable

# 256 KiB for a pool. With 100,000 winners, 5 % extra owners ask the store; with a million, 38 %.
FILTER_BITS = 2**21
# At most 16 MiB in total. The oldest filter is dropped.
POOLS_MAX = 64

_MASK = FILTER_BITS - 1


class OwnerFilter:
    """One bit per owner. The size is fixed to bound memory, so the filter is useless for very many owners."""

    def __init__(self) -> None:
        self._bits = bytearray(FILTER_BITS // 8)

    def add(self, owner_ids: Iterable[str]) -> None:
        for owner_id in owner_ids:
            bit = hash(owner_id) & _MASK
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def may_have(self, owner_id: str) -> bool:
        bit = hash(owner_id) & _MASK
        return self._bits[bit >> 3] & 1 << (bit & 7) != 0
