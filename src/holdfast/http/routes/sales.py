"""Sales: what operators do with them, and what everyone may know of one."""

import asyncio
import hashlib
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request, Response

from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Pool
from holdfast.domain.sale import Sale
from holdfast.errors import EngineError
from holdfast.http.fast_lane import require
from holdfast.http.identity import Caller
from holdfast.http.invalid import invalid_request
from holdfast.http.money_schemas import Key
from holdfast.http.problems import below_committed, refusal
from holdfast.http.routes.callers import AnyCaller, IdentifiedRoute, TheHouse, json_response, optional_caller
from holdfast.http.sale_problems import office_refusal, sale_not_found, unrestocked
from holdfast.http.sale_schemas import (
    OperatorSaleOut,
    RestockIn,
    SaleId,
    SaleIn,
    SaleOut,
    SalePage,
    SalePatch,
    SaleQuery,
    operator_sale_body,
    sale_body,
)
from holdfast.ledger.keys import Scope
from holdfast.ledger.sale_lists import list_sales
from holdfast.ledger.sales import find_sale
from holdfast.sales.office import Contradiction, Refusal
from holdfast.sales.restocking import Unrestocked

# Facts that hardly change: a crowd reads them from caches, and a change is seen within minutes.
PUBLIC_CACHE = "public, max-age=300, stale-while-revalidate=60"


async def _sales(caller: AnyCaller) -> Caller:
    require(caller, Scope.SALES)
    return caller


SalesKey = Depends(_sales)
router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/sales", tags=["sales"], dependencies=[SalesKey])
public_router = APIRouter(prefix="/v1/sales", tags=["sales"])


@router.post("", status_code=201, response_model=OperatorSaleOut, summary="Create a sale and load its pool")
async def create(given: SaleIn, house: TheHouse) -> Response:
    """It opens once its pool is loaded and checked; `state` and `problem` tell. The same request again: 200."""
    created = await house.office.create(given.sale())
    if isinstance(created, Refusal | Contradiction):
        raise office_refusal(created)
    return await _shown(house, created.sale, 201 if created.is_new else 200)


@router.get("", response_model=SalePage, summary="List sales, by id")
async def list_all(house: TheHouse, wanted: Annotated[SaleQuery, Query()]) -> Response:
    found, has_more = await house.database.read(
        lambda c: list_sales(c, limit=wanted.limit, starting_after=wanted.starting_after)
    )
    seen = await asyncio.gather(*[_pool_of(house, sale) for sale in found])
    now = house.catalogue.now_ms()
    data = [operator_sale_body(sale, pool, now) for sale, pool in zip(found, seen, strict=True)]
    return json_response({"data": data, "has_more": has_more})


@public_router.get(
    "/{sale_id}",
    response_model=SaleOut | OperatorSaleOut,
    summary="What is sold, when, and for how much",
    responses={304: {"description": "As in the answer with this ETag"}},
)
async def get_sale(
    sale_id: SaleId,
    house: TheHouse,
    request: Request,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Public, and the same for everyone, so that caches can answer. Service keys with the scope `sales` see more."""
    caller = await optional_caller(request)
    if caller is not None and Scope.SALES in caller.scopes:
        return await _shown(house, await _find(house, sale_id))
    sale = await house.catalogue.find(sale_id)
    if sale is None:
        raise sale_not_found()
    response = json_response(sale_body(sale))
    etag = f'"{hashlib.blake2b(response.body, digest_size=9).hexdigest()}"'
    if if_none_match is not None and etag in if_none_match:
        response = Response(status_code=304)
    response.headers.update({"cache-control": PUBLIC_CACHE, "etag": etag, "vary": "authorization, holdfast-console"})
    return response


@router.patch("/{sale_id}", response_model=OperatorSaleOut, summary="Change a sale")
async def change(sale_id: SaleId, given: SalePatch, house: TheHouse) -> Response:
    """Names, limits, times and the room at any time; price, payment and the start before the start only."""
    empty = given.empty_fields()
    if empty:
        raise invalid_request(dict.fromkeys(empty, "must not be null; leave it out to keep it"))
    return await _changed(house, await house.office.change(sale_id, given.changes()))


@router.post("/{sale_id}/pause", response_model=OperatorSaleOut, summary="Let nobody reserve for now")
async def pause(sale_id: SaleId, house: TheHouse) -> Response:
    return await _changed(house, await house.office.pause(sale_id, paused=True))


@router.post("/{sale_id}/resume", response_model=OperatorSaleOut, summary="Go on after a pause")
async def resume(sale_id: SaleId, house: TheHouse) -> Response:
    return await _changed(house, await house.office.pause(sale_id, paused=False))


@router.post("/{sale_id}/close", response_model=OperatorSaleOut, summary="End a sale now, for good")
async def close(sale_id: SaleId, house: TheHouse) -> Response:
    """Nobody gets in any more. Whoever holds units may still pay for them in time."""
    return await _changed(house, await house.office.close(sale_id))


@router.post("/{sale_id}/restock", response_model=OperatorSaleOut, summary="Add units, or take free ones away")
async def restock(
    sale_id: SaleId,
    given: RestockIn,
    house: TheHouse,
    key: Annotated[
        Key | None, Header(alias="Idempotency-Key", description="Asked again with it, it is done once.")
    ] = None,
) -> Response:
    answer = await house.office.restock(sale_id, given.units, key)
    if isinstance(answer, Refusal | Unrestocked):
        raise office_refusal(answer) if isinstance(answer, Refusal) else unrestocked(answer)
    sale, verdict = answer
    if verdict.outcome is Outcome.INSUFFICIENT:
        raise below_committed(verdict)
    if verdict.outcome is Outcome.ILLEGAL:
        raise invalid_request({"units": "would make more units than a pool can have"})
    if not verdict.outcome.is_success:
        raise refusal(verdict)
    pool = verdict.pool or await _pool_of(house, sale)
    response = json_response(operator_sale_body(sale, pool, house.catalogue.now_ms()))
    if verdict.outcome is Outcome.REPLAYED:
        response.headers["idempotency-replayed"] = "true"
    return response


async def _changed(house: TheHouse, answer: Sale | Refusal | Contradiction) -> Response:
    if isinstance(answer, Refusal | Contradiction):
        raise office_refusal(answer)
    return await _shown(house, answer)


async def _find(house: TheHouse, sale_id: str) -> Sale:
    sale = await house.database.read(lambda c: find_sale(c, sale_id))
    if sale is None:
        raise sale_not_found()
    return sale


async def _shown(house: TheHouse, sale: Sale, status: int = 200) -> Response:
    house.catalogue.put(sale)
    body = operator_sale_body(sale, await _pool_of(house, sale), house.catalogue.now_ms())
    headers = {"cache-control": "no-store", "vary": "authorization, holdfast-console"}
    return Response(msgspec.json.encode(body), status, headers, "application/json")


async def _pool_of(house: TheHouse, sale: Sale) -> Pool | None:
    """What was decided is told even if the pool cannot be looked at now."""
    try:
        view = await house.lookout.look(sale.sku_id)
    except EngineError:
        return None
    return None if view is None else view.pool
