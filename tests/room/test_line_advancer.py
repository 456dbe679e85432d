"""The advancer: opens the room, draws, and calls people in at the pace, however many run at once."""

from itertools import count
from random import Random

import pytest
from msgspec.structs import replace
from room_setup import SALE, STEP_MS, RoomSetup

from holdfast.domain.room.lottery import Draw, Order, beacon_of, digest_of, entry_of, seed_hash
from holdfast.domain.room.room import RoomState, Standing, Use
from holdfast.domain.sale.sale import Room, RoomMode
from holdfast.domain.stock.command import Move, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.room.rooms import note_slowness, update_room
from holdfast.room.line_advancer import IDLE_MS, LEASE_MS
from holdfast.room.outlook import outlook_of
from holdfast.testing.states import NOW

pytest_plugins = ("room_fixtures",)

LOTTERY = replace(SALE, room=Room(RoomMode.LOTTERY, 50, 20))


async def test_before_the_opening_nobody_is_called(queue: RoomSetup) -> None:
    await queue.open(replace(SALE, starts_at=NOW + 10_000))
    await queue.join(f"b{n}" for n in range(10))
    await queue.step(40)
    assert await queue.serving() == 0
    await queue.step(15)
    assert await queue.serving() == 10


@pytest.mark.parametrize("rate", [5, 50, 400])
async def test_people_are_called_at_the_rate_in_order(queue: RoomSetup, rate: int) -> None:
    seconds = 6
    await queue.open(replace(SALE, loaded_units=100_000, room=Room(RoomMode.FIFO, rate, 300)))
    await queue.join(f"b{n}" for n in range(rate * seconds * 2))
    await queue.step(2)
    before = await queue.serving()
    await queue.step(seconds * 1_000 // STEP_MS)
    room = await queue.room()
    assert room.serving - before == pytest.approx(rate * seconds, rel=0.1)
    assert queue.called(room) == [f"b{n}" for n in range(room.serving)]


async def test_no_more_are_called_than_there_is_stock_for_and_more_when_units_return(queue: RoomSetup) -> None:
    await queue.open(replace(SALE, loaded_units=7))
    await queue.join(f"b{n}" for n in range(40))
    await queue.step(10)
    assert await queue.serving() == 7
    assert await queue.admit(*(f"b{n}" for n in range(8))) == [Standing.ADMITTED] * 7 + [Standing.WAITING]
    assert await queue.buy(*(f"b{n}" for n in range(7))) == 7
    await queue.step(10)
    assert await queue.serving() == 7


async def test_abandoned_heads_do_not_hold_up_the_line_and_everything_is_sold(queue: RoomSetup, seed: int) -> None:
    """90 % do not come for their pass."""
    random, units, people = Random(seed), 20, 600
    await queue.open(replace(SALE, loaded_units=units, room=Room(RoomMode.FIFO, 200, 4)))
    await queue.join(f"b{n}" for n in range(people))
    sold, seen = 0, 0
    for _ in range(400):
        await queue.step()
        room = await queue.room()
        coming = [buyer for buyer in queue.called(room, seen) if random.random() < 0.1]
        seen = room.serving
        if coming:
            assert await queue.admit(*coming) == [Standing.ADMITTED] * len(coming)
            sold += await queue.buy(*coming)
        if sold == units:
            break
    room = await queue.room()
    assert (sold, room.passes_used) == (units, units)
    assert room.serving < people


async def test_an_operator_sets_the_rate_pauses_and_lets_people_in(queue: RoomSetup) -> None:
    await queue.open()
    await queue.join(f"b{n}" for n in range(300))
    await queue.step(5)
    await queue.clock.write(lambda c: update_room(c, "drop", queue.clock.now, {"paused": True}))
    await queue.step()
    stopped = await queue.serving()
    await queue.step(20)
    assert await queue.serving() == stopped
    await queue.clock.write(lambda c: update_room(c, "drop", queue.clock.now, {"admit": 7}))
    await queue.step(3)
    assert ((await queue.room()).serving, (await queue.room()).admit) == (stopped + 7, 0)
    await queue.clock.write(lambda c: update_room(c, "drop", queue.clock.now, {"paused": False, "rate_per_second": 10}))
    await queue.step(50)
    assert await queue.serving() == pytest.approx(stopped + 7 + 100, rel=0.1)


async def test_a_slow_gate_makes_the_line_slower(queue: RoomSetup) -> None:
    await queue.open(replace(SALE, loaded_units=100_000))
    await queue.join(f"b{n}" for n in range(500))
    await queue.step(5)
    before = await queue.serving()
    for _ in range(25):
        await queue.clock.write(lambda c: note_slowness(c, "another process", [("sneaker", 3_000.0)], queue.clock.now))
        await queue.step()
    room = await queue.room()
    assert room.serving - before < 50 * 5 / 3
    assert room.advancer_state is not None
    assert room.advancer_state.pace.rate_per_second < 5


async def test_purchases_that_were_paid_and_that_failed_are_both_settled(queue: RoomSetup) -> None:
    await queue.open()
    await queue.join("abcd")
    await queue.step(2)
    assert await queue.admit(*"abcd") == [Standing.ADMITTED] * 4
    sku_id = queue.sale.sku_id
    ids = {buyer: new_reservation_id(sku_id, buyer) for buyer in "abcd"}
    await queue.gate.apply(sku_id, [Reserve(id_, buyer, 1, 1, ttl_ms=60_000) for buyer, id_ in ids.items()])
    await queue.ask(*(Use(buyer, 1) for buyer in ids))
    moves = [("a", Transition.CONFIRM), ("b", Transition.SETTLE), ("b", Transition.FAIL), ("c", Transition.CANCEL)]
    await queue.gate.apply(sku_id, [Move(transition, ids[buyer]) for buyer, transition in moves])
    queue.clock.advance(IDLE_MS)
    await queue.step()
    advancer_state = (await queue.room()).advancer_state
    assert advancer_state is not None
    assert (advancer_state.seen.counts.units_taken, advancer_state.seen.counts.settled, advancer_state.held) == (
        4,
        3,
        1,
    )


async def test_one_advancer_leads_a_room_and_another_takes_over_when_it_is_gone(queue: RoomSetup) -> None:
    await queue.open(replace(SALE, loaded_units=100_000))
    await queue.join(f"b{n}" for n in range(2_000))
    await queue.step(5)
    gone, queue.advancer = queue.advancer, queue.another_advancer()
    led, fence = await queue.serving(), (await queue.room()).fence
    await queue.step(3)
    assert (await queue.serving(), (await queue.room()).fence) == (led, fence)
    queue.clock.advance(LEASE_MS)
    await queue.step(3)
    taken = await queue.room()
    assert (taken.serving > led, taken.fence) == (True, fence + 1)
    # The one that slept wakes up with what it saw before, and leaves the room alone.
    await gone.attend(queue.sale)
    assert await queue.room() == taken


async def test_two_advancers_call_no_faster_than_one(queue: RoomSetup) -> None:
    await queue.open(replace(SALE, loaded_units=100_000))
    await queue.join(f"b{n}" for n in range(2_000))
    advancers = [queue.advancer, queue.another_advancer()]
    for number in range(30):
        queue.advancer = advancers[number % 2]
        await queue.step()
        await advancers[(number + 1) % 2].pass_once()
    assert await queue.serving() == pytest.approx(50 * 6, rel=0.1)


# --- the lottery


async def drawn(queue: RoomSetup, entrants: int, late: int) -> RoomState:
    await queue.open(replace(LOTTERY, starts_at=NOW + 1_000))
    await queue.join(f"b{n}" for n in range(entrants))
    closed = await queue.room()
    assert (closed.entrants, closed.digest, closed.draw) == (None, None, None)
    queue.clock.advance(1_000)
    await queue.step()
    await queue.join(f"late{n}" for n in range(late))
    await queue.step(2)
    return await queue.room()


async def test_the_draw_can_be_recomputed_by_anyone_from_what_is_published(queue: RoomSetup) -> None:
    room = await drawn(queue, entrants=5_003, late=5)
    entries = [entry_of("drop", f"b{n}", f"ticket-of-b{n}") for n in range(5_003)]
    assert (room.entrants, room.digest, room.seed_hash) == (
        5_003,
        digest_of(entries),
        seed_hash(bytes.fromhex(room.seed)),
    )
    assert room.beacon == beacon_of(digest_of(entries))
    order = Order(Draw("drop", bytes.fromhex(room.seed), 5_003, digest_of(entries), room.beacon))
    places = [order.place_of(arrival) for arrival in range(5_003)]
    assert sorted(places) == list(range(5_003))
    assert places != list(range(5_003))
    assert [room.place_of(queue.stood[f"b{n}"].arrival) for n in range(5_003)] == places
    assert [room.place_of(queue.stood[f"late{n}"].arrival) for n in range(5)] == [
        5_003,
        5_004,
        5_005,
        5_006,
        5_007,
    ]


async def test_only_those_drawn_first_are_admitted_first(queue: RoomSetup) -> None:
    room = await drawn(queue, entrants=300, late=1)
    await queue.step(5)
    room = await queue.room()
    assert 0 < room.serving < 300
    everyone = [f"b{n}" for n in range(300)]
    admitted = {b for b, s in zip(everyone, await queue.admit(*everyone), strict=True) if s is Standing.ADMITTED}
    assert admitted == set(queue.called(room))
    assert len(admitted) == room.serving


async def test_a_draw_that_was_interrupted_is_made_by_the_next_advancer(
    queue: RoomSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.open(LOTTERY)
    await queue.join(f"b{n}" for n in range(100))

    async def die(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(queue.advancer, "_draw", die)
        await queue.step()
    closed = await queue.room()
    assert (closed.entrants, closed.digest) == (100, None)
    await queue.join(["late"])
    queue.advancer = queue.another_advancer()
    queue.clock.advance(LEASE_MS)
    await queue.step(4)
    room = await queue.room()
    assert (room.entrants, room.digest is None, room.serving > 0) == (100, False, True)


# --- what people are told


async def test_eta_and_odds_follow_what_people_do(queue: RoomSetup) -> None:
    sale = replace(SALE, loaded_units=100, room=Room(RoomMode.FIFO, 50, 4), starts_at=NOW + 60_000)
    await queue.open(sale)
    await queue.join(f"b{n}" for n in range(1_000))
    room, now = await queue.room(), queue.clock.now
    assert outlook_of(sale, room, 99, now).odds == 1.0
    assert outlook_of(sale, room, 100, now).odds is None
    assert outlook_of(sale, room, 499, now).eta_seconds == 70
    queue.clock.now = NOW + 60_000
    seen = 0
    for number in count():
        await queue.step()
        room = await queue.room()
        coming = queue.called(room, seen)
        seen = room.serving
        if coming:
            await queue.admit(*coming)
            await queue.buy(*coming)
        if seen >= 60 or number > 50:
            break
    room, now = await queue.room(), queue.clock.now
    # Everyone before has bought, so there is little hope far behind; and those near are nearly sure.
    assert outlook_of(sale, room, 900, now).is_likely_sold_out
    odds = [outlook_of(sale, room, place, now).odds or 0.0 for place in range(seen + 10, 1_000, 50)]
    assert odds[0] > 0.5
    assert odds == sorted(odds, reverse=True)


async def test_before_a_draw_nobody_is_told_odds_that_nothing_is_known_about(queue: RoomSetup) -> None:
    await queue.open(replace(LOTTERY, loaded_units=100, starts_at=NOW + 60_000))
    await queue.join(f"b{n}" for n in range(1_000))
    told = outlook_of(queue.sale, await queue.room(), None, queue.clock.now)
    assert told.eta_seconds is None
    assert told.odds is None
    assert not told.is_likely_sold_out
