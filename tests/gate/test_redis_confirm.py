"""The ledger as judge: nobody hears that units are sold before PostgreSQL has let them go."""

import pytest
from redis_tampering import EMPTY, KEYS, Interrupted, check_books, copy_of, over, put_back
from sqlalchemy import func, select

from holdfast.domain.stock.command import Command, Expire, Extend, Move, Provision, Restock, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import RuleChanges, Rules
from holdfast.domain.stock.reservation import Status
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.redis.gate import RedisGate
from holdfast.ledger.engine.database import T, Work
from holdfast.ledger.tables.stock import claims, events
from holdfast.testing.states import SKU, reserve
from holdfast.verify.prove import prove
from redis_setup import RedisSetup
from set_clock import SetClock
from valkeys import ValkeyProcess

MOVED, ALREADY, NOT_READY, RESERVED = Outcome.MOVED, Outcome.ALREADY, Outcome.NOT_READY, Outcome.RESERVED


def confirm(reservation_id: str) -> Move:
    return Move(Transition.CONFIRM, reservation_id)


@pytest.fixture
async def gate(redis_setup: RedisSetup) -> RedisGate:
    """With a pool of two."""
    gate = redis_setup.open_gate()
    await gate.apply(SKU, [Provision(2)])
    return gate


async def outcomes(gate: RedisGate, *commands: Command) -> list[Outcome]:
    return [verdict.outcome for verdict in await gate.apply(SKU, commands)]


async def claimed(world: RedisSetup) -> int:
    return await world.database.read(lambda c: c.execute(select(func.count()).select_from(claims)).scalar_one())


async def sold(world: RedisSetup) -> int:
    pool = (await world.snapshot(SKU)).pool
    assert pool is not None
    return pool.sold


async def test_a_reservation_that_the_ledger_has_not_heard_of_is_sold_and_counted_once(
    redis_setup: RedisSetup, gate: RedisGate
) -> None:
    assert await outcomes(gate, reserve("a"), confirm("a")) == [RESERVED, MOVED]
    assert await claimed(redis_setup) == 1
    assert await sold(redis_setup) == 1
    assert await claimed(redis_setup) == 0
    await check_books(redis_setup)


async def test_a_confirm_repeated_sells_once(redis_setup: RedisSetup, gate: RedisGate) -> None:
    assert await outcomes(gate, reserve("a"), confirm("a"), confirm("a")) == [RESERVED, MOVED, ALREADY]
    assert await outcomes(gate, confirm("a")) == [ALREADY]
    assert await sold(redis_setup) == 1
    assert await outcomes(redis_setup.open_gate(), confirm("a")) == [ALREADY]
    assert await sold(redis_setup) == 1
    await check_books(redis_setup)


