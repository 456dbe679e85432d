"""Events become deliveries: each once, none skipped."""

import asyncio
import random

import asyncpg
import pytest
from outbox_world import LIFE, SKU, OutboxWorld
from sqlalchemy import Connection, delete, func, insert, select, update

from holdfast.domain.stock.command import Provision
from holdfast.ledger.chain.horizon import NOTES_MAX, Horizon, Seen
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.events import outbox
from holdfast.ledger.events.webhooks import change_webhook, latest_seq
from holdfast.ledger.mark.mark import begin_incarnation
from holdfast.ledger.migrate import migrate
from holdfast.ledger.tables.stock import events
from holdfast.ledger.tables.webhooks import deliveries, webhooks
from holdfast.webhooks.relay import Relay

NOWHERE = "http://127.0.0.1:9/hooks"


@pytest.fixture
async def world(database: Database) -> OutboxWorld:
    world = OutboxWorld(database)
    await world.stock()
    return world


async def test_a_webhook_hears_of_what_happens_from_now_on_and_of_each_event_once(world: OutboxWorld) -> None:
    await world.live()
    webhook = await world.add(NOWHERE, "reservation.*")
    assert await world.log(webhook) == []
    [id_] = await world.live()
    for _ in range(2):
        await world.relay_all()
    log = await world.log(webhook)
    assert [(d.type, d.subject) for d in log] == [(kind, id_) for kind in LIFE]
    assert len({d.delivery_id for d in log}) == 3


async def test_a_webhook_hears_only_of_what_it_wants(world: OutboxWorld) -> None:
    hooks = [await world.add(NOWHERE, *p) for p in (["reservation.confirmed"], ["order.*"], ["pool.*", "order.*"])]
    await world.live(1_000)
    await world.relay_all()
    heard = [{d.type for d in await world.log(hook)} for hook in hooks]
    assert heard == [{"reservation.confirmed"}, set(), {"pool.sold_out"}]


async def test_without_webhooks_nothing_is_looked_at(world: OutboxWorld) -> None:
    await world.live()
    assert await world.relay.pass_once() is False
    webhook = await world.add(NOWHERE)
    assert await world.relay.pass_once() is True
    assert await world.log(webhook) == []


async def test_a_disabled_webhook_goes_on_where_it_stopped(world: OutboxWorld) -> None:
    webhook, other = await world.add(NOWHERE), await world.add(NOWHERE)
    await world.database.write(lambda c: change_webhook(c, webhook.webhook_id, {"disabled_at": 1}))
    await world.live()
    await world.relay_all()
    assert (len(await world.log(webhook)), len(await world.log(other))) == (0, 3)
    await world.database.write(lambda c: change_webhook(c, webhook.webhook_id, {"disabled_at": None}))
    await world.relay_all()
    assert [d.type for d in await world.log(webhook)] == LIFE


async def test_more_events_than_fit_into_one_transaction_are_relayed_in_several(
    world: OutboxWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "EVENTS_MAX", 7)
    monkeypatch.setattr(outbox, "WINDOW", 10)
    webhook = await world.add(NOWHERE, "reservation.*")
    await world.live(20)
    await world.relay_all()
    assert len(await world.log(webhook)) == 60


async def test_two_relays_write_each_delivery_once(world: OutboxWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "EVENTS_MAX", 5)
    webhook = await world.add(NOWHERE, "reservation.*")
    await world.live(50)
    relays = [Relay(world.database) for _ in range(3)]

    async def is_relayed() -> bool:
        await asyncio.gather(*[relay.pass_once() for relay in relays])
        return len(await world.log(webhook)) >= 150

    await world.until(is_relayed)
    assert len(await world.log(webhook)) == 150


# --- the horizon


async def write_event(connection: asyncpg.Connection, marker: str) -> None:
    """As the gate does it: the pool is locked, then the event is written."""
    await connection.execute("SELECT 1 FROM pools WHERE sku_id = $1 FOR UPDATE", marker)
    await connection.execute("INSERT INTO events (sku_id, type, at) VALUES ($1, 'pool.returned', 1)", marker)


async def overtaken(url: str) -> tuple[list[str], list[str]]:
    """A slow transaction takes its number first and commits last. What naive reading, and what the relay, has heard."""
    database = open_database(url)
    await migrate(database)
    world = OutboxWorld(database)
    for sku_id in ("slow", "quick"):
        await world.gate.apply(sku_id, [Provision(1)])
    webhook = await world.add(NOWHERE, "pool.*")
    slow, quick = await asyncpg.connect(url), await asyncpg.connect(url)
    naive = 0
    heard: list[str] = []

    async def read_naively() -> None:
        nonlocal naive
        rows = await quick.fetch("SELECT seq, sku_id FROM events WHERE type = 'pool.returned' AND seq > $1", naive)
        heard.extend(row["sku_id"] for row in rows)
        naive = max([naive, *(row["seq"] for row in rows)])

    try:
        transaction = slow.transaction()
        await transaction.start()
        await write_event(slow, "slow")
        async with quick.transaction():
            await write_event(quick, "quick")
        await read_naively()
        await world.relay.pass_once()
        assert await world.log(webhook) == [], "went past a transaction that had not ended"
        await transaction.commit()
        await read_naively()
        await world.relay_all()
        return heard, [d.subject for d in await world.log(webhook)]
    finally:
        await slow.close()
        await quick.close()
        await database.close()


