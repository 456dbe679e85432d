"""Pools: set them, look at them, reserve from them."""

from functools import lru_cache

from msgspec import UNSET

from holdfast.bootstrap.services import Services
from holdfast.domain.stock.command import Provision, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import RuleChanges, is_sku_id
from holdfast.http.contract import problems
from holdfast.http.contract.headers import IDEMPOTENCY_KEY_HEADER
from holdfast.http.contract.message import PRIVATE_JSON, REPLAYED, Answer, Request, encode, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import EncodedRefusals, below_committed, invalid_request, refusal
from holdfast.http.contract.schemas.inventory import PoolIn, PoolOut, ReservationOut, ReserveIn
from holdfast.http.protection.slow_requests import SlowRequestReaper
from holdfast.ledger.stock.queries import PoolView

# On Python 3.11 a member of an enum takes longer to find than a global.
_RESERVED = Outcome.RESERVED


class InventoryEndpoints:
    def __init__(self, services: Services, reaper: SlowRequestReaper) -> None:
        self._can_split = services.engine.splits is not None
        self._batcher, self._pools = services.batcher, services.pool_reads
        self._reserve, self._refusals = services.reserve_units, services.refusals
        # Only Redis can lose a hold that was granted.
        self._receipts = None if services.engine.link is None else services.receipts
        self._reaper = reaper
        self._encoded = EncodedRefusals(refusal)

    async def put(self, request: Request, sku_id: str, given: PoolIn) -> Answer:
        if not self._can_split and given.shards not in (None, 1):
            raise invalid_request({"shards": "a pool is split into shards only where Redis is the gate"})
        changes = None if given.per_owner_limit is UNSET else RuleChanges(per_owner_limit=given.per_owner_limit)
        command = Provision(given.total_units, changes=changes, shards=given.shards, unless_in_sale=True)
        verdict = await self._reaper.wait(self._batcher.submit(sku_id, command), request.connection)
        if verdict.shards is not None:
            detail = f"The pool has {verdict.shards} shards, chosen when it was created."
            raise Problem(problems.SHARDS_IMMUTABLE, detail, shards=verdict.shards)
        if verdict.outcome is Outcome.ILLEGAL:
            raise Problem(problems.POOL_IN_SALE)
        if verdict.outcome is Outcome.INSUFFICIENT:
            raise below_committed(verdict)
        if verdict.pool is None or not verdict.outcome.is_success:
            raise refusal(verdict)
        # Report the decision. Another read could fail, and wrongly report that nothing was changed.
        return json(PoolOut.of(PoolView(verdict.pool)))

    async def available(self, _request: Request, sku_id: str) -> Answer:
        view = await self._pools.look(sku_id) if is_sku_id(sku_id) else None
        if view is None:
            raise Problem(problems.SKU_NOT_FOUND)
        return Answer(200, [*PRIVATE_JSON], _shown(view))

    async def reserve(self, request: Request, sku_id: str, given: ReserveIn) -> Answer:
        if given.min_quantity is not None and given.min_quantity > given.quantity:
            raise invalid_request({"min_quantity": "must not be more than quantity"})
        verdict = self._reserve.start(
            sku_id,
            given.owner_id,
            given.quantity,
            min_quantity=given.min_quantity,
            ttl_ms=given.ttl_seconds * 1000,
            key=_key(request, given),
            tier=given.tier,
        )
        if verdict is None:
            raise Problem(problems.SKU_NOT_FOUND)
        if not isinstance(verdict, Verdict):
            verdict = await self._reaper.wait(verdict, request.connection)
        if verdict.reservation is None:
            self._refusals.note(verdict, sku_id, given.owner_id, given.quantity, request.request_id)
            problem, body = self._encoded.of(verdict)
            return Answer(problem.status, problem.headers(), body)
        headers = [*PRIVATE_JSON] if verdict.outcome is _RESERVED else [*PRIVATE_JSON, REPLAYED]
        if self._receipts is not None:
            headers.append(("holdfast-receipt", self._receipts.sign(verdict.reservation)))
        return Answer(200, headers, encode(ReservationOut.of(verdict.reservation)))


def _key(request: Request, given: ReserveIn) -> str | None:
    """The header means the same as the field, for clients that put a key on every request."""
    if request.idempotency_key is None:
        return given.idempotency_key
    if given.idempotency_key not in (None, request.idempotency_key):
        message = "must be the same as idempotency_key in the body, or left out"
        raise invalid_request({IDEMPOTENCY_KEY_HEADER: message})
    return request.idempotency_key


@lru_cache(maxsize=256)
def _shown(view: PoolView) -> bytes:
    return encode(PoolOut.of(view))