async def test_what_redis_has_forgotten_is_answered_from_the_ledger(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await gate.apply(SKU, [reserve("a"), confirm("a"), reserve("b"), Move(Transition.CANCEL, "b")])
    await redis_setup.drain(SKU)
    assert valkey_server.command("HLEN", KEYS.holds) == EMPTY
    cancel = Move(Transition.CANCEL, "a")
    told = await outcomes(gate, confirm("a"), cancel, confirm("b"), Extend("b", 1000), confirm("nobody"))
    assert told == [ALREADY, Outcome.ILLEGAL, Outcome.ILLEGAL, Outcome.ILLEGAL, Outcome.NOT_FOUND]
    assert await outcomes(gate, Move(Transition.CONFIRM, "a", "eve")) == [Outcome.NOT_FOUND]
    await check_books(redis_setup)


async def test_units_added_a_moment_ago_can_be_sold_before_the_ledger_has_heard_of_them(
    redis_setup: RedisSetup, gate: RedisGate
) -> None:
    told = await outcomes(gate, Restock(1), reserve("a", quantity=3), confirm("a"))
    assert told == [MOVED, RESERVED, MOVED]
    assert await sold(redis_setup) == 3
    await check_books(redis_setup)


async def test_a_confirm_that_meets_a_change_of_epoch_is_put_off_and_nobody_is_blamed(
    redis_setup: RedisSetup, gate: RedisGate
) -> None:
    async def change_epoch() -> None:
        limit = RuleChanges(per_owner_limit=5)
        await redis_setup.open_gate().apply(SKU, [Provision(2, changes=limit)])

    await gate.apply(SKU, [reserve("a")])
    far = redis_setup.open_gate(over(Interrupted(redis_setup.link, change_epoch)))
    assert await outcomes(far, confirm("a")) == [NOT_READY]
    assert not redis_setup.reported
    assert await outcomes(far, confirm("a")) == [ALREADY]
    assert await sold(redis_setup) == 1
    await check_books(redis_setup)


# --- a Redis that believes in more than there is


@pytest.mark.parametrize(("field", "by"), [("total", 3), ("sold", -2)])
async def test_a_gate_that_oversells_is_overruled_and_rebuilt(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess, field: str, by: int
) -> None:
    first: list[Command] = [reserve("a"), confirm("a"), reserve("b"), confirm("b")] if field == "sold" else []
    assert NOT_READY not in await outcomes(gate, *first)
    await redis_setup.drain(SKU)
    valkey_server.command("HINCRBY", KEYS.pool, field, by)
    names = "cdefg" if field == "total" else "cd"
    assert await outcomes(gate, *map(reserve, names)) == [RESERVED] * len(names)
    told = await outcomes(gate, *map(confirm, names))
    granted = 2 if field == "total" else 0
    assert told == [MOVED] * granted + [NOT_READY] * (len(names) - granted)
    assert (SKU, "claim_refused") in redis_setup.reported
    assert (await redis_setup.reconciler.pass_once())[SKU].finding is not None
    assert await sold(redis_setup) == 2
    assert await outcomes(gate, reserve("z")) == [Outcome.SOLD_OUT]
    assert await outcomes(gate, *map(confirm, names[:granted])) == [ALREADY] * granted
    assert not {ALREADY, MOVED} & set(await outcomes(gate, *map(confirm, names[granted:])))
    await check_books(redis_setup)


async def test_holds_beyond_the_stock_never_reach_the_ledger(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await gate.apply(SKU, [reserve("a"), reserve("b")])
    await redis_setup.drain(SKU)
    valkey_server.command("HINCRBY", KEYS.pool, "held", -1)
    assert await outcomes(gate, reserve("c")) == [RESERVED]
    for _ in range(2):
        await redis_setup.reconciler.pass_once()
    assert await outcomes(gate, confirm("a"), confirm("b"), confirm("c")) == [MOVED, MOVED, Outcome.NOT_FOUND]
    assert await sold(redis_setup) == 2
    await check_books(redis_setup)


async def test_a_sale_that_a_failover_forgot_is_not_sold_again(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    behind = redis_setup.open_gate()
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
    redis_setup.reconciler._reported.clear()
    for _ in range(2):
        await redis_setup.reconciler.pass_once()
    assert await outcomes(behind, confirm("a"), confirm("b"), confirm("c")) == [ALREADY, ALREADY, Outcome.ILLEGAL]
    assert await sold(redis_setup) == 2
    await check_books(redis_setup)


async def test_what_was_given_back_is_not_sold_by_a_gate_that_forgot_it(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    behind = redis_setup.open_gate()
    await behind.apply(SKU, [reserve("a")])
    kept = copy_of(valkey_server)
    assert await outcomes(gate, Move(Transition.CANCEL, "a")) == [MOVED]
    await redis_setup.drain(SKU)
    put_back(valkey_server, kept)
    assert await outcomes(behind, confirm("a")) == [NOT_READY]
    await redis_setup.reconciler.pass_once()
    assert await outcomes(behind, confirm("a")) == [Outcome.ILLEGAL]
    assert await sold(redis_setup) == 0
    await check_books(redis_setup)


# --- a ledger that is away


class Away(SetClock):
    """The ledger, away from the moment it is told to be."""

    error: type[Exception] | None = None

    async def write(self, work: Work[T], *, timeout_s: float = 5.0, brief: bool = False, autocommit: bool = False) -> T:
        if self.error is not None:
            raise self.error("away")
        return await super().write(work, timeout_s=timeout_s, brief=brief)

    async def read(self, work: Work[T]) -> T:
        if self.error is not None:
            raise self.error("away")
        return await super().read(work)


@pytest.mark.parametrize("error", [Unavailable, OutcomeUnknown])
async def test_without_the_ledger_nothing_is_called_sold_and_what_it_is_not_needed_for_is_answered(
    redis_setup: RedisSetup, gate: RedisGate, error: type[Exception]
) -> None:
    await gate.apply(SKU, [reserve("a")])
    ledger = Away(redis_setup.database)
    gate._database = ledger
    ledger.error = error
    told = await outcomes(gate, reserve("b"), confirm("a"), confirm("nobody"))
    assert told == [RESERVED, NOT_READY, NOT_READY]
    assert await claimed(redis_setup) == 0
    ledger.error = None
    assert await outcomes(gate, confirm("a"), confirm("nobody")) == [ALREADY, Outcome.NOT_FOUND]
    snapshot = await redis_setup.snapshot(SKU)
    assert {id_: r.status for id_, r in snapshot.reservations.items()} == {"a": Status.CONFIRMED, "b": Status.ACTIVE}
    await check_books(redis_setup)


def lose_owner(valkey: ValkeyProcess, owner: str) -> None:
    """Such that the manifest does not tell."""
    valkey.command("HDEL", KEYS.owners, owner)
    valkey.command("HINCRBY", KEYS.pool, "n_owners", -1)


@pytest.mark.parametrize("is_drained_first", [False, True])
async def test_the_ledger_sells_nobody_more_than_the_limit_whatever_redis_forgot(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess, is_drained_first: bool
) -> None:
    gate = redis_setup.open_gate()
    await gate.apply(SKU, [Provision(10, Rules(per_owner_limit=1))])
    await gate.apply(SKU, [reserve("a", "ada"), confirm("a")])
    if is_drained_first:
        await redis_setup.drain(SKU)
    lose_owner(valkey_server, "ada")
    [held] = await gate.apply(SKU, [reserve("b", "ada")])
    assert held.outcome is Outcome.RESERVED
    [other] = await gate.apply(SKU, [reserve("c", "bob")])
    [refused] = await gate.apply(SKU, [confirm("b")])
    assert (refused.outcome, other.outcome) == (Outcome.NOT_READY, Outcome.RESERVED)
    for _ in range(2):
        await redis_setup.drainer.pass_once()
        await redis_setup.reconciler.pass_once()
    found = (await redis_setup.snapshot(SKU)).reservations
    assert {id_: str(r.status) for id_, r in found.items()} == {"a": "confirmed", "b": "cancelled", "c": "active"}
    [again] = await gate.apply(SKU, [confirm("b")])
    assert again.outcome is Outcome.ILLEGAL
    await check_books(redis_setup)


async def test_a_sale_that_redis_lost_is_not_returned_when_its_hold_runs_out_there(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    """A replica was promoted that had the hold and not the sale. Another process, which saw neither, lets it expire."""
    await gate.apply(SKU, [reserve("a", ttl_ms=1_000)])
    await redis_setup.drain(SKU)
    before = copy_of(valkey_server)
    assert await outcomes(gate, confirm("a")) == [MOVED]
    put_back(valkey_server, before)
    redis_setup.clock.now += 2_000
    await redis_setup.open_gate().apply(SKU, [Expire(10)])
    await redis_setup.drain(SKU)
    for _ in range(3):
        await redis_setup.reconciler.pass_once(thorough=True)
    snapshot = await redis_setup.snapshot(SKU)
    assert snapshot.pool is not None
    assert (snapshot.pool.sold, snapshot.pool.held) == (1, 0)
    told = await redis_setup.database.read(
        lambda c: c.execute(select(events.c.type).order_by(events.c.seq)).scalars().all()
    )
    assert "reservation.expired" not in told
    assert "reservation.confirmed" in told
    await check_books(redis_setup)


async def test_a_sale_and_the_extension_before_it_that_redis_lost_are_recorded_alike(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await gate.apply(SKU, [reserve("a", ttl_ms=1_000)])
    await redis_setup.drain(SKU)
    before = copy_of(valkey_server)
    assert await outcomes(gate, Extend("a", 60_000), confirm("a")) == [MOVED, MOVED]
    put_back(valkey_server, before)
    at = await redis_setup.position(SKU)
    assert at is not None
    await redis_setup.rebuilder.rebuild(SKU, at, "missing")
    wrong = await redis_setup.database.read(lambda c: [finding.name for finding in prove(c) if not finding.ok])
    assert wrong == []
    await check_books(redis_setup)


async def test_a_sale_that_redis_lost_takes_back_only_the_newest_hold_on_the_units_granted_again(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess
) -> None:
    """The pool was full: the batch that lets the holds run out grants their units again, in one entry."""
    gate, names = redis_setup.open_gate(), [f"b{n}" for n in range(10)]
    await gate.apply(SKU, [Provision(10)])
    await gate.apply(SKU, [reserve(f"a{n}", ttl_ms=1_000) for n in range(10)])
    await redis_setup.drain(SKU)
    before = copy_of(valkey_server)
    assert await outcomes(gate, confirm("a0")) == [MOVED]
    put_back(valkey_server, before)
    redis_setup.clock.now += 2_000
    behind = redis_setup.open_gate()
    assert await outcomes(behind, *(reserve(name, name, key="k") for name in names)) == [RESERVED] * 10
    # It is sold before the ledger hears of it, so it is not the one that is taken back.
    assert await outcomes(behind, confirm("b9")) == [MOVED]
    await redis_setup.drain(SKU)
    # What ends in the gate afterwards has ended in the ledger.
    assert await outcomes(behind, confirm("b8"), Move(Transition.CANCEL, "b7")) == [NOT_READY, MOVED]
    await redis_setup.drain(SKU)
    for _ in range(3):
        await redis_setup.reconciler.pass_once(thorough=True)
    found = (await redis_setup.snapshot(SKU)).reservations
    kept = dict.fromkeys(names, "active") | {"b9": "confirmed", "b8": "cancelled", "b7": "cancelled"}
    assert {id_: str(r.status) for id_, r in found.items()} == {
        **{f"a{n}": "expired" for n in range(10)},
        "a0": "confirmed",
        **kept,
    }
    told = await redis_setup.database.read(
        lambda c: (
            c.execute(select(events.c.type).where(events.c.reservation_id == "b8").order_by(events.c.seq))
            .scalars()
            .all()
        )
    )
    assert told == ["reservation.created", "reservation.cancelled"]
    assert await outcomes(behind, *(reserve("again", name, key="k") for name in names)) == [Outcome.REPLAYED] * 10
    await check_books(redis_setup)
