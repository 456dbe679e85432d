"""The hot endpoints, as raw ASGI: no routing table, no dependency injection, answers encoded by hand.

A bare handler answers several times as many requests as a framework route, and at an on-sale these few endpoints are
nearly all of the traffic. Their models are the ones the OpenAPI document shows, so there is one contract.
"""

from collections.abc import Awaitable, Callable

import msgspec
from msgspec import structs

from holdfast.bootstrap import House
from holdfast.domain.command import Reserve, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import is_sku_id
from holdfast.domain.reservation import new_reservation_id
from holdfast.http.identity import Caller, Unauthorized
from holdfast.http.invalid import from_decoding, invalid_request
from holdfast.http.patrol import Patrol
from holdfast.http.problems import forbidden, refusal, sku_not_found, unauthorized
from holdfast.http.requests import Answer, Request, refuse
from holdfast.http.schemas import IdempotencyKey, ReserveIn, pool_body, reservation_body
from holdfast.ledger.keys import Scope

_JSON = ("content-type", "application/json")
_REPLAYED = ("idempotency-replayed", "true")
_PREFIX, _RESERVE, _AVAILABLE = "/v1/inventory/", "/reserve", "/available"

_encode = msgspec.json.Encoder().encode
_parse_reserve = msgspec.json.Decoder(ReserveIn).decode


Handler = Callable[[Request, str], Awaitable[Answer]]


class FastLane:
    def __init__(self, house: House, patrol: Patrol) -> None:
        self._house = house
        self._patrol = patrol

    def route(self, request: Request) -> tuple[Handler, str] | None:
        """The handler of a hot endpoint and the SKU it is for, or None if the request is not for one."""
        path = request.path
        if not path.startswith(_PREFIX):
            return None
        if path.endswith(_RESERVE) and request.method == "POST":
            return self.reserve, path[len(_PREFIX) : -len(_RESERVE)]
        if path.endswith(_AVAILABLE) and request.method == "GET":
            return self.available, path[len(_PREFIX) : -len(_AVAILABLE)]
        return None

    async def reserve(self, request: Request, sku_id: str) -> Answer:
        caller = self._house.doorkeeper.recognise(request.authorization) or await self._identify(request)
        require(caller, Scope.INVENTORY)
        try:
            given = _parse_reserve(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            return refuse(from_decoding(exc))
        if given.min_quantity is not None and given.min_quantity > given.quantity:
            raise invalid_request({"min_quantity": "must not be more than quantity"})
        if request.idempotency_key is not None:
            given = _with_key(given, request.idempotency_key)
        verdict = self._house.batcher.recall(sku_id) if given.idempotency_key is None else None
        if verdict is None:
            verdict = await self._submit(request, sku_id, given)
        if verdict.reservation is None:
            return refuse(refusal(verdict))
        headers = [_JSON, _REPLAYED] if verdict.outcome is Outcome.REPLAYED else [_JSON]
        if self._house.may_lose_holds:
            headers.append(("holdfast-receipt", self._house.receipts.sign(verdict.reservation)))
        return Answer(200, headers, _encode(reservation_body(verdict.reservation)))

    async def _submit(self, request: Request, sku_id: str, given: ReserveIn) -> Verdict:
        if not is_sku_id(sku_id):
            raise sku_not_found()
        command = Reserve(
            new_reservation_id(sku_id),
            given.owner_id,
            given.quantity,
            given.quantity if given.min_quantity is None else given.min_quantity,
            given.ttl_seconds * 1000,
            given.idempotency_key,
        )
        return await self._patrol.await_verdict(self._house.batcher.submit(sku_id, command), request.wire)

    async def available(self, request: Request, sku_id: str) -> Answer:
        caller = self._house.doorkeeper.recognise(request.authorization) or await self._identify(request)
        require(caller, Scope.INVENTORY)
        view = await self._house.lookout.look(sku_id) if is_sku_id(sku_id) else None
        if view is None:
            return refuse(sku_not_found())
        return Answer(200, [_JSON], _encode(pool_body(view)))

    async def _identify(self, request: Request) -> Caller:
        return await identify(self._house, request.authorization)


def _with_key(given: ReserveIn, header: str) -> ReserveIn:
    """The header says the same as the field, for clients that put a key on every request."""
    try:
        key = msgspec.convert(header, IdempotencyKey)
    except msgspec.ValidationError as exc:
        raise from_decoding(exc, "Idempotency-Key") from exc
    if given.idempotency_key not in (None, key):
        raise invalid_request({"Idempotency-Key": "must be the same as idempotency_key in the body, or left out"})
    return structs.replace(given, idempotency_key=key)


async def identify(house: House, authorization: str | None) -> Caller:
    try:
        return await house.doorkeeper.identify(authorization)
    except Unauthorized as exc:
        raise unauthorized(str(exc)) from exc


def require(caller: Caller, scope: Scope) -> None:
    if scope not in caller.scopes:
        raise forbidden(f"This needs a service key with the scope `{scope}`.")
