"""History is append-only: the database itself refuses to change or delete it."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from test_pruning import DAY, KEEP_DAYS, left, prune, pruned, refuted, trade

from holdfast.ledger.chain.leaves import hashes_of, prune_events
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.tables.chain import links, pruned_events
from holdfast.ledger.tables.stock import events
from holdfast.testing.states import NOW
from set_clock import SetClock


@pytest.fixture
async def protected(empty_database_url: str) -> AsyncIterator[Database]:
    database = open_database(empty_database_url)
    await migrate(database)
    yield database
    await database.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET quantity = 1",
        "DELETE FROM events",
        "UPDATE links SET events = 1",
        "DELETE FROM links",
        "UPDATE pruned_events SET hash = ''",
        "DELETE FROM pruned_events",
    ],
)
async def test_history_can_be_neither_changed_nor_deleted(protected: Database, statement: str) -> None:
    await trade(SetClock(protected))
    link = {"number": 1, "last_seq": 1, "events": 1, "root": "", "peak": "", "linked_at": NOW}
    await protected.write(lambda c: c.execute(insert(links).values(link)))
    # A hash of no event.
    await protected.write(lambda c: c.execute(insert(pruned_events).values(seq=-1, hash="", pruned_by=0)))
    with pytest.raises(IntegrityError, match="is append-only"):
        await protected.write(lambda c: c.execute(text(statement)))


async def test_history_cannot_be_truncated(empty_postgres_database_url: str) -> None:
    database = open_database(empty_postgres_database_url)
    await migrate(database)
    with pytest.raises(DBAPIError, match="events is append-only"):
        await database.write(lambda c: c.execute(text("TRUNCATE events")))
    await database.close()


async def test_an_event_can_be_deleted_only_once_its_hash_is_kept(protected: Database) -> None:
    await trade(SetClock(protected))
    first, second, *_ = await protected.read(lambda c: c.execute(select(events.c.seq)).scalars().all())
    await protected.write(lambda c: prune_events(c, [first], hashes_of(c, [first]), 0))
    with pytest.raises(IntegrityError, match="is append-only"):
        await protected.write(lambda c: c.execute(events.delete().where(events.c.seq == second)))
    assert first not in await protected.read(lambda c: c.execute(select(events.c.seq)).scalars().all())


async def test_pruning_deletes_from_a_protected_ledger_and_keeps_the_hashes(protected: Database) -> None:
    clock = SetClock(protected)
    ids = await trade(clock)
    before = await protected.read(lambda c: c.execute(select(events.c.seq)).scalars().all())
    clock.advance(KEEP_DAYS * DAY + 1)
    await prune(clock)
    assert await left(protected) == {ids["confirmed"], ids["settling"]}
    assert len(await pruned(protected)) == 1
    kept = await protected.read(lambda c: c.execute(select(pruned_events.c.seq)).scalars().all())
    after = await protected.read(lambda c: c.execute(select(events.c.seq)).scalars().all())
    assert sorted(set(before) - set(after)) == sorted(kept) != []
    assert await refuted(protected) == []


async def test_a_pruning_without_the_hashes_it_stands_for_is_found(database: Database) -> None:
    clock = SetClock(database)
    await trade(clock)
    clock.advance(KEEP_DAYS * DAY + 1)
    await prune(clock)
    await database.write(lambda c: c.execute(insert(pruned_events).values(seq=10**9, hash="00", pruned_by=0)))
    assert await refuted(database) == ["pruned_came_to_nothing"]
