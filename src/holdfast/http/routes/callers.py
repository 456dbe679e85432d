"""What a route asks of its caller."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute

from holdfast.bootstrap import House
from holdfast.http import reservations
from holdfast.http.fast_lane import identify, require
from holdfast.http.identity import Caller
from holdfast.http.patrol import Patrol
from holdfast.http.problems import Problem, reservation_lost
from holdfast.http.requests import Wire
from holdfast.ledger.keys import Scope


def _house(request: Request) -> House:
    house: House = request.app.state.house
    return house


# What routes depend on is all `async`, though nothing is awaited: FastAPI sends everything else to a thread and back.
async def _asked_house(request: Request) -> House:
    return _house(request)


TheHouse = Annotated[House, Depends(_asked_house)]


async def _submitter(request: Request, house: TheHouse) -> reservations.Submit:
    patrol: Patrol = request.app.state.patrol
    wire: Wire = request.scope["holdfast.wire"]
    return reservations.submitter(house, patrol, wire)


Submit = Annotated[reservations.Submit, Depends(_submitter)]


async def _caller(request: Request, house: TheHouse) -> Caller:
    """Asked once for each request, by whoever comes first."""
    if not hasattr(request.state, "caller"):
        request.state.caller = await identify(house, request.headers.get("authorization"))
    caller: Caller = request.state.caller
    return caller


AnyCaller = Annotated[Caller, Depends(_caller)]


async def optional_caller(request: Request) -> Caller | None:
    """For what is public: None for whoever does not say who they are."""
    return await _caller(request, _house(request)) if "authorization" in request.headers else None


async def _inventory(caller: AnyCaller) -> Caller:
    require(caller, Scope.INVENTORY)
    return caller


async def _operator(caller: AnyCaller) -> Caller:
    require(caller, Scope.OPERATE)
    return caller


async def _owner_or_inventory(caller: AnyCaller) -> Caller:
    reservations.require_owner_or_inventory(caller)
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


async def _receipt_header(
    _receipt: Annotated[
        str | None,
        Header(alias="Holdfast-Receipt", description="As it came with the answer to reserve."),
    ] = None,
) -> None:
    """Read where it is needed; here it is only made known."""


class ReceiptRoute(IdentifiedRoute):
    """Tells who can prove that a reservation was granted that it was lost, instead of that it never was."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["dependencies"] = [*(kwargs.get("dependencies") or []), Depends(_receipt_header)]
        super().__init__(*args, **kwargs)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def found_or_lost(request: Request) -> Response:
            try:
                return await answer(request)
            except Problem as problem:
                if _is_lost(request, problem):
                    raise reservation_lost() from problem
                raise

        return found_or_lost


def _is_lost(request: Request, problem: Problem) -> bool:
    caller: Caller | None = getattr(request.state, "caller", None)
    reservation_id = request.path_params.get("reservation_id")
    if caller is None or reservation_id is None:
        return False
    receipt = request.headers.get("holdfast-receipt")
    return reservations.is_lost(_house(request), caller, reservation_id, problem, receipt)


def json_response(body: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")
