"""Fifty pools, one drainer: none waits for another."""

import asyncio
from collections.abc import Sequence
from unittest.mock import AsyncMock

import pytest

from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.errors import Busy, Unavailable
from holdfast.gate.redis.claimed_sales import ClaimedSales
from holdfast.gate.redis.drainer import ENTRIES_MAX, Drainer
from holdfast.gate.redis.turns import Turns
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.journal import Entry
from holdfast.testing.states import reserve
from redis_setup import RedisSetup

BLOCKED = "blocked"
OTHERS = {f"other-{number}" for number in range(8)}
WITHIN_S = 60


class Watched(Drainer):
    """Tells of every transaction, and keeps that of one pool waiting."""

    def __init__(self, world: RedisSetup, at_once: int = 2) -> None:
        super().__init__(world.clock, world.client, at_once=at_once)
        self.is_waiting, self.goes_on = asyncio.Event(), asyncio.Event()
        self.read: list[str] = []
        self.stored: list[str] = []
        self.all_others_read, self.all_others_stored = asyncio.Event(), asyncio.Event()

    async def _read(self, sku_id: str, at: Position) -> tuple[list[Entry], list[Entry]]:
        found = await super()._read(sku_id, at)
        self.read.append(sku_id)
        if set(self.read) >= OTHERS:
            self.all_others_read.set()
        return found

    async def _store(
        self, sku_id: str, at: Position, left: Sequence[Entry], entries: Sequence[Entry]
    ) -> Position | None:
        if sku_id == BLOCKED:
            self.is_waiting.set()
            await self.goes_on.wait()
        reached = await super()._store(sku_id, at, left, entries)
        self.stored.append(sku_id)
        if set(self.stored) >= OTHERS:
            self.all_others_stored.set()
        return reached


async def sell(world: RedisSetup, sku_id: str, entries: int = 1) -> None:
    gate = world.open_gate()
    await gate.apply(sku_id, [Provision(1_000)])
    for number in range(entries):
        await gate.apply(sku_id, [reserve(f"{sku_id}-{number}")])


async def test_a_pool_whose_transaction_waits_keeps_no_other_waiting(redis_setup: RedisSetup) -> None:
    drainer = Watched(redis_setup)
    await sell(redis_setup, BLOCKED)
    # It has a turn before there is anything else to do.
    passing = [asyncio.create_task(drainer.pass_once())]
    async with asyncio.timeout(WITHIN_S):
        await drainer.is_waiting.wait()
        for sku_id in OTHERS:
            await sell(redis_setup, sku_id)
        passing.append(asyncio.create_task(drainer.pass_once()))
        await drainer.all_others_stored.wait()
        assert BLOCKED not in drainer.stored
        drainer.goes_on.set()
        assert await asyncio.gather(*passing) == [1, len(OTHERS)]
    assert await redis_setup.position(BLOCKED) == Position(1, 1)


async def test_a_pool_that_waits_for_its_turn_keeps_nothing_that_it_read(redis_setup: RedisSetup) -> None:
    """It reads again when it has its turn, and finds what came meanwhile. Else memory grew with the pools."""
    drainer, gate = Watched(redis_setup, at_once=1), redis_setup.open_gate()
    await sell(redis_setup, BLOCKED)
    async with asyncio.timeout(WITHIN_S):
        first = asyncio.create_task(drainer.pass_once())
        await drainer.is_waiting.wait()
        for sku_id in OTHERS:
            await sell(redis_setup, sku_id)
        second = asyncio.create_task(drainer.pass_once())
        await drainer.all_others_read.wait()
        for sku_id in OTHERS:
            await gate.apply(sku_id, [reserve(f"{sku_id}-later")])
        drainer.goes_on.set()
        assert [await first, await second] == [1, 2 * len(OTHERS)]
    assert sorted(drainer.stored) == sorted([BLOCKED, *OTHERS])


