"""Two lines, one by arrival and one by lot, made by the real desk; and what could be done to them by hand."""

from sold_world import SKU
from sqlalchemy import Connection, delete, insert, update
from tampering import loosen, names

from holdfast.domain.room.lottery import beacon_of, digest_of, seed_hash
from holdfast.domain.room.room import Admit, Join, Use
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.rooms import find_room, list_entries, update_room
from holdfast.ledger.tables.room import places, rooms
from holdfast.ledger.tables.stock import events
from holdfast.room.join_queue import JoinQueue
from holdfast.testing.states import NOW
from set_clock import SetClock

LINE, LOTS = "line", "lots"
PASS_MS = 60_000
SEED = bytes(range(32))


async def stand_in_line(database: Database) -> None:
    clock = SetClock(database)
    desk = JoinQueue(clock)
    for sale_id in (LINE, LOTS):
        for number in range(5):
            await desk.submit(sale_id, Join(f"b{number}", f"t{number}"))
            clock.advance(10_000)
    await clock.write(_open)
    await desk.submit(LOTS, Join("late", "t-late"))
    await clock.write(lambda c: update_room(c, LOTS, NOW, {"serving": 6}))
    for sale_id, last in ((LINE, 3), (LOTS, 5)):
        for number in range(last):
            await desk.submit(sale_id, Admit(f"b{number}", number, f"t{number}", PASS_MS))
        await desk.submit(sale_id, Use("b0", 1))
    await desk.submit(LOTS, Admit("late", 5, "t-late", PASS_MS))


def _open(connection: Connection) -> None:
    update_room(connection, LINE, NOW, {"opened_at": NOW, "serving": 3})
    room = find_room(connection, LOTS)
    assert room is not None
    digest = digest_of(list_entries(connection, room, 0, 5))
    drawn = {"seed": SEED.hex(), "seed_hash": seed_hash(SEED), "digest": digest, "beacon": beacon_of(digest)}
    update_room(connection, LOTS, NOW, {"opened_at": NOW, "serving": 5, "entrants": 5, **drawn})


def change_place(connection: Connection, sale_id: str, arrival: int, **values: object) -> None:
    of_it = (places.c.sale_id == sale_id, places.c.arrival == arrival)
    connection.execute(update(places).where(*of_it).values(**values))


def exchange(connection: Connection, sale_id: str, one: int, other: int) -> None:
    """Two people are called as each other."""
    for arrival, place in ((one, -1), (other, one), (one, other)):
        change_place(connection, sale_id, arrival, place=place)


@names("places_numbered")
def a_place_at_the_end_was_taken_out(connection: Connection) -> None:
    connection.execute(delete(places).where(places.c.sale_id == LINE, places.c.arrival == 4))


@names("pruned_places_add_up")
def a_part_of_a_line_is_said_to_have_been_deleted(connection: Connection) -> None:
    pruned = {"sku_id": SKU, "type": "sale.pruned", "at": NOW, "quantity": 2, "subject": f"{LINE}/0/2/2/1/digest"}
    connection.execute(insert(events).values(pruned))


@names("pruned_places_add_up", "places_numbered")
def a_place_was_deleted_and_counted_as_old(connection: Connection) -> None:
    connection.execute(delete(places).where(places.c.sale_id == LINE, places.c.arrival == 4))
    connection.execute(update(rooms).where(rooms.c.sale_id == LINE).values(pruned=1))


@names("places_by_stamp")
def somebody_who_arrived_later_was_put_in_front(connection: Connection) -> None:
    change_place(connection, LINE, 3, arrived_at=NOW + 60_000)


@names("places_by_arrival")
def somebody_was_put_in_front(connection: Connection) -> None:
    change_place(connection, LINE, 4, joined_at=NOW - 60_000)


@names("places_one_each")
def a_buyer_stands_in_line_twice(connection: Connection) -> None:
    loosen(connection, places)
    change_place(connection, LINE, 4, buyer_id="b3")


@names("nobody_before_their_turn", "passes_counted")
def somebody_jumped_the_line(connection: Connection) -> None:
    change_place(connection, LINE, 4, place=4)


@names("places_served_once", "places_as_arrived")
def two_were_called_as_one(connection: Connection) -> None:
    change_place(connection, LINE, 1, place=0)


@names("places_as_arrived")
def two_by_arrival_were_exchanged(connection: Connection) -> None:
    exchange(connection, LINE, 0, 1)


@names("passes_counted")
def a_pass_was_given_under_the_table(connection: Connection) -> None:
    connection.execute(update(rooms).where(rooms.c.sale_id == LINE).values(passes_given=2))


@names("draws_published")
def another_hash_was_published(connection: Connection) -> None:
    connection.execute(update(rooms).where(rooms.c.sale_id == LOTS).values(seed_hash="0" * 64))


@names("draws_published")
def somebody_on_the_list_was_exchanged(connection: Connection) -> None:
    change_place(connection, LOTS, 3, ticket_id="another")


@names("places_as_drawn")
def two_of_the_draw_were_exchanged(connection: Connection) -> None:
    first, second = connection.execute(
        places.select().where(places.c.sale_id == LOTS, places.c.arrival < 2).order_by(places.c.arrival)
    ).all()
    change_place(connection, LOTS, first.arrival, place=-1)
    change_place(connection, LOTS, second.arrival, place=first.place)
    change_place(connection, LOTS, first.arrival, place=second.place)
