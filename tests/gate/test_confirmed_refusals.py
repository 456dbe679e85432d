"""An attempt with a key at an empty pool that other processes grant from, too, is refused with others by one read.

Races come in pairs: with one part of the bookkeeping left out, a winner is told that nothing is left; with it, never.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from conftest import Swept
from holdfast.bootstrap.services import open_services
from holdfast.checkout.reserve import ReserveUnits
from holdfast.domain.stock.command import Command, Move, Provision, Restock, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.shards import shard_names
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate import confirmed_refusals
from holdfast.gate.batcher import Batcher, SplitBatcher
from holdfast.gate.confirmed_refusals import ConfirmedRefusals, OwnerFeed, Seen
from holdfast.gate.port import Gate
from holdfast.gate.redis.owners import RedisOwners
from holdfast.gate.sql import SqlGate
from holdfast.gate.sql_owners import SqlOwners, look_statement
from holdfast.ledger.engine.database import Database, SharedDatabase
from holdfast.ledger.events import new_owners as queries
from holdfast.ledger.tables.stock import parked_entries
from holdfast.settings import load_settings
from holdfast.testing.conformance import cancel
from holdfast.testing.states import MINUTE, SKU, reserve
from postgres_waits import until_one_waits
from redis_setup import RedisSetup
from valkeys import ValkeyProcess

SOLD_OUT, ALL_HELD = Outcome.SOLD_OUT, Outcome.ALL_HELD
REPLAYED, RESERVED = Outcome.REPLAYED, Outcome.RESERVED
FOREVER_S = 3_600.0


class Store:
    """A gate for each process, and what their refusals are confirmed by."""

    def __init__(self, open_gate: Callable[[], Gate], feed: OwnerFeed, copy: Callable[[], Awaitable[None]]) -> None:
        self.open_gate, self.feed, self.copy_journal = open_gate, feed, copy
        self.elsewhere = open_gate()

    async def apply_elsewhere(self, *commands: Command) -> list[Outcome]:
        return [verdict.outcome for verdict in await self.elsewhere.apply(SKU, commands)]


async def _nothing() -> None:
    pass


@pytest.fixture
async def postgres(_swept_postgres_url: str, swept: Swept) -> SharedDatabase:
    return await opened(await swept(_swept_postgres_url))


@pytest.fixture
def postgres_url_of_store(_swept_postgres_url: str) -> str:
    return _swept_postgres_url


@pytest.fixture
async def redis(redis_setup: RedisSetup) -> Store:
    await redis_setup.client.load_library()
    feed = RedisOwners(redis_setup.client, redis_setup.clock)
    return Store(redis_setup.open_gate, feed, lambda: redis_setup.drain(SKU))


@pytest.fixture(params=["postgresql", "redis"])
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = (
        request.getfixturevalue("redis")
        if request.param == "redis"
        else postgres_store(request.getfixturevalue("postgres"))
    )
    return found


async def opened(database: Database) -> SharedDatabase:
    assert isinstance(database, SharedDatabase)
    await database.read(database.now_ms)
    return database


def postgres_store(database: SharedDatabase) -> Store:
    return Store(lambda: SqlGate(database), SqlOwners(database), _nothing)


class WatchedGate:
    """Counts batches, and loses an answer now and then."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.batches = 0
        self.loses_next = False

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        self.batches += 1
        verdicts = await self._gate.apply(sku_id, commands)
        if self.loses_next:
            self.loses_next = False
            raise OutcomeUnknown("the answer was lost")
        return verdicts


class WatchedFeed:
    """Counts looks, keeps one back after it was made, and may leave something out."""

    def __init__(self, feed: OwnerFeed, change: Callable[[Seen], Seen] = lambda seen: seen) -> None:
        self._feed, self._change = feed, change
        self.looks = 0
        self.looked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()

    async def load(self, sku_id: str, add: Any) -> Any:
        return await self._feed.load(sku_id, add)

    async def look(self, sku_id: str, mark: Any, attempt: Any) -> Seen | None:
        self.looks += 1
        seen = await self._feed.look(sku_id, mark, attempt)
        self.looked.set()
        await self.may_answer.wait()
        return None if seen is None else self._change(seen)


