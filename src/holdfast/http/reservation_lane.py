"""What people ask around a purchase: look at the reservation, pay for it, give it back, look at their orders.

In a rush that is most of the work, so these are raw handlers, as in the fast lane, for requests as they usually are.
Whatever is unusual (an id that cannot be one, a body with a mistake, a list with filters) is left to the routes, which
do the same in more steps and are what the OpenAPI document shows.
"""

import re
from collections.abc import Awaitable, Callable

import msgspec
from pydantic import ValidationError

from holdfast.bootstrap import House
from holdfast.http import reservations
from holdfast.http.fast_lane import identify
from holdfast.http.identity import Caller
from holdfast.http.order_schemas import order_page_body
from holdfast.http.patrol import Patrol
from holdfast.http.problems import Problem, reservation_lost
from holdfast.http.requests import Answer, Request, header_of
from holdfast.http.sale_schemas import ConfirmIn
from holdfast.http.schemas import RESERVATION_ID_PATTERN
from holdfast.ledger.lookout import Lookout, orders_in

_JSON = ("content-type", "application/json")
_PATH = re.compile(rf"/v1/reservations/({RESERVATION_ID_PATTERN.strip('^$')})(/confirm)?")
_ORDERS = "/v1/orders"
_NOTHING_GIVEN = ConfirmIn()

_encode = msgspec.json.Encoder().encode

Handle = Callable[[Request, Caller, str], Awaitable[Answer]]


class ReservationLane:
    def __init__(self, house: House, patrol: Patrol) -> None:
        self._house = house
        self._patrol = patrol
        self._orders = Lookout(orders_in(house.database))
        self._handlers: dict[tuple[str, str | None], Handle] = {
            ("GET", None): self._look,
            ("DELETE", None): self._cancel,
            ("POST", "/confirm"): self._confirm,
        }

    def answer(self, request: Request) -> Awaitable[Answer] | None:
        """The answer to come, or None if the request is not for one of these, or not as usual."""
        if request.path == _ORDERS:
            return self._list_orders(request)
        fits = _PATH.fullmatch(request.path)
        handle = None if fits is None else self._handlers.get((request.method, fits[2]))
        if fits is None or handle is None or (request.body and fits[2] and _confirmation(request) is None):
            return None
        return self._found_or_lost(request, fits[1], handle)

    def _list_orders(self, request: Request) -> Awaitable[Answer] | None:
        """A buyer's own, without filters. Buyers who are let in have just been recognised."""
        caller = self._house.doorkeeper.recognise(request.authorization)
        if request.method != "GET" or request.query or caller is None or caller.buyer_id is None:
            return None
        return self._orders_of(caller.buyer_id)

    async def _orders_of(self, buyer_id: str) -> Answer:
        page = await self._orders.look(buyer_id) or ([], False)
        return Answer(200, [_JSON], _encode(order_page_body(page)))

    async def _found_or_lost(self, request: Request, reservation_id: str, handle: Handle) -> Answer:
        house = self._house
        caller = house.doorkeeper.recognise(request.authorization) or await identify(house, request.authorization)
        reservations.require_owner_or_inventory(caller)
        try:
            return await handle(request, caller, reservation_id)
        except Problem as problem:
            receipt = header_of(request, "holdfast-receipt")
            if reservations.is_lost(house, caller, reservation_id, problem, receipt):
                raise reservation_lost() from problem
            raise

    async def _look(self, _request: Request, caller: Caller, reservation_id: str) -> Answer:
        return Answer(200, [_JSON], _encode(await reservations.look(self._house, caller, reservation_id)))

    async def _confirm(self, request: Request, caller: Caller, reservation_id: str) -> Answer:
        given = _confirmation(request) or _NOTHING_GIVEN
        submit = reservations.submitter(self._house, self._patrol, request.wire)
        status, body = await reservations.confirm(self._house, submit, caller, reservation_id, given)
        return Answer(status, [_JSON], _encode(body))

    async def _cancel(self, request: Request, caller: Caller, reservation_id: str) -> Answer:
        submit = reservations.submitter(self._house, self._patrol, request.wire)
        await reservations.cancel(self._house, submit, caller, reservation_id)
        return Answer(204, [], b"")


def _confirmation(request: Request) -> ConfirmIn | None:
    """None if there is a mistake in it."""
    try:
        return ConfirmIn.model_validate_json(request.body)
    except ValidationError:
        return None
