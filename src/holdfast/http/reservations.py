"""What callers do with a reservation, whichever lane they came in by."""

import re
from collections.abc import Awaitable, Callable

from sqlalchemy import Connection

from holdfast.bootstrap import House
from holdfast.domain.command import Command, Extend, Move, Transition, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.reservation import MAX_HOLD_MS, Reservation, Status, sku_of
from holdfast.domain.sale import PaymentKind, Sale
from holdfast.http.fast_lane import require
from holdfast.http.identity import Caller
from holdfast.http.patrol import Patrol
from holdfast.http.problems import Problem, forbidden, refusal, reservation_not_found
from holdfast.http.requests import Wire
from holdfast.http.sale_problems import external_payment
from holdfast.http.sale_schemas import ConfirmIn, sold_reservation_body
from holdfast.http.schemas import RESERVATION_ID_PATTERN, ExtendIn
from holdfast.ledger.keys import Scope
from holdfast.ledger.payment_notes import note_method, why_declined

Body = dict[str, object]
Submit = Callable[[str, Command], Awaitable[Verdict]]

_ID = re.compile(RESERVATION_ID_PATTERN.replace("$", r"\Z"))


def submitter(house: House, patrol: Patrol, wire: Wire) -> Submit:
    """A way to the gate on which a command is dropped, undecided, if its caller hangs up."""

    async def submit(sku_id: str, command: Command) -> Verdict:
        return await patrol.await_verdict(house.batcher.submit(sku_id, command), wire)

    return submit


def require_owner_or_inventory(caller: Caller) -> None:
    """A buyer, who will find their own reservations only, or a service that may see all."""
    if caller.buyer_id is None:
        require(caller, Scope.INVENTORY)


async def find(house: House, caller: Caller, reservation_id: str) -> Reservation:
    """As it is now, for whoever may see it. What cannot be the id of one is not looked for."""
    found = await house.engine.find(reservation_id) if _ID.match(reservation_id) else None
    if found is None or caller.buyer_id not in (None, found.owner_id):
        raise reservation_not_found()
    return found


async def look(house: House, caller: Caller, reservation_id: str) -> Body:
    found = await find(house, caller, reservation_id)
    body = body_of(house, found)
    if found.status is Status.FAILED and "sale_id" in body:
        body["failure_reason"] = await house.database.read(lambda c: why_declined(c, reservation_id))
    return body


async def confirm(
    house: House, submit: Submit, caller: Caller, reservation_id: str, given: ConfirmIn
) -> tuple[int, Body]:
    """A service key confirms what was paid for elsewhere. A buyer begins to pay: 202, and later events tell."""
    if caller.buyer_id is not None:
        return await _begin_to_pay(house, submit, caller, reservation_id, given)
    return 200, _told(house, await _move(submit, Move(Transition.CONFIRM, reservation_id)))


async def _begin_to_pay(
    house: House, submit: Submit, caller: Caller, reservation_id: str, given: ConfirmIn
) -> tuple[int, Body]:
    found = await find(house, caller, reservation_id)
    sale = house.catalogue.sale_of(found)
    if sale is None:  # Or it was made a moment ago, elsewhere.
        await house.catalogue.refresh()
        sale = house.catalogue.sale_of(found)
    if sale is None:
        raise forbidden("Buyers confirm by paying; only a service key may confirm without.")
    if sale.payment is PaymentKind.EXTERNAL:
        raise external_payment()
    if given.payment_method is not None and found.status is Status.ACTIVE:
        await _note_method(house, sale, found, given.payment_method)
    verdict = await _move(submit, Move(Transition.SETTLE, reservation_id, caller.buyer_id))
    if verdict.reservation is not None and verdict.reservation.status is Status.CONFIRMED:
        return 200, body_of(house, verdict.reservation)
    house.cashier.settler.nudge()
    return 202, _told(house, verdict)


async def _note_method(house: House, sale: Sale, found: Reservation, method: str) -> None:
    def note(connection: Connection) -> None:
        now = house.database.now_ms(connection)
        note_method(connection, sale, found.reservation_id, found.owner_id, found.quantity, method, now)

    await house.database.write(note)


async def extend(house: House, submit: Submit, caller: Caller, reservation_id: str, given: ExtendIn) -> Body:
    max_hold_ms = await _max_hold_ms(house, reservation_id) if caller.buyer_id is not None else MAX_HOLD_MS
    command = Extend(reservation_id, given.ttl_seconds * 1000, caller.buyer_id, max_hold_ms)
    return _told(house, await _move(submit, command))


async def _max_hold_ms(house: House, reservation_id: str) -> int:
    """How long the sale lets a buyer hold; a service may go up to what anyone may."""
    found = await house.engine.find(reservation_id) if _ID.match(reservation_id) else None
    sale = None if found is None else house.catalogue.sale_of(found)
    return MAX_HOLD_MS if sale is None else sale.max_hold_seconds * 1000


async def cancel(house: House, submit: Submit, caller: Caller, reservation_id: str) -> None:
    _told(house, await _move(submit, Move(Transition.CANCEL, reservation_id, caller.buyer_id)))


async def _move(submit: Submit, command: Move | Extend) -> Verdict:
    sku_id = sku_of(command.reservation_id)
    if sku_id is None:
        raise reservation_not_found()
    return await submit(sku_id, command)


def _told(house: House, verdict: Verdict) -> Body:
    if verdict.outcome is Outcome.POOL_NOT_FOUND:
        raise reservation_not_found()
    if verdict.reservation is None or not verdict.outcome.is_success:
        raise refusal(verdict)
    return body_of(house, verdict.reservation)


def body_of(house: House, reservation: Reservation) -> Body:
    return sold_reservation_body(reservation, house.catalogue.sale_of(reservation))


def is_lost(house: House, caller: Caller, reservation_id: str, problem: Problem, text: str | None) -> bool:
    """Whether a receipt proves that what is said not to be there was granted once."""
    if problem.reason != "reservation_not_found" or text is None:
        return False
    receipt = house.receipts.read(text)
    if receipt is None or receipt.reservation_id != reservation_id:
        return False
    return caller.buyer_id in (None, receipt.owner_id)
