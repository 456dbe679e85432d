"""A sale, its buyers and its settler on each engine, built as the server builds them."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from msgspec.structs import replace
from sqlalchemy import Connection, Table, select, update

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState
from holdfast.domain.stock.command import Command, Provision, Reserve, Verdict
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.port import Gate
from holdfast.gate.reconciler import Reconciler
from holdfast.gate.redis.drainer import Drainer
from holdfast.ledger.engine.database import Database
from holdfast.ledger.money.wallet import Wallet
from holdfast.ledger.sales.sales import insert_sale, put_pool_in_sale
from holdfast.ledger.stock.journal import position
from holdfast.ledger.tables.money import refunds, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.payments.port import PaymentProvider
from holdfast.settlement.charge_lists import ChargeLists
from holdfast.settlement.compensate import Compensator
from holdfast.settlement.interpreter import Interpreter
from holdfast.settlement.payment_audit import PaymentAudit
from holdfast.settlement.posting import Posting
from holdfast.settlement.refund import Refunder
from holdfast.settlement.settler import Settler
from holdfast.settlement.unknown_charges import UnknownCharges

Providers = Mapping[str, PaymentProvider]
SKU = "sneaker"
PRICE = 1_000
SALE = Sale(
    sale_id="drop",
    sku_id=SKU,
    name="Drop",
    price_amount=PRICE,
    currency="EUR",
    starts_at=0,
    checkout=Checkout.INSTANT,
    payment=PaymentKind.WALLET,
    per_buyer_limit=None,
    state=SaleState.READY,
    # Where a decline is not what a test is about, it ends the reservation.
    payment_attempts_max=1,
)
EVERY_ENGINE = ("sqlite", "postgresql", "redis")


class SettleHarness:
    def __init__(self, engine: str, database: Database, gate: Gate, drainer: Drainer | None) -> None:
        self.engine, self.database, self.gate, self.drainer = engine, database, gate, drainer
        self.wallet = Wallet(database)
        self.reconciler: Reconciler | None = None

    def posting(self, attempts_max: int = 12) -> Posting:
        return Posting(self.database, has_redis=self.engine == "redis", attempts_max=attempts_max)

    def settler(self, providers: Providers | None = None, attempts_max: int = 12, **more: Any) -> Settler:
        posting = self.posting(attempts_max)
        interpreter = Interpreter(self.database, self.gate, posting, providers or {})
        return Settler(self.database, posting, interpreter, **more)

    def compensator(self, providers: Providers | None = None) -> Compensator:
        return Compensator(self.database, self.gate, Refunder(self.database, providers or {}))

    def audit(self, settler: Settler | None = None, providers: Providers | None = None) -> PaymentAudit:
        known = providers or {}
        return PaymentAudit(self.database, settler or self.settler(known), known, self.compensator(known))

    def charge_lists(self, settler: Settler, providers: Providers) -> ChargeLists:
        return ChargeLists(self.database, settler, UnknownCharges(self.database, providers))

    async def open_sale(self, units: int, sale: Sale = SALE) -> None:
        def work(connection: Connection) -> None:
            insert_sale(connection, sale)
            put_pool_in_sale(connection, sale.sku_id, sale.sale_id, 0)

        await self.gate.apply(sale.sku_id, [Provision(units, Rules(per_owner_limit=sale.per_buyer_limit))])
        await self.database.write(work)

    async def buy(self, buyer_id: str, quantity: int = 1, sku_id: str = SKU) -> str:
        """As an instant purchase does; gives the reservation."""
        id_ = new_reservation_id(sku_id, buyer_id)
        await self.buy_all([Reserve(id_, buyer_id, quantity, quantity, settle=True)], sku_id)
        return id_

    async def buy_all(self, reserves: list[Reserve], sku_id: str = SKU) -> None:
        verdicts = await self.apply(sku_id, *reserves)
        assert all(v.reservation is not None for v in verdicts), verdicts
        await self.drain(sku_id)

    async def apply(self, sku_id: str, *commands: Command) -> list[Verdict]:
        return await self.gate.apply(sku_id, commands)

    async def drain(self, sku_id: str = SKU) -> None:
        at = await self.database.read(lambda c: position(c, sku_id))
        if self.drainer is not None and at is not None:
            await self.drainer.drain_all(sku_id, at)

    async def settle_all(self, settler: Settler) -> None:
        """Until nothing is due, whatever has to be waited for."""
        async with asyncio.timeout(60):
            while True:
                await settler.settle_all()
                await self.drain()
                if not await self.open_work():
                    return
                await self.make_due()

    async def make_due(self) -> None:
        """As if the pause before the next attempt were over. What another settler is writing is left to it: two
        statements over all rows could lock them in different orders."""

        def write(connection: Connection) -> None:
            for table in (settlements, refunds):
                (key,) = table.primary_key
                free = select(key).with_for_update(skip_locked=True)
                connection.execute(update(table).where(key.in_(free)).values(due_at=0))

        await self.database.write(write)

    async def open_work(self) -> list[Any]:
        return [row for row in await self.rows(settlements) if row.state in ("waiting", "notifying")]

    async def rows(self, table: Table) -> list[Any]:
        """Of orders, those that were paid."""
        return [row for row in await self.all_rows(table) if table is not orders or row.confirmed_at is not None]

    async def all_rows(self, table: Table) -> list[Any]:
        return await self.database.read(lambda c: list(c.execute(select(table).order_by(*table.primary_key))))

    async def one(self, table: Table) -> Any:
        [row] = await self.rows(table)
        return row


def other_sale(sku_id: str, **changes: Any) -> Sale:
    return replace(SALE, **{"sale_id": f"sale-{uuid4().hex[:8]}", "sku_id": sku_id} | changes)
