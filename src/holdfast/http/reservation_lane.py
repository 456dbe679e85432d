"""What people ask around a purchase: to see the reservation, hold it longer, pay, give it back, see their orders.

In a rush that is most of the work, so these are raw handlers, as in the fast lane, for requests as they usually are.
Whatever is unusual (an id that cannot be one, a body with a mistake, a list with filters) is left to the routes, which
do the same in more steps and are what the OpenAPI document shows.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from holdfast.bootstrap import House
from holdfast.http import reservations
from holdfast.http.fast_lane import identify
from holdfast.http.identity import Caller
from holdfast.http.order_schemas import order_page_body
from holdfast.http.patrol import Patrol
from holdfast.http.problems import Problem, reservation_lost
from holdfast.http.requests import Answer, Request, header_of
from holdfast.http.sale_schemas import ConfirmIn
from holdfast.http.schemas import RESERVATION_ID_PATTERN, ExtendIn
from holdfast.ledger.lookout import Lookout, orders_in

_JSON = ("content-type", "application/json")
_PATH = re.compile(rf"/v1/reservations/({RESERVATION_ID_PATTERN.strip('^$')})(/confirm|/extend)?")
_ORDERS = "/v1/orders"
_NOTHING_GIVEN = ConfirmIn()

_encode = msgspec.json.Encoder().encode

Handle = Callable[[Request, Caller, str], Awaitable[Answer]]
Given = TypeVar("Given", bound=BaseModel)


class ReservationLane:
    def __init__(self, house: House, patrol: Patrol) -> None:
        self._house = house
        self._patrol = patrol
        self._orders = Lookout(orders_in(house.database))

    def answer(self, request: Request) -> Awaitable[Answer] | None:
        """The answer to come, or None if the request is not for one of these, or not as usual."""
        if request.path == _ORDERS:
            return self._list_orders(request)
        fits = _PATH.fullmatch(request.path)
        handle = None if fits is None else self._handler(request, fits[2])
        return None if fits is None or handle is None else self._found_or_lost(request, fits[1], handle)

    def _list_orders(self, request: Request) -> Awaitable[Answer] | None:
        """A buyer's own, without filters. Who buyers are is known when they are let in."""
        caller = request.caller
        if request.method != "GET" or request.query or caller is None or caller.buyer_id is None:
            return None
        return self._orders_of(caller.buyer_id)

    async def _orders_of(self, buyer_id: str) -> Answer:
        page = await self._orders.look(buyer_id) or ([], False)
        return Answer(200, [_JSON], _encode(order_page_body(page)))

    def _handler(self, request: Request, action: str | None) -> Handle | None:
        match request.method, action:
            case "GET", None:
                return self._look
            case "DELETE", None:
                return self._cancel
            case "POST", "/confirm":
                paying = _given(request.body, ConfirmIn) if request.body else _NOTHING_GIVEN
                return None if paying is None else partial(self._confirm, paying)
            case "POST", "/extend":
                longer = _given(request.body, ExtendIn)
                return None if longer is None else partial(self._extend, longer)
        return None

    async def _found_or_lost(self, request: Request, reservation_id: str, handle: Handle) -> Answer:
        house = self._house
        caller = request.caller or await identify(house, request.authorization)
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

    async def _confirm(self, given: ConfirmIn, request: Request, caller: Caller, reservation_id: str) -> Answer:
        submit = self._submitter(request)
        status, body = await reservations.confirm(self._house, submit, caller, reservation_id, given)
        return Answer(status, [_JSON], _encode(body))

    async def _extend(self, given: ExtendIn, request: Request, caller: Caller, reservation_id: str) -> Answer:
        body = await reservations.extend(self._house, self._submitter(request), caller, reservation_id, given)
        return Answer(200, [_JSON], _encode(body))

    async def _cancel(self, request: Request, caller: Caller, reservation_id: str) -> Answer:
        await reservations.cancel(self._house, self._submitter(request), caller, reservation_id)
        return Answer(204, [], b"")

    def _submitter(self, request: Request) -> reservations.Submit:
        return reservations.submitter(self._house, self._patrol, request.wire)


def _given(body: bytes, model: type[Given]) -> Given | None:
    """None if there is a mistake in it."""
    try:
        return model.model_validate_json(body)
    except ValidationError:
        return None