async def test_a_pool_with_much_to_do_takes_turns_with_the_others(redis_setup: RedisSetup) -> None:
    await sell(redis_setup, "hot", entries=2 * ENTRIES_MAX + 1)
    for sku_id in ("one", "two"):
        await sell(redis_setup, sku_id)
    drainer = Watched(redis_setup, at_once=1)
    assert await drainer.pass_once() == 2 * ENTRIES_MAX + 3
    assert drainer.stored.count("hot") == 3
    assert set(drainer.stored[-2:]) == {"hot"}


class Selling(Drainer):
    """One more is sold while what was sold before is stored."""

    def __init__(self, world: RedisSetup, sku_id: str, times: int) -> None:
        super().__init__(world.clock, world.client)
        self._gate, self._sku_id, self._left = world.open_gate(), sku_id, times

    async def _store(
        self, sku_id: str, at: Position, left: Sequence[Entry], entries: Sequence[Entry]
    ) -> Position | None:
        if self._left:
            self._left -= 1
            await self._gate.apply(self._sku_id, [reserve(f"later-{self._left}")])
        return await super()._store(sku_id, at, left, entries)


async def test_a_caller_waits_for_what_was_sold_before_and_not_for_what_is_sold_meanwhile(
    redis_setup: RedisSetup,
) -> None:
    await sell(redis_setup, "hot")
    drainer = Selling(redis_setup, "hot", times=3)
    await drainer.catch_up_pools(["hot"], within_s=WITHIN_S)
    assert await redis_setup.position("hot") == Position(1, 1)


async def test_a_buyer_whose_order_cannot_be_listed_yet_is_told_to_retry(
    redis_setup: RedisSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sell(redis_setup, "hot")
    await redis_setup.open_gate().apply("hot", [Move(Transition.CONFIRM, "hot-0")])
    drainer = Drainer(redis_setup.clock, redis_setup.client)
    sales = ClaimedSales(redis_setup.clock, drainer)
    with monkeypatch.context() as failing:
        failing.setattr(drainer, "_store", AsyncMock(side_effect=Unavailable))
        await sales.catch_up("somebody else")
        with pytest.raises(Busy):
            await sales.catch_up("ada")
    await sales.catch_up("ada")
    assert await redis_setup.position("hot") == Position(1, 2)


async def test_whoever_asks_during_a_transaction_shares_the_next(redis_setup: RedisSetup) -> None:
    drainer = Watched(redis_setup)
    await sell(redis_setup, BLOCKED)
    async with asyncio.timeout(WITHIN_S):
        first = asyncio.create_task(drainer.pass_once())
        await drainer.is_waiting.wait()
        asking = [asyncio.create_task(drainer.drain_all(BLOCKED, Position(1, 0))) for _ in range(20)]
        await redis_setup.open_gate().apply(BLOCKED, [reserve("later")])
        drainer.goes_on.set()
        await asyncio.gather(first, *asking)
    assert drainer.stored == [BLOCKED] * 2
    assert await redis_setup.position(BLOCKED) == Position(1, 2)


async def test_those_that_failed_wait_for_each_other_only() -> None:
    turns, goes_on = Turns(1), asyncio.Event()

    async def fail(sku_id: str) -> None:
        async with turns.turn(sku_id):
            raise ConnectionError

    async def use(sku_id: str, until: asyncio.Event | None = None) -> str:
        async with turns.turn(sku_id):
            if until is not None:
                await until.wait()
        return sku_id

    for sku_id in ("locked", "down"):
        with pytest.raises(ConnectionError):
            await fail(sku_id)
    async with asyncio.timeout(WITHIN_S):
        locked, down = asyncio.create_task(use("locked", goes_on)), asyncio.create_task(use("down"))
        assert [await use(sku_id) for sku_id in ("a", "b")] == ["a", "b"]
        assert not locked.done()
        assert not down.done()
        goes_on.set()
        await asyncio.gather(locked, down)
        # They succeeded, and are among the usual again.
        goes_on.clear()
        usual, locked = asyncio.create_task(use("a", goes_on)), asyncio.create_task(use("locked"))
        await asyncio.sleep(0)
        assert not locked.done()
        goes_on.set()
        await asyncio.gather(usual, locked)
