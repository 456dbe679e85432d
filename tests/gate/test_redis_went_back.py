"""The ledger behind a gate in Redis went back: Redis keeps what it knows until a person has decided."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, delete, insert, select

from holdfast.bootstrap.recovery import Missing, decide
from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.errors import LedgerWentBack, Unavailable
from holdfast.gate.redis.encoding import Keys
from holdfast.gate.redis.evidence import RedisEvidence
from holdfast.gate.redis.gate import RedisGate
from holdfast.ledger.mark.mark import Acknowledged, KeptMark, Mark, lacking
from holdfast.ledger.stock.batch import batch_queries
from holdfast.ledger.stock.journal import outrun_epochs
from holdfast.ledger.stock.recovery.restore import restore
from holdfast.ledger.tables.stock import events, idempotency, pools, reservations
from holdfast.testing.states import SKU, reserve
from redis_setup import RedisSetup

LATER = "later"
TABLES = (pools, reservations, events, idempotency)


@pytest.fixture
async def world(redis_setup: RedisSetup) -> AsyncIterator[RedisSetup]:
    yield redis_setup
    redis_setup.database.guard.finding = None


async def went_back(world: RedisSetup) -> RedisGate:
    """Two holds, a backup of the ledger, two more, and the backup restored."""
    gate = world.open_gate()
    await gate.apply(SKU, [Provision(10)])
    await gate.apply(SKU, [reserve("a", key="k-a"), reserve("b")])
    await world.drain(SKU)

    def backup(connection: Connection) -> list[list[dict[str, object]]]:
        return [[dict(row._mapping) for row in connection.execute(select(table))] for table in TABLES]

    kept = await world.database.read(backup)
    await gate.apply(SKU, [reserve("c", key="k-c"), reserve("d", "bob", 2)])
    await world.drain(SKU)

    def restored(connection: Connection) -> None:
        for table, rows in zip(TABLES, kept, strict=True):
            connection.execute(delete(table))
            if rows:
                connection.execute(insert(table), rows)

    await world.database.write(restored)
    return gate


async def test_nothing_is_sold_and_no_pool_is_rebuilt_from_a_ledger_that_went_back(world: RedisSetup) -> None:
    await went_back(world)
    world.database.guard.finding = "it lacks events"
    with pytest.raises(LedgerWentBack):
        await world.open_gate().apply(SKU, [reserve("e")])
    for _ in range(3):
        reports = await world.reconciler.pass_once(thorough=True)
        assert reports[SKU].finding == "ledger_went_back"
    assert len(await RedisEvidence(world.client, world.database).holds()) == 4


async def test_a_process_that_saw_nothing_of_the_ledger_does_not_rebuild_from_one_that_went_back(
    world: RedisSetup, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that was just started, or has not sampled the ledger since: Redis was told how far the ledger was."""
    await went_back(world)
    with pytest.raises(LedgerWentBack):
        await world.reconciler.pass_once(thorough=True)
    assert world.database.guard.finding is not None
    assert "ledger_went_back" in capsys.readouterr().out
    assert len(await RedisEvidence(world.client, world.database).holds()) == 4


async def test_what_redis_holds_comes_back_into_the_ledger_with_its_keys(world: RedisSetup) -> None:
    await went_back(world)
    held = await RedisEvidence(world.client, world.database).holds()
    assert {each.reservation_id for each in held} == {"a", "b", "c", "d"}
    lost = await world.database.read(lambda c: lacking(c, held))
    assert {each.reservation_id for each in lost} == {"c", "d"}
    queries = batch_queries(world.database.dialect_name)
    await world.database.write(lambda c: restore(c, queries, world.clock, SKU, lost))
    await world.database.write(outrun_epochs)
    for _ in range(3):
        await world.reconciler.pass_once(thorough=True)
    pool = await world.gate_pool(SKU)
    assert (pool.is_open, pool.pool.held) == (True, 5)
    [again] = await world.open_gate().apply(SKU, [reserve("new", key="k-c")])
    assert again.outcome is Outcome.REPLAYED
    assert again.reservation is not None
    assert again.reservation.reservation_id == "c"
    (await world.snapshot(SKU)).check()


async def test_a_sale_that_comes_back_fulfils_its_claim(world: RedisSetup) -> None:
    """Counted twice, it would be more than the pool has, and no rebuild could begin."""
    gate = world.open_gate()
    await gate.apply(SKU, [Provision(1), reserve("a")])
    await world.drain(SKU)
    [verdict] = await gate.apply(SKU, [Move(Transition.CONFIRM, "a")])
    assert verdict.reservation is not None
    # The ledger has the claim, and not yet the journal's entry.
    await bring_back(world, verdict.reservation)
    await world.database.write(outrun_epochs)
    for _ in range(3):
        await world.reconciler.pass_once(thorough=True)
    pool = await world.gate_pool(SKU)
    assert (pool.is_open, pool.pool.sold, pool.pool.held) == (True, 1, 0)
    (await world.snapshot(SKU)).check()


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.CONFIRMED])
async def test_what_is_claimed_is_not_given_to_what_comes_back(world: RedisSetup, status: Status) -> None:
    gate = world.open_gate()
    [_, _, verdict] = await gate.apply(SKU, [Provision(1), reserve("a"), Move(Transition.CONFIRM, "a")])
    assert verdict.reservation is not None
    # Of "a", the ledger has only the claim.
    lost = replace(verdict.reservation, reservation_id="b", status=status)
    assert await bring_back(world, lost) == []
    await world.drain(SKU)
    (await world.snapshot(SKU)).check()


