"""An attempt with a key at an empty pool that other processes grant from, too, is refused with others by one read."""

import asyncio
from typing import Any

import asyncpg
import pytest
from refusing_shops import (
    ALL_HELD,
    FOREVER_S,
    REPLAYED,
    RESERVED,
    SOLD_OUT,
    Shop,
    Store,
    WatchedFeed,
    copy_nothing,
    empty_shop,
    opened,
    postgres_store,
)

from holdfast.bootstrap.services import open_services
from holdfast.domain.stock.command import Move, Provision, Restock, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.shards import shard_names
from holdfast.errors import Unavailable
from holdfast.gate import confirmed_refusals
from holdfast.gate.batcher import SplitBatcher
from holdfast.gate.sql import SqlGate
from holdfast.gate.sql_owners import look_statement
from holdfast.ledger.engine.database import Database, SharedDatabase
from holdfast.ledger.events import new_owners as queries
from holdfast.ledger.tables.stock import parked_entries
from holdfast.settings import load_settings
from holdfast.testing.conformance import cancel
from holdfast.testing.states import MINUTE, SKU, reserve
from redis_setup import RedisSetup
from valkeys import ValkeyProcess

pytest_plugins = ("refusing_fixtures",)


async def test_a_crowd_of_strangers_is_refused_by_one_read(remote_store: Store) -> None:
    shop = await empty_shop(remote_store)
    told = await asyncio.gather(*[shop.told(f"stranger {n}", f"key {n}") for n in range(100)])
    assert set(told) == {ALL_HELD}
    assert (shop.gate.batches, shop.feed.looks) == (0, 1)


async def test_the_answer_is_that_of_this_moment(remote_store: Store) -> None:
    shop = await empty_shop(remote_store)
    assert await shop.told("stranger") is ALL_HELD
    assert await remote_store.apply_elsewhere(Move(Transition.CONFIRM, "of winner")) == [Outcome.MOVED]
    assert await shop.told("stranger") is SOLD_OUT
    await remote_store.apply_elsewhere(Restock(1))
    assert await shop.told("stranger") is RESERVED
    assert shop.gate.batches == 1


async def test_a_winner_gets_the_first_answer_and_everything_else_the_gate_says(remote_store: Store) -> None:
    shop = await empty_shop(remote_store)
    assert await shop.told("winner") is REPLAYED
    assert await shop.told("winner", quantity=2) is Outcome.KEY_REUSED
    assert await shop.told("winner", "another key") is ALL_HELD
    assert shop.gate.batches == 3


async def test_who_has_as_many_as_the_limit_allows_is_told_so(remote_store: Store) -> None:
    shop = Shop(remote_store)
    won = reserve("of winner", "winner", key="key")
    await remote_store.apply_elsewhere(Provision(1, Rules(per_owner_limit=1)), won)
    await shop.is_found_empty()
    assert await shop.told("winner", "another key") is Outcome.BUYER_LIMIT
    await shop.is_found_empty()
    # More than anybody may have.
    assert await shop.told("stranger", quantity=2) is Outcome.BUYER_LIMIT


async def test_rules_that_change_elsewhere_hold_at_once(remote_store: Store) -> None:
    shop = await empty_shop(remote_store)
    await remote_store.apply_elsewhere(Provision(None, Rules(paused=True)))
    assert await shop.told("stranger") is Outcome.PAUSED


async def test_a_hold_that_ends_is_granted_again(remote_store: Store) -> None:
    shop = await empty_shop(remote_store)
    await remote_store.apply_elsewhere(cancel("of winner"), reserve("brief", "other", ttl_ms=1))
    await asyncio.sleep(0.01)
    if remote_store.copy_journal is not copy_nothing:
        await remote_store.apply_elsewhere(Restock(1))  # The clock of that test stands still.
    assert await shop.told("stranger") is RESERVED


# --- when a read must not answer


async def test_a_ledger_that_is_doubted_confirms_nothing(remote_store: Store) -> None:
    shop = await empty_shop(remote_store)
    shop.terms.append(None)
    assert await shop.told("stranger") is ALL_HELD
    shop.terms.append(2)
    assert await shop.told("stranger") is ALL_HELD
    assert (shop.gate.batches, shop.feed.looks) == (2, 0)


