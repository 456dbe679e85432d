"""A crowd that joins in one statement on PostgreSQL gets the same answers as one that falls back to a transaction."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from room_setup import SALE, RoomSetup, room_setup_on
from sqlalchemy import select, true
from sqlalchemy.exc import IntegrityError

from conftest import Swept
from holdfast.domain.room.room import Join, Leave, RoomAsk
from holdfast.errors import OutcomeUnknown
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.room import single_statement_join as join_at_once
from holdfast.ledger.room.queries import locked_room
from holdfast.ledger.tables.room import places
from holdfast.room.join_queue import JoinQueue
from holdfast.testing.states import NOW
from postgres_waits import until_one_waits
from round_trips import statements_sent

ADA = Join("ada", "another ticket")
# With somebody in it who leaves, a batch falls back to a transaction.
IN_A_TRANSACTION = [ADA, Leave("nobody", 99, "none")]


@pytest.fixture
def url(_swept_postgres_url: str) -> str:
    return _swept_postgres_url


@pytest.fixture
async def line(url: str, swept: Swept) -> AsyncIterator[RoomSetup]:
    async with room_setup_on(await swept(url), None) as queue:
        await queue.open()
        yield queue


async def in_line(queue: RoomSetup) -> list[tuple[int, str, str, int]]:
    columns = (places.c.arrival, places.c.buyer_id, places.c.ticket_id, places.c.joined_at)
    rows = await queue.clock.read(lambda c: c.execute(select(*columns).order_by(places.c.arrival)).all())
    return [(row.arrival, row.buyer_id, row.ticket_id, row.joined_at) for row in rows]


async def test_a_crowd_joins_in_one_statement_outside_of_any_transaction(line: RoomSetup) -> None:
    await line.join(["first"])
    with statements_sent() as sent:
        await line.join(f"b{n}" for n in range(50))
    assert len(sent) == 1
    assert (await line.room()).joined == 51


async def test_what_is_written_is_what_everyone_was_told(line: RoomSetup) -> None:
    await line.join(["old", "older"])
    line.clock.advance(1_000)
    told = await line.join(["new", "old", "newer", "new", "older", "newest"])
    assert [place.arrival for place in told] == [2, 0, 3, 2, 1, 4]
    later = NOW + 1_000
    written = [(2, "new", later), (3, "newer", later), (4, "newest", later)]
    assert (await in_line(line))[2:] == [(arrival, who, f"ticket-of-{who}", at) for arrival, who, at in written]


async def test_where_all_have_a_place_nothing_is_written(line: RoomSetup) -> None:
    first = await line.join(["ada", "bob"])
    again = await line.join(["bob", "ada"])
    assert (again, (await line.room()).joined, len(await in_line(line))) == (first[::-1], 2, 2)


async def test_one_whose_pass_is_over_gives_up_that_place_for_the_last_and_the_batch_is_kept_in_order(
    line: RoomSetup,
) -> None:
    await line.join(["ada", "bob"])
    await line.step(2)
    await line.admit("ada")
    line.clock.advance(SALE.room.pass_seconds * 1_000)
    told = await line.join(["eve", "ada", "bob", "dan"])
    assert [place.arrival for place in told] == [2, 3, 1, 4]
    assert [who for _, who, _, _ in await in_line(line)] == ["ada", "bob", "eve", "ada", "dan"]


@asynccontextmanager
async def another_lets_ada_in(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Another process holds the room and has given her the next place, which nobody can see until it is done."""
    other = await asyncpg.connect(url)
    try:
        async with other.transaction():
            await other.execute("SELECT FROM rooms WHERE sale_id = 'drop' FOR UPDATE")
            await other.execute("INSERT INTO places VALUES ('drop', 0, 'ada', 'her ticket', 0)")
            await other.execute("UPDATE rooms SET joined = 1 WHERE sale_id = 'drop'")
            yield other
    finally:
        await other.close()


@pytest.mark.parametrize("asks", [[ADA], IN_A_TRANSACTION], ids=["single statement", "transaction"])
async def test_a_place_that_was_given_while_the_batch_waited_for_the_lock_is_seen(
    asks: list[RoomAsk], line: RoomSetup, url: str
) -> None:
    async with another_lets_ada_in(url) as other:
        joining = asyncio.create_task(line.ask(*asks))
        await until_one_waits(other)
    stand = (await joining)[0]
    assert stand.place is not None
    assert (stand.place.arrival, stand.place.ticket_id) == (0, "her ticket")
    assert (await line.room()).joined == 1


async def test_without_a_look_whether_the_room_is_as_it_was_seen_she_would_be_given_two_places(
    line: RoomSetup, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is refused by the last line of defence, the index."""
    guarded = locked_room()
    blind = select(*(c for c in guarded.c if c.name != "is_as_seen"), true().label("is_as_seen")).subquery("room")
    monkeypatch.setattr(join_at_once, "locked_room", lambda: blind)
    line.desk = JoinQueue(line.clock)
    async with another_lets_ada_in(url) as other:
        joining = asyncio.create_task(line.ask(ADA))
        await until_one_waits(other)
    with pytest.raises(IntegrityError):
        await joining


async def test_after_an_attempt_in_vain_some_batches_go_the_long_way_at_once() -> None:
    at_once = join_at_once.SingleStatementJoin()
    assert at_once.joins_in([ADA]) == [ADA]
    at_once._skipped = 2
    assert [at_once.joins_in([ADA]) for _ in range(3)] == [None, None, [ADA]]
    assert at_once.joins_in([ADA, Join("bob", "ticket", only_again=True)]) is None


async def test_a_lost_connection_meanwhile_leaves_the_outcome_unknown(line: RoomSetup, url: str) -> None:
    database = open_database(url)
    async with another_lets_ada_in(url) as other:
        joining = JoinQueue(database).submit(SALE.sale_id, Join("bob", "ticket-of-bob"))
        await other.execute("SELECT pg_terminate_backend($1)", await until_one_waits(other))
        with pytest.raises(OutcomeUnknown):
            await joining
    await database.close()
    assert [who for _, who, _, _ in await in_line(line)] == ["ada"]
