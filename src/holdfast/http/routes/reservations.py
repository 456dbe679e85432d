"""Reservations: what becomes of a hold."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from holdfast.domain.command import Extend, Move, Transition, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.reservation import Reservation, sku_of
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
from holdfast.http.schemas import (
    ExtendIn,
    HistoryOut,
    ReservationId,
    ReservationOut,
    ReservationPage,
    ReservationQuery,
    event_body,
    reservation_body,
)
from holdfast.ledger import queries

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
    return json_response({"data": [reservation_body(r) for r in found], "has_more": has_more})


@router.get("/{reservation_id}", response_model=ReservationOut, summary="One reservation")
async def get_reservation(reservation_id: ReservationId, house: TheHouse, caller: OwnerOrInventory) -> Response:
    return json_response(reservation_body(await _find(house, caller, reservation_id)))


@router.get("/{reservation_id}/history", response_model=HistoryOut, summary="Everything that happened to it")
async def get_history(reservation_id: ReservationId, house: TheHouse, caller: OwnerOrInventory) -> Response:
    found = await _find(house, caller, reservation_id)
    await house.engine.catch_up(found.sku_id)
    events = await house.database.read(lambda connection: queries.history(connection, reservation_id))
    return json_response({"events": [event_body(event) for event in events]})


@router.post("/{reservation_id}/confirm", response_model=ReservationOut, summary="The units are sold")
async def confirm(reservation_id: ReservationId, submit: Submit, caller: OwnerOrInventory) -> Response:
    if caller.buyer_id is not None:
        raise forbidden("Buyers confirm by paying; only a service key may confirm without.")
    return json_response(_told(await _submit(submit, Move(Transition.CONFIRM, reservation_id))))


@router.post("/{reservation_id}/extend", response_model=ReservationOut, summary="Hold the units longer")
async def extend(reservation_id: ReservationId, given: ExtendIn, submit: Submit, caller: OwnerOrInventory) -> Response:
    command = Extend(reservation_id, given.ttl_seconds * 1000, caller.buyer_id)
    return json_response(_told(await _submit(submit, command)))


@router.delete("/{reservation_id}", status_code=204, summary="Give the units back")
async def cancel(reservation_id: ReservationId, submit: Submit, caller: OwnerOrInventory) -> Response:
    _told(await _submit(submit, Move(Transition.CANCEL, reservation_id, caller.buyer_id)))
    return Response(status_code=204)


async def _submit(submit: Submit, command: Move | Extend) -> Verdict:
    sku_id = sku_of(command.reservation_id)
    if sku_id is None:
        raise reservation_not_found()
    return await submit(sku_id, command)


def _told(verdict: Verdict) -> dict[str, object]:
    if verdict.outcome is Outcome.POOL_NOT_FOUND:
        raise reservation_not_found()
    if verdict.reservation is None or not verdict.outcome.is_success:
        raise refusal(verdict)
    return reservation_body(verdict.reservation)


async def _find(house: TheHouse, caller: Caller, reservation_id: str) -> Reservation:
    found = await house.engine.find(reservation_id)
    if found is None or caller.buyer_id not in (None, found.owner_id):
        raise reservation_not_found()
    return found
