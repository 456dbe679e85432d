"""Waiting rooms, for operators; and the keys with which anyone can check a pass."""

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from holdfast.domain.room import RoomState
from holdfast.domain.sale import RoomMode, Sale
from holdfast.http.invalid import invalid_request
from holdfast.http.room_problems import no_room
from holdfast.http.room_schemas import JwksOut, RoomChange, RoomFactsOut, room_facts
from holdfast.http.routes.callers import IdentifiedRoute, TheHouse, json_response
from holdfast.http.routes.sales import SalesKey
from holdfast.http.sale_problems import sale_not_found
from holdfast.http.sale_schemas import SaleId
from holdfast.ledger.rooms import lock_room, make_room, update_room
from holdfast.ledger.sales import find_sale

# A key that was put first signs at once; checkers look again within minutes.
JWKS_CACHE = "public, max-age=300"

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/sales", tags=["sales"], dependencies=[SalesKey])
public_router = APIRouter(tags=["sales"])


@router.get("/{sale_id}/room", response_model=RoomFactsOut, summary="How the line and its pace stand")
async def show(sale_id: SaleId, house: TheHouse) -> Response:
    return await _changed(house, sale_id, {})


@router.post("/{sale_id}/room", response_model=RoomFactsOut, summary="Set the rate, pause the line, let people in")
async def change(sale_id: SaleId, given: RoomChange, house: TheHouse) -> Response:
    if "paused" in given.model_fields_set and given.paused is None:
        raise invalid_request({"paused": "must not be null; leave it out to keep it"})
    changes = {name: getattr(given, name) for name in given.model_fields_set - {"let_in"}}
    return await _changed(house, sale_id, changes, given.let_in or 0)


@public_router.get("/.well-known/jwks.json", response_model=JwksOut, summary="The public keys of passes")
async def jwks(house: TheHouse) -> Response:
    """Anyone can check a pass with these: `sub` is the buyer, `sale` the sale, `exp` its end."""
    response = json_response(house.tokens.jwks)
    response.headers["cache-control"] = JWKS_CACHE
    return response


async def _changed(house: TheHouse, sale_id: str, changes: dict[str, object], let_in: int = 0) -> Response:
    def work(connection: Connection) -> tuple[Sale, RoomState]:
        sale = find_sale(connection, sale_id)
        if sale is None:
            raise sale_not_found()
        if sale.room.mode is RoomMode.OFF:
            raise no_room(sale)
        make_room(connection, sale_id, house.database.now_ms(connection))
        room = lock_room(connection, sale_id)
        assert room is not None
        if changes or let_in:
            update_room(connection, sale_id, **changes, let_in=room.let_in + let_in)
            room = lock_room(connection, sale_id)
            assert room is not None
        return sale, room

    sale, room = await house.database.write(work)
    response = json_response(room_facts(sale, room))
    response.headers["cache-control"] = "no-store"
    return response
