"""Orders: what was sold to whom."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from sqlalchemy import Connection

from holdfast.http.fast_lane import require
from holdfast.http.identity import Caller
from holdfast.http.order_schemas import OrderOut, OrderPage, OrderQuery, order_body, order_page_body
from holdfast.http.problems import forbidden
from holdfast.http.routes.callers import AnyCaller, IdentifiedRoute, TheHouse, json_response
from holdfast.http.sale_problems import order_not_found
from holdfast.http.schemas import ReservationId
from holdfast.ledger.keys import Scope
from holdfast.ledger.sale_lists import ListedOrders, list_orders
from holdfast.ledger.sales import find_order

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/orders", tags=["orders"])


async def _buyer_or_sales(caller: AnyCaller) -> Caller:
    """A buyer, who will find their own orders only, or a service that may see all."""
    if caller.buyer_id is None:
        require(caller, Scope.SALES)
    return caller


BuyerOrSales = Annotated[Caller, Depends(_buyer_or_sales)]


@router.get("", response_model=OrderPage, summary="List orders, newest first")
async def list_all(house: TheHouse, caller: BuyerOrSales, wanted: Annotated[OrderQuery, Query()]) -> Response:
    if caller.buyer_id is not None and wanted.buyer_id not in (None, caller.buyer_id):
        raise forbidden("Buyers see their own orders only; leave `buyer_id` out.")

    def page(connection: Connection) -> ListedOrders:
        return list_orders(
            connection,
            limit=wanted.limit,
            buyer_id=caller.buyer_id or wanted.buyer_id,
            sale_id=wanted.sale_id,
            starting_after=wanted.starting_after,
            to_source=wanted.to_source,
        )

    if caller.buyer_id is None:
        await house.engine.catch_up(None)
    return json_response(order_page_body(await house.database.read(page)))


@router.get("/{order_id}", response_model=OrderOut, summary="One order")
async def get_order(order_id: ReservationId, house: TheHouse, caller: BuyerOrSales) -> Response:
    found = await house.database.read(lambda c: find_order(c, order_id))
    if found is None or caller.buyer_id not in (None, found.buyer_id):
        raise order_not_found()
    return json_response(order_body(found))
