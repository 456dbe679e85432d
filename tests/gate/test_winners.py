"""An attempt with a key at an empty pool is refused from memory, unless it may repeat one that was granted.

Races come in pairs: with one part of the bookkeeping left out, a winner is told that nothing is left; with it, never.
The cache of refusals lasts for as long as the test here, so nothing but that bookkeeping protects a winner.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.bootstrap.services import open_services
from holdfast.checkout.reserve import ReserveUnits
from holdfast.domain.stock.command import Command, Move, Provision, Reserve, Restock, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.errors import LedgerWentBack, OutcomeUnknown, Unavailable
from holdfast.gate import owner_filter
from holdfast.gate.batcher import Batcher
from holdfast.gate.owner_filter import FILTER_BITS
from holdfast.gate.sql import SqlGate
from holdfast.gate.winners import Winners
from holdfast.ledger.engine.database import Database
from holdfast.settings import load_settings
from holdfast.testing.conformance import cancel
from holdfast.testing.states import SKU, reserve

SOLD_OUT, ALL_HELD = Outcome.SOLD_OUT, Outcome.ALL_HELD
REPLAYED, RESERVED = Outcome.REPLAYED, Outcome.RESERVED


class WatchedGate:
    """Counts batches, and loses the answer to one, or keeps it back, after it was committed."""

    def __init__(self, database: Database) -> None:
        self._gate = SqlGate(database)
        self.batches = 0
        self.loses_next = False
        self.committed = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        self.batches += 1
        verdicts = await self._gate.apply(sku_id, commands)
        self.committed.set()
        await self.may_answer.wait()
        if self.loses_next:
            self.loses_next = False
            raise OutcomeUnknown("the answer was lost")
        return verdicts


class Shop:
    def __init__(self, database: Database, winners: Winners | None = None, gate: WatchedGate | None = None) -> None:
        self.gate = gate or WatchedGate(database)
        self.winners = winners or Winners(database, lambda: 1)
        self.batcher = Batcher(self.gate, cache_s=3_600, winners=self.winners)
        self._reserve = ReserveUnits(self.batcher)

    async def told(self, owner_id: str, key: str = "key", quantity: int = 1) -> Outcome:
        answer = self.start(owner_id, key, quantity)
        return (answer if isinstance(answer, Verdict) else await answer).outcome

    def start(self, owner_id: str, key: str = "key", quantity: int = 1) -> "Verdict | asyncio.Future[Verdict]":
        answer = self._reserve.start(SKU, owner_id, quantity, min_quantity=None, ttl_ms=60_000, key=key)
        assert answer is not None
        return answer

    async def is_found_empty(self) -> None:
        """Somebody was refused, and the filter is complete."""
        assert await self.told("first refused") in (ALL_HELD, SOLD_OUT)
        await self.batcher.drain()
        self.gate.batches = 0


async def empty_shop(database: Database, winners: Winners | None = None, *won: str) -> Shop:
    shop = Shop(database, winners)
    await shop.gate.apply(SKU, [Provision(len(won) or 1)])
    for owner_id in won or ("winner",):
        await shop.gate.apply(SKU, [reserve(f"of {owner_id}", owner_id, key="key")])
    await shop.is_found_empty()
    return shop


async def test_strangers_with_keys_are_refused_without_asking_the_store(database: Database) -> None:
    shop = await empty_shop(database)
    assert {await shop.told(f"stranger {n}", f"key {n}") for n in range(50)} == {ALL_HELD}
    await shop.batcher.submit(SKU, Move(Transition.CONFIRM, "of winner"))
    await shop.is_found_empty()
    assert {await shop.told(f"stranger {n}", f"key {n}") for n in range(50)} == {SOLD_OUT}
    assert shop.gate.batches == 0


async def test_a_winner_gets_the_first_answer_and_everything_else_the_store_says(database: Database) -> None:
    shop = await empty_shop(database)
    assert await shop.told("winner") is REPLAYED
    assert await shop.told("winner", quantity=2) is Outcome.KEY_REUSED
    assert await shop.told("winner", "another key") is ALL_HELD
    assert shop.gate.batches == 3


async def test_a_repeat_does_not_end_the_memory_for_others(database: Database) -> None:
    shop = await empty_shop(database)
    assert await shop.told("winner") is REPLAYED
    assert await shop.told("stranger") is ALL_HELD
    assert shop.gate.batches == 1


async def test_who_has_as_many_as_the_limit_allows_is_told_so(database: Database) -> None:
    shop = Shop(database)
    await shop.gate.apply(SKU, [Provision(1, Rules(per_owner_limit=1)), reserve("of winner", "winner", key="key")])
    await shop.is_found_empty()
    assert await shop.told("winner", "another key") is Outcome.BUYER_LIMIT
    # More than anybody may have.
    await shop.is_found_empty()
    assert await shop.told("stranger", quantity=2) is Outcome.BUYER_LIMIT


async def test_a_tier_that_is_too_low_is_told_so(database: Database) -> None:
    shop = Shop(database)
    await shop.gate.apply(SKU, [Provision(0, Rules(required_tier=2))])
    refused = Reserve("r", "first", 1, 1, key="key", tier=2)
    assert (await shop.batcher.submit(SKU, refused)).outcome is SOLD_OUT
    await shop.batcher.drain()
    assert shop.batcher.cached_refusal_with_key(SKU, "stranger", 1, tier=1) is None
    assert shop.batcher.cached_refusal_with_key(SKU, "stranger", 1, tier=2) is not None


async def test_a_unit_that_returns_ends_the_memory(database: Database) -> None:
    shop = await empty_shop(database)
    await shop.batcher.submit(SKU, cancel("of winner"))
    assert await shop.told("stranger") is RESERVED


# --- races, each with what happens without the guard


class SkipsLedger(Winners):
    async def _load(self, sku_id: str, filling: Any) -> None:
        filling.is_complete = True


class ForgetsGrants(Winners):
    def end(self, sku_id: str, commands: Sequence[Command], verdicts: Sequence[Verdict] | None) -> None:
        super().end(sku_id, commands, None if verdicts is None else [])


class ForgetsUnknown(Winners):
    def end(self, sku_id: str, commands: Sequence[Command], verdicts: Sequence[Verdict] | None) -> None:
        super().end(sku_id, commands, verdicts or [])


class IgnoresCurrent(Winners):
    def begin(self, sku_id: str, _commands: Iterable[Command], left: Iterable[Command]) -> None:
        super().begin(sku_id, [], left)


class IgnoresQueued(Winners):
    def queue(self, sku_id: str, owner_id: str) -> None:
        pass


def kinds(broken: type[Winners]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("kind", "expected"), [(broken, ALL_HELD), (Winners, REPLAYED)])


def watching(kind: type[Winners], database: Database) -> Winners:
    return kind(database, lambda: 1)


@kinds(SkipsLedger)
async def test_who_won_before_the_filter_was_made(database: Database, kind: type[Winners], expected: Outcome) -> None:
    shop = await empty_shop(database, watching(kind, database))
    assert await shop.told("winner") is expected


@kinds(ForgetsGrants)
async def test_who_won_after_the_filter_was_made(database: Database, kind: type[Winners], expected: Outcome) -> None:
    shop = await empty_shop(database, watching(kind, database))
    await shop.batcher.submit(SKU, cancel("of winner"))
    assert await shop.told("late") is RESERVED
    await shop.is_found_empty()
    assert await shop.told("late") is expected


@kinds(ForgetsUnknown)
async def test_who_won_in_a_batch_whose_outcome_is_unknown(
    database: Database, kind: type[Winners], expected: Outcome
) -> None:
    shop = await empty_shop(database, watching(kind, database))
    await shop.gate.apply(SKU, [Restock(1)])
    shop.gate.loses_next = True
    # The refusal is still cached: nothing that this process knows has changed.
    with pytest.raises(OutcomeUnknown):
        await shop.batcher.submit(SKU, reserve("of late", "late", key="key"))
    assert await shop.told("late") is expected


@kinds(IgnoresCurrent)
async def test_who_is_being_granted_something(database: Database, kind: type[Winners], expected: Outcome) -> None:
    shop = await empty_shop(database, watching(kind, database))
    await shop.gate.apply(SKU, [Restock(1)])
    shop.gate.committed.clear()
    shop.gate.may_answer.clear()
    first = shop.batcher.submit(SKU, reserve("of late", "late", key="key"))
    await asyncio.wait_for(shop.gate.committed.wait(), 60)
    again = asyncio.ensure_future(shop.told("late"))
    await asyncio.sleep(0)
    shop.gate.may_answer.set()
    assert (await first).outcome is RESERVED
    assert await again is expected


@kinds(IgnoresQueued)
async def test_who_waits_to_be_decided(database: Database, kind: type[Winners], expected: Outcome) -> None:
    shop = await empty_shop(database, watching(kind, database))
    await shop.gate.apply(SKU, [Restock(1)])
    shop.gate.committed.clear()
    shop.gate.may_answer.clear()
    ahead = shop.batcher.submit(SKU, Move(Transition.CONFIRM, "of winner"))
    await asyncio.wait_for(shop.gate.committed.wait(), 60)
    first = shop.batcher.submit(SKU, reserve("of late", "late", key="key"))
    again = asyncio.ensure_future(shop.told("late"))
    await asyncio.sleep(0)
    shop.gate.may_answer.set()
    await ahead
    assert (await first).outcome is RESERVED
    assert await again is expected


async def test_who_wins_while_the_filter_is_filled(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(database)
    await shop.gate.apply(SKU, [Provision(1), reserve("of winner", "winner", key="key")])
    may_read, read = asyncio.Event(), database.read

    async def later(work: Any) -> Any:
        found = await read(work)
        await may_read.wait()
        return found

    monkeypatch.setattr(database, "read", later)
    assert await shop.told("first refused") is ALL_HELD
    await shop.batcher.submit(SKU, cancel("of winner"))
    assert await shop.told("late") is RESERVED
    assert await shop.told("second refused") is ALL_HELD
    may_read.set()
    await shop.is_found_empty()
    assert [await shop.told(owner_id) for owner_id in ("late", "winner")] == [REPLAYED, REPLAYED]


async def test_no_winner_is_refused_in_a_crowd_that_retries(database: Database, seed: int) -> None:
    """At random, while units come back and answers are lost."""
    chance = random.Random(seed)
    shop = Shop(database)
    await shop.gate.apply(SKU, [Provision(3)])
    holders: dict[str, str] = {}
    wronged: list[str] = []

    async def buyer(owner_id: str) -> None:
        for _ in range(12):
            has_won = owner_id in holders
            try:
                answer = shop.start(owner_id)
                verdict = answer if isinstance(answer, Verdict) else await answer
            except OutcomeUnknown:
                continue
            if verdict.reservation is not None:
                holders[owner_id] = verdict.reservation.reservation_id
                if chance.random() < 0.5:
                    with suppress(OutcomeUnknown):
                        await shop.batcher.submit(SKU, cancel(verdict.reservation.reservation_id))
            elif has_won:
                wronged.append(owner_id)
            shop.gate.loses_next = chance.random() < 0.1
            await asyncio.sleep(0.001 * chance.random())

    await asyncio.gather(*[buyer(f"buyer {n}") for n in range(40)])
    await shop.batcher.drain()
    assert holders
    assert not wronged


# --- when memory must not answer


async def test_nobody_is_refused_from_memory_once_another_process_may_grant(database: Database) -> None:
    terms: list[int | None] = [1]
    shop = await empty_shop(database, Winners(database, lambda: terms[-1]))
    elsewhere = SqlGate(database)
    for term in (None, 2):
        terms.append(term)
        await elsewhere.apply(SKU, [Restock(1), reserve(f"r{term}", f"won {term}", key="key")])
        assert await shop.told(f"won {term}") is REPLAYED
    await shop.is_found_empty()
    assert await shop.told("won 2") is REPLAYED
    assert await shop.told("stranger") is ALL_HELD
    assert shop.gate.batches == 1


async def test_a_server_on_sqlite_refuses_from_memory_and_knows_the_winners_of_the_one_before(tmp_path: Path) -> None:
    settings = load_settings(data=tmp_path)
    async with open_services(settings, background=False) as services:
        await services.batcher.submit(SKU, Provision(1))
        won = services.reserve_units.start(SKU, "winner", 1, min_quantity=None, ttl_ms=60_000, key="key")
        assert isinstance(won, asyncio.Future)
        assert (await won).outcome is RESERVED
    async with open_services(settings, background=False) as services:
        services.batcher._cache_s = 3_600.0
        refused = services.reserve_units.start(SKU, "stranger", 1, min_quantity=None, ttl_ms=60_000, key="key")
        assert isinstance(refused, asyncio.Future)
        assert (await refused).outcome is ALL_HELD
        await services.batcher.drain()
        again = services.reserve_units.start(SKU, "stranger", 1, min_quantity=None, ttl_ms=60_000, key="key")
        assert isinstance(again, Verdict)
        repeated = services.reserve_units.start(SKU, "winner", 1, min_quantity=None, ttl_ms=60_000, key="key")
        assert isinstance(repeated, asyncio.Future)
        assert (await repeated).outcome is REPLAYED
        # The ledger lacks what it had, and may get it back from elsewhere.
        services.database.guard.finding = "something"
        unknown = services.reserve_units.start(SKU, "stranger", 1, min_quantity=None, ttl_ms=60_000, key="key")
        assert isinstance(unknown, asyncio.Future)
        with pytest.raises(LedgerWentBack):
            await unknown
        services.database.guard.finding = None


async def test_a_full_filter_asks_the_store(database: Database) -> None:
    shop = await empty_shop(database)
    shop.winners._filters[SKU]._bits[:] = b"\xff" * (FILTER_BITS // 8)
    assert await shop.told("stranger") is ALL_HELD
    assert shop.gate.batches == 1


async def test_filters_are_bounded_in_number_and_made_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_filter, "POOLS_MAX", 2)
    winners = Winners(database, lambda: 1)
    for name in ("a", "b", "c"):
        winners.prepare(name, [])
    await winners.drain()
    assert [winners.may_include(name, "x") for name in ("a", "b", "c")] == [True, False, False]
    winners.prepare("a", [])
    await winners.drain()
    assert not winners.may_include("a", "x")


async def test_a_ledger_that_cannot_be_read_makes_no_filter(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_work: Any) -> Any:
        raise Unavailable("no")

    winners = Winners(database, lambda: 1)
    with monkeypatch.context() as patched:
        patched.setattr(database, "read", fails)
        winners.prepare(SKU, [])
        await winners.drain()
        assert winners.may_include(SKU, "x")
    winners.prepare(SKU, [])
    await winners.drain()
    assert not winners.may_include(SKU, "x")


async def test_only_those_who_wait_are_kept_in_memory(database: Database) -> None:
    winners = watching(Winners, database)
    winners.prepare(SKU, [])
    for n in range(1_000):
        winners.queue(SKU, f"refused-{n}")
    winners.begin(SKU, [reserve("rsv_1", "ada")], [reserve("rsv_2", "bob")])
    kept = winners._filters[SKU]
    assert (kept.deciding, kept.queued) == ({"ada"}, {"bob"})
    await winners.drain()
