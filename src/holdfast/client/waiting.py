"""Waiting until a payment is decided."""

from collections.abc import Callable, Collection
from typing import Protocol

from holdfast.client import errors
from holdfast.client.calls.reservations import get_reservation
from holdfast.client.conversation import Options, Pause, Steps, conversation
from holdfast.client.types import Reservation, SaleReservation

# Final states of a reservation.
FINAL = frozenset({"confirmed", "failed", "cancelled", "expired"})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
# Well below the response timeouts of proxies.
_LONGEST_WAIT_S = 20


class HasReservationId(Protocol):
    @property
    def reservation_id(self) -> str: ...


def waiting(
    reservation: str | HasReservationId,
    until: Collection[str],
    timeout_s: float,
    options: Options,
    clock: Callable[[], float],
) -> Steps[Reservation | SaleReservation]:
    """Read the reservation, then long-poll for changes. If the server has no slot for a long poll, it responds
    immediately; polling then continues at increasing intervals."""
    reservation_id = reservation if isinstance(reservation, str) else reservation.reservation_id
    give_up_at, pause_s, wait, before = clock() + timeout_s, _FIRST_PAUSE_S, 0, None
    while True:
        asked_at = clock()
        found = yield from conversation(get_reservation(reservation_id, wait=wait or None), options)
        # A declined payment leaves the reservation active, so that it can be retried; that counts as decided, too.
        if found.status in until or (before == "settling" and found.status == "active"):
            return found
        now = clock()
        left_s = give_up_at - now
        if left_s <= 0:
            raise errors.WaitTimedOut(f"{reservation_id} was still {found.status} after {timeout_s:g} s.")
        if found.status == before and (wait == 0 or now - asked_at < wait):
            yield Pause(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        before, wait = found.status, int(min(left_s, _LONGEST_WAIT_S))
