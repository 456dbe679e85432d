"""Moves written without a transaction on PostgreSQL get the verdicts that a transaction gives, or none."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from gate_harness import sql_harness
from sqlalchemy import ColumnElement
from sqlalchemy.util import await_only

from conftest import Swept
from holdfast.domain.stock.command import Command, Expire, Extend, Move, Provision, Restock, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.errors import Cause, OutcomeUnknown, Unavailable
from holdfast.gate import locked_pools
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.limits import LockLimits
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.engine.postgres import PostgresDatabase
from holdfast.ledger.stock.decide import decide_timed
from holdfast.ledger.stock.without_transaction import guarded_moves
from holdfast.ledger.stock.without_transaction.skipped_pools import SKIPPED_AFTER_FAILURE
from holdfast.runtime import counters
from holdfast.testing.conformance import cancel, reopen
from holdfast.testing.harness import GateHarness
from holdfast.testing.states import MINUTE, SKU, reserve
from holdfast.verify.prove import prove
from ledger_snapshot import read_ledger_snapshot
from postgres_waits import until_one_waits
from round_trips import statements_sent
from set_clock import SetClock

ALREADY, ILLEGAL, MOVED, NOT_FOUND = Outcome.ALREADY, Outcome.ILLEGAL, Outcome.MOVED, Outcome.NOT_FOUND
LIMITED = Rules(per_owner_limit=2, hold_budget=5)


@pytest.fixture
def url(_swept_postgres_url: str) -> str:
    return _swept_postgres_url


@pytest.fixture
async def database(url: str, swept: Swept) -> Database:
    return await swept(url)


@pytest.fixture
def harness(database: Database) -> GateHarness:
    return sql_harness(database)


def in_transactions(database: Database) -> SqlGate:
    gate = SqlGate(database)
    gate.without_transaction = ()
    return gate


def move(transition: Transition, reservation_id: str) -> Move:
    return Move(transition, reservation_id)


def confirm(reservation_id: str) -> Move:
    return move(Transition.CONFIRM, reservation_id)


def holds(*ids: str, ttl_ms: int = 10 * MINUTE) -> list[Command]:
    return [reserve(id_, f"owner of {id_}", ttl_ms=ttl_ms) for id_ in ids]


# By what a batch does, after which a minute passes, and what it is.
BATCHES: dict[str, tuple[list[Command], list[Command]]] = {
    "confirm": ([], [confirm("a"), confirm("b")]),
    "cancel": ([], [cancel("a"), cancel("b", "owner of b")]),
    "extend": ([], [Extend("a", 20 * MINUTE), Extend("b", 30 * MINUTE)]),
    "settle": ([], [move(Transition.SETTLE, "a")]),
    "confirm a settling one": ([move(Transition.SETTLE, "a")], [confirm("a")]),
    "fail": ([move(Transition.SETTLE, "a")], [move(Transition.FAIL, "a")]),
    "reopen": ([move(Transition.SETTLE, "a")], [reopen("a", 1)]),
    "expire": (holds("due 1", "due 2", ttl_ms=MINUTE), [Expire(100)]),
    "expire a part": (holds("due 1", "due 2", ttl_ms=MINUTE), [Expire(1)]),
    "one that is due": (holds("due", ttl_ms=MINUTE), [cancel("due"), confirm("a")]),
    "one that is due, and the others": (holds("due 1", "due 2", ttl_ms=MINUTE), [confirm("due 1"), Expire(1)]),
    "both ways": ([], [cancel("a"), confirm("a"), confirm("b"), cancel("b")]),
    "some in vain": ([cancel("a")], [confirm("a"), cancel("a"), confirm("nobody"), cancel("b", "eve"), confirm("b")]),
    "the last of a pool that was sold out": ([Restock(-98)], [cancel("a"), confirm("b")]),
}
IN_VAIN: list[Command] = [confirm("nobody"), cancel("a", "eve"), cancel("b"), Expire(100), Extend("a", MINUTE)]


@pytest.mark.parametrize("rules", [Rules(), LIMITED], ids=["unlimited", "limited"])
@pytest.mark.parametrize(("before", "batch"), BATCHES.values(), ids=BATCHES)
async def test_a_batch_is_two_statements_and_decided_as_in_a_transaction(
    before: list[Command], batch: list[Command], rules: Rules, swept: Swept, url: str
) -> None:
    told, sent = [], []
    for open_gate in (SqlGate, in_transactions):
        harness = sql_harness(await swept(url), open_gate)
        await harness.apply(Provision(100, rules), *holds("a", "b"))
        if before:
            await harness.apply(*before)
        harness.clock.advance(MINUTE)
        counters.take()
        with statements_sent() as statements:
            verdicts = await harness.gate.apply(SKU, batch)
        sent.append(len(statements))
        snapshot = await harness.snapshot()
        snapshot.check()
        told.append((verdicts, snapshot, counters.take()))
    assert told[0] == told[1]
    assert sent[0] == 2 < sent[1]


async def test_a_batch_that_changes_nothing_is_one_statement_and_no_write(url: str, swept: Swept) -> None:
    await swept(url)
    database = open_database(url)
    assert isinstance(database, PostgresDatabase)
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(5), *holds("a", "b")])
    await gate.apply(SKU, [cancel("b")])
    wrote_at = database.wrote_at
    with statements_sent() as sent:
        verdicts = await gate.apply(SKU, IN_VAIN)
    assert [v.outcome for v in verdicts] == [NOT_FOUND, NOT_FOUND, ALREADY, MOVED, ALREADY]
    assert len(sent) == 1
    assert database.wrote_at == wrote_at
    assert [v.outcome for v in await gate.apply("no pool", [confirm("a")])] == [Outcome.POOL_NOT_FOUND]
    await database.close()


async def test_everything_that_is_written_is_proven_by_the_events(url: str, swept: Swept) -> None:
    database = await swept(url)
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(100, LIMITED), *holds(*"abcdef"), *holds("due", ttl_ms=1)])
    await asyncio.sleep(0.01)
    batches: list[list[Command]] = [
        [move(Transition.SETTLE, id_) for id_ in "ab"],
        [move(Transition.FAIL, "a"), reopen("b", 1), confirm("c"), cancel("d"), Extend("e", 30 * MINUTE)],
        [move(Transition.SETTLE, "b")],
        [confirm("b"), Expire(10)],
    ]
    for batch in batches:
        with statements_sent() as sent:
            assert {v.outcome for v in await gate.apply(SKU, batch)} == {MOVED}
        assert len(sent) == 2
    assert [finding for finding in await database.read(prove) if not finding.ok] == []
    (await read_ledger_snapshot(database, SKU)).check()


async def test_what_a_sale_has_to_record_takes_a_transaction(harness: GateHarness, database: Database) -> None:
    await harness.apply(Provision(5), *holds("a", "b", "c"))
    await database.write(lambda c: c.exec_driver_sql("UPDATE pools SET sale_id = 'drop'"))
    begun = []
    for command in (cancel("a"), move(Transition.SETTLE, "b"), cancel("c")):
        with statements_sent() as sent:
            assert [v.outcome for v in await harness.gate.apply(SKU, [command])] == [MOVED]
        begun.append([number for number, statement in enumerate(sent) if "BEGIN" in statement])
    # After the second it is known that a try is in vain.
    assert begun == [[], [1], [0]]


async def test_a_transaction_that_moves_reservations_asks_nothing_about_owners(database: Database) -> None:
    gate = in_transactions(database)
    await gate.apply(SKU, [Provision(5, LIMITED), *holds("a")])
    with statements_sent() as sent:
        await gate.apply(SKU, [confirm("a")])
    assert [statement.split()[0] for statement in sent] == ["BEGIN", "SELECT", "SELECT", "WITH", "COMMIT"]


# --- what others do meanwhile


@asynccontextmanager
async def another_has_the_pool(url: str) -> AsyncIterator[asyncpg.Connection]:
    other = await asyncpg.connect(url)
    try:
        async with other.transaction():
            await other.execute("SELECT FROM pools WHERE sku_id = $1 FOR UPDATE", SKU)
            yield other
    finally:
        await other.close()


async def test_a_batch_waits_for_a_lock_under_which_nothing_changed(harness: GateHarness, url: str) -> None:
    await harness.apply(Provision(5), *holds("a"))
    with statements_sent() as sent:
        async with another_has_the_pool(url) as other:
            asking = asyncio.create_task(harness.gate.apply(SKU, [confirm("a")]))
            await until_one_waits(other)
            ours = sent[-1]
        assert [v.outcome for v in await asking] == [MOVED]
    assert not any("BEGIN" in statement for statement in sent[sent.index(ours) :])


async def test_a_pool_that_is_locked_for_too_long_is_refused_and_nothing_happens(
    harness: GateHarness, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked_pools, "BATCH", LockLimits(wait_ms=100))
    await harness.apply(Provision(5), *holds("a"))
    async with another_has_the_pool(url):
        with pytest.raises(Unavailable) as caught:
            await harness.gate.apply(SKU, [confirm("a")])
    assert caught.value.cause is Cause.LOCK_TIMEOUT
    assert await harness.history("a") == ["reservation.created"]


@pytest.mark.parametrize(
    ("locked", "error"),
    [("SELECT FROM pools FOR UPDATE", OutcomeUnknown), ("LOCK TABLE reservations", Unavailable)],
    ids=["the write", "the read"],
)
async def test_a_connection_that_is_lost_leaves_the_outcome_unknown_only_once_something_was_written(
    harness: GateHarness, url: str, locked: str, error: type[Exception]
) -> None:
    await harness.apply(Provision(5), *holds("a"))
    database, other = open_database(url), await asyncpg.connect(url)
    async with other.transaction():
        await other.execute(locked)
        asking = asyncio.create_task(SqlGate(database).apply(SKU, [confirm("a")]))
        await other.execute("SELECT pg_terminate_backend($1)", await until_one_waits(other))
        with pytest.raises(error):
            await asking
    await other.close()
    await database.close()
    assert await harness.history("a") == ["reservation.created"]


class Met:
    """Two servers that meet between reading and writing."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.databases = [open_database(url, connections=2) for _ in range(2)]
        self.gates = [SqlGate(SetClock(database)) for database in self.databases]
        meeting = asyncio.Barrier(2)

        def decide_together(*given: Any) -> Any:
            await_only(meeting.wait())
            return decide_timed(*given)

        monkeypatch.setattr(guarded_moves, "decide_timed", decide_together)

    async def outcomes(self, *commands: Command) -> Counter[Outcome]:
        told = await asyncio.gather(*[g.apply(SKU, [c]) for g, c in zip(self.gates, commands, strict=True)])
        for database in self.databases:
            await database.close()
        return Counter(verdict.outcome for [verdict] in told)


