"""What a batch is decided from, and what the decision changes."""

from collections.abc import Mapping

from msgspec import Struct, field

from holdfast.domain.command import Verdict
from holdfast.domain.pool import Pool
from holdfast.domain.reservation import Reservation


class Remembered(Struct, frozen=True, gc=False):
    """The first answer given under an idempotency key."""

    owner_id: str
    key: str
    fingerprint: str
    reservation: Reservation


class Tally(Struct, frozen=True, gc=False):
    """What one owner has in this pool: units active, settling or confirmed, and holds let go unpaid."""

    live_units: int = 0
    let_go: int = 0


class Event(Struct, frozen=True, gc=False):
    type: str
    at: int
    reservation_id: str | None = None
    quantity: int | None = None
    expires_at: int | None = None
    # Why there was no money, where a payment failed. The gate does not know it; whoever tells of the event adds it.
    failure_reason: str | None = None


class Transfer(Struct, frozen=True, gc=False):
    """Units on their way from one pool to another, under a number that counts what the one has given to the other."""

    donor: str
    receiver: str
    number: int
    units: int


class Counters(Struct, frozen=True):
    """The last number a pool has given to each other pool, and taken from it."""

    given: Mapping[str, int] = {}
    taken: Mapping[str, int] = {}


class State(Struct):
    """The part of the world a batch can touch."""

    sku_id: str
    pool: Pool | None = None
    reservations: Mapping[str, Reservation] = {}
    remembered: Mapping[tuple[str, str], Remembered] = {}
    tallies: Mapping[str, Tally] = {}
    counters: Counters = Counters()


class Changes(Struct):
    """What must become durable before any verdict of the batch is told."""

    pool: Pool | None = None
    created: list[Reservation] = field(default_factory=list)
    moved: list[Reservation] = field(default_factory=list)
    remembered: list[Remembered] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    given: list[Transfer] = field(default_factory=list)
    taken: list[Transfer] = field(default_factory=list)


class Decision(Struct):
    verdicts: list[Verdict]
    changes: Changes
