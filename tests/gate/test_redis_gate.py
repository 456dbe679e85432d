"""The gate in Valkey beyond what every engine does: calls that repeat, functions that vanish, memory that ends."""

import asyncio
from collections import Counter

import pytest
from redis_tampering import KEYS, Interrupted, Repeating, check_books, lose_the_answer, over

from holdfast.domain.stock.command import Provision, Restock
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import RuleChanges
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.redis.gate import RedisGate
from holdfast.gate.redis.library import NAME, source
from holdfast.gate.redis.link.redis_link import open_link
from holdfast.gate.sql import SqlGate
from holdfast.ledger.stock.batch import Position
from holdfast.testing.states import SKU, reserve
from redis_setup import RedisSetup
from valkeys import ValkeyProcess

RACERS = 8


@pytest.fixture
async def gate(redis_setup: RedisSetup) -> RedisGate:
    """With a pool of ten."""
    gate = redis_setup.open_gate()
    await gate.apply(SKU, [Provision(10)])
    return gate


async def total_of(world: RedisSetup) -> int:
    pool = (await world.snapshot(SKU)).pool
    assert pool is not None
    return pool.total


# --- one call, sent more than once


@pytest.mark.usefixtures("gate")
async def test_a_call_repeated_under_its_id_changes_nothing_and_answers_the_same(redis_setup: RedisSetup) -> None:
    link = Repeating(redis_setup.link)
    [added, held] = await redis_setup.open_gate(over(link)).apply(SKU, [Restock(5), reserve("a")])
    assert (added.outcome, held.outcome) == (Outcome.MOVED, Outcome.RESERVED)
    assert link.answers[0] == link.answers[1]
    assert await total_of(redis_setup) == 15
    await check_books(redis_setup)


async def test_a_retry_under_another_id_as_clients_do_it_adds_twice(redis_setup: RedisSetup, gate: RedisGate) -> None:
    for _ in range(2):
        await gate.apply(SKU, [Restock(5)])
    assert await total_of(redis_setup) == 20


@pytest.mark.usefixtures("gate")
async def test_a_lost_answer_is_asked_for_again_and_the_batch_is_applied_once(redis_setup: RedisSetup) -> None:
    [added] = await redis_setup.open_gate(over(Interrupted(redis_setup.link, lose_the_answer))).apply(SKU, [Restock(5)])
    assert added.pool is not None
    assert added.pool.total == await total_of(redis_setup) == 15


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("loses_all", [False, True])
async def test_a_lost_answer_is_unknown_if_the_pool_was_rebuilt_meanwhile_and_is_not_applied_again(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess, loses_all: bool
) -> None:
    async def rebuild() -> None:
        await redis_setup.drain(SKU)
        if loses_all:
            valkey_server.command("FLUSHALL")
        at = await redis_setup.position(SKU)
        assert at is not None
        await redis_setup.rebuilder.rebuild(SKU, at, "test")
        await lose_the_answer()

    far = redis_setup.open_gate(over(Interrupted(redis_setup.link, rebuild)))
    with pytest.raises(OutcomeUnknown):
        await far.apply(SKU, [Restock(5), reserve("a", key="k")])
    assert await total_of(redis_setup) == 15
    [again] = await far.apply(SKU, [reserve("b", key="k")])
    assert again.outcome is Outcome.REPLAYED
    await check_books(redis_setup)


# --- why one function, and not two commands


async def test_looking_and_then_taking_oversells(valkey_server: ValkeyProcess) -> None:
    link = open_link(valkey_server.url)
    await link.call("left", ["SET", "left", 5])
    meeting = asyncio.Barrier(RACERS)

    async def racer() -> bool:
        [left] = await link.call("left", ["GET", "left"])
        await meeting.wait()
        if int(left) <= 0:
            return False
        await link.call("left", ["DECR", "left"])
        return True

    taken = await asyncio.gather(*[racer() for _ in range(RACERS)])
    [left] = await link.call("left", ["GET", "left"])
    await link.close()
    assert sum(taken) == RACERS > 5
    assert int(left) == 5 - RACERS


@pytest.mark.usefixtures("gate")
async def test_the_function_grants_exactly_what_is_there(redis_setup: RedisSetup) -> None:
    gates = [redis_setup.open_gate() for _ in range(RACERS)]

    async def racer(name: str, one: RedisGate) -> list[Outcome]:
        batches = [await one.apply(SKU, [reserve(f"{name}-{turn}", name)]) for turn in range(4)]
        return [verdict.outcome for [verdict] in batches]

    told = await asyncio.gather(*[racer(f"racer{n}", one) for n, one in enumerate(gates)])
    assert Counter(outcome for one in told for outcome in one) == {
        Outcome.RESERVED: 10,
        Outcome.ALL_HELD: 4 * RACERS - 10,
    }
    await check_books(redis_setup)


# --- the function library