async def test_a_naive_reader_loses_the_event_of_a_slow_transaction_and_the_relay_does_not(
    postgres_database_url: str,
) -> None:
    naive, relayed = await overtaken(postgres_database_url)
    assert naive == ["quick"], "the bug did not happen, so this shows nothing"
    assert relayed == ["slow", "quick"]


async def test_many_slow_and_quick_transactions_lose_nothing(postgres_database_url: str, seed: int) -> None:
    chance = random.Random(seed)
    database = open_database(postgres_database_url)
    await migrate(database)
    world = OutboxWorld(database)
    webhook = await world.add(NOWHERE, "pool.*")
    busy = True

    async def write(number: int) -> None:
        pauses = [chance.random() * 0.01 for _ in range(25)]
        connection = await asyncpg.connect(postgres_database_url)
        for pause in pauses:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock_shared(1), pg_current_xact_id()")
                await connection.execute(
                    "INSERT INTO events (sku_id, type, at) VALUES ($1, 'pool.returned', 1)", f"s{number}"
                )
                await connection.execute("SELECT pg_sleep($1)", pause)
        await connection.close()

    async def relay() -> None:
        while busy:
            await world.relay.pass_once()

    relaying = asyncio.create_task(relay())
    await asyncio.gather(*[write(number) for number in range(4)])
    busy = False
    await relaying
    await world.relay_all()
    seqs = [d.seq for d in await world.log(webhook)]
    assert seqs == sorted(seqs)
    assert len(seqs) == await database.read(lambda c: c.execute(select(func.count()).select_from(events)).scalar())
    await database.close()


def test_the_horizon_waits_for_every_transaction_it_could_not_see() -> None:
    horizon = Horizon()
    assert horizon.reached(Seen(5, xmin=10, xmax=12)) == 0
    assert horizon.reached(Seen(7, xmin=11, xmax=14)) == 0
    assert horizon.reached(Seen(7, xmin=12, xmax=14)) == 5
    assert horizon.reached(Seen(9, xmin=14, xmax=14)) == 9


def test_the_horizon_of_one_writer_is_its_last_event() -> None:
    horizon = Horizon()
    assert [horizon.reached(Seen(seq)) for seq in (3, 3, 8)] == [3, 3, 8]


def test_a_transaction_that_hangs_does_not_pile_up_notes() -> None:
    horizon = Horizon()
    for seq in range(1, 10 * NOTES_MAX):
        assert horizon.reached(Seen(seq, xmin=1, xmax=seq + 1)) == 0
    assert len(horizon._notes) == NOTES_MAX
    assert horizon.reached(Seen(10 * NOTES_MAX, xmin=5_000, xmax=5_000)) == NOTES_MAX
    assert horizon.reached(Seen(10 * NOTES_MAX, xmin=5_000, xmax=5_000)) == 10 * NOTES_MAX


async def test_an_event_written_with_a_change_of_a_sale_is_told_under_its_name(world: OutboxWorld) -> None:
    webhook = await world.add(NOWHERE, "sale.*")

    def work(connection: Connection) -> None:
        connection.execute(insert(events).values(sku_id=f"{SKU}/3", type="sale.opened", at=5, subject="drop"))

    await world.database.write(work)
    await world.relay_all()
    [told] = await world.log(webhook)
    assert (told.subject, told.event["data"]) == ("drop", {"sale_id": "drop", "sku_id": SKU})


async def gone_back(database: Database, to: int) -> None:
    """The ledger as it was after that event, as after a failover that lost the rest."""

    def lose(connection: Connection) -> None:
        connection.execute(delete(events).where(events.c.seq > to))
        connection.execute(delete(deliveries).where(deliveries.c.seq > to))
        connection.execute(update(webhooks).where(webhooks.c.relayed_seq > to).values(relayed_seq=to))
        if connection.dialect.name == "postgresql":
            sequence = func.pg_get_serial_sequence("events", "seq")
            connection.execute(select(func.setval(sequence, to)))

    await database.write(lose)


async def test_a_relay_that_has_seen_more_than_the_ledger_has_now_skips_no_event(world: OutboxWorld) -> None:
    webhook = await world.add(NOWHERE, "reservation.*")
    await world.live()
    before = await world.database.read(latest_seq)
    for _ in range(5):
        await world.live()
        await world.relay_all()
    await gone_back(world.database, before)
    await world.relay_all()
    [id_] = await world.live()
    for _ in range(2):
        await world.relay_all()
    assert [d.type for d in await world.log(webhook) if d.subject == id_] == LIFE


async def test_no_id_is_used_again_after_the_ledger_went_back(world: OutboxWorld) -> None:
    await world.database.write(lambda c: begin_incarnation(c, 1, 0))
    webhook = await world.add(NOWHERE, "reservation.*")
    await world.live()
    await world.relay_all()
    kept, before = await world.log(webhook), await world.database.read(latest_seq)
    await world.live()
    await world.relay_all()
    lost = await world.log(webhook)
    await gone_back(world.database, before)
    await world.database.write(lambda c: begin_incarnation(c, 2, 0))
    await world.live()
    await world.relay_all()
    now = await world.log(webhook)
    assert [d.seq for d in now] == [d.seq for d in lost], "the numbers are the same"
    for told in ([d.delivery_id for d in now], [d.event["id"] for d in now]):
        assert len(told) == len(set(told)) == 6
    assert {d.event["id"] for d in now} & {d.event["id"] for d in lost} == {d.event["id"] for d in kept}
    assert {d.delivery_id for d in now} & {d.delivery_id for d in lost} == {d.delivery_id for d in kept}
