"""Orders of buyers, and all orders for operators."""

from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.domain.sale.sale import OrderStatus
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, caller_of, json, seen_by
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import refund_refusal
from holdfast.http.contract.schemas.money import FulfilIn, OrderOut, OrderPage, OrderQuery, RefundIn, RefundOut
from holdfast.ledger.money.refunds import RefundProblem, Wanted
from holdfast.ledger.sales.fulfilment import KeyReused, NotFulfilled, fulfil
from holdfast.ledger.sales.sale_lists import ListedOrders, list_orders, orders_in
from holdfast.ledger.sales.sales import find_order
from holdfast.ledger.stock.shared_reads import SharedReads

_UNFILTERED = OrderQuery()


class OrderEndpoints:
    def __init__(self, services: Services) -> None:
        self._database, self._catch_up = services.database, services.engine.catch_up
        self._catch_up_sales = services.engine.catch_up_sales
        self._reads = services.reads
        self._refunder = services.payments.refunder
        # The newest orders of buyers: a crowd that polls "is it paid?" shares a few queries a second.
        self._newest = SharedReads(orders_in(services.reads))

    async def list(self, request: Request, wanted: OrderQuery) -> Answer:
        buyer_id = caller_of(request).buyer_id
        if buyer_id is not None and self._catch_up_sales is not None:
            # Their confirms were acknowledged.
            await self._catch_up_sales(buyer_id)
        if buyer_id is not None and wanted == _UNFILTERED:
            return json(OrderPage.of(await self._newest.look(buyer_id) or ([], False)))
        if buyer_id is not None and wanted.buyer_id not in (None, buyer_id):
            raise Problem(problems.FORBIDDEN, "Buyers see their own orders only; leave `buyer_id` out.")

        def page(connection: Connection) -> ListedOrders:
            return list_orders(
                connection,
                limit=wanted.limit,
                buyer_id=buyer_id or wanted.buyer_id,
                sale_id=wanted.sale_id,
                starting_after=wanted.starting_after,
                to_source=wanted.to_source,
                status=wanted.status,
                number=wanted.number,
            )

        if buyer_id is None:
            await self._catch_up(None)
        return json(OrderPage.of(await self._reads.read(page, seen_by(request))))

    async def get(self, request: Request, order_id: str) -> Answer:
        found = await self._reads.read(lambda connection: find_order(connection, order_id), seen_by(request))
        if found is None or caller_of(request).buyer_id not in (None, found.buyer_id):
            raise Problem(problems.ORDER_NOT_FOUND)
        return json(OrderOut.of(found))

    async def fulfil(self, request: Request, order_id: str, given: FulfilIn) -> Answer:
        key, now_ms = request.idempotency_key, self._database.now_ms
        try:
            order = await self._database.write(lambda c: fulfil(c, order_id, given.tracking, now_ms(c), key))
        except KeyReused as reused:
            raise Problem(problems.IDEMPOTENCY_KEY_REUSED) from reused
        except NotFulfilled as refused:
            is_sent = refused.order.status is OrderStatus.FULFILLED
            problem = problems.ORDER_FULFILLED if is_sent else problems.ORDER_NOT_PAID
            raise Problem(problem, state=refused.order.status) from refused
        if order is None:
            raise Problem(problems.ORDER_NOT_FOUND)
        return json(OrderOut.of(order))

    async def refund(self, request: Request, order_id: str, given: RefundIn) -> Answer:
        assert request.idempotency_key is not None
        wanted = Wanted(order_id, request.idempotency_key, given.amount, given.restock, given.reason)
        try:
            return json(RefundOut.of(await self._refunder.request(wanted)))
        except RefundProblem as refused:
            raise refund_refusal(refused) from refused
