"""Races around confirmed refusals come in pairs: without part of the bookkeeping a winner is refused, with it never."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace
from refusing_shops import (
    ALL_HELD,
    REPLAYED,
    RESERVED,
    Shop,
    Store,
    WatchedFeed,
    empty_shop,
    postgres_store,
)

from holdfast.domain.stock.command import Provision, Restock, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import OutcomeUnknown
from holdfast.gate.confirmed_refusals import ConfirmedRefusals, Seen
from holdfast.gate.redis.owners import RedisOwners
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import SharedDatabase
from holdfast.ledger.events import new_owners as queries
from holdfast.testing.conformance import cancel
from holdfast.testing.states import SKU, reserve
from postgres_waits import until_one_waits
from redis_setup import RedisSetup

pytest_plugins = ("refusing_fixtures",)


def forget_others(seen: Seen) -> Seen:
    return replace(seen, owner_ids=[])


@pytest.mark.parametrize(("change", "expected"), [(forget_others, ALL_HELD), (lambda seen: seen, REPLAYED)])
async def test_who_won_elsewhere_after_the_filter_was_made(
    remote_store: Store, change: Callable[[Seen], Seen], expected: Outcome
) -> None:
    shop = await empty_shop(remote_store, feed=WatchedFeed(remote_store.feed, change))
    for n in range(3):
        assert RESERVED in await remote_store.apply_elsewhere(
            Restock(1), reserve(f"of late {n}", f"late {n}", key="key")
        )
        await shop.told(f"stranger {n}")
    assert {await shop.told(f"late {n}") for n in range(3)} == {expected}


class SkipsLedger(WatchedFeed):
    async def load(self, sku_id: str, _add: Any) -> Any:
        return await super().load(sku_id, lambda _owner_ids: None)


@pytest.mark.parametrize(("kind", "expected"), [(SkipsLedger, ALL_HELD), (WatchedFeed, REPLAYED)])
async def test_who_won_before_the_filter_was_made(
    remote_store: Store, kind: type[WatchedFeed], expected: Outcome
) -> None:
    shop = Shop(remote_store, feed=kind(remote_store.feed))
    await remote_store.apply_elsewhere(Provision(1), reserve("of winner", "winner", key="key"))
    await remote_store.copy_journal()
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
    remote_store: Store, kind: type[ConfirmedRefusals], expected: Outcome
) -> None:
    shop = await empty_shop(remote_store, kind)
    shop.feed.may_answer.clear()
    stranger = asyncio.ensure_future(shop.told("stranger"))
    await asyncio.wait_for(shop.feed.looked.wait(), 60)
    assert RESERVED in await remote_store.apply_elsewhere(Restock(1), reserve("of late", "late", key="key"))
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
    remote_postgres: SharedDatabase,
    postgres_url_of_store: str,
    guarded: bool,
    expected: Outcome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not guarded:
        monkeypatch.setattr("holdfast.gate.sql_owners.first_mark", mark_without_lock)
    store = postgres_store(remote_postgres)
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
        await SqlGate(remote_postgres).apply("another", [Provision(1)])
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
    remote_redis: Store, redis_setup: RedisSetup, kind: type[RedisOwners], expected: Outcome
) -> None:
    shop = await empty_shop(remote_redis, feed=WatchedFeed(kind(redis_setup.client, redis_setup.clock)))
    await remote_redis.apply_elsewhere(Restock(1), reserve("of late", "late", key="key"))
    await remote_redis.copy_journal()
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


async def test_no_winner_is_refused_in_a_crowd_at_two_processes(remote_store: Store, seed: int) -> None:
    crowd = Crowd(remote_store, seed)
    await remote_store.apply_elsewhere(Provision(3))
    await asyncio.gather(*[crowd.buyer(f"buyer {n}") for n in range(30)])
    for shop in crowd.shops:
        await shop.batcher.drain()
    assert crowd.winners
    assert sum(shop.feed.looks for shop in crowd.shops) > 0
    assert not crowd.wronged
