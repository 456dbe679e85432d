"""What a receiver reads: CloudEvents 1.0, as their own library reads it, and the facts."""

from typing import Any

import jsonschema_rs
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.core.formats.json import JSONFormat
from msgspec.structs import replace
from outbox_world import SKU, OutboxWorld
from sqlalchemy import Connection, insert, update

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, order_number_of
from holdfast.domain.stock.command import Extend, Move, Transition
from holdfast.domain.stock.event_type import EVENT_PATTERNS, EventType, wanted_types
from holdfast.gate.reconciler import Reconciler
from holdfast.gate.sql_audit import SqlAudit
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.cloud_event import CONTENT_TYPE
from holdfast.ledger.events.event_schemas import event_schema
from holdfast.ledger.events.webhooks import Webhook
from holdfast.ledger.sales.sales import insert_sale, put_pool_in_sale
from holdfast.ledger.tables.money import payments, refunds
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events, pools
from holdfast.runtime.times import rfc3339
from holdfast.settlement.posting import Posting
from holdfast.settlement.refund import Refunder
from holdfast.testing.states import reserve
from receiver import receiving

RESERVATION = f"rsv_{7:032}_{SKU}"
ORDER = f"ord_{7:032}"
SALE = Sale(
    sale_id="drop",
    sku_id=SKU,
    name="Drop",
    price_amount=4_999,
    currency="EUR",
    starts_at=0,
    checkout=Checkout.CART,
    payment=PaymentKind.WALLET,
)
CONTRACT = [
    "reservation.created",
    "reservation.extended",
    "reservation.cancelled",
    "reservation.expired",
    "reservation.settling",
    "reservation.reopened",
    "reservation.confirmed",
    "reservation.failed",
    "payment.declined",
    "order.pending",
    "order.confirmed",
    "order.fulfilled",
    "order.refunded",
    "order.cancelled",
    "pool.sold_out",
    "pool.returned",
    "pool.drift",
    "pool.updated",
    "sale.opened",
    "sale.closed",
]  # fmt: skip


@pytest.fixture
async def world(database: Database) -> OutboxWorld:
    world = OutboxWorld(database)
    await world.stock(2)
    return world


async def in_sale(world: OutboxWorld) -> Webhook:
    def work(connection: Connection) -> None:
        insert_sale(connection, SALE)
        put_pool_in_sale(connection, SKU, SALE.sale_id, 0)

    await world.database.write(work)
    return await world.add("http://127.0.0.1:9/")


async def told(world: OutboxWorld, webhook: Webhook) -> dict[str, dict[str, Any]]:
    """Each event by its type. Every one is as its schema says."""
    await world.relay_all()
    log = await world.log(webhook)
    for delivery in log:
        jsonschema_rs.validate(event_schema(delivery.type), delivery.event, validate_formats=True)
    return {delivery.type: delivery.event for delivery in log}


async def write_event(world: OutboxWorld, kind: str, subject: str, reservation_id: str | None = None) -> None:
    values = {"sku_id": SKU, "type": kind, "at": 5, "subject": subject, "reservation_id": reservation_id}
    await world.database.write(lambda c: c.execute(insert(events).values(values)))


def test_the_types_are_those_of_the_contract() -> None:
    assert list(EventType) == CONTRACT
    assert wanted_types(["*"]) == set(CONTRACT)
    assert wanted_types(["order.*", "pool.drift"]) == {
        "order.pending",
        "order.confirmed",
        "order.fulfilled",
        "order.refunded",
        "order.cancelled",
        "pool.drift",
    }
    assert set(CONTRACT) | {"*", "reservation.*", "payment.*", "order.*", "pool.*", "sale.*"} == EVENT_PATTERNS