class Shop:
    """What one process has."""

    def __init__(
        self, store: Store, kind: type[ConfirmedRefusals] = ConfirmedRefusals, feed: WatchedFeed | None = None
    ) -> None:
        self.gate, self.feed = WatchedGate(store.open_gate()), feed or WatchedFeed(store.feed)
        self.terms: list[int | None] = [1]
        self.confirmed = kind(self.feed, lambda: self.terms[-1], FOREVER_S)
        self.batcher = Batcher(self.gate, cache_s=FOREVER_S, confirmed=self.confirmed)
        self._reserve = ReserveUnits(self.batcher)

    async def told(self, owner_id: str, key: str = "key", quantity: int = 1) -> Outcome:
        answer = self._reserve.start(SKU, owner_id, quantity, min_quantity=None, ttl_ms=MINUTE, key=key)
        assert answer is not None
        return (answer if isinstance(answer, Verdict) else await answer).outcome

    async def is_found_empty(self) -> None:
        """Somebody was refused by the gate, and the filter is complete."""
        verdict = await self.batcher.submit(SKU, reserve("refused", "first refused", key="key"))
        assert verdict.outcome in (ALL_HELD, SOLD_OUT)
        await self.batcher.drain()
        self.gate.batches = self.feed.looks = 0


async def empty_shop(
    store: Store, kind: type[ConfirmedRefusals] = ConfirmedRefusals, feed: WatchedFeed | None = None
) -> Shop:
    shop = Shop(store, kind, feed)
    await store.apply_elsewhere(Provision(1), reserve("of winner", "winner", key="key"))
    await shop.is_found_empty()
    return shop


async def test_a_crowd_of_strangers_is_refused_by_one_read(store: Store) -> None:
    shop = await empty_shop(store)
    told = await asyncio.gather(*[shop.told(f"stranger {n}", f"key {n}") for n in range(100)])
    assert set(told) == {ALL_HELD}
    assert (shop.gate.batches, shop.feed.looks) == (0, 1)


async def test_the_answer_is_that_of_this_moment(store: Store) -> None:
    shop = await empty_shop(store)
    assert await shop.told("stranger") is ALL_HELD
    assert await store.apply_elsewhere(Move(Transition.CONFIRM, "of winner")) == [Outcome.MOVED]
    assert await shop.told("stranger") is SOLD_OUT
    await store.apply_elsewhere(Restock(1))
    assert await shop.told("stranger") is RESERVED
    assert shop.gate.batches == 1


async def test_a_winner_gets_the_first_answer_and_everything_else_the_gate_says(store: Store) -> None:
    shop = await empty_shop(store)
    assert await shop.told("winner") is REPLAYED
    assert await shop.told("winner", quantity=2) is Outcome.KEY_REUSED
    assert await shop.told("winner", "another key") is ALL_HELD
    assert shop.gate.batches == 3


async def test_who_has_as_many_as_the_limit_allows_is_told_so(store: Store) -> None:
    shop = Shop(store)
    won = reserve("of winner", "winner", key="key")
    await store.apply_elsewhere(Provision(1, Rules(per_owner_limit=1)), won)
    await shop.is_found_empty()
    assert await shop.told("winner", "another key") is Outcome.BUYER_LIMIT
    await shop.is_found_empty()
    # More than anybody may have.
    assert await shop.told("stranger", quantity=2) is Outcome.BUYER_LIMIT


async def test_rules_that_change_elsewhere_hold_at_once(store: Store) -> None:
    shop = await empty_shop(store)
    await store.apply_elsewhere(Provision(None, Rules(paused=True)))
    assert await shop.told("stranger") is Outcome.PAUSED


