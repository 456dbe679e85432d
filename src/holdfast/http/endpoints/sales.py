"""Sales: management by operators, and public facts."""

import asyncio

from msgspec import Struct

from holdfast.bootstrap.services import Services
from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Pool
from holdfast.errors import EngineError
from holdfast.http.contract import problems
from holdfast.http.contract.caching import facts_headers
from holdfast.http.contract.message import JSON, REPLAYED, Answer, Request, encode, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import below_committed, invalid_request, refusal, restock_refusal, sale_refusal
from holdfast.http.contract.schemas.sales import (
    OperatorSaleOut,
    RestockIn,
    SaleIn,
    SaleOut,
    SalePage,
    SalePatch,
    SaleQuery,
)
from holdfast.http.endpoints.now import etag_of
from holdfast.ledger.access.keys import Scope
from holdfast.ledger.sales.sale_lists import list_sales
from holdfast.ledger.sales.sales import find_sale
from holdfast.sales.operations import Contradiction, Refusal
from holdfast.sales.restocking import Unrestocked

# Everyone else sees the public facts.
_SEES_ALL = frozenset({Scope.SALES, Scope.READ})

_VARY = ("vary", "authorization, holdfast-console")
_KEPT_MAX = 10_000


class _Facts(Struct, frozen=True):
    sale: Sale
    body: bytes
    etag: str


class SaleEndpoints:
    def __init__(self, services: Services) -> None:
        self._reads, self._catalogue = services.reads, services.catalogue
        self._operations, self._pools = services.sale_operations, services.pool_reads
        self._cell = services.control.cell
        self._facts: dict[str, _Facts] = {}

    async def create(self, _request: Request, given: SaleIn) -> Answer:
        created = await self._operations.create(given.sale())
        if isinstance(created, Refusal | Contradiction):
            raise sale_refusal(created)
        return await self._shown(created.sale, 201 if created.is_new else 200)

    async def list(self, _request: Request, wanted: SaleQuery) -> Answer:
        found, has_more = await self._reads.read(
            lambda c: list_sales(c, limit=wanted.limit, starting_after=wanted.starting_after)
        )
        seen = await asyncio.gather(*[self._pool_of(sale) for sale in found])
        now = self._catalogue.now_ms()
        data = [OperatorSaleOut.of_pool(sale, pool, now, self._cell) for sale, pool in zip(found, seen, strict=True)]
        return json(SalePage(data, has_more))

    async def get(self, request: Request, sale_id: str) -> Answer:
        if request.caller is not None and not _SEES_ALL.isdisjoint(request.caller.scopes):
            sale = await self._reads.read(lambda c: find_sale(c, sale_id))
            if sale is None:
                raise Problem(problems.SALE_NOT_FOUND)
            return await self._shown(sale)
        found = self._catalogue.cached(sale_id) or await self._catalogue.find(sale_id)
        if found is None:
            raise Problem(problems.SALE_NOT_FOUND)
        facts = self._facts_of(found)
        known = request.header("if-none-match")
        headers = [*facts_headers(sale_id), ("etag", facts.etag), _VARY]
        if known is not None and facts.etag in known:
            return Answer(304, headers, b"")
        return Answer(200, [JSON, *headers], facts.body)

    async def change(self, _request: Request, sale_id: str, given: SalePatch) -> Answer:
        return await self._changed(await self._operations.change(sale_id, given.changes()))

    async def pause(self, _request: Request, sale_id: str) -> Answer:
        return await self._changed(await self._operations.pause(sale_id, paused=True))

    async def resume(self, _request: Request, sale_id: str) -> Answer:
        return await self._changed(await self._operations.pause(sale_id, paused=False))

    async def close(self, _request: Request, sale_id: str) -> Answer:
        return await self._changed(await self._operations.close(sale_id))

    async def restock(self, request: Request, sale_id: str, given: RestockIn) -> Answer:
        result = await self._operations.restock(sale_id, given.units, request.idempotency_key)
        if isinstance(result, Refusal):
            raise sale_refusal(result)
        if isinstance(result, Unrestocked):
            raise restock_refusal(result)
        sale, verdict = result
        if verdict.outcome is Outcome.INSUFFICIENT:
            raise below_committed(verdict)
        if verdict.outcome is Outcome.ILLEGAL:
            raise invalid_request({"units": "would make more units than a pool can have"})
        if not verdict.outcome.is_success:
            raise refusal(verdict)
        pool = verdict.pool or await self._pool_of(sale)
        body = OperatorSaleOut.of_pool(sale, pool, self._catalogue.now_ms(), self._cell)
        return json(body, 200, *([REPLAYED] if verdict.outcome is Outcome.REPLAYED else []))

    async def _changed(self, result: Sale | Refusal | Contradiction) -> Answer:
        if isinstance(result, Refusal | Contradiction):
            raise sale_refusal(result)
        return await self._shown(result)

    async def _shown(self, sale: Sale, status: int = 200) -> Answer:
        self._catalogue.put(sale)
        body = OperatorSaleOut.of_pool(sale, await self._pool_of(sale), self._catalogue.now_ms(), self._cell)
        return json(body, status, _VARY)

    async def _pool_of(self, sale: Sale) -> Pool | None:
        """None if it cannot be read now; the decision is reported anyway."""
        try:
            view = await self._pools.look(sale.sku_id)
        except EngineError:
            return None
        return None if view is None else view.pool

    def _facts_of(self, sale: Sale) -> _Facts:
        """Encoded once for each version of the sale."""
        kept = self._facts.get(sale.sale_id)
        if kept is None or kept.sale is not sale:
            body = encode(SaleOut.of(sale))
            if len(self._facts) >= _KEPT_MAX:
                self._facts.clear()
            kept = self._facts[sale.sale_id] = _Facts(sale, body, etag_of(body))
        return kept
