"""The stock of one SKU, and the rules for reserving from it."""

import re
from enum import StrEnum
from functools import lru_cache

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

# A SKU ID is part of URLs, metric labels and reservation IDs, so it only has characters that need no escaping there.
SKU_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:~-]{0,99}$"
_SKU = re.compile(SKU_PATTERN.replace("$", r"\Z"))


@lru_cache(maxsize=1024)  # Called for every request, with the same few pools.
def is_sku_id(text: str) -> bool:
    return _SKU.match(text) is not None


class Availability(StrEnum):
    AVAILABLE = "available"
    ALL_HELD = "all_held"
    SOLD_OUT = "sold_out"


class Rules(Struct, frozen=True):
    """The restrictions on reserving from a pool. The default has none."""

    per_owner_limit: int | None = None
    hold_budget: int | None = None
    required_tier: int | None = None
    opens_at: int | None = None
    ends_at: int | None = None
    paused: bool = False

    @property
    def count_owners(self) -> bool:
        return self.per_owner_limit is not None or self.hold_budget is not None

    @property
    def is_in_sale(self) -> bool:
        """Only a sale sets when a pool opens, and unsets it when it is closed."""
        return self.opens_at is not None


class RuleChanges(Struct, frozen=True):
    """The rules to change. Unset ones keep their value."""

    per_owner_limit: int | UnsetType | None = UNSET
    hold_budget: int | UnsetType | None = UNSET
    required_tier: int | UnsetType | None = UNSET
    opens_at: int | UnsetType | None = UNSET
    ends_at: int | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET

    @property
    def count_owners(self) -> bool:
        return isinstance(self.per_owner_limit, int) or isinstance(self.hold_budget, int)

    def applied_to(self, rules: Rules) -> Rules:
        return replace(rules, **{name: value for name, value in asdict(self).items() if value is not UNSET})


class Pool(Struct, frozen=True):
    """`total = available + held + sold` always holds, because `available` is computed from the others.

    `held` counts units of active and settling reservations; `sold` those of confirmed ones.
    """

    sku_id: str
    total: int
    held: int = 0
    sold: int = 0
    active_reservations: int = 0
    ready: bool = True
    rules: Rules = Rules()

    @property
    def available(self) -> int:
        return self.total - self.held - self.sold

    @property
    def availability(self) -> Availability:
        if self.available > 0:
            return Availability.AVAILABLE
        return Availability.ALL_HELD if self.held > 0 else Availability.SOLD_OUT