async def test_a_receiver_reads_it_with_the_library_of_cloudevents(world: OutboxWorld) -> None:
    with receiving() as receiver:
        await world.add(receiver.url, "reservation.created")
        [id_] = await world.live()
        await world.relay_all()
        async with world.delivering():
            [received] = await receiver.until_accepted(1)
    assert received.headers["content-type"] == CONTENT_TYPE
    event = from_structured_event(HTTPMessage(received.headers, received.body), JSONFormat())
    assert (event.get_specversion(), event.get_source(), event.get_type()) == (
        "1.0",
        "/holdfast",
        "reservation.created",
    )
    assert event.get_subject() == id_
    assert event.get_id().startswith("evt_")
    time, data = event.get_time(), event.get_data()
    assert time is not None
    assert time.utcoffset() is not None
    assert isinstance(data, dict)
    assert data["reservation_id"] == id_


async def test_a_reservation_is_told_as_it_was_at_the_time(world: OutboxWorld) -> None:
    webhook = await in_sale(world)
    [granted] = await world.gate.apply(SKU, [reserve(RESERVATION, "ada", 2)])
    await world.gate.apply(SKU, [Extend(RESERVATION, 30 * 60_000), Move(Transition.CONFIRM, RESERVATION)])
    heard = await told(world, webhook)
    assert granted.reservation is not None
    created, extended = heard["reservation.created"]["data"], heard["reservation.extended"]["data"]
    assert created | {"expires_at": None} == {
        "reservation_id": RESERVATION,
        "sku_id": SKU,
        "sale_id": "drop",
        "owner_id": "ada",
        "quantity": 2,
        "status": "active",
        "expires_at": None,
    }
    assert created["expires_at"] < extended["expires_at"]
    assert heard["reservation.confirmed"]["data"]["status"] == "confirmed"


async def test_a_declined_payment_is_told_with_its_reason_and_the_deadline(world: OutboxWorld) -> None:
    webhook = await in_sale(world)
    bought = replace(reserve(RESERVATION, "ada", 2), settle=True)
    [granted] = await world.gate.apply(SKU, [bought])
    posting = Posting(world.database, has_redis=False, attempts_max=3)
    await world.database.write(lambda c: posting.settle_due(c, SKU, 9))
    heard = await told(world, webhook)
    assert granted.reservation is not None
    assert heard["payment.declined"]["subject"] == RESERVATION
    assert heard["payment.declined"]["data"] == {
        "reservation_id": RESERVATION,
        "sku_id": SKU,
        "sale_id": "drop",
        "buyer_id": "ada",
        "quantity": 2,
        "attempt": 1,
        "amount": 9_998,
        "currency": "EUR",
        "reason": "insufficient_funds",
        "expires_at": rfc3339(granted.reservation.expires_at),
    }
    assert heard["reservation.reopened"]["data"]["status"] == "active"


async def test_an_order_is_told_as_the_contract_has_it(world: OutboxWorld) -> None:
    webhook = await in_sale(world)
    await world.gate.apply(SKU, [reserve(RESERVATION, "ada", 2), Move(Transition.CONFIRM, RESERVATION)])
    refunded = update(orders).values(status="refunded", refunded_amount=9_998)
    await world.database.write(lambda c: c.execute(refunded))
    await write_event(world, "order.refunded", "rfd_1", RESERVATION)
    heard = await told(world, webhook)
    confirmed, refund = heard["order.confirmed"], heard["order.refunded"]
    assert confirmed["subject"] == refund["subject"] == ORDER
    order = confirmed["data"]
    assert order.pop("created_at").endswith("Z")
    assert order == {
        "order_id": ORDER,
        "reservation_id": RESERVATION,
        "sale_id": "drop",
        "buyer_id": "ada",
        "quantity": 2,
        "amount": 9_998,
        "currency": "EUR",
        "number": order_number_of(RESERVATION),
        "unit_price": 4_999,
        "status": "confirmed",
        "refunded_amount": 0,
        "tracking": None,
    }
    assert (refund["data"]["status"], refund["data"]["refunded_amount"]) == ("refunded", 9_998)
    lines = {d.subject for d in await world.log(webhook) if d.type.startswith(("order", "reservation"))}
    assert lines == {RESERVATION}, "an order is told in line with its reservation"


