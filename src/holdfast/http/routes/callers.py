"""What a route asks of its caller."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from holdfast.bootstrap import House
from holdfast.http.fast_lane import identify, require
from holdfast.http.identity import Caller
from holdfast.ledger.keys import Scope


def _house(request: Request) -> House:
    house: House = request.app.state.house
    return house


TheHouse = Annotated[House, Depends(_house)]


async def _caller(request: Request, house: TheHouse) -> Caller:
    return await identify(house, request.headers.get("authorization"))


AnyCaller = Annotated[Caller, Depends(_caller)]


def _inventory(caller: AnyCaller) -> Caller:
    require(caller, Scope.INVENTORY)
    return caller


def _operator(caller: AnyCaller) -> Caller:
    require(caller, Scope.OPERATE)
    return caller


def _owner_or_inventory(caller: AnyCaller) -> Caller:
    """A buyer, who will find their own reservations only, or a service that may see all."""
    if caller.buyer_id is None:
        require(caller, Scope.INVENTORY)
    return caller


InventoryKey = Depends(_inventory)
OperatorKey = Depends(_operator)
OwnerOrInventory = Annotated[Caller, Depends(_owner_or_inventory)]


class IdentifiedRoute(APIRoute):
    """Asks who is calling before FastAPI reads the body, which it would otherwise judge first."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def identify_first(request: Request) -> Response:
            await _caller(request, _house(request))
            return await answer(request)

        return identify_first


def json_response(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
