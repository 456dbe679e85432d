"""Pools: how many units there are."""

from fastapi import APIRouter, Response

from holdfast.domain.command import Provision
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import RuleChanges
from holdfast.http.invalid import invalid_request
from holdfast.http.problems import below_committed, refusal, shards_fixed
from holdfast.http.routes.callers import IdentifiedRoute, InventoryKey, Submit, TheHouse, json_response
from holdfast.http.schemas import PoolIn, PoolOut, SkuId, pool_body
from holdfast.ledger.queries import PoolView

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/inventory", tags=["inventory"], dependencies=[InventoryKey])


@router.put("/{sku_id}", response_model=PoolOut, summary="Create a pool, or set its total")
async def put_pool(sku_id: SkuId, given: PoolIn, house: TheHouse, submit: Submit) -> Response:
    if house.engine.splits is None and given.shards not in (None, 1):
        raise invalid_request({"shards": "a pool is split into shards only where Redis is the gate"})
    given_limit = "per_owner_limit" in given.model_fields_set
    changes = RuleChanges(per_owner_limit=given.per_owner_limit) if given_limit else None
    verdict = await submit(sku_id, Provision(given.total_units, changes=changes, shards=given.shards))
    if verdict.shards is not None:
        raise shards_fixed(verdict.shards)
    if verdict.outcome is Outcome.INSUFFICIENT:
        raise below_committed(verdict)
    if verdict.pool is None or not verdict.outcome.is_success:
        raise refusal(verdict)
    # As it was decided. Another look could fail, and say of what is on disk that nothing was changed.
    return json_response(pool_body(PoolView(verdict.pool)))
