"""Each way in which a pool in Redis can be at odds with the ledger: made for real, found, mended."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis_tampering import KEYS, check_books, copy_of, put_back
from sqlalchemy import Connection, update

from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.gate.audit import PoolReport
from holdfast.gate.reconciler import CLAIM_CONFIRMED_WITHIN_MS
from holdfast.gate.redis import audit
from holdfast.gate.redis.gate import RedisGate
from holdfast.ledger.tables.stock import pools, reservations
from holdfast.testing.snapshot import LedgerSnapshot
from holdfast.testing.states import MINUTE, SKU, reserve
from redis_setup import RedisSetup
from valkeys import ValkeyProcess

Tamper = Callable[["Scene"], Awaitable[None]]


class Scene:
    """A pool of ten with a hold, a hold being paid for, a sold unit and one that was given back; all of it drained."""

    def __init__(self, world: RedisSetup, valkey: ValkeyProcess) -> None:
        self.world, self.valkey = world, valkey
        self.gate = world.open_gate()

    async def set(self) -> None:
        await self.gate.apply(SKU, [Provision(10, Rules(per_owner_limit=5, hold_budget=3))])
        moves = [
            Move(t, id_)
            for t, id_ in zip((Transition.SETTLE, Transition.CONFIRM, Transition.CANCEL), "bcd", strict=True)
        ]
        await self.gate.apply(SKU, [*(reserve(id_, key=f"key-{id_}") for id_ in "abcd"), *moves])
        await self.world.drain(SKU)

    async def look(self, times: int = 1) -> str | None:
        """What the reconciler finds at the last of so many looks."""
        for _ in range(times):
            report = (await self.world.reconciler.pass_once())[SKU]
        return report.finding


@pytest.fixture
async def scene(redis_setup: RedisSetup, valkey_server: ValkeyProcess) -> Scene:
    scene = Scene(redis_setup, valkey_server)
    await scene.set()
    await check_books(redis_setup)
    return scene


async def missing(scene: Scene) -> None:
    scene.valkey.command("FLUSHALL")


async def epoch(scene: Scene) -> None:
    scene.valkey.command("HINCRBY", KEYS.pool, "epoch", -1)


async def stale(scene: Scene) -> None:
    kept = copy_of(scene.valkey)
    await scene.gate.apply(SKU, [reserve("e")])
    await scene.world.drain(SKU)
    put_back(scene.valkey, kept)


async def stuck(scene: Scene) -> None:
    """The process that rebuilt it died right after closing it."""
    await scene.world.client.call_function("holdfast_close_v2", [KEYS.pool], [1])


async def drift(scene: Scene) -> None:
    scene.valkey.command("HINCRBY", KEYS.pool, "held", 1)


async def claim_unheard(scene: Scene) -> None:
    """The failover lost the sale; the ledger had let the unit go."""
    kept = copy_of(scene.valkey)
    await scene.gate.apply(SKU, [Move(Transition.CONFIRM, "a")])
    put_back(scene.valkey, kept)
    scene.world.clock.advance(CLAIM_CONFIRMED_WITHIN_MS + 1)


FOUND_AT_THE_SECOND_LOOK = [missing, epoch, stuck, drift, claim_unheard]


@pytest.mark.parametrize("tamper", FOUND_AT_THE_SECOND_LOOK, ids=lambda tamper: tamper.__name__)
async def test_what_may_be_somebody_at_work_is_believed_and_mended_at_the_second_look(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tamper: Tamper
) -> None:
    monkeypatch.setattr(audit, "STUCK_AFTER_S", 0.0)
    await tamper(scene)
    assert await scene.look() is None
    assert await scene.look() == tamper.__name__
    assert await scene.look() is None
    await check_books(scene.world)


async def test_a_closed_pool_is_left_alone_while_somebody_may_be_rebuilding_it(scene: Scene) -> None:
    await stuck(scene)
    assert await scene.look(3) is None
    assert not (await scene.world.gate_pool(SKU)).is_open


@pytest.mark.parametrize("tamper", [missing, epoch, stale], ids=lambda tamper: tamper.__name__)
async def test_what_a_caller_met_is_mended_at_the_first_look(scene: Scene, tamper: Tamper) -> None:
    await tamper(scene)
    [verdict] = await scene.gate.apply(SKU, [reserve("z")])
    assert verdict.outcome is Outcome.NOT_READY
    assert await scene.look() == tamper.__name__
    [verdict] = await scene.gate.apply(SKU, [reserve("z")])
    assert verdict.outcome is Outcome.RESERVED
    await check_books(scene.world)


async def test_a_gate_behind_the_ledger_is_beyond_doubt(scene: Scene) -> None:
    await stale(scene)
    assert await scene.look() == "stale"
    assert "e" in (await scene.world.snapshot(SKU)).reservations
    await check_books(scene.world)


async def test_a_sale_that_redis_forgot_stays_a_sale(scene: Scene) -> None:
    await claim_unheard(scene)
    await scene.look(2)
    snapshot = await scene.world.snapshot(SKU)
    assert snapshot.pool is not None
    assert snapshot.pool.sold == 2
    [verdict] = await scene.gate.apply(SKU, [Move(Transition.CONFIRM, "a")])
    assert verdict.outcome is Outcome.ALREADY


async def test_counts_that_are_wrong_and_already_in_the_journal_never_reach_the_ledger(scene: Scene) -> None:
    scene.valkey.command("HINCRBY", KEYS.pool, "total", 5)
    await scene.gate.apply(SKU, [reserve("e")])
    await scene.look()
    assert await scene.look() == "journal_gap"
    snapshot = await scene.world.snapshot(SKU)
    assert snapshot.pool is not None
    assert snapshot.pool.total == 10
    await check_books(scene.world)


async def test_a_hold_that_redis_lost_is_not_denied_but_brought_back(scene: Scene) -> None:
    """Such that the manifest does not tell."""
    scene.valkey.command("HDEL", KEYS.holds, "a")
    scene.valkey.command("ZREM", KEYS.deadlines, "a")
    for count in ("n_holds", "active"):
        scene.valkey.command("HINCRBY", KEYS.pool, count, -1)
    [verdict] = await scene.gate.apply(SKU, [Move(Transition.CONFIRM, "a")])
    assert verdict.outcome is Outcome.NOT_READY
    assert await scene.look() == "hold_lost"
    [verdict] = await scene.gate.apply(SKU, [Move(Transition.CONFIRM, "a")])
    assert verdict.outcome is Outcome.MOVED
    await check_books(scene.world)


async def test_a_claim_that_was_refused_has_the_pool_rebuilt(scene: Scene) -> None:
    scene.valkey.command("HINCRBY", KEYS.pool, "total", 5)
    await scene.gate.apply(SKU, [reserve(f"x{n}", f"owner{n}", 2) for n in range(6)])
    told = await scene.gate.apply(SKU, [Move(Transition.CONFIRM, f"x{n}") for n in range(6)])
    assert [v.outcome for v in told] == [Outcome.MOVED] * 4 + [Outcome.NOT_READY] * 2
    assert await scene.look() == "claim_refused"
    snapshot = await scene.world.snapshot(SKU)
    assert snapshot.pool is not None
    # The claims fill the pool, so the newest promise that was not sold is the one that cannot be kept.
    assert (snapshot.pool.sold, snapshot.pool.held) == (9, 1)
    await check_books(scene.world)


async def test_a_ledger_that_contradicts_itself_is_reported_and_left_alone(scene: Scene) -> None:
    def tamper(connection: Connection) -> None:
        connection.execute(update(reservations).where(reservations.c.reservation_id == "a").values(quantity=2))

    await scene.world.database.write(tamper)
    before, at = await scene.world.snapshot(SKU), await scene.world.position(SKU)
    for _ in range(2):
        report = (await scene.world.reconciler.pass_once(thorough=True))[SKU]
        assert report.finding == "ledger_contradiction"
    after = await scene.world.snapshot(SKU)
    # Told of once, though it was seen twice.
    assert after.events.pop().type == "pool.drift"
    assert after == before
    assert await scene.world.position(SKU) == at


async def test_one_pool_that_cannot_be_looked_at_keeps_no_other_from_being_mended(scene: Scene) -> None:
    await scene.gate.apply("a-first", [Provision(1)])
    scene.valkey.command("DEL", "hf:{a-first}:pool")
    scene.valkey.command("SET", "hf:{a-first}:pool", "no hash")
    await missing_pool(scene)
    for _ in range(2):
        assert "a-first" not in await scene.world.reconciler.pass_once()
    assert scene.world.reconciler.reports[SKU].finding == "missing"
    assert (await scene.world.gate_pool(SKU)).is_open
    with pytest.raises(Exception, match="WRONGTYPE"):
        await scene.world.reconciler.pass_once(thorough=True)


async def missing_pool(scene: Scene) -> None:
    scene.valkey.command("DEL", KEYS.pool)


# --- what a rebuilt pool still knows


async def rebuilt(scene: Scene) -> LedgerSnapshot:
    before = await scene.world.snapshot(SKU)
    scene.valkey.command("FLUSHALL")
    assert await scene.look(2) == "missing"
    after = await scene.world.snapshot(SKU)
    assert (after.pool, after.reservations, after.remembered) == (before.pool, before.reservations, before.remembered)
    return before


async def outcome(gate: RedisGate, command: object) -> Outcome:
    [verdict] = await gate.apply(SKU, [command])  # type: ignore[list-item]
    return verdict.outcome


async def test_a_rebuilt_pool_keeps_holds_and_what_is_being_paid_for(scene: Scene) -> None:
    await rebuilt(scene)
    assert await outcome(scene.gate, Move(Transition.CANCEL, "b")) is Outcome.ILLEGAL
    assert await outcome(scene.gate, Move(Transition.CONFIRM, "b")) is Outcome.MOVED
    assert await outcome(scene.gate, Move(Transition.CANCEL, "a")) is Outcome.MOVED
    await check_books(scene.world)


async def test_a_rebuilt_pool_keeps_deadlines(scene: Scene) -> None:
    await rebuilt(scene)
    scene.world.clock.advance(MINUTE)
    assert await outcome(scene.gate, Move(Transition.CONFIRM, "a")) is Outcome.ILLEGAL
    snapshot = await scene.world.snapshot(SKU)
    assert snapshot.pool is not None
    assert (snapshot.pool.held, snapshot.pool.active_reservations) == (1, 0)
    await check_books(scene.world)


async def test_a_rebuilt_pool_keeps_the_limit_of_each_owner(scene: Scene) -> None:
    await rebuilt(scene)
    assert await outcome(scene.gate, reserve("e", quantity=3)) is Outcome.BUYER_LIMIT
    assert await outcome(scene.gate, reserve("e", quantity=2)) is Outcome.RESERVED
    await check_books(scene.world)


async def test_a_rebuilt_pool_keeps_the_budget_of_each_owner(scene: Scene) -> None:
    for name in "ef":
        await scene.gate.apply(SKU, [reserve(name), Move(Transition.CANCEL, name)])
    await rebuilt(scene)
    assert await outcome(scene.gate, reserve("g")) is Outcome.HOLD_BUDGET
    assert await outcome(scene.gate, reserve("g", "bob")) is Outcome.RESERVED
    await check_books(scene.world)


async def test_a_rebuilt_pool_keeps_the_first_answer_under_each_key(scene: Scene) -> None:
    before = await rebuilt(scene)
    for id_ in "abcd":
        [verdict] = await scene.gate.apply(SKU, [reserve("new", key=f"key-{id_}")])
        assert verdict.outcome is Outcome.REPLAYED
        assert verdict.reservation == before.remembered["ada", f"key-{id_}"].reservation
    assert await outcome(scene.gate, reserve("new", quantity=2, key="key-a")) is Outcome.KEY_REUSED
    await check_books(scene.world)


async def test_a_pool_whose_row_was_changed_by_hand_is_brought_to_the_gate(scene: Scene) -> None:
    def more(connection: Connection) -> None:
        connection.execute(update(pools).where(pools.c.sku_id == SKU).values(held=3))

    await scene.world.database.write(more)
    await scene.look()
    assert await scene.look() == "drift"


async def test_a_pool_whose_check_takes_long_does_not_hold_up_the_others(
    redis_setup: RedisSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"sku-{number}" for number in range(5)]
    for name in names:
        await redis_setup.open_gate().apply(name, [Provision(1)])
    others, check = asyncio.Event(), redis_setup.audit.check

    async def slow(sku_id: str, *given: Any, **more: Any) -> PoolReport:
        if sku_id == names[0]:
            await others.wait()
        report = await check(sku_id, *given, **more)
        if sku_id == names[-1]:
            others.set()
        return report

    monkeypatch.setattr(redis_setup.audit, "check", slow)
    async with asyncio.timeout(30):
        reports = await redis_setup.reconciler.pass_once()
    assert [report.finding for report in reports.values()] == [None] * len(names)
