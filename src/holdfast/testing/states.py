"""States for a gate to decide on. Tests describe the relevant parts; the rest is filled in consistently."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.pool import Pool, Rules
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import LIVE, RELEASED
from holdfast.domain.stock.state import Remembered, State, Tally

SKU = "sku"
NOW = 1_700_000_000_000
MINUTE = 60_000
ASKS_NOTHING = Rules()


def reserve(
    reservation_id: str = "new",
    owner_id: str = "ada",
    quantity: int = 1,
    *,
    at_least: int | None = None,
    key: str | None = None,
    ttl_ms: int = MINUTE,
) -> Reserve:
    least = quantity if at_least is None else at_least
    return Reserve(reservation_id, owner_id, quantity, least, ttl_ms, key)


def hold(
    reservation_id: str,
    owner_id: str = "bob",
    quantity: int = 1,
    *,
    status: Status = Status.ACTIVE,
    due_in: int = MINUTE,
) -> Reservation:
    attempts = int(status is Status.SETTLING)
    confirmed_at = NOW - 1 if status is Status.CONFIRMED else None
    times = NOW - 10 * MINUTE, NOW + due_in
    return Reservation(reservation_id, SKU, owner_id, quantity, status, *times, attempts, confirmed_at)


def state_of(
    total: int,
    *reservations: Reservation,
    rules: Rules = ASKS_NOTHING,
    ready: bool = True,
    remembered: Sequence[Remembered] = (),
) -> State:
    """A pool with these reservations and the counts that result from them."""
    return State(
        SKU,
        pool_of(SKU, total, reservations, rules, ready=ready),
        {r.reservation_id: r for r in reservations},
        {(first.owner_id, first.key): first for first in remembered},
        tallies_of(reservations),
    )


def pool_of(sku_id: str, total: int, reservations: Iterable[Reservation], rules: Rules, *, ready: bool = True) -> Pool:
    units: dict[Status, int] = defaultdict(int)
    active = 0
    for reservation in reservations:
        units[reservation.status] += reservation.quantity
        active += reservation.status is Status.ACTIVE
    held = units[Status.ACTIVE] + units[Status.SETTLING]
    return Pool(sku_id, total, held, units[Status.CONFIRMED], active, ready, rules)


def tallies_of(reservations: Iterable[Reservation]) -> dict[str, Tally]:
    tallies: dict[str, Tally] = defaultdict(Tally)
    for r in reservations:
        tally = tallies[r.owner_id]
        live_units = r.quantity if r.status in LIVE else 0
        tallies[r.owner_id] = Tally(tally.live_units + live_units, tally.released + (r.status in RELEASED))
    return dict(tallies)
