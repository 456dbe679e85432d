"""Arrivals that the store did not take at once become places in the order of their stamps."""

from collections.abc import Sequence

import pytest
from room_setup import RoomSetup
from sqlalchemy import select, update

from holdfast.domain.room.room import Admit, Arrival, Join, Leave, Standing
from holdfast.errors import Unavailable
from holdfast.ledger.room.arrivals import MERGE_AFTER_MS, find_staged, stage
from holdfast.ledger.room.queries import MAY_OVERTAKE_MS
from holdfast.ledger.tables.room import places
from holdfast.room.arrival_stager import ArrivalStager
from holdfast.room.tokens import Provisional, Tokens
from holdfast.room.wakeup import Wakeup
from holdfast.runtime.signing import SigningKey
from holdfast.testing.states import NOW
from holdfast.verify.check import Computed
from holdfast.verify.line import ARRIVAL_SKEW_MS, CHECKS

pytest_plugins = ("room_fixtures",)

BY_STAMP = next(check for check in CHECKS if check.name == "places_by_stamp")


def stager_of(queue: RoomSetup) -> ArrivalStager:
    return ArrivalStager(queue.clock, Wakeup())


async def line(queue: RoomSetup) -> list[str]:
    in_line = select(places.c.buyer_id).order_by(places.c.arrival)
    return list(await queue.clock.read(lambda c: c.execute(in_line).scalars().all()))


async def wrong_order(queue: RoomSetup) -> list[object]:
    assert isinstance(BY_STAMP, Computed)
    counter_examples = BY_STAMP.counter_examples
    return [found["arrival"] for found in await queue.clock.read(lambda c: list(counter_examples(c)))]


async def merge(queue: RoomSetup) -> None:
    queue.clock.advance(MERGE_AFTER_MS)
    await queue.advancer.pass_once()


async def test_arrivals_of_several_servers_are_merged_by_their_stamps(queue: RoomSetup) -> None:
    await queue.open()
    await queue.join(["first"])
    one, other = stager_of(queue), stager_of(queue)
    for number in range(6):
        stager = (one, other)[number % 2]
        stager.stamp("drop", f"buyer-{number}", f"ticket-{number}", NOW - 5_000 + number)
    await other.pass_once()
    queue.clock.advance(500)
    await one.pass_once()
    assert one.kept == other.kept == 0
    await merge(queue)
    assert await line(queue) == ["first", *(f"buyer-{number}" for number in range(6))]
    assert await wrong_order(queue) == []
    assert await queue.clock.read(find_staged) == []


async def test_nobody_overtakes_staged_arrivals_or_is_called_before_they_are_merged(queue: RoomSetup) -> None:
    await queue.open()
    await queue.step()
    await queue.join(["ada"])
    stager = stager_of(queue)
    stager.stamp("drop", "bob", "ticket-of-bob", NOW - MAY_OVERTAKE_MS - 500)
    await stager.pass_once()
    newcomer, known = await queue.ask(Join("cleo", "ticket-of-cleo"), Join("ada", "another"))
    assert (newcomer.standing, newcomer.place) == (Standing.MERGING, None)
    assert known.standing is Standing.WAITING
    await queue.step()
    assert await queue.serving() == 0
    await merge(queue)
    await queue.join(["cleo"])
    await queue.step(5)
    assert await line(queue) == ["ada", "bob", "cleo"]
    assert await queue.serving() == 3


async def test_a_buyer_keeps_the_earliest_stamp_and_a_place_they_have(queue: RoomSetup) -> None:
    await queue.open()
    await queue.join(["ada"])
    one, other = stager_of(queue), stager_of(queue)
    one.stamp("drop", "bob", "late", NOW + 30)
    one.stamp("drop", "cleo", "of-cleo", NOW + 20)
    one.stamp("drop", "ada", "of-ada", NOW + 25)
    await one.pass_once()
    other.stamp("drop", "bob", "early", NOW + 10)
    await other.pass_once()
    await merge(queue)
    assert await line(queue) == ["ada", "bob", "cleo"]


async def test_a_ticket_whose_place_was_left_gives_no_other(queue: RoomSetup) -> None:
    await queue.open()
    stager = stager_of(queue)
    arrival = stager.stamp("drop", "ada", "of-ada", NOW)
    await stager.pass_once()
    await merge(queue)
    await queue.ask(Leave("ada", 0, "of-ada"))
    await queue.clock.write(lambda c: stage(c, [arrival], NOW + 5_000))
    queue.clock.advance(10_000)
    await queue.advancer.pass_once()
    assert await line(queue) == ["ada"]
    assert await queue.clock.read(find_staged) == []


async def test_a_ticket_whose_pass_expired_or_whose_place_was_left_is_exchanged_for_nothing(queue: RoomSetup) -> None:
    await queue.open()
    shown = Join("ada", "of-ada", arrived_at=NOW, once=True)
    [first] = await queue.ask(shown)
    [again] = await queue.ask(shown)
    assert first.place == again.place, "shown again, it is the same place"
    await queue.step(5)
    [admitted] = await queue.ask(Admit("ada", 0, "of-ada", 1_000))
    assert admitted.standing is Standing.ADMITTED
    queue.clock.advance(2_000)
    [over] = await queue.ask(shown)
    assert over.standing is Standing.OVER
    [anew] = await queue.ask(Join("ada", "another"))
    assert anew.place is not None
    [after] = await queue.ask(shown)
    assert after.place is not None
    assert after.place.ticket_id == "another", "they have a place"
    await queue.ask(Leave("ada", anew.place.arrival, "another"))
    [used, other] = await queue.ask(shown, Join("ada", "another", once=True))
    assert {used.standing, other.standing} == {Standing.USED}
    assert await line(queue) == ["ada", "ada"]


