"""What is asked of the gate, and its answer."""

from enum import StrEnum

from msgspec import Struct

from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Pool, RuleChanges, Rules
from holdfast.domain.reservation import DEFAULT_TTL_MS, MAX_HOLD_MS, Reservation, Status


class Reserve(Struct, frozen=True, gc=False):
    reservation_id: str
    owner_id: str
    quantity: int
    min_quantity: int
    ttl_ms: int = DEFAULT_TTL_MS
    key: str | None = None
    tier: int = 0
    # Paid for at once: the reservation begins as settling, and no deadline can take it back.
    settle: bool = False
    # A purchase: its time was chosen by the sale, which may change it between a request and its repeat; and the same
    # key in the next sale of the same pool is another request.
    sale_id: str | None = None
    # What it is to be paid with. The gate does nothing with it but tell a repeat from another request.
    method: str | None = None

    @property
    def fingerprint(self) -> str:
        """What makes a repeat under the same key the same request."""
        terms = self.ttl_ms if self.sale_id is None else self.sale_id
        request = f"{self.quantity}/{self.min_quantity}/{terms}"
        request = f"{request}/settle" if self.settle else request
        return request if self.method is None else f"{request}/{self.method}"

    @property
    def granted_status(self) -> Status:
        return Status.SETTLING if self.settle else Status.ACTIVE


class Extend(Struct, frozen=True, gc=False):
    """Push the deadline back by `ttl_ms`, never further than `max_hold_ms` after the reservation was made."""

    reservation_id: str
    ttl_ms: int
    owner_id: str | None = None
    max_hold_ms: int = MAX_HOLD_MS


class Transition(StrEnum):
    SETTLE = "settle"
    CONFIRM = "confirm"
    FAIL = "fail"
    CANCEL = "cancel"


TRANSITIONS: dict[Transition, tuple[frozenset[Status], Status]] = {
    Transition.SETTLE: (frozenset({Status.ACTIVE}), Status.SETTLING),
    Transition.CONFIRM: (frozenset({Status.ACTIVE, Status.SETTLING}), Status.CONFIRMED),
    Transition.FAIL: (frozenset({Status.SETTLING}), Status.FAILED),
    Transition.CANCEL: (frozenset({Status.ACTIVE}), Status.CANCELLED),
}


class Move(Struct, frozen=True, gc=False):
    """Take a reservation to another state. With an `owner_id`, only that owner's reservation is found."""

    transition: Transition
    reservation_id: str
    owner_id: str | None = None


class Expire(Struct, frozen=True, gc=False):
    """Return the units of up to `limit` reservations whose deadline has passed."""

    limit: int


class Restock(Struct, frozen=True, gc=False):
    """Add units, or take away units that are free (a negative number)."""

    units: int


class Provision(Struct, frozen=True, gc=False):
    """Create the pool, or set its total, and its rules if any are given: whole ones, or changes to those there are.

    A `total` of None leaves it as it is. With `only_if_missing`, a pool that exists is left as it is, which is decided
    under its lock. `shards` is chosen when a pool is created, and is for a gate that can split one.
    """

    total: int | None
    rules: Rules | None = None
    changes: RuleChanges | None = None
    only_if_missing: bool = False
    shards: int | None = None


class Give(Struct, frozen=True, gc=False):
    """Part with up to so many free units, for another pool to take."""

    receiver: str
    units: int


class Take(Struct, frozen=True, gc=False):
    """Take the units that another pool gave under this number: the next one after the last that was taken."""

    donor: str
    number: int
    units: int


Command = Reserve | Extend | Move | Expire | Restock | Provision | Give | Take


class Verdict(Struct, frozen=True, gc=False):
    """The answer to one command. The members that help depend on the outcome."""

    outcome: Outcome
    reservation: Reservation | None = None
    pool: Pool | None = None
    available: int | None = None
    next_return_at: int | None = None
    retry_after_ms: int | None = None
    opens_at: int | None = None
    latest_expires_at: int | None = None
    units: int = 0
    shards: int | None = None