async def test_a_hold_that_ends_is_granted_again(store: Store) -> None:
    shop = await empty_shop(store)
    await store.apply_elsewhere(cancel("of winner"), reserve("brief", "other", ttl_ms=1))
    await asyncio.sleep(0.01)
    if store.copy_journal is not _nothing:
        await store.apply_elsewhere(Restock(1))  # The clock of that test stands still.
    assert await shop.told("stranger") is RESERVED


# --- races, each with what happens without the guard


def forget_others(seen: Seen) -> Seen:
    return replace(seen, owner_ids=[])


@pytest.mark.parametrize(("change", "expected"), [(forget_others, ALL_HELD), (lambda seen: seen, REPLAYED)])
async def test_who_won_elsewhere_after_the_filter_was_made(
    store: Store, change: Callable[[Seen], Seen], expected: Outcome
) -> None:
    shop = await empty_shop(store, feed=WatchedFeed(store.feed, change))
    for n in range(3):
        assert RESERVED in await store.apply_elsewhere(Restock(1), reserve(f"of late {n}", f"late {n}", key="key"))
        await shop.told(f"stranger {n}")
    assert {await shop.told(f"late {n}") for n in range(3)} == {expected}


class SkipsLedger(WatchedFeed):
    async def load(self, sku_id: str, _add: Any) -> Any:
        return await super().load(sku_id, lambda _owner_ids: None)


@pytest.mark.parametrize(("kind", "expected"), [(SkipsLedger, ALL_HELD), (WatchedFeed, REPLAYED)])
async def test_who_won_before_the_filter_was_made(store: Store, kind: type[WatchedFeed], expected: Outcome) -> None:
    shop = Shop(store, feed=kind(store.feed))
    await store.apply_elsewhere(Provision(1), reserve("of winner", "winner", key="key"))
    await store.copy_journal()
    await shop.is_found_empty()
    assert await shop.told("winner") is expected


class AnswersLateComers(ConfirmedRefusals):
    async def _look(self, sku_id: str, followed: Any) -> Verdict | None:
        first = list(followed.waiting)
        verdict = await super()._look(sku_id, followed)
        late, followed.waiting = followed.waiting, first
        for owner_id, answer in late:
            answer.set_result(None if followed.owners.may_have(owner_id) else verdict)
        return verdict


@pytest.mark.parametrize(("kind", "expected"), [(AnswersLateComers, ALL_HELD), (ConfirmedRefusals, REPLAYED)])
async def test_who_won_and_asked_again_while_a_read_was_under_way(
    store: Store, kind: type[ConfirmedRefusals], expected: Outcome
) -> None:
    shop = await empty_shop(store, kind)
    shop.feed.may_answer.clear()
    stranger = asyncio.ensure_future(shop.told("stranger"))
    await asyncio.wait_for(shop.feed.looked.wait(), 60)
    assert RESERVED in await store.apply_elsewhere(Restock(1), reserve("of late", "late", key="key"))
    late = asyncio.ensure_future(shop.told("late"))
    await asyncio.sleep(0)
    shop.feed.may_answer.set()
    assert (await stranger, await late) == (ALL_HELD, expected)


async def grant_by_hand(connection: asyncpg.Connection) -> None:
    """What the gate does, step by step, so that a test can stop in between."""
    now = 1_700_000_000_000
    await connection.execute("SELECT 1 FROM pools WHERE sku_id = $1 FOR UPDATE", SKU)
    await connection.execute(
        "INSERT INTO reservations VALUES ('of late', $1, 'late', 1, 'active', $2::bigint, $2::bigint + 1e15, false)",
        SKU, now,
    )  # fmt: skip
    await connection.execute(
        "INSERT INTO events (sku_id, reservation_id, type, at) VALUES ($1, 'of late', 'reservation.created', $2)",
        SKU,
        now,
    )
    fingerprint = reserve("of late", "late", key="key").fingerprint
    await connection.execute(
        "INSERT INTO idempotency VALUES ($1, 'late', 'key', $3, 'of late', 1, $2::bigint, $2::bigint + 1e15)",
        SKU, now, fingerprint,
    )  # fmt: skip
    await connection.execute(
        "UPDATE pools SET total = total + 1, held = held + 1, active_reservations = active_reservations + 1"
        " WHERE sku_id = $1", SKU
    )  # fmt: skip


