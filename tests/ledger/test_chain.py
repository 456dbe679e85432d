"""The chain: every committed event is linked once, in order, by any writer; and no change of it goes unseen."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import asyncpg
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from test_pruning import DAY, KEEP_DAYS, prune, trade

from holdfast.domain.chain.merkle import root_of
from holdfast.domain.stock.command import Provision
from holdfast.gate.sql import SqlGate
from holdfast.ledger.chain import leaves as leaves_module
from holdfast.ledger.chain import linker as linker_module
from holdfast.ledger.chain.horizon import Horizon, HorizonQueries
from holdfast.ledger.chain.leaves import NAMES, HashQueries, prune_events, read_contents, read_hashes
from holdfast.ledger.chain.linker import Linker
from holdfast.ledger.chain.links import append_link, last_link, read_head, read_links, replay, root_at
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.tables.chain import links
from holdfast.ledger.tables.stock import events
from holdfast.testing.states import NOW, SKU, reserve
from linked import link_all
from set_clock import SetClock


async def sell(database: Database, batches: int, sku_id: str = SKU, prefix: str = "rsv") -> None:
    gate = SqlGate(database)
    await gate.apply(sku_id, [Provision(1_000)])
    for number in range(batches):
        await gate.apply(sku_id, [reserve(f"{prefix}_{number}_{each}", f"o{each}") for each in range(3)])


async def is_intact(database: Database) -> bool:
    replayed = await database.read(lambda c: list(replay(c)))
    head = await database.read(read_head)
    assert [each.link.number for each in replayed] == list(range(1, head.links + 1))
    return all(each.is_intact for each in replayed) and (not replayed or replayed[-1].head == head.root)


async def linked_events(database: Database) -> int:
    return sum(link.events for link in await database.read(partial(read_links, upto=10**9)))


async def count(database: Database) -> int:
    return len(await database.read(lambda c: c.execute(select(events.c.seq)).all()))


async def test_every_event_is_linked_and_the_head_follows_from_the_events(database: Database) -> None:
    linker = Linker(database)
    for number in range(4):
        await sell(database, 2, prefix=f"r{number}")
        await link_all(database, linker)
    assert await linked_events(database) == await count(database) > 0
    assert (await database.read(read_head)).links >= 4
    assert await is_intact(database)


async def test_a_ledger_without_news_gets_no_link(database: Database) -> None:
    await sell(database, 1)
    await link_all(database)
    before = await database.read(read_head)
    linker = Linker(database)
    for _ in range(3):
        assert (await linker.pass_once()).events == 0
    assert await database.read(read_head) == before


async def test_a_link_has_a_limit_and_the_rest_follows(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linker_module, "LINKED_MAX", 10)
    monkeypatch.setattr(leaves_module, "HASHED_MAX", 4)
    monkeypatch.setattr(leaves_module, "PART", 4)
    await sell(database, 10)
    await link_all(database)
    found = await database.read(partial(read_links, upto=100))
    assert [link.events for link in found[:-1]] == [12] * (len(found) - 1)
    assert len(found) > 2
    assert await linked_events(database) == await count(database)
    assert await is_intact(database)


async def test_the_head_of_any_length_is_known_later(database: Database) -> None:
    linker, heads = Linker(database), []
    for number in range(7):
        await sell(database, 1, prefix=f"r{number}")
        await link_all(database, linker)
        heads.append(await database.read(read_head))
    for head in heads:
        assert await database.read(partial(root_at, size=head.links)) == head.root
    hashes = [link.hash for link in await database.read(partial(read_links, upto=heads[-1].links))]
    assert root_of(hashes).hex() == heads[-1].root


# PostgreSQL's text has no NUL, and neither engine keeps half a surrogate pair.
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)


@given(rows=st.lists(st.tuples(texts, texts, texts, st.none() | st.integers(-(2**63), 2**63 - 1)), min_size=1))
async def test_what_is_hashed_says_all_that_is_in_a_row(database: Database, rows: list[tuple[Any, ...]]) -> None:
    queries = HashQueries(database.dialect_name)

    def work(connection: Connection) -> None:
        connection.execute(delete(events))
        names = ("reservation_id", "subject", "facts", "quantity")
        more = [dict(zip(names, row, strict=True)) | {"sku_id": "s", "type": "t", "at": 1} for row in rows]
        connection.execute(insert(events), more)
        for row, (_, content) in zip(
            connection.execute(select(events).order_by(events.c.seq)), read_contents(connection), strict=True
        ):
            assert msgspec.json.decode(content) == dict(row._mapping)
        slow = read_hashes(connection, None, 10**9)
        assert queries.read(connection, 0, slow[-1][0]) == (slow[-1][0], [each for _, each in slow])
        assert queries.read(connection, 0, slow[0][0]) == (slow[0][0], [slow[0][1]])

    await database.write(work)


def test_every_column_of_an_event_is_hashed() -> None:
    assert set(NAMES) == {c.name for c in events.c}


# --- several writers, several linkers


async def test_linkers_and_writers_of_several_processes_link_every_event_once(database_url: str) -> None:
    opened = [open_database(database_url, connections=3) for _ in range(3)]
    linkers = [Linker(database) for database in opened]
    try:
        writing = asyncio.gather(
            *[sell(database, 12, f"sku{number}", f"p{number}") for number, database in enumerate(opened)]
        )
        while not writing.done():
            await asyncio.gather(*[linker.pass_once() for linker in linkers])
        await writing
        await link_all(opened[0])
        assert await linked_events(opened[0]) == await count(opened[0]) > 3 * 12 * 3
        assert await is_intact(opened[0])
    finally:
        for database in opened:
            await database.close()


async def two_links_of_the_same_events(database: Database, *, is_numbered_anew: bool) -> None:
    """Two linkers have read the same events, and append their links one after the other."""
    await sell(database, 2)
    last = await database.read(last_link)
    hashes = [each for _, each in await database.read(partial(read_hashes, after=None, upto=10**9))]

    def append(connection: Connection) -> None:
        append_link(connection, last_link(connection) if is_numbered_anew else last, 10**9, hashes, NOW)

    await database.write(append)
    await database.write(append)


async def test_without_the_number_they_are_read_for_events_are_linked_twice(database: Database) -> None:
    await two_links_of_the_same_events(database, is_numbered_anew=True)
    assert await linked_events(database) == 2 * await count(database)


async def test_with_it_the_database_refuses_the_second_link(database: Database) -> None:
    with pytest.raises(IntegrityError):
        await two_links_of_the_same_events(database, is_numbered_anew=False)
    assert await linked_events(database) == await count(database)


async def test_an_event_that_is_committed_late_under_an_earlier_number_is_linked(postgres_database_url: str) -> None:
    database = open_database(postgres_database_url)
    await sell(database, 1)
    slow = await asyncpg.connect(postgres_database_url)
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute("SELECT 1 FROM pools FOR UPDATE")
    await slow.execute("INSERT INTO events (sku_id, type, at) VALUES ('slow', 'pool.drift', 1)")
    await sell(database, 1, "other", "q")
    linker = Linker(database)
    for _ in range(5):
        await linker.pass_once()
    assert await linked_events(database) < await count(database), "the slow one would be missed"
    await transaction.commit()
    await slow.close()
    await link_all(database, linker)
    assert await linked_events(database) == await count(database)
    assert await is_intact(database)
    await database.close()


async def test_the_horizon_waits_for_a_writer_that_began_after_the_last_one_that_committed(
    postgres_database_url: str,
) -> None:
    database = open_database(postgres_database_url)
    early, late = [await asyncpg.connect(postgres_database_url) for _ in range(2)]
    writing = [connection.transaction() for connection in (early, late)]
    numbers = {}
    for connection, transaction in zip((early, late), writing, strict=True):
        await transaction.start()
        await connection.execute("SELECT pg_current_xact_id()")
    for name, connection in (("late", late), ("early", early)):
        inserted = "INSERT INTO events (sku_id, type, at) VALUES ('s', 'pool.drift', 1) RETURNING seq"
        numbers[name] = await connection.fetchval(inserted)
    await writing[0].commit()
    horizon, queries = Horizon(), HorizonQueries("postgresql")
    seen = await database.read(lambda c: queries.look(c, horizon.known))
    assert seen.seq == numbers["early"] > numbers["late"]
    assert horizon.reached(seen) == 0
    await writing[1].commit()
    async with asyncio.timeout(60):
        while horizon.reached(await database.read(lambda c: queries.look(c, horizon.known))) < numbers["early"]:
            pass
    for connection in (early, late):
        await connection.close()
    await database.close()


async def test_an_event_whose_writer_had_no_transaction_id_when_it_took_the_number_is_linked(
    postgres_database_url: str,
) -> None:
    database = open_database(postgres_database_url)
    await sell(database, 1)
    linker = Linker(database)
    await link_all(database, linker)
    slow = await asyncpg.connect(postgres_database_url)
    transaction = slow.transaction()
    await transaction.start()
    taken = await slow.fetchval("SELECT nextval(pg_get_serial_sequence('events', 'seq'))")
    await sell(database, 1, "other", "q")
    await linker.pass_once()
    await slow.execute("INSERT INTO events (seq, sku_id, type, at) VALUES ($1, 'slow', 'pool.drift', 1)", taken)
    for _ in range(3):
        await linker.pass_once()
    await transaction.commit()
    await slow.close()
    await link_all(database, linker)
    assert await linked_events(database) == await count(database)
    assert await is_intact(database)
    await database.close()


async def test_history_from_before_the_chain_is_linked_first(database: Database) -> None:
    """As after an upgrade: its first links cover what was there."""
    await sell(database, 3)
    assert (await database.read(read_head)).links == 0
    await link_all(database)
    assert await linked_events(database) == await count(database)


# --- tampering


def change_one(connection: Connection, seq: int) -> None:
    connection.execute(update(events).where(events.c.seq == seq).values(at=events.c.at + 1))


def delete_one(connection: Connection, seq: int) -> None:
    connection.execute(delete(events).where(events.c.seq == seq))


def insert_one(connection: Connection, seq: int) -> None:
    connection.execute(delete(events).where(events.c.seq == seq))
    row = connection.execute(select(events).where(events.c.seq > seq).order_by(events.c.seq).limit(1)).one()
    connection.execute(insert(events).values(dict(row._mapping) | {"seq": seq}))


def insert_before_all(connection: Connection, seq: int) -> None:
    row = connection.execute(select(events).where(events.c.seq == seq)).one()
    connection.execute(insert(events).values(dict(row._mapping) | {"seq": -5}))


def swap_two(connection: Connection, seq: int) -> None:
    first, second = connection.execute(select(events).where(events.c.seq >= seq).order_by(events.c.seq).limit(2)).all()
    for row in (first, second):
        connection.execute(delete(events).where(events.c.seq == row.seq))
    for row, at in ((first, second.seq), (second, first.seq)):
        connection.execute(insert(events).values(dict(row._mapping) | {"seq": at}))


TAMPERINGS: list[Callable[[Connection, int], None]] = [
    change_one,
    delete_one,
    insert_one,
    insert_before_all,
    swap_two,
]


@pytest.mark.parametrize("tamper", TAMPERINGS)
async def test_tampering_with_linked_events_is_seen(database: Database, tamper: Any, seed: int) -> None:
    await sell(database, 4)
    await link_all(database)
    assert await is_intact(database)
    seqs = (await database.read(lambda c: c.execute(select(events.c.seq).order_by(events.c.seq)).scalars().all()))[:-2]
    await database.write(partial(tamper, seq=random.Random(seed).choice(seqs)))
    assert not await is_intact(database)


@pytest.mark.parametrize("column", [c.name for c in links.c])
async def test_tampering_with_a_link_is_seen(database: Database, column: str) -> None:
    linker = Linker(database)
    for number in range(3):
        await sell(database, 1, prefix=f"r{number}")
        await link_all(database, linker)
    values: dict[str, Any] = {"number": 99, "root": "00" * 32, "peak": "00" * 32}
    changed = {column: values.get(column, links.c[column] + 1)}
    await database.write(lambda c: c.execute(update(links).where(links.c.number == 2).values(**changed)))
    replayed = await database.read(lambda c: list(replay(c)))
    assert not all(each.is_intact for each in replayed)


async def test_pruning_leaves_the_chain_intact(database: Database) -> None:
    clock = SetClock(database)
    await trade(clock)
    await link_all(database)
    before = await database.read(read_head)
    clock.advance(KEEP_DAYS * DAY + 1)
    await trade(clock, "other")
    await prune(clock)
    await link_all(database)
    assert await count(database) < await linked_events(database)
    assert await database.read(partial(root_at, size=before.links)) == before.root
    assert await is_intact(database)


async def test_an_event_that_is_pruned_while_its_hash_is_read_counts_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sell(database, 2)
    last = await count(database)
    hashes = await database.read(partial(read_hashes, after=None, upto=10**9))

    def read_and_prune(connection: Connection, *conditions: Any) -> list[tuple[int, str]]:
        found = read_contents(connection, *conditions)
        prune_events(connection, [seq for seq, _ in hashes[1:3]], dict(hashes[1:3]), last)
        return found

    monkeypatch.setattr(leaves_module, "read_contents", read_and_prune)
    assert await database.write(partial(read_hashes, after=None, upto=10**9)) == hashes