async def test_a_store_that_does_not_answer_is_left_to_the_gate(
    remote_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await empty_shop(remote_store)

    async def fails(*_: object) -> None:
        raise Unavailable("no")

    monkeypatch.setattr(remote_store.feed, "look", fails)
    assert await shop.told("stranger") is ALL_HELD
    assert shop.gate.batches == 1


async def test_a_caller_who_leaves_does_not_take_the_others_along(remote_store: Store) -> None:
    shop = await empty_shop(remote_store)
    shop.feed.may_answer.clear()
    leaves, stays = (asyncio.ensure_future(shop.told(f"stranger {n}")) for n in range(2))
    await asyncio.wait_for(shop.feed.looked.wait(), 60)
    leaves.cancel()
    shop.feed.may_answer.set()
    assert await stays is ALL_HELD
    assert leaves.cancelled() or leaves.cancelling()


async def test_a_store_that_does_not_answer_in_time_leaves_everybody_to_the_gate(
    remote_postgres: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmed_refusals, "LOOK_TIMEOUT_S", 0.05)
    shop = await empty_shop(postgres_store(remote_postgres))
    shop.feed.may_answer.clear()
    assert await asyncio.wait_for(shop.told("stranger"), 60) is ALL_HELD
    assert await asyncio.wait_for(shop.told("stranger"), 60) is ALL_HELD
    assert (shop.gate.batches, shop.feed.looks) == (2, 1)


async def test_beyond_a_number_that_waits_the_gate_decides(
    remote_postgres: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmed_refusals, "WAITING_MAX", 2)
    shop = await empty_shop(postgres_store(remote_postgres))
    assert set(await asyncio.gather(*[shop.told(f"stranger {n}") for n in range(5)])) == {ALL_HELD}
    assert (shop.gate.batches, shop.feed.looks) == (1, 1)


class FailsFirst(WatchedFeed):
    has_failed = False

    async def load(self, sku_id: str, add: Any) -> Any:
        if not self.has_failed:
            self.has_failed = True
            raise ValueError("a row that nobody expected")
        return await super().load(sku_id, add)


async def test_a_filter_whose_loading_failed_in_any_way_is_loaded_again(
    remote_postgres: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmed_refusals, "RETRY_S", 0.0)
    store = postgres_store(remote_postgres)
    shop = await empty_shop(store, feed=FailsFirst(store.feed))
    await shop.is_found_empty()
    assert await shop.told("stranger") is ALL_HELD
    assert (shop.gate.batches, shop.feed.looks) == (0, 1)


async def test_no_filter_is_loaded_for_a_shard(remote_postgres: SharedDatabase) -> None:
    store = postgres_store(remote_postgres)
    loads: list[str] = []

    class Noted(WatchedFeed):
        async def load(self, sku_id: str, add: Any) -> Any:
            loads.append(sku_id)
            return await super().load(sku_id, add)

    shop = Shop(store, feed=Noted(store.feed))
    shard = shard_names(SKU, 2)[0]
    await store.elsewhere.apply(shard, [Provision(1), reserve("of winner", "winner", key="key")])
    batcher = SplitBatcher(lambda _sku_id, _command: shard, shop.gate, cache_s=FOREVER_S, confirmed=shop.confirmed)
    verdict = await batcher.submit(SKU, reserve("refused", "stranger", key="key"))
    assert verdict.outcome is ALL_HELD
    await batcher.drain()
    assert loads == []


async def test_a_pool_with_entries_that_the_ledger_refused_is_left_to_the_gate(
    remote_redis: Store, redis_setup: RedisSetup
) -> None:
    shop, feed = await empty_shop(remote_redis), remote_redis.feed
    assert await feed.load(SKU, lambda _owner_ids: None) is not None
    at = await redis_setup.position(SKU)
    assert at is not None
    row = {"entry_id": "e", "sku_id": SKU, "epoch": at.epoch, "seq": 1, "reason": "r", "created_at": 0}
    parked = parked_entries.insert().values(row | {"history": "[]", "entry": "{}"})
    await redis_setup.database.write(lambda c: c.execute(parked).rowcount)
    assert await feed.load(SKU, lambda _owner_ids: None) is None
    assert await shop.told("stranger") is ALL_HELD


async def test_a_filter_is_made_anew_after_too_many_events_of_other_pools(
    remote_postgres: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await empty_shop(postgres_store(remote_postgres))
    assert await shop.told("stranger") is ALL_HELD
    monkeypatch.setattr(queries, "EVENTS_MAX", 3)
    monkeypatch.setattr(confirmed_refusals, "RETRY_S", 0.0)
    for n in range(5):
        await SqlGate(remote_postgres).apply(f"other {n}", [Provision(1)])
    await SqlGate(remote_postgres).apply(SKU, [Restock(1), reserve("of late", "late", key="key")])
    assert await shop.told("late") is REPLAYED
    await shop.is_found_empty()
    assert await shop.told("late") is REPLAYED
    assert await shop.told("stranger") is ALL_HELD
    assert shop.gate.batches == 1


@pytest.mark.parametrize("analysed", [False, True])
async def test_a_look_reads_few_rows_of_large_tables(
    migrated_postgres: Database, postgres_database_url: str, analysed: bool
) -> None:
    """Fresh, large and analysed: the plan is always by the primary key."""
    database = await opened(migrated_postgres)
    shop = await empty_shop(postgres_store(database))

    await database.write(_many_events)
    if analysed:
        other = await asyncpg.connect(postgres_database_url)
        await other.execute("ANALYZE")
        await other.close()
    for mode in ("force_custom_plan", "force_generic_plan"):
        shown = await database.read(lambda c: _plan(c, mode))  # noqa: B023
        assert "Seq Scan on events" not in shown, shown
        assert "Seq Scan on reservations" not in shown, shown
    assert await shop.told("stranger") in (ALL_HELD, SOLD_OUT)


def _plan(connection: Any, mode: str) -> str:
    compiled = look_statement().statement.compile(dialect=connection.dialect)
    given = {"sku_id": f"'{SKU}'", "mark": "50000", "version": "''"}
    arguments = ", ".join(given.get(name, "'1'") for name in compiled.positiontup or ())
    connection.exec_driver_sql(f"SET LOCAL plan_cache_mode = {mode}")
    connection.exec_driver_sql(f"PREPARE look_{mode} AS {compiled}")
    return "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN EXECUTE look_{mode}({arguments})"))


