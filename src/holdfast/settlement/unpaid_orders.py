"""Orders without a payment: repaired if the money is there after all, parked for an operator if not.

The settler writes an order in the transaction that records its payment, so an order without one has lost it since: by a
defect, a restored backup, or a manual change in the database. The provider is asked by the payment's key. If it has the
money, the payment is written again. If it has none, or another amount, the order is parked. A retry then asks again,
and a drop lets the order stand as paid externally. A provider that does not respond is asked in the next pass.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row

from holdfast.domain.sale.sale import PaymentKind
from holdfast.errors import EngineError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.money import unpaid_orders as ledger
from holdfast.payments.port import Payment, PaymentProvider, PaymentState
from holdfast.settlement.payment_report import PaymentFinding


class _Answer(Struct, frozen=True):
    """The payment that has the money, or why there is none. `is_final`: asking again is pointless."""

    detail: str
    key: str | None = None
    reference: str | None = None
    is_final: bool = True


class UnpaidOrders:
    def __init__(self, database: Database, providers: Mapping[str, PaymentProvider]) -> None:
        self._database = database
        self._providers = providers

    async def repair(self) -> list[PaymentFinding]:
        found = await self._database.read(lambda c: list(c.execute(ledger.orders_without_payment())))
        return [await self._repair(order) for order in found]

    async def _repair(self, order: Row[Any]) -> PaymentFinding:
        answer, is_repaired = await self._find_money(order), False
        detail = f"{order.amount} {order.currency} by {order.payment}: {answer.detail}"
        if answer.key is not None:
            enter = partial(ledger.enter_payment, order_id=order.order_id, key=answer.key, reference=answer.reference)
            is_repaired = await self._database.write(lambda c: enter(c, now=self._database.now_ms(c)))
        if answer.is_final and not is_repaired:
            park = partial(ledger.park, order_id=order.order_id, reason=f"an order without payment: {detail}")
            await self._database.write(lambda c: park(c, now=self._database.now_ms(c)))
        return PaymentFinding("order_without_payment", order.order_id, detail, is_repaired=is_repaired)

    async def _find_money(self, order: Row[Any]) -> _Answer:
        keys = await self._database.read(lambda c: ledger.keys_of(c, order.reservation_id))
        if not order.amount:
            return _Answer("there was nothing to pay", keys[0])
        if order.payment == PaymentKind.WALLET:
            return await self._database.read(lambda c: _in_wallet(c, order, keys))
        return await self._ask(order, keys)

    async def _ask(self, order: Row[Any], keys: list[str]) -> _Answer:
        provider = self._providers.get(order.payment)
        if provider is None:
            return _Answer(f"{order.payment} is not configured here", is_final=False)
        try:
            known = [(key, await provider.look_up(key)) for key in keys]
        except EngineError as exc:
            return _Answer(f"{order.payment} cannot be asked: {exc}", is_final=False)
        for key, payment in known:
            if payment is not None and payment.state is PaymentState.CAPTURED and payment.amount == order.amount:
                return _Answer("the provider has it, so the payment was restored", key, payment.reference)
        return _Answer(", ".join(f"the provider {_what(payment)} under {key}" for key, payment in known))


def _what(payment: Payment | None) -> str:
    return "has nothing" if payment is None else f"has {payment.amount}, {payment.state},"


def _in_wallet(connection: Connection, order: Row[Any], keys: list[str]) -> _Answer:
    transfer = ledger.paid_from_wallet(connection, order, keys)
    if transfer is None:
        return _Answer("the wallet never paid it")
    return _Answer("the wallet paid it, so the payment was restored", transfer)
