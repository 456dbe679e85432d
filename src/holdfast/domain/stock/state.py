"""The input of a decision, and the changes it makes."""

from collections.abc import Mapping

from msgspec import Struct, field

from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation


class Remembered(Struct, frozen=True, gc=False):
    """The first answer given under an idempotency key."""

    owner_id: str
    key: str
    fingerprint: str
    reservation: Reservation


class Tally(Struct, frozen=True, gc=False):
    """What one owner has in this pool: active, settling or confirmed units, and the number of holds released unpaid."""

    live_units: int = 0
    released: int = 0


class Event(Struct, frozen=True, gc=False):
    type: str
    at: int
    reservation_id: str | None = None
    quantity: int | None = None
    expires_at: int | None = None
    # Why the payment failed. The gate does not know it; the publisher of the event adds it.
    failure_reason: str | None = None


class Transfer(Struct, frozen=True, gc=False):
    """Units in transfer between two pools. `number` counts the transfers from one to the other."""

    donor: str
    receiver: str
    number: int
    units: int


class Counters(Struct, frozen=True):
    """The number of the last transfer that a pool gave to each other pool, and took from it."""

    given: Mapping[str, int] = {}
    taken: Mapping[str, int] = {}


class State(Struct):
    """The part of the state that a batch can touch."""

    sku_id: str
    pool: Pool | None = None
    reservations: Mapping[str, Reservation] = {}
    remembered: Mapping[tuple[str, str], Remembered] = {}
    tallies: Mapping[str, Tally] = {}
    counters: Counters = Counters()


class Changes(Struct):
    """What must be durable before any verdict of the batch is returned."""

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
