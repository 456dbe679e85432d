"""Places in line: one for each, in the order of arrival, kept whatever happens."""

import asyncio

import pytest
from msgspec.structs import replace
from room_world import PATIENCE_S, SALE, Hall
from sqlalchemy import select

from holdfast.domain.room import Admit, Standing, Use
from holdfast.errors import Busy
from holdfast.ledger.room_tables import places
from holdfast.room import desk as desk_module
from holdfast.room.desk import Desk

pytest_plugins = ("room_fixtures",)


async def test_everyone_gets_the_next_place_and_joining_again_the_same_one(hall: Hall) -> None:
    await hall.open()
    first = await hall.join(f"b{n}" for n in range(300))
    again = await hall.join(f"b{n}" for n in reversed(range(400)))
    assert [place.arrival for place in first] == list(range(300))
    assert [place.arrival for place in again[100:]] == list(range(300))[::-1]
    assert {p.ticket_id for p in first} == {p.ticket_id for p in again if p.arrival < 300}
    # Whoever is new among the others comes behind all of them, in arrival order.
    assert [place.arrival for place in again[:100]] == list(range(300, 400))


async def test_one_who_joins_twice_in_one_moment_has_one_place(hall: Hall) -> None:
    await hall.open()
    found = await hall.join(["ada", "bob", "ada", "ada", "eve"])
    assert [place.arrival for place in found] == [0, 1, 0, 0, 2]
    assert (await hall.room()).joined == 3


async def test_two_desks_on_one_room_share_its_numbers(hall: Hall) -> None:
    await hall.open()
    other = Hall(hall.clock, hall.gate, hall.look_at)
    await asyncio.gather(
        hall.join(f"a{n}" for n in range(700)),
        other.join([*(f"b{n}" for n in range(700)), *(f"a{n}" for n in range(0, 700, 7))]),
    )
    numbers = {place.arrival for place in (hall.stood | other.stood).values()}
    assert numbers == set(range(1_400))
    assert all(hall.stood[b].arrival == p.arrival for b, p in other.stood.items() if b in hall.stood)


async def test_nobody_is_admitted_before_their_turn_and_a_pass_asked_for_twice_is_the_same(hall: Hall) -> None:
    await hall.open()
    await hall.join(["ada", "bob"])
    assert await hall.admit("ada") == [Standing.WAITING]
    await hall.step(2)
    ada = Admit("ada", 0, "ticket-of-ada", 20_000)
    [first] = await hall.ask(ada)
    hall.clock.advance(5_000)
    [again] = await hall.ask(ada)
    assert first.place is not None
    assert again.place == first.place
    assert (await hall.room()).passes_given == 1


@pytest.mark.parametrize("wrong", [Admit("bob", 0, "ticket-of-ada", 1), Admit("ada", 1, "ticket-of-ada", 1),
                                   Admit("ada", 0, "ticket-of-bob", 1), Admit("eve", 0, "x", 1)])  # fmt: skip
async def test_only_the_ticket_of_a_place_gets_its_pass(hall: Hall, wrong: Admit) -> None:
    await hall.open()
    await hall.join(["ada", "bob"])
    await hall.step(3)
    [stand] = await hall.ask(wrong)
    assert (stand.standing, stand.place) == (Standing.GONE, None)
    assert (await hall.room()).passes_given == 0


async def test_who_leaves_and_who_lets_a_pass_lapse_joins_again_at_the_end(hall: Hall) -> None:
    await hall.open()
    await hall.join(["ada", "bob", "eve"])
    await hall.step(3)
    assert await hall.admit("bob") == [Standing.ADMITTED]
    await hall.leave("ada")
    assert await hall.admit("ada") == [Standing.GONE]
    hall.clock.advance(20_000)
    assert await hall.admit("bob") == [Standing.OVER]
    again = await hall.join(["bob", "ada", "eve"])
    assert [place.arrival for place in again] == [3, 4, 2]
    # The list of the lottery stays whole.
    kept = await hall.clock.read(lambda c: c.execute(select(places.c.arrival, places.c.buyer_id)).all())
    assert sorted(map(tuple, kept)) == [(0, "ada"), (1, "bob"), (2, "eve"), (3, "bob"), (4, "ada")]


async def test_what_people_do_with_their_passes_is_counted_once_however_late_it_is_heard(hall: Hall) -> None:
    await hall.open(replace(SALE, loaded_units=4))
    await hall.join(["soon", "late", "never", "left", "stale"])
    await hall.step(3)
    assert await hall.admit("soon", "late", "never", "left") == [Standing.ADMITTED] * 4
    await hall.buy("soon")
    room = await hall.room()
    assert (room.passes, room.passes_used, room.units_taken) == (3, 1, 1)
    await hall.leave("left")
    assert (await hall.room()).passes_lapsed == 1
    hall.clock.advance(6_000)
    await hall.step()
    assert (await hall.room()).passes_stale == 3
    hall.clock.advance(20_000)
    await hall.step()
    assert ((await hall.room()).passes_lapsed, (await hall.room()).passes) == (3, 0)
    # The reservation was made in time, and heard of now.
    await hall.buy("late")
    room = await hall.room()
    assert (room.passes_used, room.stale_used, room.passes_lapsed, room.passes) == (2, 1, 2, 0)
    assert room.passes_stale - room.stale_used - room.passes_lapsed == 0


async def test_a_line_that_is_full_says_busy_and_nobody_in_it_is_lost(hall: Hall) -> None:
    await hall.open()
    hall.desk = Desk(hall.clock, batch_max=2, line_max=3, patience_s=PATIENCE_S)
    waiting = asyncio.gather(hall.join(["a"]), hall.join(["b"]), hall.join(["c"]))
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await hall.join(["d"])
    assert [place.arrival for [place] in await waiting] == [0, 1, 2]


async def _let_ada_in(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """What she does with her pass is noted again soon, where it could not be noted."""
    monkeypatch.setattr(desk_module, "NOTE_AGAIN_S", 0.01)
    await hall.open()
    await hall.join(["ada"])
    await hall.step(2)
    await hall.admit("ada")


async def test_a_use_that_a_full_line_has_no_room_for_is_noted_a_moment_later(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _let_ada_in(hall, monkeypatch)
    hall.desk = Desk(hall.clock, batch_max=2, line_max=3, patience_s=PATIENCE_S)
    waiting = asyncio.gather(hall.join(["a"]), hall.join(["b"]), hall.join(["c"]))
    await asyncio.sleep(0)
    hall.desk.note_use(hall.sale.sale_id, Use("ada", 1))
    await waiting
    await _until_a_pass_was_used(hall)
    assert ((await hall.room()).passes_used, (await hall.room()).units_taken) == (1, 1)


async def test_a_use_that_waited_too_long_is_noted_again_and_counted_once(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _let_ada_in(hall, monkeypatch)
    # Whoever waits at all has waited too long; until there is time again.
    hall.desk = Desk(hall.clock, patience_s=0.0)
    hall.desk.note_use(hall.sale.sale_id, Use("ada", 1), more_tries=1_000_000)
    await asyncio.sleep(0.05)
    assert (await hall.room()).passes_used == 0
    hall.desk._patience_s = PATIENCE_S
    await _until_a_pass_was_used(hall)
    await hall.desk.drain()
    assert ((await hall.room()).passes_used, (await hall.room()).units_taken) == (1, 1)


async def _until_a_pass_was_used(hall: Hall) -> None:
    async with asyncio.timeout(30):
        while (await hall.room()).passes_used == 0:  # noqa: ASYNC110 - the room is in a database, and no event comes of it
            await asyncio.sleep(0.01)
