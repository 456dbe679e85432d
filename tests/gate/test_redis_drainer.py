"""From the journal into the ledger: every entry once, in order, wherever somebody dies."""

import asyncio

import pytest
from redis_tampering import EMPTY, KEYS, Refusing, check_books, client, copy_of, forgets_nothing, over, put_back

from holdfast.domain.stock.command import Command, Move, Provision, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Status, new_reservation_id
from holdfast.errors import Unavailable
from holdfast.gate.redis.drainer import Drainer
from holdfast.gate.redis.encoding import decode, encode
from holdfast.gate.redis.gate import RedisGate
from holdfast.ledger.engine.database import T, Work
from holdfast.ledger.stock.batch import Position
from holdfast.testing.states import SKU, reserve
from redis_setup import RedisSetup
from set_clock import SetClock
from valkeys import ValkeyProcess


@pytest.fixture
async def gate(redis_setup: RedisSetup) -> RedisGate:
    gate = redis_setup.open_gate()
    await gate.apply(SKU, [Provision(1000)])
    return gate


def bought(name: str) -> list[Command]:
    """Of three, one is kept, one sold, one given back."""
    confirm, cancel = Move(Transition.CONFIRM, f"{name}-2"), Move(Transition.CANCEL, f"{name}-3")
    return [*(reserve(f"{name}-{n}", key=f"{name}-{n}") for n in (1, 2, 3)), confirm, cancel]


async def fill(gate: RedisGate, batches: int) -> None:
    for n in range(batches):
        await gate.apply(SKU, bought(f"r{n:03}"))


def journal_length(valkey: ValkeyProcess) -> int:
    return int(valkey.command("XLEN", KEYS.journal))


