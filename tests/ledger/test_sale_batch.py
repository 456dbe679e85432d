"""What a batch of a pool that is in a sale writes beside its reservations."""

from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, Table, select

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.domain.stock.command import Command, Move, Provision, Transition
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sales import find_sale, insert_sale, put_pool_in_sale
from holdfast.ledger.tables.money import settlements
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events
from holdfast.testing.states import reserve

SKU = "sneaker"
RESERVATION = f"rsv_{7:032}_{SKU}"
SALE = Sale(
    sale_id="drop",
    sku_id=SKU,
    name="Drop",
    price_amount=4_999,
    currency="EUR",
    starts_at=0,
    checkout=Checkout.INSTANT,
    payment=PaymentKind.WALLET,
)
PAID_AT_ONCE = replace(reserve(RESERVATION, "ada", 2), settle=True)


async def rows(database: Database, table: Table) -> list[Any]:
    return await database.read(lambda c: list(c.execute(select(table).order_by(*table.primary_key))))


async def in_sale(database: Database) -> SqlGate:
    def work(connection: Connection) -> None:
        insert_sale(connection, SALE)
        put_pool_in_sale(connection, SKU, SALE.sale_id, 0)

    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(5)])
    await database.write(work)
    return gate


async def test_a_sale_is_read_as_it_was_written(database: Database) -> None:
    await in_sale(database)
    assert await database.read(lambda c: find_sale(c, "drop")) == SALE


async def test_whoever_settles_leaves_work_for_the_settler(database: Database) -> None:
    gate = await in_sale(database)
    other = RESERVATION.replace("7", "8")
    await gate.apply(SKU, [PAID_AT_ONCE, reserve(other)])
    assert [row.reservation_id for row in await rows(database, settlements)] == [RESERVATION]
    await gate.apply(SKU, [Move(Transition.SETTLE, other)])
    work = (await rows(database, settlements))[-1]
    assert (work.reservation_id, work.sale_id, work.buyer_id, work.quantity, work.state) == (
        other,
        "drop",
        "ada",
        1,
        "waiting",
    )


async def test_a_confirmation_makes_an_order_at_the_price_of_the_sale(database: Database) -> None:
    gate = await in_sale(database)
    confirm: list[Command] = [PAID_AT_ONCE, Move(Transition.CONFIRM, RESERVATION)]
    await gate.apply(SKU, confirm)
    [order] = await rows(database, orders)
    assert (order.order_id, order.amount, order.currency, order.payment, order.status) == (
        f"ord_{7:032}",
        9_998,
        "EUR",
        "external",
        "confirmed",
    )
    [told] = [e for e in await rows(database, events) if e.type == "order.confirmed"]
    assert (told.reservation_id, told.subject, told.quantity) == (RESERVATION, order.order_id, 2)


async def test_an_order_that_is_there_already_is_kept_and_told_of_once(database: Database) -> None:
    gate = await in_sale(database)
    [granted] = await gate.apply(SKU, [PAID_AT_ONCE])
    sold = granted.reservation
    assert sold is not None
    queries = gate.queries.sales
    await database.write(lambda c: queries.order(c, "drop", [sold], PaymentKind.WALLET, 1))
    await gate.apply(SKU, [Move(Transition.CONFIRM, RESERVATION)])
    assert [row.payment for row in await rows(database, orders)] == ["wallet"]
    assert [e.type for e in await rows(database, events)].count("order.confirmed") == 1


async def test_a_pool_outside_a_sale_leaves_neither_work_nor_orders(database: Database) -> None:
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(5), PAID_AT_ONCE, Move(Transition.CONFIRM, RESERVATION)])
    assert await rows(database, settlements) == await rows(database, orders) == []