async def loaded_text(world: RedisSetup) -> bytes:
    [[[library]]] = await world.link.call_everywhere(["FUNCTION", "LIST", "LIBRARYNAME", NAME, "WITHCODE"])
    text: bytes = library[library.index(b"library_code") + 1]
    return text


async def test_the_libraries_of_two_versions_are_loaded_side_by_side(redis_setup: RedisSetup) -> None:
    """A function's name is unique in all of Redis, so each must carry the version."""
    later = source().replace("_v2", "_v3")
    [loaded] = (await redis_setup.link.call_everywhere(["FUNCTION", "LOAD", "REPLACE", later]))[0]
    try:
        await redis_setup.client.load_library()
        assert [v.outcome for v in await redis_setup.open_gate().apply(SKU, [Provision(1)])] == [Outcome.MOVED]
    finally:
        await redis_setup.link.call_everywhere(["FUNCTION", "DELETE", loaded])


@pytest.mark.parametrize(
    "happens",
    [
        ("FUNCTION", "FLUSH"),
        ("FUNCTION", "LOAD", "REPLACE", f"#!lua name={NAME}\nredis.register_function('old', function() end)"),
    ],
)
async def test_a_library_that_is_gone_or_old_is_mended_by_the_next_call(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess, happens: tuple[str, ...]
) -> None:
    valkey_server.command(*happens)
    [verdict] = await gate.apply(SKU, [reserve("a")])
    assert verdict.outcome is Outcome.RESERVED
    assert await loaded_text(redis_setup) == source().encode()
    await check_books(redis_setup)


async def test_a_library_with_another_text_is_replaced_at_start(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess
) -> None:
    valkey_server.command("FUNCTION", "LOAD", "REPLACE", source() + "\n-- altered")
    await redis_setup.client.load_library()
    assert await loaded_text(redis_setup) == source().encode()


# --- memory


async def test_a_full_memory_refuses_before_any_write_and_the_ledger_still_makes_room(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await gate.apply(SKU, [reserve("a")])
    at = await redis_setup.position(SKU)
    assert at is not None
    full = redis_setup.open_gate(over(redis_setup.link))
    valkey_server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(Unavailable):
            await full.apply(SKU, [reserve("b"), reserve("c", key="k")])
        assert valkey_server.command("XLEN", KEYS.journal) == 1
        redis_setup.drainer._client = over(redis_setup.link)
        assert await redis_setup.drainer.drain_some(SKU, at) == 1
        assert valkey_server.command("XLEN", KEYS.journal) == 0
    finally:
        valkey_server.command("CONFIG", "SET", "maxmemory", "0")
    assert list((await redis_setup.snapshot(SKU)).reservations) == ["a"]
    assert [v.outcome for v in await full.apply(SKU, [reserve("b")])] == [Outcome.RESERVED]
    await check_books(redis_setup)


# --- through the ledger


async def test_a_limit_set_later_is_decided_in_the_ledger_and_counts_what_was_before(
    redis_setup: RedisSetup, gate: RedisGate
) -> None:
    await gate.apply(SKU, [reserve("a", "ada", 2)])
    [changed] = await gate.apply(SKU, [Provision(10, changes=RuleChanges(per_owner_limit=3))])
    assert changed.outcome is Outcome.MOVED
    assert await redis_setup.position(SKU) == Position(2, 0)
    told = await gate.apply(SKU, [reserve("b", "ada", 2), reserve("c", "ada"), reserve("d", "bob", 3)])
    assert [v.outcome for v in told] == [Outcome.BUYER_LIMIT, Outcome.RESERVED, Outcome.RESERVED]
    await check_books(redis_setup)


async def test_a_gate_that_knows_an_old_epoch_catches_up_within_one_call(
    redis_setup: RedisSetup, gate: RedisGate
) -> None:
    other = redis_setup.open_gate()
    await other.apply(SKU, [reserve("a")])
    await gate.apply(SKU, [Provision(10, changes=RuleChanges(per_owner_limit=3))])
    [verdict] = await other.apply(SKU, [reserve("b")])
    assert verdict.outcome is Outcome.RESERVED
    assert not redis_setup.reported
    await check_books(redis_setup)


async def test_a_pool_made_before_redis_was_the_gate_is_taken_over(redis_setup: RedisSetup) -> None:
    await SqlGate(redis_setup.clock).apply(SKU, [Provision(3), reserve("a", key="k")])
    gate = redis_setup.open_gate()
    told = [(await gate.apply(SKU, [one]))[0].outcome for one in (reserve("b"), reserve("c"), reserve("d", key="k"))]
    assert told == [Outcome.RESERVED, Outcome.RESERVED, Outcome.REPLAYED]
    assert await redis_setup.position(SKU) == Position(1, 0)
    assert (await redis_setup.gate_pool(SKU)).at == Position(1, 1)
    await check_books(redis_setup)
