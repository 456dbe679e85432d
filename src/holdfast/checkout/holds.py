"""Use cases for an existing reservation: look it up, extend it, confirm it, cancel it.

A buyer can only see and move their own reservations. `buyer_id` is None for a service, which may move any.
"""

import re
from collections.abc import Awaitable, Callable
from enum import Enum, auto

from holdfast.checkout.payment_methods import PaymentMethods
from holdfast.checkout.waiting import Wait
from holdfast.domain.sale.sale import PaymentKind, Sale
from holdfast.domain.stock.command import Extend, Move, Transition, Verdict
from holdfast.domain.stock.limits import MAX_HOLD_MS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import SKU_PATTERN
from holdfast.domain.stock.reservation import Reservation, Status, sku_of
from holdfast.gate.batcher import Batcher
from holdfast.ledger.money.payment_notes import Decline, Method
from holdfast.sales.catalogue import Catalogue

_ID = re.compile(r"rsv_[0-9a-f]{32}_" + SKU_PATTERN.strip("^$") + r"\Z")

Find = Callable[[str], Awaitable[Reservation | None]]


class Denied(Enum):
    """Refused before the gate was called."""

    NOT_FOUND = auto()
    # The pool is not in a sale. There is nothing to pay, so only a service may confirm.
    NOTHING_TO_PAY = auto()
    EXTERNAL_PAYMENT = auto()
    # The sale is paid here, so a confirm needs a payment.
    PAYMENT_REQUIRED = auto()
    # The last card was declined, and the buyer named no other.
    METHOD_REQUIRED = auto()
    # The buyer's tier is too low now.
    TIER_REQUIRED = auto()


class Holds:
    def __init__(
        self,
        find: Find,
        catalogue: Catalogue,
        batcher: Batcher,
        methods: PaymentMethods,
        nudge_settler: Callable[[], None],
    ) -> None:
        self._find = find
        self._catalogue = catalogue
        self._batcher = batcher
        self._methods = methods
        self._nudge_settler = nudge_settler

    async def look(self, reservation_id: str, buyer_id: str | None) -> Reservation | None:
        """The current state. Anything that cannot be a reservation ID is not looked up."""
        found = await self._find(reservation_id) if _ID.match(reservation_id) else None
        return None if found is None or buyer_id not in (None, found.owner_id) else found

    def sale_of(self, reservation: Reservation) -> Sale | None:
        return self._catalogue.sale_of(reservation)

    async def last_decline(self, reservation: Reservation) -> Decline | None:
        """None without a query if no payment was begun, the first is in progress, or the last one succeeded."""
        is_first = reservation.status is Status.SETTLING and reservation.attempts == 1
        if is_first or not reservation.attempts or reservation.status is Status.CONFIRMED:
            return None
        return await self._methods.last_decline(reservation.reservation_id)

    async def confirm(self, reservation_id: str, wait: Wait) -> Verdict | Denied:
        """For services. A direct confirm means that payment was taken externally."""
        if await self._is_paid_here(reservation_id):
            return Denied.PAYMENT_REQUIRED
        return await self._submit(Move(Transition.CONFIRM, reservation_id), wait)

    async def _is_paid_here(self, reservation_id: str) -> bool:
        """Whether it waits for a payment through Holdfast. Reservations of pools without a sale are not looked up."""
        sku_id = sku_of(reservation_id)
        if sku_id is None:
            return False
        if not self._catalogue.has_sales_of(sku_id) and not await self._catalogue.learns_of_sale(sku_id):
            return False
        found = await self.look(reservation_id, None)
        if found is None or found.status not in (Status.ACTIVE, Status.SETTLING):
            return False
        sale = self.sale_of(found)
        if sale is None and await self._catalogue.learns_of_sale(sku_id):
            sale = self.sale_of(found)
        return sale is not None and sale.payment is not PaymentKind.EXTERNAL

    async def pay(
        self, reservation_id: str, buyer_id: str, method: Method | None, wait: Wait, tier: int = 0
    ) -> Verdict | Denied:
        """A buyer starts the payment. Events report how it ends."""
        found = await self.look(reservation_id, buyer_id)
        if found is None:
            return Denied.NOT_FOUND
        sale = self.sale_of(found)
        if sale is None:  # Another process may have created it a moment ago.
            await self._catalogue.refresh()
            sale = self.sale_of(found)
        if sale is None:
            return Denied.NOTHING_TO_PAY
        if sale.payment is PaymentKind.EXTERNAL:
            return Denied.EXTERNAL_PAYMENT
        if found.status is Status.ACTIVE and tier < (sale.required_tier or 0):
            return Denied.TIER_REQUIRED
        if not self._methods.are_used_by(sale):
            return await self._settle(Move(Transition.SETTLE, reservation_id, buyer_id), wait)
        if found.status is Status.SETTLING:
            # Not sent to the gate: were it declined meanwhile, that would be another attempt.
            return Verdict(Outcome.ALREADY, found)
        if method is None and await self._declined_method(found) is not None:
            return Denied.METHOD_REQUIRED
        attempt = found.attempts + 1
        if method is not None and found.status is Status.ACTIVE:
            await self._methods.note(sale, reservation_id, found.owner_id, found.quantity, method, attempt)
        # Only the attempt that the card was named for: a later one would charge a card that was declined meanwhile.
        settled = await self._settle(Move(Transition.SETTLE, reservation_id, buyer_id, attempt=attempt), wait)
        return Denied.METHOD_REQUIRED if _is_still_active(settled) else settled

    async def _settle(self, command: Move, wait: Wait) -> Verdict | Denied:
        verdict = await self._submit(command, wait)
        self._nudge_settler()
        return verdict

    async def _declined_method(self, reservation: Reservation) -> str | None:
        if reservation.status is not Status.ACTIVE:
            return None
        declined = await self.last_decline(reservation)
        return None if declined is None else declined.method

    async def extend(self, reservation_id: str, buyer_id: str | None, ttl_ms: int, wait: Wait) -> Verdict | Denied:
        max_hold_ms = MAX_HOLD_MS if buyer_id is None else await self._max_hold_ms(reservation_id)
        return await self._submit(Extend(reservation_id, ttl_ms, buyer_id, max_hold_ms), wait)

    async def _max_hold_ms(self, reservation_id: str) -> int:
        """The sale's limit for buyers. A service may go up to the general limit."""
        found = await self.look(reservation_id, None)
        sale = None if found is None else self.sale_of(found)
        return MAX_HOLD_MS if sale is None else sale.max_hold_seconds * 1000

    async def cancel(self, reservation_id: str, buyer_id: str | None, wait: Wait) -> Verdict | Denied:
        return await self._submit(Move(Transition.CANCEL, reservation_id, buyer_id), wait)

    async def _submit(self, command: Move | Extend, wait: Wait) -> Verdict | Denied:
        sku_id = sku_of(command.reservation_id)
        if sku_id is None:
            return Denied.NOT_FOUND
        return await wait(self._batcher.submit(sku_id, command))


def _is_still_active(settled: Verdict | Denied) -> bool:
    held = settled.reservation if isinstance(settled, Verdict) else None
    return held is not None and held.status is Status.ACTIVE
