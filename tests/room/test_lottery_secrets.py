"""The draw: nobody can compute it before the list is closed, and nobody who left has a part in it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from room_setup import SALE, SEALER, RoomSetup
from sqlalchemy import Connection, select
from sqlalchemy.event import listen

from holdfast.domain.room.lottery import SEED_BYTES, beacon_of, digest_of, entry_of, seed_hash
from holdfast.domain.room.room import Join, Standing
from holdfast.domain.sale.sale import Room, RoomMode
from holdfast.errors import SettingsError, Unavailable
from holdfast.ledger.room.rooms import list_entries, skip_undrawn_leavers, update_room
from holdfast.ledger.tables.room import rooms
from holdfast.runtime.sealing import Sealer
from holdfast.runtime.signing import SigningKey
from holdfast.testing.states import NOW

pytest_plugins = ("room_fixtures",)

LOTTERY = replace(SALE, starts_at=NOW + 1_000, room=Room(RoomMode.LOTTERY, 50, 20))
WITH_BEACON = replace(LOTTERY, room=Room(RoomMode.LOTTERY, 50, 20, "drand round 4321"))


async def seeds_in_database(queue: RoomSetup) -> list[str]:
    """What a reader of the database can try as the seed: every text of the row."""
    row = await queue.clock.read(lambda c: c.execute(select(rooms)).one())
    return [value for value in row if isinstance(value, str)]


def is_seed(text: str, published_hash: str) -> bool:
    try:
        return seed_hash(bytes.fromhex(text)) == published_hash
    except ValueError:
        return False


async def open_doors(queue: RoomSetup) -> None:
    queue.clock.advance(1_000)
    await queue.step(3)


async def test_the_seed_cannot_be_read_from_the_database_before_the_draw(queue: RoomSetup) -> None:
    await queue.open(LOTTERY)
    await queue.join(["ada", "bob"])
    published = (await queue.room()).seed_hash
    assert not [text for text in await seeds_in_database(queue) if is_seed(text, published)]
    await open_doors(queue)
    assert [text for text in await seeds_in_database(queue) if is_seed(text, published)] == [(await queue.room()).seed]


async def test_those_who_left_before_the_opening_are_not_on_the_list_and_change_nothing_in_it(
    queue: RoomSetup,
) -> None:
    await queue.open(LOTTERY)
    await queue.join(["eve", "ada", "mallory", "bob", "trudy", "cat"])
    for buyer in ("eve", "mallory", "trudy"):
        await queue.leave(buyer)
    await open_doors(queue)
    [late] = await queue.join(["late"])
    room = await queue.room()
    listed = [entry_of("drop", buyer, f"ticket-of-{buyer}") for buyer in ("ada", "bob", "cat")]
    assert await queue.clock.read(lambda c: list_entries(c, room, 0, 3)) == listed
    assert (room.entrants, room.digest) == (3, digest_of(listed))
    assert sorted(room.place_of(queue.stood[buyer].arrival) for buyer in ("ada", "bob", "cat")) == [0, 1, 2]
    assert room.place_of(late.arrival) == 3
    await queue.step(2)
    assert await queue.admit("ada", "bob", "cat", "late") == [Standing.ADMITTED] * 4


async def test_who_leaves_between_closing_and_draw_stays_on_the_list_and_is_skipped(queue: RoomSetup) -> None:
    await queue.open(WITH_BEACON)
    await queue.join(["ada", "bob", "cat"])
    await open_doors(queue)
    await queue.leave("bob")
    await queue.clock.write(lambda c: update_room(c, "drop", queue.clock.now, {"beacon_value": "9f3c"}))
    await queue.step(3)
    room = await queue.room()
    assert (room.entrants, room.waiting, room.left) == (3, 0, 0)
    assert await queue.admit("ada", "cat") == [Standing.ADMITTED] * 2


async def test_a_closing_that_was_rolled_back_leaves_nothing_behind(
    queue: RoomSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.open(LOTTERY)
    await queue.join(["eve", "ada", "bob"])
    await queue.leave("eve")
    write = queue.clock.write

    async def lose(work: Callable[[Connection], object]) -> None:
        def lost(connection: Connection) -> None:
            work(connection)
            raise Unavailable("the connection broke")

        await write(lost)

    with monkeypatch.context() as patch:
        patch.setattr(queue.clock, "write", lose)
        await open_doors(queue)
    await queue.leave("ada")
    await queue.step(3)
    room = await queue.room()
    assert (room.entrants, room.place_of(queue.stood["bob"].arrival)) == (1, 0)
    assert room.digest == digest_of([entry_of("drop", "bob", "ticket-of-bob")])


async def test_however_many_left_before_the_draw_they_are_written_in_one_statement(queue: RoomSetup) -> None:
    await queue.open(WITH_BEACON)
    people = [f"b{n}" for n in range(20)]
    await queue.join(people)
    await open_doors(queue)
    for buyer in people:
        await queue.leave(buyer)
    room = await queue.room()
    statements: list[str] = []

    def skip(connection: Connection) -> int:
        listen(connection, "before_cursor_execute", lambda *given: statements.append(given[2]))
        return len(skip_undrawn_leavers(connection, room))

    assert await queue.clock.write(skip) == 20
    assert len(statements) == 2


async def test_a_seed_from_before_seeds_were_sealed_waits_for_the_named_value_too(queue: RoomSetup) -> None:
    await queue.open(WITH_BEACON)
    seed = bytes(range(SEED_BYTES))
    await queue.clock.write(
        lambda c: update_room(c, "drop", queue.clock.now, {"seed": seed.hex(), "seed_hash": seed_hash(seed)})
    )
    await queue.join(["ada", "bob"])
    await open_doors(queue)
    closed = await queue.room()
    assert (closed.digest is None, closed.is_drawn, closed.serving) == (False, False, 0)
    await queue.clock.write(lambda c: update_room(c, "drop", queue.clock.now, {"beacon_value": "9f3c"}))
    await queue.step(2)
    room = await queue.room()
    assert closed.digest is not None
    assert (room.seed, room.beacon) == (seed.hex(), beacon_of(closed.digest, "9f3c"))
    assert room.serving > 0


async def test_a_draw_with_a_named_public_value_waits_for_it_with_the_list_closed_and_public(
    queue: RoomSetup,
) -> None:
    await queue.open(WITH_BEACON)
    await queue.join(["ada", "bob"])
    await open_doors(queue)
    closed = await queue.room()
    assert (closed.entrants, closed.digest is None, closed.is_drawn, closed.serving) == (2, False, False, 0)
    await queue.step(5)
    [stand] = await queue.ask(Join("late", "ticket-of-late"))
    assert (stand.standing, (await queue.room()).serving) == (Standing.WAITING, 0)
    await queue.clock.write(lambda c: update_room(c, "drop", queue.clock.now, {"beacon_value": "9f3c"}))
    await queue.step(2)
    room = await queue.room()
    assert closed.digest is not None
    assert (room.digest, room.beacon) == (closed.digest, beacon_of(closed.digest, "9f3c"))
    assert seed_hash(bytes.fromhex(room.seed)) == closed.seed_hash
    assert room.serving > 0


def test_what_was_sealed_opens_for_what_it_is_about_and_with_a_key_that_is_still_there() -> None:
    old, new = SigningKey("old", "o" * 32), SigningKey("new", "n" * 32)
    sealed = Sealer([old]).seal(b"seed", "drop")
    assert Sealer([new, old]).open(sealed, "drop") == b"seed"
    for sealer, about in ((Sealer([old]), "another"), (Sealer([new]), "drop"), (SEALER, "drop")):
        with pytest.raises(SettingsError, match="signing key"):
            sealer.open(sealed, about)
