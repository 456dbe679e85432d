"""Statements that go to PostgreSQL's driver directly behave as those that SQLAlchemy executes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest
from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    MetaData,
    String,
    Table,
    bindparam,
    insert,
    make_url,
    select,
    text,
)
from sqlalchemy import Boolean as BooleanType
from sqlalchemy.exc import IntegrityError
from sqlalchemy.util import await_only

from holdfast.domain.stock.command import Command, Expire, Move, Provision, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.limits import DEFAULT_LOCK
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.engine.postgres import PostgresDatabase
from holdfast.ledger.engine.prepared import prepared
from holdfast.ledger.stock.without_transaction.guarded_moves import GuardedMoves
from holdfast.testing.states import SKU, reserve
from postgres_waits import until_one_waits
from round_trips import statements_sent

notes = Table(
    "notes",
    MetaData(),
    Column("note_id", String, primary_key=True),
    Column("number", BigInteger),
    Column("is_read", BooleanType),
)
GIVEN = {"note_id": "a", "number": 1, "is_read": True}
put = prepared("postgresql", insert(notes).values({c.name: bindparam(c.name) for c in notes.c}))
all_notes = prepared("postgresql", select(notes).order_by(notes.c.note_id))
Work = Callable[[Connection], Any]


@pytest.fixture
async def postgres(empty_postgres_database_url: str) -> AsyncIterator[PostgresDatabase]:
    database = open_database(empty_postgres_database_url, connections=2)
    assert isinstance(database, PostgresDatabase)
    await database.write(notes.create)
    yield database
    await database.close()


def putting(**more: object) -> Work:
    return lambda connection: put.run(connection, GIVEN | more)


async def stored(database: Database) -> list[tuple[object, ...]]:
    return [tuple(row) for row in await database.read(lambda c: all_notes.all(c, {}))]


@pytest.mark.parametrize("autocommit", [False, True])
async def test_what_is_written_is_committed_and_noted_as_a_write(postgres: PostgresDatabase, autocommit: bool) -> None:
    before = postgres.wrote_at
    await postgres.write(putting(), autocommit=autocommit)
    assert await stored(postgres) == [("a", 1, True)]
    assert postgres.wrote_at > before


async def test_what_belongs_to_a_transaction_that_fails_is_rolled_back(postgres: PostgresDatabase) -> None:
    def fail_later(connection: Connection) -> None:
        put.run(connection, GIVEN)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await postgres.write(fail_later)
    assert await stored(postgres) == []


async def test_a_transaction_is_begun_once_and_a_statement_that_commits_by_itself_is_all_that_is_sent(
    postgres: PostgresDatabase,
) -> None:

    def put_two(connection: Connection) -> None:
        for note_id in "ab":
            put.run(connection, GIVEN | {"note_id": note_id})

    with statements_sent() as sent:
        await postgres.write(put_two)
    assert [statement.split()[0] for statement in sent] == ["BEGIN", "INSERT", "INSERT", "COMMIT"]
    with statements_sent() as sent:
        await postgres.write(putting(note_id="c"), autocommit=True)
    assert [statement.split()[0] for statement in sent] == ["INSERT"]
    # The session is an ordinary one again.
    with statements_sent() as sent:
        await postgres.write(putting(note_id="d"))
    assert [statement.split()[0] for statement in sent] == ["BEGIN", "INSERT", "COMMIT"]


@pytest.mark.parametrize("autocommit", [False, True])
async def test_a_constraint_that_is_violated_is_no_outage(postgres: PostgresDatabase, autocommit: bool) -> None:
    await postgres.write(putting())
    with pytest.raises(IntegrityError) as caught:
        await postgres.write(putting(), autocommit=autocommit)
    assert getattr(caught.value.orig, "sqlstate", None) == "23505"
    assert await stored(postgres) == [("a", 1, True)]


@pytest.mark.parametrize("given", [{"note_id": "\ud800"}, {"note_id": "\0"}, {"number": 2**63}])
@pytest.mark.parametrize("autocommit", [False, True])
async def test_values_that_cannot_be_stored_are_refused_and_do_not_open_the_breaker(
    postgres: PostgresDatabase, given: dict[str, object], autocommit: bool
) -> None:
    for _ in range(6):
        with pytest.raises(Unavailable):
            await postgres.write(putting(**given), autocommit=autocommit)
    assert postgres.breaker.is_closed
    assert await stored(postgres) == []


@pytest.mark.parametrize(("autocommit", "error"), [(True, OutcomeUnknown), (False, Unavailable)])
async def test_a_session_that_is_ended_meanwhile_is_replaced(
    postgres: PostgresDatabase, empty_postgres_database_url: str, autocommit: bool, error: type[Exception]
) -> None:
    """Only what commits by itself may have done so."""
    other = await asyncpg.connect(empty_postgres_database_url)
    async with other.transaction():
        await other.execute("LOCK TABLE notes")
        writing = asyncio.create_task(postgres.write(putting(), autocommit=autocommit))
        await other.execute("SELECT pg_terminate_backend($1)", await until_one_waits(other))
        with pytest.raises(error):
            await writing
    await other.close()
    await postgres.write(putting(note_id="b"))
    assert await stored(postgres) == [("b", 1, True)]


async def test_a_caller_who_leaves_gives_up_the_session(
    postgres: PostgresDatabase, empty_postgres_database_url: str
) -> None:
    other = await asyncpg.connect(empty_postgres_database_url)
    async with other.transaction():
        await other.execute("LOCK TABLE notes")
        writing = asyncio.create_task(postgres.write(putting()))
        await until_one_waits(other)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    await other.close()
    await asyncio.gather(*[postgres.write(putting(note_id=str(n))) for n in range(4)])
    assert [note_id for note_id, *_ in await stored(postgres)] == ["0", "1", "2", "3"]


async def test_a_table_that_is_changed_costs_one_refusal_and_then_every_session_knows(
    postgres: PostgresDatabase,
) -> None:
    """As an upgrade does to servers that are running."""
    await postgres.write(putting())
    together = asyncio.Barrier(2)

    def read_together(connection: Connection) -> list[Any]:
        found = all_notes.all(connection, {})
        await_only(together.wait())
        return found

    await asyncio.gather(*[postgres.read(read_together) for _ in range(2)])
    await postgres.write(lambda c: c.exec_driver_sql("ALTER TABLE notes ALTER number TYPE integer"))
    with pytest.raises(Unavailable, match="cached"):
        await postgres.read_statement(lambda c: all_notes.all(c, {}))
    for found in await asyncio.gather(*[postgres.read(read_together) for _ in range(2)]):
        assert [tuple(row) for row in found] == [("a", 1, True)]


@pytest.mark.parametrize(("size", "kept"), [("", True), ("0", False)])
async def test_where_a_pooler_wants_no_named_statements_none_is_left_on_a_session(
    empty_postgres_database_url: str, size: str, kept: bool
) -> None:
    url = make_url(empty_postgres_database_url)
    url = url.update_query_dict({"statement_cache_size": size} if size else {})
    database = open_database(url.render_as_string(hide_password=False), connections=1)
    await database.write(notes.create)
    await database.write(putting())
    assert len(await stored(database)) == 1
    named = text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'INSERT INTO notes%'")
    assert await database.read(lambda c: c.execute(named).scalar_one()) == int(kept)
    await database.close()


def test_a_type_that_needs_a_conversion_is_refused_when_the_statement_is_built() -> None:
    with pytest.raises(TypeError, match="JSON"):
        prepared("postgresql", select(Column("facts", JSON)))


# --- plans

LIMITED = Rules(per_owner_limit=2)
FILLED = 3_000


def crowd(first: int, size: int) -> list[Command]:
    return [reserve(f"r{n:05}", f"owner {n}", key="k") for n in range(first, first + size)]


def moves(transition: Transition, first: int) -> list[Command]:
    return [Move(transition, f"r{n:05}") for n in range(first, first + 10)]


async def test_plans_are_made_for_the_values_given_before_and_after_statistics_exist(
    migrated_postgres: Database,
) -> None:
    """A plan that was made when the tables were empty would read all of them once they are full."""
    gate = SqlGate(migrated_postgres)
    await gate.apply(SKU, [Provision(2 * FILLED, LIMITED)])

    async def served(first: int) -> None:
        for batch in range(first, first + 80, 10):
            verdicts = await gate.apply(SKU, crowd(batch, 10))
            assert {verdict.outcome for verdict in verdicts} == {Outcome.RESERVED}
        for transition, begin in ((Transition.CONFIRM, first), (Transition.CANCEL, first + 10)):
            moved = await gate.apply(SKU, moves(transition, begin))
            assert {verdict.outcome for verdict in moved} == {Outcome.MOVED}

    await served(0)
    await gate.apply(SKU, crowd(100, FILLED))
    await served(4_000)
    await migrated_postgres.write(lambda c: c.execute(text("ANALYZE")))
    await served(4_100)
    # One without parameters has only one plan.
    plans = text(
        "SELECT sum(custom_plans), sum(generic_plans) FROM pg_prepared_statements "
        "WHERE cardinality(parameter_types) > 0"
    )
    reads = text(
        "SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables "
        "WHERE relname IN ('reservations', 'idempotency')"
    )
    custom, generic = await migrated_postgres.read(lambda c: c.execute(plans).one())
    assert custom > 20
    assert generic == 0

    def rows_not_by_index(connection: Connection) -> int:
        before = connection.execute(reads).scalar_one()
        gate.decide(connection, SKU, crowd(5_000, 10))
        late = [*moves(Transition.CANCEL, 4_120), Expire(100)]
        assert GuardedMoves()._decide(connection, migrated_postgres, SKU, late, DEFAULT_LOCK) is not None
        return int(connection.execute(reads).scalar_one() - before)

    # A join with nothing reads one row before it notices.
    assert await migrated_postgres.write(rows_not_by_index) < 10