async def test_after_a_blip_the_room_is_normal_again_although_some_are_still_to_be_merged(queue: RoomSetup) -> None:
    await queue.open()
    stager = stager_of(queue)
    stager.stamp("drop", "early", "of-early", NOW - 5_000)
    await stager.pass_once()
    [held] = await queue.ask(Join("bob", "of-bob"))
    assert held.standing is Standing.MERGING
    await merge(queue)
    stager.stamp("drop", "bob", "of-bob", queue.clock.now - 300)
    await stager.pass_once()
    [newcomer] = await queue.ask(Join("cleo", "of-cleo", arrived_at=queue.clock.now))
    assert newcomer.standing is Standing.WAITING, "as between two processes, nobody waits for those of this moment"
    await merge(queue)
    assert await line(queue) == ["early", "cleo", "bob"]
    assert await wrong_order(queue) == []


class Busy:
    """A ledger: while it writes, others come."""

    dialect_name = "sqlite"
    writes = 0
    stager: ArrivalStager

    async def write(self, *_: object, **__: object) -> None:
        self.writes += 1
        assert self.writes < 10, "it never ends"
        if self.stager.is_holding:
            self.stager.stamp("drop", f"newcomer-{self.writes}", "", NOW)


async def test_those_who_come_while_others_are_staged_do_not_keep_the_room_provisional() -> None:
    ledger = Busy()
    ledger.stager = ArrivalStager(ledger, Wakeup())  # type: ignore[arg-type]
    ledger.stager.stamp("drop", "ada", "of-ada", NOW)
    await ledger.stager.pass_once()
    assert not ledger.stager.is_holding


async def test_joins_of_one_batch_are_ordered_by_when_they_reached_the_socket(queue: RoomSetup) -> None:
    await queue.open()
    stamps = {"ada": 40, "bob": 10, "cleo": 30, "dan": 20}
    joins = [Join(buyer, f"of-{buyer}", arrived_at=NOW - 100 + stamp) for buyer, stamp in stamps.items()]
    stands = await queue.ask(*joins)
    assert [stand.place.arrival if stand.place else None for stand in stands] == [3, 0, 2, 1]
    assert await line(queue) == ["bob", "dan", "cleo", "ada"]


async def test_verify_finds_an_arrival_that_was_overtaken(queue: RoomSetup) -> None:
    await queue.open()
    await queue.join(["ada", "bob"])
    earlier = update(places).where(places.c.buyer_id == "bob")
    recorded = {"arrived_at": NOW - ARRIVAL_SKEW_MS - 1, "staged_at": NOW - 1}
    await queue.clock.write(lambda c: c.execute(earlier.values(recorded)))
    assert await wrong_order(queue) == [1]
    # Known only after the other had a place: somebody showed their ticket late.
    await queue.clock.write(lambda c: c.execute(earlier.values(staged_at=queue.clock.now + 1)))
    assert await wrong_order(queue) == []


class Away:
    """A ledger that cannot be reached."""

    dialect_name = "sqlite"

    async def write(self, *_: object, **__: object) -> None:
        raise Unavailable("away")


async def test_arrivals_are_kept_until_the_store_takes_them() -> None:
    stager = ArrivalStager(Away(), Wakeup())  # type: ignore[arg-type]
    first = stager.stamp("drop", "ada", "one", NOW)
    assert stager.stamp("drop", "ada", "two", NOW + 5) == first
    with pytest.raises(Unavailable):
        await stager.pass_once()
    assert stager.kept == 1


def _keys(*names: str) -> Sequence[SigningKey]:
    return [SigningKey(name, name * 32) for name in names]


def test_a_provisional_ticket_is_read_with_any_key_and_only_unchanged() -> None:
    ticket = Provisional("ada", "drop", "id", NOW, "node", 7, NOW // 1000, NOW // 1000 + 60)
    signed = Tokens(_keys("a")).sign_provisional(ticket)
    rotated = Tokens(_keys("b", "a"))
    now_s = NOW / 1000
    assert rotated.read_provisional(signed, now_s) == ticket
    assert rotated.read_ticket(signed, now_s) is None
    assert rotated.read_provisional(signed, now_s + 61) is None
    head, payload, tag = signed.split(".")
    for wrong in (f"{head}.{payload}.{tag[:-1]}", f"{head}.{payload[:-2]}.{tag}", f".{payload}.{tag}", "", "ä.b.c"):
        assert rotated.read_provisional(wrong, now_s) is None
    assert Tokens(_keys("c")).read_provisional(signed, now_s) is None
    early = Provisional("ada", "drop", "id", NOW + 60_000, "node", 7, NOW // 1000, NOW // 1000 + 60)
    assert rotated.read_provisional(Tokens(_keys("a")).sign_provisional(early), now_s) is None


def test_an_arrival_names_its_node_and_counts() -> None:
    stager = ArrivalStager(Away(), Wakeup())  # type: ignore[arg-type]
    one, two = (stager.stamp("drop", buyer, buyer, NOW) for buyer in ("ada", "bob"))
    assert (one, two.sequence) == (Arrival("drop", "ada", "ada", NOW, stager.node, 0), 1)