async def test_of_two_servers_that_end_one_hold_at_once_one_does(
    harness: GateHarness, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.apply(Provision(5), *holds("a"))
    assert await Met(url, monkeypatch).outcomes(cancel("a"), confirm("a")) == {MOVED: 1, ILLEGAL: 1}
    (await harness.snapshot()).check()


async def test_two_servers_that_end_two_holds_at_once_both_count(
    harness: GateHarness, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.apply(Provision(5), *holds("a", "b"))
    assert await Met(url, monkeypatch).outcomes(cancel("a"), confirm("b")) == {MOVED: 2}
    snapshot = await harness.snapshot()
    snapshot.check()
    assert snapshot.pool is not None
    assert (snapshot.pool.held, snapshot.pool.sold) == (0, 1)


def without_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_version(_version: ColumnElement[str]) -> ColumnElement[bool]:
        return guarded_moves.seen_version.is_not(None)

    monkeypatch.setattr(guarded_moves, "is_as_seen", any_version)


async def test_without_a_look_whether_the_pool_is_as_it_was_seen_one_hold_ends_twice(
    harness: GateHarness, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other half of the pair."""
    without_the_guard(monkeypatch)
    await harness.apply(Provision(5), *holds("a"))
    assert await Met(url, monkeypatch).outcomes(cancel("a"), confirm("a")) == {MOVED: 2}
    with pytest.raises(AssertionError):
        (await harness.snapshot()).check()


async def test_a_version_never_comes_back_though_its_place_in_the_table_does(harness: GateHarness, url: str) -> None:
    await harness.apply(Provision(5), *holds("a"))
    other = await asyncpg.connect(url)
    seen = []
    for _ in range(400):
        seen.append(await other.fetchrow("SELECT xmin, ctid FROM pools"))
        await other.execute("UPDATE pools SET decided_at = decided_at")
    await other.close()
    assert len({row["xmin"] for row in seen}) == len(seen) > len({row["ctid"] for row in seen})


async def test_after_a_batch_in_vain_the_next_of_that_pool_are_transactions_at_once(
    harness: GateHarness, url: str
) -> None:
    ids = [str(number) for number in range(SKIPPED_AFTER_FAILURE + 2)]
    await harness.apply(Provision(50), *holds(*ids))
    async with another_has_the_pool(url) as other:
        asking = asyncio.create_task(harness.gate.apply(SKU, [cancel(ids.pop())]))
        await until_one_waits(other)
        await other.execute("UPDATE pools SET decided_at = decided_at")
    assert [v.outcome for v in await asking] == [MOVED]
    begun = []
    for id_ in ids:
        with statements_sent() as sent:
            await harness.gate.apply(SKU, [cancel(id_)])
        begun.append("BEGIN" in sent[0])
    assert begun == [True] * SKIPPED_AFTER_FAILURE + [False]
