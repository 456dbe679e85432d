"""Drops: management by operators, and public facts."""

from holdfast.bootstrap.services import Services
from holdfast.domain.sale.drop import Drop
from holdfast.http.contract import problems
from holdfast.http.contract.message import JSON, Answer, Request, encode, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import sale_refusal
from holdfast.http.contract.schemas.drops import DropIn, DropOut, DropPage, DropPatch, DropQuery
from holdfast.ledger.sales.drops import list_drops, sales_of_drops
from holdfast.sales.drop_operations import CreatedDrop

# Its sales may be added to at any time.
_CACHE = ("cache-control", "public, max-age=1")


class DropEndpoints:
    def __init__(self, services: Services) -> None:
        self._operations, self._catalogue = services.drop_operations, services.catalogue
        self._database, self._reads = services.database, services.reads

    async def create(self, _request: Request, given: DropIn) -> Answer:
        created = await self._operations.create(given.drop())
        if not isinstance(created, CreatedDrop):
            raise sale_refusal(created)
        return await self._shown(created.drop, 201 if created.is_new else 200)

    async def list(self, _request: Request, wanted: DropQuery) -> Answer:
        found, has_more = await self._reads.read(
            lambda c: list_drops(c, limit=wanted.limit, starting_after=wanted.starting_after)
        )
        sales = await self._reads.read(lambda c: sales_of_drops(c, [drop.drop_id for drop in found]))
        return json(DropPage([DropOut.of(drop, sales[drop.drop_id]) for drop in found], has_more))

    async def get(self, _request: Request, drop_id: str) -> Answer:
        drop = await self._catalogue.find_drop(drop_id)
        if drop is None:
            raise Problem(problems.DROP_NOT_FOUND)
        body = encode(DropOut.of(drop, self._catalogue.sales_of_drop(drop_id)))
        return Answer(200, [JSON, _CACHE], body)

    async def change(self, _request: Request, drop_id: str, given: DropPatch) -> Answer:
        changed = await self._operations.change(drop_id, given.changes())
        if not isinstance(changed, Drop):
            raise sale_refusal(changed)
        return await self._shown(changed)

    async def _shown(self, drop: Drop, status: int = 200) -> Answer:
        self._catalogue.put_drop(drop)
        sales = await self._database.read(lambda c: sales_of_drops(c, [drop.drop_id]))
        for sale in sales[drop.drop_id]:
            self._catalogue.put(sale)
        return json(DropOut.of(drop, sales[drop.drop_id]), status)
