"""Pools: how many units there are."""

from fastapi import APIRouter, Response

from holdfast.domain.command import Provision
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Rules
from holdfast.http.problems import below_committed, refusal, sku_not_found
from holdfast.http.routes.callers import IdentifiedRoute, InventoryKey, TheHouse, json_response
from holdfast.http.schemas import PoolIn, PoolOut, SkuId, pool_body

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/inventory", tags=["inventory"], dependencies=[InventoryKey])


@router.put("/{sku_id}", response_model=PoolOut, summary="Create a pool, or set its total")
async def put_pool(sku_id: SkuId, given: PoolIn, house: TheHouse) -> Response:
    rules = Rules(per_owner_limit=given.per_owner_limit) if "per_owner_limit" in given.model_fields_set else None
    verdict = await house.batcher.submit(sku_id, Provision(given.total_units, rules))
    if verdict.outcome is Outcome.INSUFFICIENT:
        raise below_committed(verdict)
    if not verdict.outcome.is_success:
        raise refusal(verdict)
    view = await house.lookout.look(sku_id)
    if view is None:
        raise sku_not_found()
    return json_response(pool_body(view))