def mark_without_lock(connection: Any, _sku_id: str) -> queries.OwnersMark:
    return queries.OwnersMark(connection.execute(queries._last_event).scalar_one())


@pytest.mark.parametrize(("guarded", "expected"), [(False, ALL_HELD), (True, REPLAYED)])
async def test_who_is_being_granted_something_while_the_filter_is_made(
    postgres: SharedDatabase,
    postgres_url_of_store: str,
    guarded: bool,
    expected: Outcome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not guarded:
        monkeypatch.setattr("holdfast.gate.sql_owners.first_mark", mark_without_lock)
    store = postgres_store(postgres)
    shop = Shop(store)
    await store.apply_elsewhere(Provision(1), reserve("of winner", "winner", key="key"))
    # The refusal is cached; only the filter is made later.
    await shop.is_found_empty()
    shop.confirmed._pools.clear()
    other = await asyncpg.connect(postgres_url_of_store.replace("+asyncpg", ""))
    try:
        transaction = other.transaction()
        await transaction.start()
        await grant_by_hand(other)
        # Later numbers are committed earlier, in another pool.
        await SqlGate(postgres).apply("another", [Provision(1)])
        shop.confirmed.prepare(SKU)
        if guarded:
            await until_one_waits(other)
        else:
            await shop.confirmed.drain()
        await transaction.commit()
        await shop.confirmed.drain()
    finally:
        await other.close()
    assert await shop.told("late") is expected


class ForgetsCopied(RedisOwners):
    async def _read_ledger(self, sku_id: str, mark: Any) -> Any:
        found = await super()._read_ledger(sku_id, mark)
        return None if found is None else replace(found, owner_ids=[])


@pytest.mark.parametrize(("kind", "expected"), [(ForgetsCopied, ALL_HELD), (RedisOwners, REPLAYED)])
async def test_who_won_in_an_entry_that_the_ledger_has_copied(
    redis: Store, redis_setup: RedisSetup, kind: type[RedisOwners], expected: Outcome
) -> None:
    shop = await empty_shop(redis, feed=WatchedFeed(kind(redis_setup.client, redis_setup.clock)))
    await redis.apply_elsewhere(Restock(1), reserve("of late", "late", key="key"))
    await redis.copy_journal()
    assert await shop.told("stranger") is ALL_HELD
    assert await shop.told("late") is expected


class Crowd:
    """Buyers who ask one of two processes at random, again and again, while units come back and answers are lost."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store, self._chance = store, random.Random(seed)
        self.shops = [Shop(store), Shop(store)]
        self.winners: set[str] = set()
        self.wronged: list[str] = []

    async def buyer(self, owner_id: str) -> None:
        for _ in range(10):
            has_won, shop = owner_id in self.winners, self._chance.choice(self.shops)
            with suppress(OutcomeUnknown):
                await self._note(owner_id, await shop.told(owner_id), has_won=has_won)
            if self._chance.random() < 0.1:
                shop.gate.loses_next = True
                await self._store.copy_journal()
            await asyncio.sleep(0.004 * self._chance.random())

    async def _note(self, owner_id: str, told: Outcome, *, has_won: bool) -> None:
        if told in (RESERVED, REPLAYED):
            self.winners.add(owner_id)
            if self._chance.random() < 0.3:
                await self._give_back(owner_id)
        elif has_won:
            self.wronged.append(owner_id)

    async def _give_back(self, owner_id: str) -> None:
        gate = self._store.elsewhere
        [again] = await gate.apply(SKU, [reserve("unused", owner_id, key="key")])
        if again.reservation is not None:
            await gate.apply(SKU, [cancel(again.reservation.reservation_id)])


async def test_no_winner_is_refused_in_a_crowd_at_two_processes(store: Store, seed: int) -> None:
    crowd = Crowd(store, seed)
    await store.apply_elsewhere(Provision(3))
    await asyncio.gather(*[crowd.buyer(f"buyer {n}") for n in range(30)])
    for shop in crowd.shops:
        await shop.batcher.drain()
    assert crowd.winners
    assert sum(shop.feed.looks for shop in crowd.shops) > 0
    assert not crowd.wronged


# --- when a read must not answer


async def test_a_ledger_that_is_doubted_confirms_nothing(store: Store) -> None:
    shop = await empty_shop(store)
    shop.terms.append(None)
    assert await shop.told("stranger") is ALL_HELD
    shop.terms.append(2)
    assert await shop.told("stranger") is ALL_HELD
    assert (shop.gate.batches, shop.feed.looks) == (2, 0)


async def test_a_store_that_does_not_answer_is_left_to_the_gate(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = await empty_shop(store)

    async def fails(*_: object) -> None:
        raise Unavailable("no")

    monkeypatch.setattr(store.feed, "look", fails)
    assert await shop.told("stranger") is ALL_HELD
    assert shop.gate.batches == 1


async def test_a_caller_who_leaves_does_not_take_the_others_along(store: Store) -> None:
    shop = await empty_shop(store)
    shop.feed.may_answer.clear()
    leaves, stays = (asyncio.ensure_future(shop.told(f"stranger {n}")) for n in range(2))
    await asyncio.wait_for(shop.feed.looked.wait(), 60)
    leaves.cancel()
    shop.feed.may_answer.set()
    assert await stays is ALL_HELD
    assert leaves.cancelled() or leaves.cancelling()


async def test_a_store_that_does_not_answer_in_time_leaves_everybody_to_the_gate(
    postgres: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmed_refusals, "LOOK_TIMEOUT_S", 0.05)
    shop = await empty_shop(postgres_store(postgres))
    shop.feed.may_answer.clear()
    assert await asyncio.wait_for(shop.told("stranger"), 60) is ALL_HELD
    assert await asyncio.wait_for(shop.told("stranger"), 60) is ALL_HELD
    assert (shop.gate.batches, shop.feed.looks) == (2, 1)


async def test_beyond_a_number_that_waits_the_gate_decides(
    postgres: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmed_refusals, "WAITING_MAX", 2)
    shop = await empty_shop(postgres_store(postgres))
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
    postgres: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmed_refusals, "RETRY_S", 0.0)
    store = postgres_store(postgres)
    shop = await empty_shop(store, feed=FailsFirst(store.feed))
    await shop.is_found_empty()
    assert await shop.told("stranger") is ALL_HELD
    assert (shop.gate.batches, shop.feed.looks) == (0, 1)


async def test_no_filter_is_loaded_for_a_shard(postgres: SharedDatabase) -> None:
    store = postgres_store(postgres)
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
    redis: Store, redis_setup: RedisSetup
) -> None:
    shop, feed = await empty_shop(redis), redis.feed
    assert await feed.load(SKU, lambda _owner_ids: None) is not None
    at = await redis_setup.position(SKU)
    assert at is not None
    row = {"entry_id": "e", "sku_id": SKU, "epoch": at.epoch, "seq": 1, "reason": "r", "created_at": 0}
    parked = parked_entries.insert().values(row | {"history": "[]", "entry": "{}"})
    await redis_setup.database.write(lambda c: c.execute(parked).rowcount)
    assert await feed.load(SKU, lambda _owner_ids: None) is None
    assert await shop.told("stranger") is ALL_HELD


async def test_a_filter_is_made_anew_after_too_many_events_of_other_pools(
    postgres: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await empty_shop(postgres_store(postgres))
    assert await shop.told("stranger") is ALL_HELD
    monkeypatch.setattr(queries, "EVENTS_MAX", 3)
    monkeypatch.setattr(confirmed_refusals, "RETRY_S", 0.0)
    for n in range(5):
        await SqlGate(postgres).apply(f"other {n}", [Provision(1)])
    await SqlGate(postgres).apply(SKU, [Restock(1), reserve("of late", "late", key="key")])
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