async def test_several_drainers_at_once_store_every_entry_once(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await fill(gate, 120)
    drainers = [Drainer(redis_setup.clock, redis_setup.client) for _ in range(4)]
    await asyncio.gather(*[drainer.drain_all(SKU, Position(1, 0)) for drainer in drainers])
    assert await redis_setup.position(SKU) == Position(1, 120)
    assert journal_length(valkey_server) == 0
    assert len((await redis_setup.snapshot(SKU)).reservations) == 360
    await check_books(redis_setup)


async def test_one_that_dies_between_commit_and_trim_has_the_next_go_on_exactly_there(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await fill(gate, 3)
    dying = Drainer(redis_setup.clock, over(Refusing(redis_setup.link, forgets_nothing)))
    with pytest.raises(Unavailable):
        await dying.drain_some(SKU, Position(1, 0))
    assert (await redis_setup.position(SKU), journal_length(valkey_server)) == (Position(1, 3), 3)
    await gate.apply(SKU, bought("later"))
    await redis_setup.drain(SKU)
    assert (await redis_setup.position(SKU), journal_length(valkey_server)) == (Position(1, 4), 0)
    # What has ended is forgotten, also what the dead one should have let go.
    assert valkey_server.command("HLEN", KEYS.holds) - EMPTY == 4
    await check_books(redis_setup)


class NeverCommits(SetClock):
    async def write(self, work: Work[T], *, timeout_s: float = 5.0, brief: bool = False, autocommit: bool = False) -> T:
        raise Unavailable("no commit")


async def test_nothing_is_trimmed_that_was_not_committed(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await fill(gate, 3)
    with pytest.raises(Unavailable):
        await Drainer(NeverCommits(redis_setup.database), redis_setup.client).drain_some(SKU, Position(1, 0))
    assert journal_length(valkey_server) == 3
    await check_books(redis_setup)


async def test_a_pool_that_cannot_be_drained_keeps_no_other_waiting(redis_setup: RedisSetup, gate: RedisGate) -> None:
    await gate.apply("z-other", [Provision(5)])
    await gate.apply("z-other", [reserve("o")])
    await fill(gate, 1)
    drainer = Drainer(redis_setup.clock, over(Refusing(redis_setup.link, lambda key, _: key.startswith(KEYS.prefix))))
    await drainer.pass_once()
    assert await redis_setup.position("z-other") == Position(1, 1)
    assert await redis_setup.position(SKU) == Position(1, 0)


async def test_what_another_history_granted_is_kept_though_its_numbers_were_used_before(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    """A replica that was behind became the primary, and those who had seen little of the old one went on there."""
    behind = redis_setup.open_gate()
    await behind.apply(SKU, [reserve("before")])
    kept = copy_of(valkey_server)
    redis_setup.clock.advance(10)
    for name in ("lost1", "lost2"):
        await gate.apply(SKU, [reserve(name, key=name)])
    await redis_setup.drain(SKU)
    put_back(valkey_server, kept)
    redis_setup.clock.advance(10)
    for name in ("new1", "new2", "new3"):
        [verdict] = await behind.apply(SKU, [reserve(name, key=name)])
        assert verdict.outcome is Outcome.RESERVED
    for _ in range(2):
        await redis_setup.drain(SKU)
        await redis_setup.reconciler.pass_once()
    granted = {"lost1", "lost2", "new1", "new2", "new3"}
    assert set((await redis_setup.snapshot(SKU)).reservations) == {"before", *granted}
    replies = await behind.apply(SKU, [reserve(f"again-{name}", key=name) for name in sorted(granted)])
    assert {reply.outcome for reply in replies} == {Outcome.REPLAYED}
    await check_books(redis_setup)


@pytest.mark.parametrize("lost", [1, 2])
async def test_another_history_gets_no_units_that_the_ledger_has_given_to_others(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess, lost: int
) -> None:
    """With one entry lost and one made since, both histories have reached the same number."""
    gate, behind = redis_setup.open_gate(), redis_setup.open_gate()
    await gate.apply(SKU, [Provision(lost + 1)])
    await behind.apply(SKU, [reserve("seen")])
    await behind.apply(SKU, [Move(Transition.CANCEL, "seen")])
    kept = copy_of(valkey_server)
    redis_setup.clock.advance(10)
    for number in range(lost):
        await gate.apply(SKU, [reserve(f"lost{number}")])
    await redis_setup.drain(SKU)
    put_back(valkey_server, kept)
    redis_setup.clock.advance(10)
    await behind.apply(SKU, [reserve("first")])
    await behind.apply(SKU, [Move(Transition.SETTLE, "first")])
    await behind.apply(SKU, [reserve("second")])
    for _ in range(3):
        await redis_setup.drain(SKU)
        await redis_setup.reconciler.pass_once()
    known = (await redis_setup.snapshot(SKU)).reservations
    assert known["first"].status is Status.SETTLING
    assert "second" not in known
    await check_books(redis_setup)


@pytest.mark.parametrize(("is_settling", "attempts"), [(False, 0), (True, 1)])
async def test_holds_and_entries_from_before_attempts_were_counted_are_read(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess, is_settling: bool, attempts: int
) -> None:
    old = new_reservation_id(SKU, "ada")
    await gate.apply(SKU, [reserve(old), *([Move(Transition.SETTLE, old)] if is_settling else [])])
    forget_attempts(valkey_server, old)
    found = await redis_setup.views.find(old)
    assert found is not None
    assert found.attempts == attempts
    await redis_setup.drain(SKU)
    assert journal_length(valkey_server) == 0
    assert (await redis_setup.snapshot(SKU)).reservations[old].attempts == attempts
    transition = Transition.REOPEN if is_settling else Transition.SETTLE
    (verdict,) = await gate.apply(SKU, [Move(transition, old, attempt=1)])
    assert verdict.outcome is Outcome.MOVED
    assert verdict.reservation is not None
    assert verdict.reservation.attempts == 1
    await check_books(redis_setup)


def forget_attempts(valkey: ValkeyProcess, reservation_id: str) -> None:
    """As an earlier version wrote the hold, and the only entry of the journal."""
    with client(valkey) as redis:
        hold = decode(redis.hget(KEYS.holds, reservation_id))
        redis.hset(KEYS.holds, reservation_id, encode(hold[:5]))
        ((entry_id, fields),) = redis.xrange(KEYS.journal)
        ((name, payload),) = fields.items()
        now, after, pool, created, moved, *rest = decode(payload)
        shorter = [[hold[:6] for hold in holds] for holds in (created, moved)]
        # A stream does not take an ID again.
        redis.delete(KEYS.journal)
        redis.xadd(KEYS.journal, {name: encode([now, after, pool, *shorter, *rest])}, id=entry_id)
