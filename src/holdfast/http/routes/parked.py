"""What waits for a person, and what is done about more sold than there is."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from holdfast.http.money_problems import drop_refused, parked_not_found, sale_not_found
from holdfast.http.money_schemas import (
    CompensateIn,
    CompensationOut,
    Id,
    ParkedPage,
    ParkedQuery,
    RetriedOut,
    RetryIn,
    compensation_body,
    parked_body,
)
from holdfast.http.routes.callers import IdentifiedRoute, OperatorKey, TheHouse, json_response
from holdfast.settlement.parked import DropRefused, NotParked

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/ops", tags=["operate"], dependencies=[OperatorKey])


@router.get("/parked", response_model=ParkedPage, summary="What waits for a person, and why")
async def list_parked(house: TheHouse, wanted: Annotated[ParkedQuery, Query()]) -> Response:
    found, has_more = await house.cashier.parked.items(
        kind=wanted.kind, limit=wanted.limit, starting_after=wanted.starting_after
    )
    return json_response({"data": [parked_body(item) for item in found], "has_more": has_more})


@router.post("/parked/retry", response_model=RetriedOut, summary="Try everything of a kind again")
async def retry_all(given: RetryIn, house: TheHouse) -> Response:
    return json_response({"retried": await house.cashier.parked.retry_all(given.kind)})


@router.post("/parked/{parked_id}/retry", status_code=204, summary="Try it again, from where it stands")
async def retry(parked_id: Id, house: TheHouse) -> Response:
    try:
        await house.cashier.parked.retry(parked_id)
    except NotParked:
        raise parked_not_found() from None
    return Response(status_code=204)


@router.post("/parked/{parked_id}/drop", status_code=204, summary="Give it up, if no money is out")
async def drop(parked_id: Id, house: TheHouse) -> Response:
    """A settlement gives its units back, once it is sure that no money was taken or set aside for it."""
    try:
        await house.cashier.parked.drop(parked_id)
    except NotParked:
        raise parked_not_found() from None
    except DropRefused as exc:
        raise drop_refused(str(exc)) from exc
    return Response(status_code=204)


@router.post(
    "/sales/{sale_id}/compensate",
    response_model=CompensationOut,
    summary="More was sold than can be delivered: act by the sale's policy",
)
async def compensate(sale_id: Id, given: CompensateIn, house: TheHouse) -> Response:
    """`cancel_last` cancels and refunds the newest orders; `fulfil_first` flags them, because somebody has to find
    their units; `report` only says how many are missing. It is remembered, and looked at again by itself: orders that
    come later are treated alike, and flags go once enough can be delivered. What is free beyond it leaves the pool.
    """
    done = await house.cashier.compensator.compensate(sale_id, given.deliverable_units)
    if done is None:
        raise sale_not_found()
    return json_response(compensation_body(done))
