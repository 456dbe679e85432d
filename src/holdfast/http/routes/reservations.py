"""Reservations: what becomes of a hold. Most of it is answered in front of here, by `reservation_lane.py`."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from holdfast.domain.reservation import Reservation
from holdfast.http import reservations
from holdfast.http.routes.callers import (
    InventoryKey,
    OwnerOrInventory,
    ReceiptRoute,
    Submit,
    TheHouse,
    json_response,
)
from holdfast.http.sale_schemas import ConfirmIn, SaleReservationOut
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
    return json_response({"data": [reservations.body_of(house, r) for r in found], "has_more": has_more})


@router.get("/{reservation_id}", response_model=ReservationOut | SaleReservationOut, summary="One reservation")
async def get_reservation(reservation_id: ReservationId, house: TheHouse, caller: OwnerOrInventory) -> Response:
    return json_response(await reservations.look(house, caller, reservation_id))


@router.get("/{reservation_id}/history", response_model=HistoryOut, summary="Everything that happened to it")
async def get_history(reservation_id: ReservationId, house: TheHouse, caller: OwnerOrInventory) -> Response:
    found = await reservations.find(house, caller, reservation_id)
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
    status, body = await reservations.confirm(house, submit, caller, reservation_id, given or ConfirmIn())
    return json_response(body, status)


@router.post(
    "/{reservation_id}/extend", response_model=ReservationOut | SaleReservationOut, summary="Hold the units longer"
)
async def extend(
    reservation_id: ReservationId, given: ExtendIn, house: TheHouse, submit: Submit, caller: OwnerOrInventory
) -> Response:
    return json_response(await reservations.extend(house, submit, caller, reservation_id, given))


@router.delete("/{reservation_id}", status_code=204, summary="Give the units back")
async def cancel(reservation_id: ReservationId, house: TheHouse, submit: Submit, caller: OwnerOrInventory) -> Response:
    await reservations.cancel(house, submit, caller, reservation_id)
    return Response(status_code=204)