async def test_a_claimed_reservation_does_not_end_when_the_ledger_comes_back(world: RedisSetup) -> None:
    gate = world.open_gate()
    await gate.apply(SKU, [Provision(1), reserve("a")])
    await world.drain(SKU)
    [verdict] = await gate.apply(SKU, [Move(Transition.CONFIRM, "a")])
    assert verdict.reservation is not None
    assert await bring_back(world, replace(verdict.reservation, status=Status.EXPIRED)) == []
    await world.drain(SKU)
    assert (await world.gate_pool(SKU)).pool.sold == 1
    (await world.snapshot(SKU)).check()


async def bring_back(world: RedisSetup, lost: Reservation) -> list[str]:
    queries = batch_queries(world.database.dialect_name)
    return await world.database.write(lambda c: restore(c, queries, world.clock, SKU, [Acknowledged(lost)]))


async def test_nothing_is_granted_after_a_recovery_that_the_rebuilt_pool_forgets(world: RedisSetup) -> None:
    gate = await went_back(world)
    missing = Missing(["it lacks events"], None, [Mark("seen", 7)], [], [])
    await decide(world.database, RedisEvidence(world.client, world.database), missing, None, "ada", restoring=False)
    [early] = await gate.apply(SKU, [reserve("early", "cy", key="k-early")])
    assert early.outcome is Outcome.NOT_READY
    for _ in range(3):
        await world.reconciler.pass_once(thorough=True)
    [late] = await gate.apply(SKU, [reserve("late", "cy", key="k-early")])
    assert late.outcome is Outcome.RESERVED
    await world.drain(SKU)
    assert (await world.gate_pool(SKU)).pool.held == 3
    (await world.snapshot(SKU)).check()


async def test_a_pool_that_the_ledger_lost_sells_nothing_more_and_can_be_made_again(world: RedisSetup) -> None:
    """Made after the backup that was restored: Redis would go on selling stock that no ledger has."""
    gate = await went_back(world)
    await gate.apply(LATER, [Provision(5)])
    await gate.apply(LATER, [reserve("x", key="k-x")])
    await world.drain(LATER)

    def lose(connection: Connection) -> None:
        for table in TABLES:
            connection.execute(delete(table).where(table.c.sku_id == LATER))

    await world.database.write(lose)
    evidence = RedisEvidence(world.client, world.database)
    assert {each.reservation_id for each in await evidence.holds()} == {"a", "b", "c", "d", "x"}
    missing = Missing(["it lacks events"], None, [Mark("seen", 7)], [], [])
    await decide(world.database, evidence, missing, None, "ada", restoring=False)
    [gone] = await gate.apply(LATER, [reserve("y")])
    assert gone.outcome is Outcome.POOL_NOT_FOUND
    [_, granted] = await gate.apply(LATER, [Provision(1), reserve("y")])
    assert granted.outcome is Outcome.RESERVED
    await world.drain(LATER)
    (await world.snapshot(LATER)).check()


async def test_a_pool_that_redis_has_from_another_ledger_is_refused_and_the_others_go_on_selling(
    world: RedisSetup, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new database beside a used Redis, or a ledger from before the pool was made: what is held there is kept."""
    client, pool = world.client, Keys(LATER).pool
    await client.call(pool, ["HSET", pool, "epoch", 7, "state", "open", "trimmed", 3])
    gate = world.open_gate()
    with pytest.raises(Unavailable, match="another ledger"):
        await gate.apply(LATER, [Provision(5)])
    assert "pool_of_another_ledger" in capsys.readouterr().out
    await gate.apply(SKU, [Provision(5)])
    await world.reconciler.pass_once(thorough=True)
    assert world.database.guard.finding is None
    [granted, lost] = [await gate.apply(sku, [reserve("a")]) for sku in (SKU, LATER)]
    assert (granted[0].outcome, lost[0].outcome) == (Outcome.RESERVED, Outcome.POOL_NOT_FOUND)
    assert await client.call(pool, ["HGET", pool, "epoch"]) == [b"7"]
    await client.call(pool, ["DEL", pool])
    [_, made] = await gate.apply(LATER, [Provision(5), reserve("b")])
    assert made.outcome is Outcome.RESERVED


async def test_redis_keeps_the_mark(world: RedisSetup) -> None:
    evidence = RedisEvidence(world.client, world.database)
    assert await evidence.read() is None
    kept = KeptMark("here", Mark("incarnation", 7))
    await evidence.write(kept)
    assert await evidence.read() == kept
