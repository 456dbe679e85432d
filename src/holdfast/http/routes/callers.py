"""What a route asks of its caller."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute

from holdfast.bootstrap import House
from holdfast.domain.command import Command, Verdict
from holdfast.http.fast_lane import identify, require
from holdfast.http.identity import Caller
from holdfast.http.patrol import Patrol
from holdfast.http.problems import Problem, reservation_lost
from holdfast.http.requests import Wire
from holdfast.ledger.keys import Scope


def _house(request: Request) -> House:
    house: House = request.app.state.house
    return house


TheHouse = Annotated[House, Depends(_house)]


def _submitter(request: Request, house: TheHouse) -> "Submitter":
    """A way to the gate on which a command is dropped, undecided, if its caller hangs up."""
    patrol: Patrol = request.app.state.patrol
    wire: Wire = request.scope["holdfast.wire"]

    async def submit(sku_id: str, command: Command) -> Verdict:
        return await patrol.await_verdict(house.batcher.submit(sku_id, command), wire)

    return submit


Submitter = Callable[[str, Command], Awaitable[Verdict]]
Submit = Annotated[Submitter, Depends(_submitter)]


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


def _receipt_header(
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
                if problem.reason == "reservation_not_found" and _proves_loss(request):
                    raise reservation_lost() from problem
                raise

        return found_or_lost


def _proves_loss(request: Request) -> bool:
    receipts, text = _house(request).receipts, request.headers.get("holdfast-receipt")
    receipt = receipts.read(text) if text is not None else None
    if receipt is None or receipt.reservation_id != request.path_params.get("reservation_id"):
        return False
    buyer_id = request.state.caller.buyer_id
    return buyer_id in (None, receipt.owner_id)


def json_response(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
