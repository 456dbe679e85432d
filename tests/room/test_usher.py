"""The usher: opens the room, draws, and calls people in at the pace, whoever else would like to."""

from itertools import count
from random import Random

import pytest
from msgspec.structs import replace
from room_world import SALE, STEP_MS, Hall

from holdfast.domain.command import Move, Reserve, Transition
from holdfast.domain.lottery import Draw, Order, digest_of, entry_of, seed_hash
from holdfast.domain.reservation import new_reservation_id
from holdfast.domain.room import RoomState, Standing, Use
from holdfast.domain.sale import Room, RoomMode
from holdfast.ledger.rooms import note_slowness, update_room
from holdfast.room.outlook import outlook_of
from holdfast.room.usher import IDLE_MS, LEASE_MS
from worlds import NOW

pytest_plugins = ("room_fixtures",)

LOTTERY = replace(SALE, room=Room(RoomMode.LOTTERY, 50, 20))


async def test_before_the_opening_nobody_is_called(hall: Hall) -> None:
    await hall.open(replace(SALE, starts_at=NOW + 10_000))
    await hall.join(f"b{n}" for n in range(10))
    await hall.step(40)
    assert await hall.serving() == 0
    await hall.step(15)
    assert await hall.serving() == 10


@pytest.mark.parametrize("rate", [5, 50, 400])
async def test_people_are_called_at_the_rate_in_order(hall: Hall, rate: int) -> None:
    seconds = 6
    await hall.open(replace(SALE, loaded_units=100_000, room=Room(RoomMode.FIFO, rate, 300)))
    await hall.join(f"b{n}" for n in range(rate * seconds * 2))
    await hall.step(2)
    before = await hall.serving()
    await hall.step(seconds * 1_000 // STEP_MS)
    room = await hall.room()
    assert room.serving - before == pytest.approx(rate * seconds, rel=0.1)
    assert hall.called(room) == [f"b{n}" for n in range(room.serving)]


async def test_no_more_are_called_than_there_is_stock_for_and_more_when_units_return(hall: Hall) -> None:
    await hall.open(replace(SALE, loaded_units=7))
    await hall.join(f"b{n}" for n in range(40))
    await hall.step(10)
    assert await hall.serving() == 7
    assert await hall.admit(*(f"b{n}" for n in range(8))) == [Standing.ADMITTED] * 7 + [Standing.WAITING]
    assert await hall.buy(*(f"b{n}" for n in range(7))) == 7
    await hall.step(10)
    assert await hall.serving() == 7


async def test_abandoned_heads_do_not_hold_up_the_line_and_everything_is_sold(hall: Hall, seed: int) -> None:
    """90 % do not come for their pass."""
    random, units, people = Random(seed), 20, 600
    await hall.open(replace(SALE, loaded_units=units, room=Room(RoomMode.FIFO, 200, 4)))
    await hall.join(f"b{n}" for n in range(people))
    sold, seen = 0, 0
    for _ in range(400):
        await hall.step()
        room = await hall.room()
        coming = [buyer for buyer in hall.called(room, seen) if random.random() < 0.1]
        seen = room.serving
        if coming:
            assert await hall.admit(*coming) == [Standing.ADMITTED] * len(coming)
            sold += await hall.buy(*coming)
        if sold == units:
            break
    room = await hall.room()
    assert (sold, room.passes_used) == (units, units)
    assert room.serving < people


async def test_an_operator_sets_the_rate_pauses_and_lets_people_in(hall: Hall) -> None:
    await hall.open()
    await hall.join(f"b{n}" for n in range(300))
    await hall.step(5)
    await hall.clock.write(lambda c: update_room(c, "drop", paused=True))
    await hall.step()
    stopped = await hall.serving()
    await hall.step(20)
    assert await hall.serving() == stopped
    await hall.clock.write(lambda c: update_room(c, "drop", let_in=7))
    await hall.step(3)
    assert ((await hall.room()).serving, (await hall.room()).let_in) == (stopped + 7, 0)
    await hall.clock.write(lambda c: update_room(c, "drop", paused=False, rate_per_second=10))
    await hall.step(50)
    assert await hall.serving() == pytest.approx(stopped + 7 + 100, rel=0.1)


async def test_a_slow_gate_makes_the_line_slower(hall: Hall) -> None:
    await hall.open(replace(SALE, loaded_units=100_000))
    await hall.join(f"b{n}" for n in range(500))
    await hall.step(5)
    before = await hall.serving()
    for _ in range(25):
        await hall.clock.write(lambda c: note_slowness(c, "another process", [("sneaker", 3_000.0)], hall.clock.now))
        await hall.step()
    room = await hall.room()
    assert room.serving - before < 50 * 5 / 3
    assert room.ushering is not None
    assert room.ushering.pace.rate_per_second < 5


async def test_purchases_that_were_paid_and_that_failed_are_both_settled(hall: Hall) -> None:
    await hall.open()
    await hall.join("abcd")
    await hall.step(2)
    assert await hall.admit(*"abcd") == [Standing.ADMITTED] * 4
    sku_id = hall.sale.sku_id
    ids = {buyer: new_reservation_id(sku_id, buyer) for buyer in "abcd"}
    await hall.gate.apply(sku_id, [Reserve(id_, buyer, 1, 1, ttl_ms=60_000) for buyer, id_ in ids.items()])
    await hall.ask(*(Use(buyer, 1) for buyer in ids))
    moves = [("a", Transition.CONFIRM), ("b", Transition.SETTLE), ("b", Transition.FAIL), ("c", Transition.CANCEL)]
    await hall.gate.apply(sku_id, [Move(transition, ids[buyer]) for buyer, transition in moves])
    hall.clock.advance(IDLE_MS)
    await hall.step()
    ushering = (await hall.room()).ushering
    assert ushering is not None
    assert (ushering.seen.counts.units_taken, ushering.seen.counts.settled, ushering.held) == (4, 3, 1)


async def test_one_usher_leads_a_room_and_another_takes_over_when_it_is_gone(hall: Hall) -> None:
    await hall.open(replace(SALE, loaded_units=100_000))
    await hall.join(f"b{n}" for n in range(2_000))
    await hall.step(5)
    gone, hall.usher = hall.usher, hall.another_usher()
    led, fence = await hall.serving(), (await hall.room()).fence
    await hall.step(3)
    assert (await hall.serving(), (await hall.room()).fence) == (led, fence)
    hall.clock.advance(LEASE_MS)
    await hall.step(3)
    taken = await hall.room()
    assert (taken.serving > led, taken.fence) == (True, fence + 1)
    # The one that slept wakes up with what it saw before, and leaves the room alone.
    await gone.attend(hall.sale)
    assert await hall.room() == taken


async def test_two_ushers_at_once_call_no_faster_than_one(hall: Hall) -> None:
    await hall.open(replace(SALE, loaded_units=100_000))
    await hall.join(f"b{n}" for n in range(2_000))
    ushers = [hall.usher, hall.another_usher()]
    for number in range(30):
        hall.usher = ushers[number % 2]
        await hall.step()
        await ushers[(number + 1) % 2].pass_once()
    assert await hall.serving() == pytest.approx(50 * 6, rel=0.1)


# --- the lottery


async def drawn(hall: Hall, entrants: int, late: int) -> RoomState:
    await hall.open(replace(LOTTERY, starts_at=NOW + 1_000))
    await hall.join(f"b{n}" for n in range(entrants))
    closed = await hall.room()
    assert (closed.entrants, closed.digest, closed.draw) == (None, None, None)
    hall.clock.advance(1_000)
    await hall.step()
    await hall.join(f"late{n}" for n in range(late))
    await hall.step(2)
    return await hall.room()


async def test_the_draw_can_be_recomputed_by_anyone_from_what_is_published(hall: Hall) -> None:
    room = await drawn(hall, entrants=5_003, late=5)
    entries = [entry_of("drop", f"b{n}", f"ticket-of-b{n}") for n in range(5_003)]
    assert (room.entrants, room.digest, room.seed_hash) == (
        5_003,
        digest_of(entries),
        seed_hash(bytes.fromhex(room.seed)),
    )
    order = Order(Draw("drop", bytes.fromhex(room.seed), 5_003, digest_of(entries)))
    places = [order.place_of(arrival) for arrival in range(5_003)]
    assert sorted(places) == list(range(5_003))
    assert places != list(range(5_003))
    assert [room.place_of(hall.stood[f"b{n}"].arrival) for n in range(5_003)] == places
    assert [room.place_of(hall.stood[f"late{n}"].arrival) for n in range(5)] == [5_003, 5_004, 5_005, 5_006, 5_007]


async def test_only_those_drawn_first_are_admitted_first(hall: Hall) -> None:
    room = await drawn(hall, entrants=300, late=1)
    await hall.step(5)
    room = await hall.room()
    assert 0 < room.serving < 300
    everyone = [f"b{n}" for n in range(300)]
    admitted = {b for b, s in zip(everyone, await hall.admit(*everyone), strict=True) if s is Standing.ADMITTED}
    assert admitted == set(hall.called(room))
    assert len(admitted) == room.serving


async def test_a_draw_that_was_interrupted_is_made_by_the_next_usher(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hall.open(LOTTERY)
    await hall.join(f"b{n}" for n in range(100))

    async def die(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(hall.usher, "_draw", die)
        await hall.step()
    closed = await hall.room()
    assert (closed.entrants, closed.digest) == (100, None)
    await hall.join(["late"])
    hall.usher = hall.another_usher()
    hall.clock.advance(LEASE_MS)
    await hall.step(4)
    room = await hall.room()
    assert (room.entrants, room.digest is None, room.serving > 0) == (100, False, True)


# --- what people are told


async def test_eta_and_odds_follow_what_people_do(hall: Hall) -> None:
    sale = replace(SALE, loaded_units=100, room=Room(RoomMode.FIFO, 50, 4), starts_at=NOW + 60_000)
    await hall.open(sale)
    await hall.join(f"b{n}" for n in range(1_000))
    room, now = await hall.room(), hall.clock.now
    assert outlook_of(sale, room, 99, now).odds == 1.0
    assert outlook_of(sale, room, 499, now).eta_seconds == 70
    hall.clock.now = NOW + 60_000
    seen = 0
    for number in count():
        await hall.step()
        room = await hall.room()
        coming = hall.called(room, seen)
        seen = room.serving
        if coming:
            await hall.admit(*coming)
            await hall.buy(*coming)
        if seen >= 60 or number > 50:
            break
    room, now = await hall.room(), hall.clock.now
    # Everyone before has bought, so there is little hope far behind; and those near are nearly sure.
    assert outlook_of(sale, room, 900, now).is_hopeless
    assert outlook_of(sale, room, seen + 10, now).odds > 0.5
    odds = [outlook_of(sale, room, place, now).odds for place in range(seen, 1_000, 50)]
    assert odds == sorted(odds, reverse=True)


async def test_before_a_draw_the_chance_is_that_of_the_whole_line(hall: Hall) -> None:
    await hall.open(replace(LOTTERY, loaded_units=100, starts_at=NOW + 60_000))
    await hall.join(f"b{n}" for n in range(1_000))
    told = outlook_of(hall.sale, await hall.room(), None, hall.clock.now)
    assert told.eta_seconds is None
    assert 0.05 < told.odds < 0.5
