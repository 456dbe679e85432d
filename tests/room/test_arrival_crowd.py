"""A crowd that arrives in one second gets places in the order of its stamps, also after a server was killed."""

from collections.abc import Callable, Coroutine
from random import Random
from time import perf_counter
from typing import Any

import pytest
from room_setup import RoomSetup
from sqlalchemy import select

from holdfast.domain.room.room import Arrival
from holdfast.ledger.room.arrivals import MERGE_AFTER_MS, find_staged
from holdfast.ledger.tables.room import places
from holdfast.room.arrival_stager import ArrivalStager
from holdfast.room.tokens import Provisional, Tokens
from holdfast.room.wakeup import Wakeup
from holdfast.runtime.signing import SigningKey
from holdfast.testing.states import NOW
from holdfast.verify.check import Computed
from holdfast.verify.line import CHECKS

pytest_plugins = ("room_fixtures",)

CROWD = 20_000
TOKENS = Tokens([SigningKey("k", "s" * 32)])


def stamped(stager: ArrivalStager, number: int, people: int) -> str:
    """The signed ticket that somebody got. They arrive within a second, in the order of their numbers."""
    one = stager.stamp("drop", f"buyer-{number:06}", f"ticket-{number:06}", NOW - 1_000 + number * 1_000 // people)
    now_s = NOW // 1_000
    ticket = Provisional(
        one.buyer_id, "drop", one.ticket_id, one.arrived_at, one.node, one.sequence, now_s, now_s + 3_600
    )
    return TOKENS.sign_provisional(ticket)


def show(stager: ArrivalStager, text: str) -> None:
    ticket = TOKENS.read_provisional(text, NOW / 1_000)
    assert ticket is not None
    stager.show(Arrival(ticket.sale, ticket.sub, ticket.jti, ticket.at, ticket.node, ticket.seq))


async def timed(what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    began = perf_counter()
    await work()
    print(f"{what}: {perf_counter() - began:.1f} s")


async def merge_all(queue: RoomSetup) -> None:
    queue.clock.advance(MERGE_AFTER_MS)
    while await queue.clock.read(find_staged):
        await queue.advancer.pass_once()


async def become_places(queue: RoomSetup, people: int) -> None:
    """Two servers stamp everybody. One of them is killed after it staged a part; its tickets are shown to the other."""
    await queue.open()
    one, killed = ArrivalStager(queue.clock, Wakeup()), ArrivalStager(queue.clock, Wakeup())
    began = perf_counter()
    tickets = [stamped((one, killed)[number % 2], number, people) for number in range(people)]
    print(f"{people} tickets stamped and signed: {perf_counter() - began:.1f} s")
    lost = tickets[1::2]
    Random(1).shuffle(lost)
    for text in lost:
        show(one, text)
    await timed("staged", one.pass_once)
    await timed("merged", lambda: merge_all(queue))


async def check_order(queue: RoomSetup, people: int) -> None:
    in_line = select(places.c.buyer_id).order_by(places.c.arrival)
    line = await queue.clock.read(lambda c: c.execute(in_line).scalars().all())
    # Those of the same millisecond have the order of their servers.
    stamps = [int(buyer_id.removeprefix("buyer-")) * 1_000 // people for buyer_id in line]
    assert (len(line), len(set(line)), stamps) == (people, people, sorted(stamps))
    check = next(check for check in CHECKS if check.name == "places_by_stamp")
    assert isinstance(check, Computed)
    found = check.counter_examples
    assert await queue.clock.read(lambda c: list(found(c))) == []


@pytest.mark.slow
@pytest.mark.parametrize("site", ["sqlite", "postgresql"], indirect=True)
async def test_a_crowd_that_arrives_in_one_second_gets_places_in_the_order_of_its_stamps(queue: RoomSetup) -> None:
    await become_places(queue, CROWD)
    await check_order(queue, CROWD)
