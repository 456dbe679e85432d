"""A batch granted in one statement on PostgreSQL gets the same verdicts as one decided in a transaction."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from gate_harness import sql_harness
from msgspec.structs import replace
from sqlalchemy import literal_column, true

from conftest import Swept
from holdfast.domain.stock.command import Command, Provision, Reserve
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate import locked_pools
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.limits import LockLimits
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.stock.without_transaction import single_statement_grant, skipped_pools
from holdfast.ledger.stock.without_transaction.single_statement_grant import SingleStatementGrant
from holdfast.ledger.stock.without_transaction.skipped_pools import SKIPPED_AFTER_FAILURE
from holdfast.testing.conformance import GateConformance, cancel
from holdfast.testing.harness import GateHarness
from holdfast.testing.states import MINUTE, NOW, SKU, reserve
from postgres_waits import until_one_waits
from round_trips import statements_sent

ONE_EACH = Rules(per_owner_limit=1)
RESERVED = Outcome.RESERVED


@pytest.fixture
def url(_swept_postgres_url: str) -> str:
    return _swept_postgres_url


@pytest.fixture
async def database(url: str, swept: Swept) -> Database:
    return await swept(url)


@pytest.fixture
def harness(database: Database) -> GateHarness:
    return sql_harness(database)


def the_long_way(database: Database) -> SqlGate:
    gate = SqlGate(database)
    gate.without_transaction = ()
    return gate


class TestTheLongWay(GateConformance):
    """What every batch took before, and many still do."""

    @pytest.fixture
    def harness(self, database: Database) -> GateHarness:
        return sql_harness(database, the_long_way)


def crowd(size: int, *, key: str | None = None) -> list[Reserve]:
    return [reserve(f"r{n:03}", f"b{n}", key=key, ttl_ms=MINUTE + n) for n in range(size)]


async def statements_of(harness: GateHarness, commands: list[Command]) -> list[str]:
    with statements_sent() as sent:
        assert {verdict.outcome for verdict in await harness.gate.apply(SKU, commands)} == {RESERVED}
    return sent


@pytest.mark.parametrize("rules", [Rules(), ONE_EACH, Rules(hold_budget=1), Rules(per_owner_limit=3, hold_budget=2)])
async def test_a_crowd_is_granted_in_one_statement(harness: GateHarness, rules: Rules) -> None:
    await harness.apply(Provision(100, rules))
    asked = await statements_of(harness, [*crowd(50, key="k")])
    assert len(asked) == 1
    snapshot = await harness.snapshot()
    snapshot.check()
    assert snapshot.pool is not None
    assert (snapshot.pool.held, snapshot.pool.active_reservations, len(snapshot.remembered)) == (50, 50, 50)


async def test_what_is_written_is_what_everyone_was_told(harness: GateHarness) -> None:
    await harness.apply(Provision(100))
    harness.clock.advance(1_000)
    verdicts = await harness.gate.apply(SKU, crowd(20, key="k"))
    snapshot = await harness.snapshot()
    assert [v.reservation for v in verdicts] == [snapshot.reservations[f"r{n:03}"] for n in range(20)]
    assert {(r.created_at, r.expires_at) for r in snapshot.reservations.values()} == {
        (NOW + 1_000, NOW + 1_000 + MINUTE + n) for n in range(20)
    }
    assert [e.reservation_id for e in snapshot.events[1:]] == [f"r{n:03}" for n in range(20)]
    assert [snapshot.remembered[f"b{n}", "k"].reservation for n in range(20)] == [v.reservation for v in verdicts]


async def test_the_clock_of_a_pool_never_runs_back(harness: GateHarness) -> None:
    await harness.apply(Provision(100))
    harness.clock.advance(-1_500)
    [verdict] = await harness.gate.apply(SKU, crowd(1))
    assert verdict.reservation is not None
    assert verdict.reservation.created_at == NOW


IN_VAIN: dict[str, tuple[list[Command], list[Command]]] = {
    "no pool": ([], [*crowd(2)]),
    "too few": ([Provision(1)], [*crowd(2)]),
    "a part would do": ([Provision(3)], [reserve("a", quantity=5, at_least=1)]),
    "paused": ([Provision(9, Rules(paused=True))], [*crowd(2)]),
    "not open yet": ([Provision(9, Rules(opens_at=NOW + 1))], [*crowd(2)]),
    "over": ([Provision(9, Rules(ends_at=NOW))], [*crowd(2)]),
    "not their tier": (
        [Provision(9, Rules(required_tier=2))],
        [replace(reserve("a", "ada"), tier=2), replace(reserve("b", "bob"), tier=1)],
    ),
    "a key again": ([Provision(9), reserve("a", key="k")], [reserve("b", key="k"), reserve("c", "cy")]),
    "a key for another request": ([Provision(9), reserve("a", key="k")], [reserve("b", quantity=2, key="k")]),
    "one key twice": ([Provision(9)], [reserve("a", key="k"), reserve("b", key="k")]),
    "somebody who has one": ([Provision(9, ONE_EACH), reserve("a")], [reserve("b"), reserve("c", "cy")]),
    "somebody twice": ([Provision(9, ONE_EACH)], [reserve("a"), reserve("b")]),
    "more than the limit": ([Provision(9, ONE_EACH)], [reserve("a", quantity=2), reserve("c", "cy")]),
    "who let go before": ([Provision(9, Rules(hold_budget=1)), reserve("a"), cancel("a")], [reserve("b")]),
    "no holds at all": ([Provision(9, Rules(hold_budget=0))], [reserve("a")]),
    "paid at once": ([Provision(9)], [replace(reserve("a"), settle=True)]),
    "others with them": ([Provision(9), reserve("a")], [cancel("a"), reserve("b", "bob")]),
}


@pytest.mark.parametrize(("before", "batch"), IN_VAIN.values(), ids=IN_VAIN)
async def test_what_cannot_be_granted_to_all_is_decided_as_the_long_way_decides(
    before: list[Command], batch: list[Command], swept: Swept, url: str
) -> None:
    told = []
    for open_gate in (SqlGate, the_long_way):
        harness = sql_harness(await swept(url), open_gate)
        for command in before:
            await harness.apply(command)
        told.append(([*await harness.gate.apply(SKU, batch)], await harness.snapshot()))
    assert told[0] == told[1]


@asynccontextmanager
async def another_takes(url: str, owner_id: str, key: str = "") -> AsyncIterator[asyncpg.Connection]:
    """Another process holds the pool and has granted a unit to this owner, which nobody sees until it is done."""
    other = await asyncpg.connect(url)
    try:
        async with other.transaction():
            await other.execute("SELECT FROM pools WHERE sku_id = $1 FOR UPDATE", SKU)
            await other.execute(
                "INSERT INTO reservations VALUES ('theirs', $1, $2, 1, 'active', $3::bigint, $3 + 60000, true)",
                SKU, owner_id, NOW,
            )  # fmt: skip
            await other.execute(
                "INSERT INTO events (sku_id, reservation_id, type, at, quantity, expires_at) "
                "VALUES ($1, 'theirs', 'reservation.created', $2::bigint, 1, $2 + 60000)",
                SKU, NOW,
            )  # fmt: skip
            if key:
                values = "($1, $2, $3, '1/1/60000', 'theirs', 1, $4::bigint, $4 + 60000)"
                await other.execute(f"INSERT INTO idempotency VALUES {values}", SKU, owner_id, key, NOW)
            await other.execute("UPDATE pools SET held = 1, active_reservations = 1 WHERE sku_id = $1", SKU)
            yield other
    finally:
        await other.close()


async def asked_meanwhile(harness: GateHarness, url: str, asked: Reserve, key: str = "") -> Outcome:
    async with another_takes(url, "ada", key) as other:
        asking = asyncio.create_task(harness.gate.apply(SKU, [asked]))
        await until_one_waits(other)
    return (await asking)[0].outcome


async def test_the_last_unit_that_is_taken_meanwhile_is_not_granted_again(harness: GateHarness, url: str) -> None:
    await harness.apply(Provision(1))
    assert await asked_meanwhile(harness, url, reserve("b", "bob")) is Outcome.ALL_HELD
    (await harness.snapshot()).check()


@pytest.mark.parametrize("also", ["total = total", "total = 100"], ids=["as it was", "restocked"])
@pytest.mark.parametrize("size", [1, 4])
async def test_a_batch_that_waited_for_the_lock_is_granted_what_is_there_then(
    harness: GateHarness, url: str, size: int, also: str
) -> None:
    await harness.apply(Provision(5 if also == "total = total" else 2))
    async with another_takes(url, "ada") as other:
        await other.execute(f"UPDATE pools SET {also} WHERE sku_id = $1", SKU)
        if also == "total = 100":
            told = "INSERT INTO events (sku_id, type, at, quantity) VALUES ($1, 'pool.restocked', $2, 98)"
            await other.execute(told, SKU, NOW)
        asking = asyncio.create_task(harness.gate.apply(SKU, crowd(size, key="k")))
        await until_one_waits(other)
    assert {verdict.outcome for verdict in await asking} == {RESERVED}
    snapshot = await harness.snapshot()
    snapshot.check()
    assert snapshot.pool is not None
    assert snapshot.pool.held == 1 + size


async def test_who_waits_too_long_for_the_lock_is_told_that_nothing_happened_and_nothing_does(
    harness: GateHarness, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked_pools, "BATCH", LockLimits(wait_ms=100))
    await harness.apply(Provision(5))
    async with another_takes(url, "ada"):
        with pytest.raises(Unavailable, match="lock"):
            await harness.gate.apply(SKU, [reserve("b", "bob")])
    assert [*(await harness.snapshot()).reservations] == ["theirs"]


async def test_a_pool_that_grants_again_is_not_read_without_the_lock_first(harness: GateHarness) -> None:
    await harness.apply(Provision(100))
    await harness.apply(cancel("nobody"))
    assert len(await statements_of(harness, [reserve("first")])) > 1
    assert len(await statements_of(harness, [reserve("second")])) == 1


async def test_a_tier_beyond_all_bounds_is_a_high_one(harness: GateHarness) -> None:
    await harness.apply(Provision(5, Rules(required_tier=2)))
    assert await harness.outcomes(replace(reserve("a"), tier=2**70)) == [RESERVED]


async def test_what_an_owner_is_given_meanwhile_counts(harness: GateHarness, url: str) -> None:
    await harness.apply(Provision(5, ONE_EACH))
    assert await asked_meanwhile(harness, url, reserve("b", "ada")) is Outcome.BUYER_LIMIT
    (await harness.snapshot()).check()


async def test_a_key_that_is_used_meanwhile_gets_its_first_answer(harness: GateHarness, url: str) -> None:
    await harness.apply(Provision(5))
    assert await asked_meanwhile(harness, url, reserve("b", "ada", key="k"), "k") is Outcome.REPLAYED
    (await harness.snapshot()).check()


async def test_without_a_look_whether_the_pool_is_as_it_was_seen_an_owner_gets_more_than_the_limit(
    harness: GateHarness, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other half of the pair."""
    monkeypatch.setattr(single_statement_grant, "is_as_seen", lambda _version: true())
    await harness.apply(Provision(5, ONE_EACH))
    harness.gate.without_transaction = (SingleStatementGrant(),)  # type: ignore[attr-defined]
    assert await asked_meanwhile(harness, url, reserve("b", "ada")) is RESERVED
    theirs = [r for r in (await harness.snapshot()).reservations.values() if r.owner_id == "ada"]
    assert len(theirs) == 2


