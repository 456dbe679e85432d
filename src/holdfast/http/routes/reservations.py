"""Reservations: what becomes of a hold."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from holdfast.domain.command import Extend, Move, Transition, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.reservation import MAX_HOLD_MS, Reservation, Status, sku_of
from holdfast.domain.sale import PaymentKind, Sale
from holdfast.http.identity import Caller
from holdfast.http.problems import forbidden, refusal, reservation_not_found
from holdfast.http.routes.callers import (
    InventoryKey,
    OwnerOrInventory,
    ReceiptRoute,
    Submit,
    TheHouse,
    json_response,
)
from holdfast.http.sale_problems import external_payment
from holdfast.http.sale_schemas import ConfirmIn, SaleReservationOut, sold_reservation_body
from holdfast.http.schemas import (
    ExtendIn,
    HistoryOut,
    ReservationId,
    ReservationOut,
    ReservationPage,
    ReservationQuery,
    event_body,
)
from holdfast.ledger import queries
from holdfast.ledger.payment_notes import note_method

router = APIRouter(route_class=ReceiptRoute, prefix="/v1/reservations", tags=["reservations"])


@router.get("", response_model=ReservationPage, dependencies=[InventoryKey], summary="List reservations, newest first")
async def list_reservations(
    house: TheHouse,
    wanted: Annotated[ReservationQuery, Query()],
) -> Response:
    def page(connection: Connection) -> tuple[list[Reservation], bool]:
        return queries.list_reservations(
            connection,
            house.database.now_ms(connection),
            limit=wanted.limit,
            sku_id=wanted.sku_id,
            owner_id=wanted.owner_id,
            status=wanted.status,
            starting_after=wanted.starting_after,
        )

    await house.engine.catch_up(wanted.sku_id)
    found, has_more = await house.database.read(page)
    return json_response({"data": [_body(house, r) for r in found], "has_more": has_more})


@router.get("/{reservation_id}", response_model=ReservationOut | SaleReservationOut, summary="One reservation")
async def get_reservation(reservation_id: ReservationId, house: TheHouse, caller: OwnerOrInventory) -> Response:
    return json_response(_body(house, await _find(house, caller, reservation_id)))


@router.get("/{reservation_id}/history", response_model=HistoryOut, summary="Everything that happened to it")
async def get_history(reservation_id: ReservationId, house: TheHouse, caller: OwnerOrInventory) -> Response:
    found = await _find(house, caller, reservation_id)
    await house.engine.catch_up(found.sku_id)
    events = await house.database.read(lambda connection: queries.history(connection, reservation_id))
    return json_response({"events": [event_body(event) for event in events]})


@router.post(
    "/{reservation_id}/confirm",
    response_model=ReservationOut | SaleReservationOut,
    summary="The units are sold; or, for a buyer, to be paid for now",
    responses={202: {"model": SaleReservationOut, "description": "The payment is under way"}},
)
async def confirm(
    reservation_id: ReservationId,
    house: TheHouse,
    submit: Submit,
    caller: OwnerOrInventory,
    given: ConfirmIn | None = None,
) -> Response:
    """A service key confirms what was paid for elsewhere. A buyer begins to pay: 202, and later events tell."""
    if caller.buyer_id is not None:
        return await _begin_to_pay(house, submit, caller, reservation_id, given or ConfirmIn())
    return json_response(_told(house, await _submit(submit, Move(Transition.CONFIRM, reservation_id))))


async def _begin_to_pay(
    house: TheHouse, submit: Submit, caller: Caller, reservation_id: str, given: ConfirmIn
) -> Response:
    found = await _find(house, caller, reservation_id)
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
    verdict = await _submit(submit, Move(Transition.SETTLE, reservation_id, caller.buyer_id))
    if verdict.reservation is not None and verdict.reservation.status is Status.CONFIRMED:
        return json_response(_body(house, verdict.reservation))
    house.cashier.settler.nudge()
    response = json_response(_told(house, verdict))
    response.status_code = 202
    return response


async def _note_method(house: TheHouse, sale: Sale, found: Reservation, method: str) -> None:
    def note(connection: Connection) -> None:
        now = house.database.now_ms(connection)
        note_method(connection, sale, found.reservation_id, found.owner_id, found.quantity, method, now)

    await house.database.write(note)


@router.post(
    "/{reservation_id}/extend", response_model=ReservationOut | SaleReservationOut, summary="Hold the units longer"
)
async def extend(
    reservation_id: ReservationId, given: ExtendIn, house: TheHouse, submit: Submit, caller: OwnerOrInventory
) -> Response:
    max_hold_ms = await _max_hold_ms(house, reservation_id) if caller.buyer_id is not None else MAX_HOLD_MS
    command = Extend(reservation_id, given.ttl_seconds * 1000, caller.buyer_id, max_hold_ms)
    return json_response(_told(house, await _submit(submit, command)))


async def _max_hold_ms(house: TheHouse, reservation_id: str) -> int:
    """How long the sale lets a buyer hold; a service may go up to what anyone may."""
    found = await house.engine.find(reservation_id)
    sale = None if found is None else house.catalogue.sale_of(found)
    return MAX_HOLD_MS if sale is None else sale.max_hold_seconds * 1000


@router.delete("/{reservation_id}", status_code=204, summary="Give the units back")
async def cancel(reservation_id: ReservationId, house: TheHouse, submit: Submit, caller: OwnerOrInventory) -> Response:
    _told(house, await _submit(submit, Move(Transition.CANCEL, reservation_id, caller.buyer_id)))
    return Response(status_code=204)


async def _submit(submit: Submit, command: Move | Extend) -> Verdict:
    sku_id = sku_of(command.reservation_id)
    if sku_id is None:
        raise reservation_not_found()
    return await submit(sku_id, command)


def _told(house: TheHouse, verdict: Verdict) -> dict[str, object]:
    if verdict.outcome is Outcome.POOL_NOT_FOUND:
        raise reservation_not_found()
    if verdict.reservation is None or not verdict.outcome.is_success:
        raise refusal(verdict)
    return _body(house, verdict.reservation)


def _body(house: TheHouse, reservation: Reservation) -> dict[str, object]:
    return sold_reservation_body(reservation, house.catalogue.sale_of(reservation))


async def _find(house: TheHouse, caller: Caller, reservation_id: str) -> Reservation:
    found = await house.engine.find(reservation_id)
    if found is None or caller.buyer_id not in (None, found.owner_id):
        raise reservation_not_found()
    return found
