"""Everything a ledger holds about one pool, and the invariants that always hold."""

from collections import defaultdict

from msgspec import Struct

from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.state import Event, Remembered
from holdfast.testing.states import pool_of

ENDS = {"reservation.confirmed", "reservation.failed", "reservation.cancelled", "reservation.expired"}
RETURNS = ENDS - {"reservation.confirmed"}


class LedgerSnapshot(Struct):
    sku_id: str
    pool: Pool | None
    reservations: dict[str, Reservation]
    remembered: dict[tuple[str, str], Remembered]
    events: list[Event]

    def check(self) -> None:
        """Raise if an invariant is broken."""
        if self.pool is None:
            assert not self.reservations
            assert not self.events
            return
        assert min(self.pool.held, self.pool.sold, self.pool.available) >= 0
        rules, ready = self.pool.rules, self.pool.ready
        assert self.pool == pool_of(self.sku_id, self.pool.total, self.reservations.values(), rules, ready=ready)
        assert replay(self.events) == (self.pool.total, self.pool.held, self.pool.sold)
        self._check_histories()
        for first in self.remembered.values():
            assert self.reservations[first.reservation.reservation_id].owner_id == first.owner_id
        moments = [event.at for event in self.events]
        assert moments == sorted(moments), "time ran backwards"

    def _check_histories(self) -> None:
        histories: dict[str, list[str]] = defaultdict(list)
        for event in self.events:
            if event.reservation_id is not None:
                histories[event.reservation_id].append(event.type)
        assert histories.keys() == self.reservations.keys()
        for reservation_id, types in histories.items():
            _check_history(self.reservations[reservation_id], types)

    def sorted_events(self) -> list[Event]:
        """Overdue holds of one owner end at the same time, in no defined order."""
        return sorted(self.events, key=lambda e: (e.at, e.type, e.reservation_id or "", e.quantity or 0))


def _check_history(reservation: Reservation, types: list[str]) -> None:
    assert types[0] == "reservation.created"
    assert types.count("reservation.created") == 1
    assert types.count("reservation.settling") == reservation.attempts
    assert types.count("reservation.reopened") <= types.count("reservation.settling")
    ends = [t for t in types if t in ENDS]
    assert len(ends) <= 1, f"{reservation.reservation_id} ended more than once: {types}"
    if ends:
        assert types[-1] == ends[0] == f"reservation.{reservation.status}"
    else:
        assert reservation.status in {Status.ACTIVE, Status.SETTLING}


def replay(events: list[Event]) -> tuple[int, int, int]:
    """Total, held and sold, computed only from the recorded events."""
    total = held = sold = 0
    for event in events:
        quantity = event.quantity or 0
        if event.type in {"pool.provisioned", "pool.restocked", "pool.given", "pool.taken"}:
            total += quantity
        elif event.type == "reservation.created":
            held += quantity
        elif event.type in RETURNS:
            held -= quantity
        elif event.type == "reservation.confirmed":
            held, sold = held - quantity, sold + quantity
        assert min(held, sold, total - held - sold) >= 0
    return total, held, sold