async def test_money_that_goes_back_without_an_order_and_a_payment_that_failed_are_told(world: OutboxWorld) -> None:
    webhook = await in_sale(world)
    await world.gate.apply(
        SKU, [reserve(RESERVATION, "ada", 2), Move(Transition.SETTLE, RESERVATION), Move(Transition.FAIL, RESERVATION)]
    )
    paid = {
        "payment_key": "pay_1", "reservation_id": RESERVATION, "sale_id": "drop", "buyer_id": "ada", "amount": 9_998,
        "provider": "wallet", "currency": "EUR", "state": "captured", "reason": "card_declined", "created_at": 1,
        "updated_at": 1,
    }  # fmt: skip
    owed = {
        "refund_id": "rfd_1", "payment_key": "pay_1", "sku_id": SKU, "amount": 9_998, "currency": "EUR",
        "cause": "paid_too_late", "due_at": 0, "created_at": 0,
    }  # fmt: skip
    await world.database.write(lambda c: (c.execute(insert(payments), [paid]), c.execute(insert(refunds), [owed])))
    assert await Refunder(world.database, {}).pass_once() == 1
    heard = await told(world, webhook)
    assert heard["reservation.failed"]["data"]["failure_reason"] == "card_declined"
    back = heard["order.refunded"]
    assert (back["subject"], back["data"]["order_id"], back["data"]["reservation_id"]) == ("rfd_1", None, RESERVATION)
    assert (back["data"]["refund"]["amount"], back["data"]["refund"]["cause"]) == (9_998, "paid_too_late")


async def test_a_shortage_is_told_with_its_sale(world: OutboxWorld) -> None:
    webhook = await in_sale(world)
    values = {"sku_id": SKU, "type": "pool.drift", "at": 5, "subject": "drop", "quantity": 3}
    await world.database.write(lambda c: c.execute(insert(events).values(values)))
    data = (await told(world, webhook))["pool.drift"]["data"]
    assert (data["sale_id"], data["shortfall_units"], data["total_units"]) == ("drop", 3, 2)


async def test_a_pool_is_told_with_its_counts_and_a_sale_with_its_terms(world: OutboxWorld) -> None:
    webhook = await in_sale(world)
    await world.gate.apply(SKU, [reserve(RESERVATION, "ada", 2), Move(Transition.CONFIRM, RESERVATION)])
    await write_event(world, "sale.closed", "drop")
    heard = await told(world, webhook)
    assert heard["pool.sold_out"]["subject"] == SKU
    assert heard["pool.sold_out"]["data"] == {
        "sku_id": SKU,
        "sale_id": "drop",
        "total_units": 2,
        "held": 0,
        "sold": 2,
        "available": 0,
    }
    assert heard["sale.closed"]["subject"] == "drop"
    assert heard["sale.closed"]["data"]["price"] == {"amount": 4_999, "currency": "EUR"}


async def test_what_is_not_in_the_contract_is_not_told(world: OutboxWorld) -> None:
    webhook = await world.add("http://127.0.0.1:9/", "*")
    await write_event(world, "pool.provisioned", "x")
    assert await told(world, webhook) == {}


async def test_drift_is_told_once_and_again_only_after_it_was_mended(world: OutboxWorld) -> None:
    webhook = await world.add("http://127.0.0.1:9/", "pool.drift")
    reconciler = Reconciler(world.database, SqlAudit(world.database))

    async def look(held: int) -> int:
        await world.database.write(lambda c: c.execute(update(pools).values(held=held)))
        await reconciler.pass_once(thorough=True)
        await world.relay_all()
        return len(await world.log(webhook))

    assert [await look(held) for held in (0, 1, 1, 0, 1)] == [0, 1, 1, 1, 2]
    assert reconciler.reports[SKU].finding == "ledger_contradiction"
