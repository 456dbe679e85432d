"""A pool that lost a part of itself in Redis decides nothing until it is rebuilt, whichever part it is."""

from collections.abc import Callable
from pathlib import Path

import pytest
from redis_tampering import KEYS, check_books

from holdfast.domain.stock.command import Command, Move, Provision, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.errors import Busy, Unavailable
from holdfast.gate.redis import upkeep
from holdfast.gate.redis.encoding import POOL_KEYS, REDIS_KEYS_KEPT_MS, key_field
from holdfast.gate.redis.gate import RedisGate
from holdfast.gate.redis.link import durability
from holdfast.gate.redis.link.redis_link import open_link
from holdfast.testing.states import SKU, reserve
from redis_setup import RedisSetup
from valkeys import ValkeyProcess, eventually, running_valkey

Lose = Callable[[ValkeyProcess], object]
HOLDS = 10
LIMIT = 3


def lose_key(name: str) -> Lose:
    return lambda valkey: valkey.command("DEL", KEYS.prefix + name)


def lose_field(name: str, field: str) -> Lose:
    return lambda valkey: valkey.command("HDEL", KEYS.prefix + name, field)


def lose_deadline(valkey: ValkeyProcess) -> None:
    valkey.command("ZPOPMIN", KEYS.deadlines)


def lose_entry(valkey: ValkeyProcess) -> None:
    valkey.command("XDEL", KEYS.journal, valkey.command("XRANGE", KEYS.journal, "-", "+", "COUNT", 1)[0][0])


LOSSES = {
    **{name: lose_key(name) for name in POOL_KEYS},
    "a hold": lose_field("holds", "r3"),
    "an owner": lose_field("owners", "ada"),
    "an idempotency key": lose_field("keys", key_field("ada", "k0")),
    "a count": lose_field("pool", "held"),
    "a rule": lose_field("pool", "per_owner_limit"),
    "a deadline": lose_deadline,
    "an entry": lose_entry,
}


@pytest.fixture
async def gate(redis_setup: RedisSetup) -> RedisGate:
    """A pool of a hundred with a limit, and ten holds of which ada has as many as she may."""
    gate = redis_setup.open_gate()
    await gate.apply(SKU, [Provision(100, Rules(per_owner_limit=LIMIT))])
    owners = ["ada"] * LIMIT + [f"owner{n}" for n in range(HOLDS - LIMIT)]
    await gate.apply(SKU, [reserve(f"r{n}", owner, key=f"k{n}") for n, owner in enumerate(owners)])
    await redis_setup.drain(SKU)
    return gate


def attempts() -> list[Command]:
    """One that is over the limit, one that repeats a key, one that is new."""
    return [reserve("x", "ada"), reserve("y", "ada", key="k0"), reserve("z", "zoe", key="k")]


AS_EVER = [Outcome.BUYER_LIMIT, Outcome.REPLAYED, Outcome.RESERVED]


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_loss_is_met_by_the_next_call_and_mended_by_the_next_look(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess, loss: str
) -> None:
    if loss in ("journal", "an entry"):
        await gate.apply(SKU, [reserve("late", "late")])
    LOSSES[loss](valkey_server)
    verdicts = await gate.apply(SKU, attempts())
    assert [verdict.outcome for verdict in verdicts] == [Outcome.NOT_READY] * 3
    finding = (await redis_setup.reconciler.pass_once())[SKU].finding
    assert finding == ("missing" if loss == "pool" else "torn")
    assert [verdict.outcome for verdict in await gate.apply(SKU, attempts())] == AS_EVER
    await check_books(redis_setup)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss not in ("pool", "journal", "an entry")])
async def test_a_loss_that_nobody_meets_is_found_at_the_first_look(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess, loss: str
) -> None:
    LOSSES[loss](valkey_server)
    [view] = (await redis_setup.views.look_at([SKU])).values()
    assert isinstance(view, Unavailable)
    assert (await redis_setup.reconciler.pass_once())[SKU].finding == "torn"
    assert [verdict.outcome for verdict in await gate.apply(SKU, attempts())] == AS_EVER
    await check_books(redis_setup)


async def test_the_manifest_follows_everything_that_changes_a_pool(redis_setup: RedisSetup, gate: RedisGate) -> None:
    moves: list[Command] = [
        Move(Transition.CONFIRM, "r0"),
        Move(Transition.CANCEL, "r4"),
        Move(Transition.SETTLE, "r5"),
        Move(Transition.FAIL, "r5"),
    ]
    steps: list[list[Command]] = [moves, [Provision(50, Rules())], [Provision(60, Rules(hold_budget=2))], attempts()]
    for step in steps:
        verdicts = await gate.apply(SKU, step)
        assert Outcome.NOT_READY not in {verdict.outcome for verdict in verdicts}
        await check_books(redis_setup)
    assert not redis_setup.reported


# --- what is audited in portions


