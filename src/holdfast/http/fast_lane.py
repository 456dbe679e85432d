"""The hot endpoints, as raw ASGI: no routing table, no dependency injection, answers encoded by hand.

A bare handler answers several times as many requests as a framework route, and at an on-sale these few endpoints are
nearly all of the traffic. Their models are the ones the OpenAPI document shows, so there is one contract.
"""

import asyncio
from collections.abc import Awaitable
from functools import lru_cache

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
from holdfast.http.problems import Problem, forbidden, refusal, sku_not_found, unauthorized
from holdfast.http.requests import Answer, Request, refuse
from holdfast.http.schemas import IdempotencyKey, ReserveIn, pool_body, reservation_body
from holdfast.ledger.keys import Scope
from holdfast.ledger.queries import PoolView

_JSON = ("content-type", "application/json")
_REPLAYED = ("idempotency-replayed", "true")
# On Python 3.11 a member of an enum takes longer to find than a key in a dictionary.
_INVENTORY, _RESERVED = Scope.INVENTORY, Outcome.RESERVED
_PREFIX, _RESERVE, _AVAILABLE = "/v1/inventory/", "/reserve", "/available"

_encode = msgspec.json.Encoder().encode
_parse_reserve = msgspec.json.Decoder(ReserveIn).decode


class FastLane:
    def __init__(self, house: House, patrol: Patrol) -> None:
        self._house = house
        self._patrol = patrol

    def answer(self, request: Request) -> Awaitable[Answer] | None:
        """The answer of a hot endpoint, or None if the request is not for one."""
        path = request.path
        if not path.startswith(_PREFIX):
            return None
        if path.endswith(_RESERVE) and request.method == "POST":
            return self.reserve(request, path[len(_PREFIX) : -len(_RESERVE)])
        if path.endswith(_AVAILABLE) and request.method == "GET":
            return self.available(request, path[len(_PREFIX) : -len(_AVAILABLE)])
        return None

    async def reserve(self, request: Request, sku_id: str) -> Answer:
        caller = request.caller or await identify(self._house, request.authorization)
        require(caller, _INVENTORY)
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
            verdict = await self._patrol.await_verdict(self._submit(sku_id, given), request.wire)
        if verdict.reservation is None:
            self._house.refusals.note(verdict, sku_id, given.owner_id, given.quantity, request.request_id)
            problem, body = _refusal(verdict)
            return Answer(problem.status, problem.headers(), body)
        headers = [_JSON] if verdict.outcome is _RESERVED else [_JSON, _REPLAYED]
        if self._house.may_lose_holds:
            headers.append(("holdfast-receipt", self._house.receipts.sign(verdict.reservation)))
        return Answer(200, headers, _encode(reservation_body(verdict.reservation)))

    def _submit(self, sku_id: str, given: ReserveIn) -> asyncio.Future[Verdict]:
        if not is_sku_id(sku_id):
            raise sku_not_found()
        command = Reserve(
            new_reservation_id(sku_id, given.owner_id),
            given.owner_id,
            given.quantity,
            given.quantity if given.min_quantity is None else given.min_quantity,
            given.ttl_seconds * 1000,
            given.idempotency_key,
        )
        return self._house.batcher.submit(sku_id, command)

    async def available(self, request: Request, sku_id: str) -> Answer:
        caller = request.caller or await identify(self._house, request.authorization)
        require(caller, _INVENTORY)
        view = await self._house.lookout.look(sku_id) if is_sku_id(sku_id) else None
        if view is None:
            return refuse(sku_not_found())
        return Answer(200, [_JSON], _shown(view))


# What many are told at once is put into words once.
@lru_cache(maxsize=256)
def _refusal(verdict: Verdict) -> tuple[Problem, bytes]:
    problem = refusal(verdict)
    return problem, problem.body()


@lru_cache(maxsize=256)
def _shown(view: PoolView) -> bytes:
    return _encode(pool_body(view))


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
