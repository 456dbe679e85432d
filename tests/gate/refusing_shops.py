"""Processes that confirm refusals at one store, PostgreSQL or Redis."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.checkout.reserve import ReserveUnits
from holdfast.domain.stock.command import Command, Provision, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import OutcomeUnknown
from holdfast.gate.batcher import Batcher
from holdfast.gate.confirmed_refusals import ConfirmedRefusals, OwnerFeed, Seen
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.gate.sql_owners import SqlOwners
from holdfast.ledger.engine.database import Database, SharedDatabase
from holdfast.testing.states import MINUTE, SKU, reserve

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


async def copy_nothing() -> None:
    pass


async def opened(database: Database) -> SharedDatabase:
    assert isinstance(database, SharedDatabase)
    await database.read(database.now_ms)
    return database


def postgres_store(database: SharedDatabase) -> Store:
    return Store(lambda: SqlGate(database), SqlOwners(database), copy_nothing)


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
