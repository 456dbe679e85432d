"""The commands that the gate accepts, and its answer."""

from enum import StrEnum

from msgspec import Struct

from holdfast.domain.stock.limits import DEFAULT_TTL_MS, MAX_HOLD_MS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Pool, RuleChanges, Rules
from holdfast.domain.stock.reservation import Reservation, Status


class Reserve(Struct, frozen=True, gc=False):
    reservation_id: str
    owner_id: str
    quantity: int
    min_quantity: int
    ttl_ms: int = DEFAULT_TTL_MS
    key: str | None = None
    tier: int = 0
    # Paid immediately: the reservation starts as settling, and no deadline can expire it.
    settle: bool = False
    # Set for a purchase. The sale chooses the TTL and may change it between a request and its retry, so the fingerprint
    # has the sale instead. The same key in the pool's next sale is a different request.
    sale_id: str | None = None
    # The payment method. The gate only uses it to tell a retry from a different request.
    method: str | None = None
    # The quote, for the same reason.
    quote_id: str | None = None

    @property
    def fingerprint(self) -> str:
        """Requests with the same key and the same fingerprint are the same request."""
        terms = self.ttl_ms if self.sale_id is None else self.sale_id
        request = f"{self.quantity}/{self.min_quantity}/{terms}"
        request = f"{request}/settle" if self.settle else request
        request = request if self.method is None else f"{request}/{self.method}"
        return request if self.quote_id is None else f"{request}/quote/{self.quote_id}"

    @property
    def granted_status(self) -> Status:
        return Status.SETTLING if self.settle else Status.ACTIVE

    @property
    def granted_attempts(self) -> int:
        return int(self.settle)


class Extend(Struct, frozen=True, gc=False):
    """Hold the units for `ttl_ms` from now, at most until `max_hold_ms` after the reservation was created.

    A deadline is never moved forward: a shorter time than is left changes nothing.
    """

    reservation_id: str
    ttl_ms: int
    owner_id: str | None = None
    max_hold_ms: int = MAX_HOLD_MS


class Transition(StrEnum):
    SETTLE = "settle"
    CONFIRM = "confirm"
    FAIL = "fail"
    CANCEL = "cancel"
    # A payment was declined, and the buyer may try again until the deadline.
    REOPEN = "reopen"


TRANSITIONS: dict[Transition, tuple[frozenset[Status], Status]] = {
    Transition.SETTLE: (frozenset({Status.ACTIVE}), Status.SETTLING),
    Transition.CONFIRM: (frozenset({Status.ACTIVE, Status.SETTLING}), Status.CONFIRMED),
    Transition.FAIL: (frozenset({Status.SETTLING}), Status.FAILED),
    Transition.CANCEL: (frozenset({Status.ACTIVE}), Status.CANCELLED),
    Transition.REOPEN: (frozenset({Status.SETTLING}), Status.ACTIVE),
}


class Move(Struct, frozen=True, gc=False):
    """Move a reservation to another state. With an `owner_id`, only that owner's reservation is found.

    A reservation is reopened after a certain attempt to pay. If a later attempt has begun, nothing happens: a reopening
    that arrives late or twice must not release units while money may be moving. In the same way a payment that was to
    be a certain attempt is not begun as a later one, which would charge a card again that was declined meanwhile.
    """

    transition: Transition
    reservation_id: str
    owner_id: str | None = None
    # The ledger has claimed the units already, so a gate outside the ledger does not have to.
    is_claimed: bool = False
    # For a reopening, the attempt that was declined; for settling, the one to begin, or 0 for whichever is next.
    attempt: int = 0

    def is_of_another_attempt(self, reservation: Reservation) -> bool:
        if self.transition is Transition.REOPEN:
            return self.attempt != reservation.attempts
        return self.transition is Transition.SETTLE and self.attempt not in (0, reservation.attempts + 1)


class Expire(Struct, frozen=True, gc=False):
    """Return the units of up to `limit` reservations whose deadline has passed."""

    limit: int


class Restock(Struct, frozen=True, gc=False):
    """Add units, or remove free units (a negative number)."""

    units: int


class Provision(Struct, frozen=True, gc=False):
    """Create the pool, or set its total and, if given, its rules: `rules` replaces all, `changes` updates some.

    A `total` of None keeps the total. With `only_if_missing`, an existing pool is not changed; with `unless_in_sale`,
    one that has the rules of a sale is refused as illegal. Both are decided under its lock. `shards` is fixed when a
    pool is created, and only applies to a gate that can split pools.
    """

    total: int | None
    rules: Rules | None = None
    changes: RuleChanges | None = None
    only_if_missing: bool = False
    shards: int | None = None
    unless_in_sale: bool = False


class Give(Struct, frozen=True, gc=False):
    """Give up to `units` free units away, for another pool to take."""

    receiver: str
    units: int


class Take(Struct, frozen=True, gc=False):
    """Take the units that another pool gave under this number, which must be one more than the last taken."""

    donor: str
    number: int
    units: int


Command = Reserve | Extend | Move | Expire | Restock | Provision | Give | Take


class Verdict(Struct, frozen=True, gc=False):
    """The answer to one command. Which optional fields are set depends on the outcome."""

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
