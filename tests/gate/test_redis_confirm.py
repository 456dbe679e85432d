"""The ledger as judge: nobody hears that units are sold before PostgreSQL has let them go."""

import pytest
from redis_tampering import KEYS, Interrupted, check_books, copy_of, over, put_back
from sqlalchemy import func, select

from holdfast.domain.command import Command, Extend, Move, Provision, Restock, Transition
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import RuleChanges
from holdfast.domain.reservation import Status
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.redis import RedisGate
from holdfast.ledger.database import T, Work
from holdfast.ledger.tables import claims
from redis_world import RedisWorld
from set_clock import SetClock
from valkeys import ValkeyProcess
from worlds import SKU, reserve

MOVED, ALREADY, NOT_READY, RESERVED = Outcome.MOVED, Outcome.ALREADY, Outcome.NOT_READY, Outcome.RESERVED


def confirm(reservation_id: str) -> Move:
    return Move(Transition.CONFIRM, reservation_id)


@pytest.fixture
async def gate(redis_world: RedisWorld) -> RedisGate:
    """With a pool of two."""
    gate = redis_world.open_gate()
    await gate.apply(SKU, [Provision(2)])
    return gate


async def outcomes(gate: RedisGate, *commands: Command) -> list[Outcome]:
    return [verdict.outcome for verdict in await gate.apply(SKU, commands)]


async def claimed(world: RedisWorld) -> int:
    return await world.database.read(lambda c: c.execute(select(func.count()).select_from(claims)).scalar_one())


async def sold(world: RedisWorld) -> int:
    pool = (await world.books(SKU)).pool
    assert pool is not None
    return pool.sold


async def test_a_reservation_that_the_ledger_has_not_heard_of_is_sold_and_counted_once(
    redis_world: RedisWorld, gate: RedisGate
) -> None:
    assert await outcomes(gate, reserve("a"), confirm("a")) == [RESERVED, MOVED]
    assert await claimed(redis_world) == 1
    assert await sold(redis_world) == 1
    assert await claimed(redis_world) == 0
    await check_books(redis_world)


async def test_a_confirm_repeated_sells_once(redis_world: RedisWorld, gate: RedisGate) -> None:
    assert await outcomes(gate, reserve("a"), confirm("a"), confirm("a")) == [RESERVED, MOVED, ALREADY]
    assert await outcomes(gate, confirm("a")) == [ALREADY]
    assert await sold(redis_world) == 1
    assert await outcomes(redis_world.open_gate(), confirm("a")) == [ALREADY]
    assert await sold(redis_world) == 1
    await check_books(redis_world)