def _many_events(connection: Any) -> None:
    connection.exec_driver_sql(
        "INSERT INTO events (sku_id, reservation_id, type, at)"
        " SELECT 'other', 'r' || n, 'reservation.created', n FROM generate_series(1, 60000) n"
    )
    connection.exec_driver_sql(
        "INSERT INTO reservations SELECT 'r' || n, 'other', 'o' || n, 1, 'confirmed', n, n, false"
        " FROM generate_series(1, 60000) n"
    )


# --- two servers


@pytest.mark.parametrize("has_redis", [False, True])
async def test_two_servers_on_one_store_refuse_strangers_and_know_each_others_winners(
    has_redis: bool, postgres_database_url: str, steady_valkey: ValkeyProcess, tmp_path: Any
) -> None:
    steady_valkey.command("FLUSHALL")
    stores = {"database_url": postgres_database_url} | ({"redis_url": steady_valkey.url} if has_redis else {})
    settings = load_settings(data=tmp_path, sold_out_cache_ms=1_000, **stores)
    async with (
        open_services(settings, background=False) as one,
        open_services(settings, background=False) as two,
    ):

        async def told(server: Any, owner_id: str) -> Outcome:
            answer = server.reserve_units.start(SKU, owner_id, 1, min_quantity=None, ttl_ms=MINUTE, key="key")
            return (answer if isinstance(answer, Verdict) else await answer).outcome

        await one.batcher.submit(SKU, Provision(2))
        assert [await told(one, "ada"), await told(two, "bob")] == [RESERVED, RESERVED]
        for server in (one, two):
            assert await told(server, "first refused") is ALL_HELD
            await server.batcher.drain()
        looked = [await told(server, f"stranger {n}") for n in range(20) for server in (one, two)]
        assert set(looked) == {ALL_HELD}
        assert [await told(one, "bob"), await told(two, "ada")] == [REPLAYED, REPLAYED]
        await one.batcher.submit(SKU, Restock(1))
        assert await told(one, "eve") is RESERVED
        assert [await told(two, "eve"), await told(two, "stranger")] == [REPLAYED, ALL_HELD]