@pytest.mark.parametrize("what", ["deadline", "owner"])
async def test_a_large_pool_is_audited_in_portions(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """What the counts do not tell: a deadline that is another, an owner who has nothing."""
    monkeypatch.setattr(upkeep, "AUDIT_HOLDS_MAX", HOLDS - 1)
    monkeypatch.setattr(upkeep, "PORTION", 3)
    assert (await redis_setup.reconciler.pass_once(thorough=True))[SKU].finding is None
    if what == "deadline":
        valkey_server.command("ZINCRBY", KEYS.deadlines, 1000, "r7")
    else:
        valkey_server.command("HDEL", KEYS.owners, "owner2")
        valkey_server.command("HSET", KEYS.owners, "nobody", "\x93\x00\x00\x90")
    assert (await redis_setup.reconciler.pass_once(thorough=True))[SKU].finding == "gate_contradiction"
    assert [verdict.outcome for verdict in await gate.apply(SKU, attempts())] == AS_EVER
    await check_books(redis_setup)


# --- what is forgotten


@pytest.mark.usefixtures("gate")
async def test_keys_and_replies_are_forgotten_in_their_time(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess
) -> None:
    redis_setup.clock.advance(REDIS_KEYS_KEPT_MS // 2)
    await redis_setup.open_gate().apply(SKU, [reserve("late", "late", key="late")])
    await redis_setup.drain(SKU)
    redis_setup.clock.advance(REDIS_KEYS_KEPT_MS // 2 + 1)
    assert len(calls(valkey_server)) == 2
    await redis_setup.reconciler.pass_once(thorough=True)
    assert set(valkey_server.command("HKEYS", KEYS.keys)) == {"", key_field("late", "late")}
    assert calls(valkey_server) == []
    await check_books(redis_setup)


def calls(valkey: ValkeyProcess) -> list[str]:
    return [field for field in valkey.command("HKEYS", KEYS.pool) if field.startswith("call:")]


# --- a journal that grows


async def test_nobody_reserves_while_the_ledger_is_too_far_behind_but_holds_can_end(redis_setup: RedisSetup) -> None:
    gate = redis_setup.open_gate(journal_max=3)
    await gate.apply(SKU, [Provision(100)])
    for n in range(3):
        await gate.apply(SKU, [reserve(f"r{n}")])
    with pytest.raises(Busy):
        await gate.apply(SKU, [reserve("late")])
    verdicts = await gate.apply(SKU, [reserve("late"), Move(Transition.CANCEL, "r0")])
    assert [verdict.outcome for verdict in verdicts] == [Outcome.NOT_READY, Outcome.MOVED]
    await redis_setup.drain(SKU)
    [verdict] = await gate.apply(SKU, [reserve("late")])
    assert verdict.outcome is Outcome.RESERVED
    await check_books(redis_setup)


# --- a configuration that is changed at run time


@pytest.fixture
async def watched(redis_setup: RedisSetup, monkeypatch: pytest.MonkeyPatch) -> RedisSetup:
    monkeypatch.setattr(durability, "WATCH_INTERVAL_S", 0.0)
    redis_setup.audit._watch = durability.DurabilityWatch(redis_setup.client, fsync="always")
    return redis_setup


@pytest.mark.parametrize(
    ("setting", "wrong", "right", "finding"),
    [
        ("maxmemory-policy", "allkeys-lru", "noeviction", "redis_may_evict"),
        ("appendfsync", "everysec", "always", "redis_not_synced"),
    ],
)
async def test_pools_are_closed_while_redis_could_lose_them(
    watched: RedisSetup,
    gate: RedisGate,
    valkey_server: ValkeyProcess,
    setting: str,
    wrong: str,
    right: str,
    finding: str,
) -> None:
    assert (await watched.reconciler.pass_once())[SKU].finding is None
    valkey_server.command("CONFIG", "SET", setting, wrong)
    try:
        for _ in range(2):
            assert (await watched.reconciler.pass_once())[SKU].finding == finding
        verdicts = await gate.apply(SKU, attempts())
        assert [verdict.outcome for verdict in verdicts] == [Outcome.NOT_READY] * 3
    finally:
        valkey_server.command("CONFIG", "SET", setting, right)
    await watched.reconciler.pass_once()
    assert [verdict.outcome for verdict in await gate.apply(SKU, attempts())] == AS_EVER
    await check_books(watched)


async def test_keys_that_were_evicted_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a server of its own, which evicts everything."""
    with running_valkey(tmp_path) as server:
        monkeypatch.setattr(durability, "WATCH_INTERVAL_S", 0.0)
        link = open_link(server.url)
        watch = durability.DurabilityWatch(link, fsync="always")
        assert await watch.finding() is None
        server.command("SET", "a", "a")
        server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        server.command("CONFIG", "SET", "maxmemory", "1")
        eventually(lambda: server.command("DBSIZE") == 0, "everything is evicted")
        server.command("CONFIG", "SET", "maxmemory", "0")
        server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert await watch.finding() == "redis_evicted"
        assert await watch.finding() is None
        await link.close()