async def test_deciding_by_what_was_there_before_the_lock_would_sell_the_last_unit_twice(
    harness: GateHarness, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is refused by the last line of defence, the constraint of the pool's row."""
    before = "(SELECT p.total - p.held - p.sold FROM pools p WHERE p.sku_id = 'sku')"
    monkeypatch.setattr(single_statement_grant, "units_free", lambda _pool: literal_column(before))
    await harness.apply(Provision(1))
    harness.gate.without_transaction = (SingleStatementGrant(),)  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="conservation"):
        await asked_meanwhile(harness, url, reserve("b", "bob"))


async def test_a_lost_connection_meanwhile_leaves_the_outcome_unknown(harness: GateHarness, url: str) -> None:
    await harness.apply(Provision(5))
    database = open_database(url)
    async with another_takes(url, "ada") as other:
        asking = asyncio.create_task(SqlGate(database).apply(SKU, [reserve("b", "bob")]))
        await other.execute("SELECT pg_terminate_backend($1)", await until_one_waits(other))
        with pytest.raises(OutcomeUnknown):
            await asking
    await database.close()
    assert [*(await harness.snapshot()).reservations] == ["theirs"]


def test_after_an_attempt_in_vain_some_batches_of_that_pool_go_the_long_way_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once, asked = SingleStatementGrant(), [reserve("a")]
    at_once._skipped.add(SKU)
    assert [at_once.attempts_in(SKU, asked) for _ in range(SKIPPED_AFTER_FAILURE)] == [None] * SKIPPED_AFTER_FAILURE
    assert at_once.attempts_in(SKU, asked) == at_once.attempts_in("another", asked) == asked
    monkeypatch.setattr(skipped_pools, "POOLS_MAX", 2)
    for number in range(5):
        at_once._skipped.add(f"sku {number}")
        assert len(at_once._skipped._left) <= 2


async def test_processes_that_race_for_owners_and_units_keep_every_limit(url: str, swept: Swept) -> None:
    first = await swept(url)
    databases = [open_database(url, connections=2) for _ in range(4)]
    gates = [SqlGate(database) for database in databases]
    await SqlGate(first).apply(SKU, [Provision(60, Rules(per_owner_limit=2))])

    async def racer(index: int) -> None:
        for round_ in range(20):
            batch = [
                reserve(f"{index}-{round_}-{n}", f"b{(round_ + n) % 20}", key=f"{index}-{round_}") for n in range(5)
            ]
            await gates[index].apply(SKU, batch)

    await asyncio.gather(*[racer(index) for index in range(4)])
    snapshot = await sql_harness(first).snapshot()
    snapshot.check()
    held = Counter(reservation.owner_id for reservation in snapshot.reservations.values())
    assert held == {f"b{n}": 2 for n in range(20)}
    for database in databases:
        await database.close()
