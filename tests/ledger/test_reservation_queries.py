"""Reading reservations and their histories: as they are now, newest first, a page at a time."""

from typing import Any

import pytest
from sqlalchemy import Connection

from holdfast.domain.stock.command import Extend, Move, Provision, Transition
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.history import history
from holdfast.ledger.stock.queries import PoolQueries, find_reservation, list_reservations
from holdfast.testing.states import MINUTE, NOW, reserve
from set_clock import SetClock

Page = tuple[list[str], bool]


@pytest.fixture
async def shop(database: Database) -> SetClock:
    """Two pools, two owners, and a reservation in each kind of state."""
    clock = SetClock(database)
    gate = SqlGate(clock)
    batch = [reserve(f"r{n}", "ada" if n % 2 else "bob", ttl_ms=(n + 1) * MINUTE) for n in range(4)]
    await gate.apply("one", [Provision(9), *batch, Move(Transition.CONFIRM, "r2")])
    await gate.apply("two", [Provision(9), reserve("r4", "ada", ttl_ms=9 * MINUTE), Move(Transition.SETTLE, "r4")])
    clock.advance(2 * MINUTE)
    return clock


async def page(shop: SetClock, **wanted: Any) -> Page:
    def read(connection: Connection) -> tuple[list[Reservation], bool]:
        return list_reservations(connection, shop.now, **{"limit": 100} | wanted)

    found, has_more = await shop.read(read)
    return [r.reservation_id for r in found], has_more


async def test_the_newest_come_first(shop: SetClock) -> None:
    assert await page(shop) == (["r4", "r3", "r2", "r1", "r0"], False)


async def test_a_list_is_read_page_by_page(shop: SetClock) -> None:
    assert await page(shop, limit=2) == (["r4", "r3"], True)
    assert await page(shop, limit=2, starting_after="r3") == (["r2", "r1"], True)
    assert await page(shop, limit=2, starting_after="r1") == (["r0"], False)
    assert await page(shop, limit=2, starting_after="r0") == ([], False)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"sku_id": "two"}, ["r4"]),
        ({"owner_id": "ada"}, ["r4", "r3", "r1"]),
        ({"sku_id": "one", "owner_id": "ada"}, ["r3", "r1"]),
        ({"status": Status.ACTIVE}, ["r3"]),
        ({"status": Status.EXPIRED}, ["r1", "r0"]),
        ({"status": Status.CONFIRMED}, ["r2"]),
        ({"status": Status.SETTLING}, ["r4"]),
        ({"status": Status.CANCELLED}, []),
        ({"owner_id": "nobody"}, []),
    ],
)
async def test_a_list_can_be_narrowed(shop: SetClock, wanted: dict[str, Any], found: list[str]) -> None:
    assert await page(shop, **wanted) == (found, False)


async def test_an_overdue_hold_is_shown_as_expired_before_anyone_came_to_end_it(shop: SetClock) -> None:
    found = await shop.read(lambda connection: find_reservation(connection, "r0", shop.now))
    assert found is not None
    assert found.status is Status.EXPIRED
    earlier = await shop.read(lambda connection: find_reservation(connection, "r0", NOW + MINUTE - 1))
    assert earlier is not None
    assert earlier.status is Status.ACTIVE


async def test_what_is_not_there_is_not_found(shop: SetClock) -> None:
    assert await shop.read(lambda connection: find_reservation(connection, "unknown", shop.now)) is None
    assert await shop.read(lambda connection: history(connection, "unknown")) == []


async def test_a_history_tells_all_that_happened_in_order(shop: SetClock) -> None:
    await SqlGate(shop).apply("one", [Extend("r3", 3 * MINUTE), Move(Transition.CANCEL, "r3")])
    told = await shop.read(lambda connection: history(connection, "r3"))
    assert [(e.type, e.at, e.expires_at) for e in told] == [
        ("reservation.created", NOW, NOW + 4 * MINUTE),
        ("reservation.extended", NOW + 2 * MINUTE, NOW + 5 * MINUTE),
        ("reservation.cancelled", NOW + 2 * MINUTE, NOW + 5 * MINUTE),
    ]


async def test_pools_are_listed_by_name_and_overdue_ones_with_their_earliest_deadline(shop: SetClock) -> None:
    queries = PoolQueries(shop.dialect_name)
    views = await shop.read(lambda connection: queries.all_views(connection, shop.now, limit=9))
    assert [(v.pool.sku_id, v.pool.held, v.pool.sold) for v in views] == [("one", 1, 1), ("two", 1, 0)]
    assert len(await shop.read(lambda connection: queries.all_views(connection, shop.now, limit=1))) == 1
    due = await shop.read(lambda connection: queries.due_pools(connection, shop.now))
    assert due == [("one", NOW + MINUTE)]
