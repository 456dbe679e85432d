"""Attempts at a pool in which nothing changes are decided by a lock-free read, as the lock would decide them."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.domain.stock.command import Command, Expire, Move, Provision, Restock, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.gate import sql
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import TRANSACTION_TIMEOUT_S, Database, T, Work
from holdfast.testing.conformance import cancel
from holdfast.testing.states import MINUTE, SKU, reserve
from set_clock import SetClock

GRANTED = {Outcome.RESERVED, Outcome.REPLAYED}
WON = reserve("won", "winner", key="w")
Change = Callable[[SetClock], list[Command]]


class CountingWrites(SetClock):
    writes = 0

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, autocommit: bool = False
    ) -> T:
        self.writes += 1
        return await super().write(work, timeout_s=timeout_s, brief=brief, autocommit=autocommit)


async def told(gate: SqlGate, *commands: Command, sku_id: str = SKU) -> list[Outcome]:
    return [verdict.outcome for verdict in await gate.apply(sku_id, commands)]


def stranger(number: int) -> Command:
    return reserve(f"s{number}", f"stranger {number}", key="k")


@pytest.fixture
def clock(database: Database) -> CountingWrites:
    return CountingWrites(database)


@pytest.fixture
async def gate(clock: CountingWrites) -> SqlGate:
    """Of a pool whose one unit is held, and which has just told somebody so."""
    gate = SqlGate(clock)
    await gate.apply(SKU, [Provision(1), WON])
    await gate.apply(SKU, [stranger(0)])
    clock.writes = 0
    return gate


async def test_strangers_at_an_empty_pool_are_refused_without_its_lock(gate: SqlGate, clock: CountingWrites) -> None:
    for number in range(1, 4):
        [refused] = await gate.apply(SKU, [stranger(number)])
        assert (refused.outcome, refused.available, refused.retry_after_ms) == (Outcome.ALL_HELD, 0, MINUTE)
    await gate.apply(SKU, [Move(Transition.CONFIRM, "won")])
    assert clock.writes == 1
    await gate.apply(SKU, [stranger(4)])
    assert (await told(gate, stranger(5)), clock.writes) == ([Outcome.SOLD_OUT], 2)


async def test_who_won_gets_the_first_answer_by_a_lock_free_read(gate: SqlGate, clock: CountingWrites) -> None:
    again, other = reserve("x", "winner", key="w"), reserve("y", "winner", 2, key="w")
    first, reused, refused = await gate.apply(SKU, [again, other, stranger(1)])
    assert first.reservation is not None
    assert (first.outcome, first.reservation.reservation_id) == (Outcome.REPLAYED, "won")
    assert [reused.outcome, refused.outcome, clock.writes] == [Outcome.KEY_REUSED, Outcome.ALL_HELD, 0]


def the_hold_is_cancelled(_clock: SetClock) -> list[Command]:
    return [cancel("won")]


def the_hold_expires(clock: SetClock) -> list[Command]:
    clock.advance(MINUTE)
    return [Expire(10)]


def the_deadline_passes_and_nobody_comes_by(clock: SetClock) -> list[Command]:
    clock.advance(MINUTE)
    return []


def it_is_restocked(_clock: SetClock) -> list[Command]:
    return [Restock(1)]


def it_is_provisioned_anew(_clock: SetClock) -> list[Command]:
    return [Provision(2)]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        the_hold_is_cancelled,
        the_hold_expires,
        the_deadline_passes_and_nobody_comes_by,
        it_is_restocked,
        it_is_provisioned_anew,
    ],
)
async def test_a_unit_that_comes_back_goes_to_the_next_who_asks(
    gate: SqlGate, clock: CountingWrites, change: Change, elsewhere: bool
) -> None:
    for command in change(clock):
        await (SqlGate(clock) if elsewhere else gate).apply(SKU, [command])
    assert await told(gate, stranger(1), stranger(2)) == [Outcome.RESERVED, Outcome.ALL_HELD]
    assert await told(gate, stranger(2), stranger(1)) == [Outcome.ALL_HELD, Outcome.REPLAYED]


async def test_a_key_that_another_process_granted_meanwhile_is_known(gate: SqlGate, clock: CountingWrites) -> None:
    another = SqlGate(clock)
    assert await told(gate, stranger(1)) == [Outcome.ALL_HELD]
    assert await told(another, Restock(1), stranger(1)) == [Outcome.MOVED, Outcome.RESERVED]
    assert await told(gate, stranger(1), stranger(2)) == [Outcome.REPLAYED, Outcome.ALL_HELD]


async def test_other_reasons_come_before_an_empty_pool(gate: SqlGate, clock: CountingWrites) -> None:
    limited = Rules(per_owner_limit=1)
    await SqlGate(clock).apply(SKU, [Provision(1, limited)])
    clock.writes = 0
    assert await told(gate, reserve("z", "winner", key="z")) == [Outcome.BUYER_LIMIT]
    assert await told(gate, stranger(1)) == [Outcome.ALL_HELD]
    assert clock.writes == 0
    await SqlGate(clock).apply(SKU, [Provision(1, Rules(paused=True))])
    assert await told(gate, stranger(1)) == [Outcome.PAUSED]


async def test_an_overdue_hold_of_their_own_is_not_in_anybodys_way(gate: SqlGate, clock: CountingWrites) -> None:
    """Though that of another was due before it."""
    await gate.apply(SKU, [Provision(2, Rules(per_owner_limit=1)), reserve("s1", "bob", ttl_ms=2 * MINUTE)])
    for expected in (Outcome.BUYER_LIMIT, Outcome.BUYER_LIMIT, Outcome.RESERVED):
        assert await told(gate, reserve(f"b {clock.now}", "bob", key="b")) == [expected]
        clock.advance(MINUTE)


async def test_what_is_known_of_pools_is_bounded(clock: CountingWrites, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "UNCHANGED_MAX", 2)
    gate = SqlGate(clock)
    for number in range(5):
        await gate.apply(f"sku {number}", [Provision(0)])
        assert await told(gate, stranger(1), sku_id=f"sku {number}") == [Outcome.SOLD_OUT]
        assert len(gate._unchanged) <= 2


async def test_while_units_come_and_go_nobody_who_was_granted_is_refused(clock: CountingWrites) -> None:
    gates = [SqlGate(clock) for _ in range(4)]
    await gates[0].apply(SKU, [Provision(3)])
    winners: dict[int, str] = {}

    async def buyer(number: int) -> None:
        """Asks each process in turn; after the first yes, every answer must be that one."""
        for ask in range(12):
            [verdict] = await gates[(number + ask) % 4].apply(SKU, [reserve(f"{number}-{ask}", f"b{number}", key="k")])
            assert number not in winners or verdict.reservation is not None, (number, ask, verdict)
            if verdict.outcome in GRANTED:
                assert verdict.reservation is not None
                first = winners.setdefault(number, verdict.reservation.reservation_id)
                assert first == verdict.reservation.reservation_id

    async def returning() -> None:
        for _ in range(10):
            for number, reservation_id in list(winners.items())[-3:]:
                await gates[number % 4].apply(SKU, [cancel(reservation_id)])
            await asyncio.sleep(0)

    await asyncio.gather(*[buyer(number) for number in range(12)], returning())
    assert winners
