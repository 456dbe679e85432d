"""Waiting rooms for operators, and the public keys that verify passes."""

from typing import Any

from msgspec import UNSET
from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.domain.room.room import RoomState
from holdfast.domain.sale.sale import RoomMode, Sale
from holdfast.http.contract import problems
from holdfast.http.contract.message import JSON, Answer, Request, encode, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.room import RoomChange, RoomFactsOut
from holdfast.http.endpoints.room import no_waiting_room
from holdfast.ledger.room.rooms import lock_room, update_room
from holdfast.ledger.sales.sales import find_sale

# A new first key signs at once; verifiers read the list again within minutes.
_CACHE = ("cache-control", "public, max-age=300")


class RoomControlEndpoints:
    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._jwks = encode(services.tokens.jwks)

    async def show(self, _request: Request, sale_id: str) -> Answer:
        return await self._changed(sale_id, {}, 0)

    async def change(self, _request: Request, sale_id: str, given: RoomChange) -> Answer:
        return await self._changed(sale_id, given.changes(), 0 if given.admit is UNSET else given.admit or 0)

    async def jwks(self, _request: Request) -> Answer:
        return Answer(200, [JSON, _CACHE], self._jwks)

    async def _changed(self, sale_id: str, changes: dict[str, Any], admit: int) -> Answer:
        def work(connection: Connection) -> tuple[Sale, RoomState]:
            sale = find_sale(connection, sale_id)
            if sale is None:
                raise Problem(problems.SALE_NOT_FOUND)
            if sale.room.mode is RoomMode.OFF:
                raise no_waiting_room(sale)
            room = lock_room(connection, sale.line_id)
            assert room is not None, "a sale with a room has one from its creation on"
            if "beacon_value" in changes and not _awaits_beacon(sale, room):
                raise Problem(problems.BEACON_NOT_DUE)
            if changes or admit:
                now = self._database.now_ms(connection)
                update_room(connection, sale.line_id, now, {**changes, "admit": room.admit + admit})
                room = lock_room(connection, sale.line_id)
                assert room is not None
            return sale, room

        return json(RoomFactsOut.of(*await self._database.write(work)))


def _awaits_beacon(sale: Sale, room: RoomState) -> bool:
    """The digest of the list is public, so nobody can change the list to suit the value."""
    return sale.room.beacon is not None and room.digest is not None and room.beacon_value is None
