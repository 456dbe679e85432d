"""Pools: how many units there are."""

from fastapi import APIRouter, Response

from holdfast.domain.command import Provision
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import RuleChanges
from holdfast.http.problems import below_committed, refusal
from holdfast.http.routes.callers import IdentifiedRoute, InventoryKey, Submit, json_response
from holdfast.http.schemas import PoolIn, PoolOut, SkuId, pool_body
from holdfast.ledger.queries import PoolView

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/inventory", tags=["inventory"], dependencies=[InventoryKey])


@router.put("/{sku_id}", response_model=PoolOut, summary="Create a pool, or set its total")
async def put_pool(sku_id: SkuId, given: PoolIn, submit: Submit) -> Response:
    given_limit = "per_owner_limit" in given.model_fields_set
    changes = RuleChanges(per_owner_limit=given.per_owner_limit) if given_limit else None
    verdict = await submit(sku_id, Provision(given.total_units, changes=changes))
    if verdict.outcome is Outcome.INSUFFICIENT:
        raise below_committed(verdict)
    if verdict.pool is None or not verdict.outcome.is_success:
        raise refusal(verdict)
    # As it was decided. Another look could fail, and say of what is on disk that nothing was changed.
    return json_response(pool_body(PoolView(verdict.pool)))