async def test_what_redis_has_forgotten_is_answered_from_the_ledger(
    redis_world: RedisWorld, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await gate.apply(SKU, [reserve("a"), confirm("a"), reserve("b"), Move(Transition.CANCEL, "b")])
    await redis_world.drain(SKU)
    assert valkey_server.command("HLEN", KEYS.holds) == 0
    cancel = Move(Transition.CANCEL, "a")
    told = await outcomes(gate, confirm("a"), cancel, confirm("b"), Extend("b", 1000), confirm("nobody"))
    assert told == [ALREADY, Outcome.ILLEGAL, Outcome.ILLEGAL, Outcome.ILLEGAL, Outcome.NOT_FOUND]
    assert await outcomes(gate, Move(Transition.CONFIRM, "a", "eve")) == [Outcome.NOT_FOUND]
    await check_books(redis_world)


async def test_units_added_a_moment_ago_can_be_sold_before_the_ledger_has_heard_of_them(
    redis_world: RedisWorld, gate: RedisGate
) -> None:
    told = await outcomes(gate, Restock(1), reserve("a", quantity=3), confirm("a"))
    assert told == [MOVED, RESERVED, MOVED]
    assert await sold(redis_world) == 3
    await check_books(redis_world)


async def test_a_confirm_that_meets_a_change_of_epoch_is_put_off_and_nobody_is_blamed(
    redis_world: RedisWorld, gate: RedisGate
) -> None:
    async def change_epoch() -> None:
        limit = RuleChanges(per_owner_limit=5)
        await redis_world.open_gate().apply(SKU, [Provision(2, changes=limit)])

    await gate.apply(SKU, [reserve("a")])
    far = redis_world.open_gate(over(Interrupted(redis_world.link, change_epoch)))
    assert await outcomes(far, confirm("a")) == [NOT_READY]
    assert not redis_world.suspected
    assert await outcomes(far, confirm("a")) == [ALREADY]
    assert await sold(redis_world) == 1
    await check_books(redis_world)


# --- a Redis that believes in more than there is


@pytest.mark.parametrize(("field", "by"), [("total", 3), ("sold", -2)])
async def test_a_gate_that_oversells_is_overruled_and_rebuilt(
    redis_world: RedisWorld, gate: RedisGate, valkey_server: ValkeyProcess, field: str, by: int
) -> None:
    first: list[Command] = [reserve("a"), confirm("a"), reserve("b"), confirm("b")] if field == "sold" else []
    assert NOT_READY not in await outcomes(gate, *first)
    await redis_world.drain(SKU)
    valkey_server.command("HINCRBY", KEYS.pool, field, by)
    names = "cdefg" if field == "total" else "cd"
    assert await outcomes(gate, *map(reserve, names)) == [RESERVED] * len(names)
    told = await outcomes(gate, *map(confirm, names))
    granted = 2 if field == "total" else 0
    assert told == [MOVED] * granted + [NOT_READY] * (len(names) - granted)
    assert (SKU, "claim_refused") in redis_world.suspected
    assert (await redis_world.reconciler.pass_once())[SKU].finding is not None
    assert await sold(redis_world) == 2
    assert await outcomes(gate, reserve("z")) == [Outcome.SOLD_OUT]
    assert await outcomes(gate, *map(confirm, names[:granted])) == [ALREADY] * granted
    assert not {ALREADY, MOVED} & set(await outcomes(gate, *map(confirm, names[granted:])))
    await check_books(redis_world)


async def test_holds_beyond_the_stock_never_reach_the_ledger(
    redis_world: RedisWorld, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await gate.apply(SKU, [reserve("a"), reserve("b")])
    await redis_world.drain(SKU)
    valkey_server.command("HINCRBY", KEYS.pool, "held", -1)
    assert await outcomes(gate, reserve("c")) == [RESERVED]
    for _ in range(2):
        await redis_world.reconciler.pass_once()
    assert await outcomes(gate, confirm("a"), confirm("b"), confirm("c")) == [MOVED, MOVED, Outcome.NOT_FOUND]
    assert await sold(redis_world) == 2
    await check_books(redis_world)


async def test_a_sale_that_a_failover_forgot_is_not_sold_again(
    redis_world: RedisWorld, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    behind = redis_world.open_gate()
    await behind.apply(SKU, [reserve("x"), Move(Transition.CANCEL, "x")])
    kept = copy_of(valkey_server)
    assert await outcomes(gate, reserve("a"), confirm("a")) == [RESERVED, MOVED]
    put_back(valkey_server, kept)
    assert await outcomes(behind, reserve("b"), reserve("c")) == [RESERVED, RESERVED]
    assert await outcomes(behind, confirm("b")) == [MOVED]
    for _ in range(2):
        assert await outcomes(behind, confirm("c")) == [NOT_READY]
    assert await outcomes(behind, Provision(0)) == [Outcome.INSUFFICIENT]
    # Nobody needs to tell the reconciler: the journal says more than can be.
    redis_world.reconciler._suspected.clear()
    for _ in range(2):
        await redis_world.reconciler.pass_once()
    assert await outcomes(behind, confirm("a"), confirm("b"), confirm("c")) == [ALREADY, ALREADY, Outcome.ILLEGAL]
    assert await sold(redis_world) == 2
    await check_books(redis_world)


async def test_what_was_given_back_is_not_sold_by_a_gate_that_forgot_it(
    redis_world: RedisWorld, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    behind = redis_world.open_gate()
    await behind.apply(SKU, [reserve("a")])
    kept = copy_of(valkey_server)
    assert await outcomes(gate, Move(Transition.CANCEL, "a")) == [MOVED]
    await redis_world.drain(SKU)
    put_back(valkey_server, kept)
    assert await outcomes(behind, confirm("a")) == [NOT_READY]
    await redis_world.reconciler.pass_once()
    assert await outcomes(behind, confirm("a")) == [Outcome.ILLEGAL]
    assert await sold(redis_world) == 0
    await check_books(redis_world)


# --- a ledger that is away


class Away(SetClock):
    """The ledger, away from the moment it is told to be."""

    error: type[Exception] | None = None

    async def write(self, work: Work[T], *, timeout_s: float = 5.0, brief: bool = False, at_once: bool = False) -> T:
        if self.error is not None:
            raise self.error("away")
        return await super().write(work, timeout_s=timeout_s, brief=brief)

    async def read(self, work: Work[T]) -> T:
        if self.error is not None:
            raise self.error("away")
        return await super().read(work)


@pytest.mark.parametrize("error", [Unavailable, OutcomeUnknown])
async def test_without_the_ledger_nothing_is_called_sold_and_what_it_is_not_needed_for_is_answered(
    redis_world: RedisWorld, gate: RedisGate, error: type[Exception]
) -> None:
    await gate.apply(SKU, [reserve("a")])
    ledger = Away(redis_world.database)
    gate._database = ledger
    ledger.error = error
    told = await outcomes(gate, reserve("b"), confirm("a"), confirm("nobody"))
    assert told == [RESERVED, NOT_READY, NOT_READY]
    assert await claimed(redis_world) == 0
    ledger.error = None
    assert await outcomes(gate, confirm("a"), confirm("nobody")) == [ALREADY, Outcome.NOT_FOUND]
    books = await redis_world.books(SKU)
    assert {id_: r.status for id_, r in books.reservations.items()} == {"a": Status.CONFIRMED, "b": Status.ACTIVE}
    await check_books(redis_world)
