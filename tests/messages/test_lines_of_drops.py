"""People in the line of a drop are told once: of their turn, and when all of its products are sold."""

from collections.abc import Sequence

from msgspec.structs import replace
from sqlalchemy import Connection, insert, update

from holdfast.domain.sale.drop import Drop
from holdfast.domain.sale.sale import Checkout, PaymentKind, Room, RoomMode, Sale, SaleState
from holdfast.ledger.engine.database import Database
from holdfast.ledger.messages.contacts import Contact, put_contact
from holdfast.ledger.messages.message_log import Message, list_messages
from holdfast.ledger.room.rooms import make_room
from holdfast.ledger.sales.drops import insert_drop
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.tables.room import places, rooms
from holdfast.ledger.tables.sales import sales
from holdfast.ledger.tables.stock import pools
from holdfast.messages.addressing import Addresses
from holdfast.messages.letters import Letters
from holdfast.messages.lines import LineMessages
from holdfast.messages.relay import note_sold_out

DROP = Drop(drop_id="winter", name="Winter drop", starts_at=0, room=Room(RoomMode.FIFO))
COAT = Sale(
    sale_id="coat", sku_id="sku-coat", name="Coat", price_amount=4_999, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.WALLET, state=SaleState.READY, drop_id="winter", created_at=1,
)  # fmt: skip
HAT = replace(COAT, sale_id="hat", sku_id="sku-hat", name="Hat", created_at=2)
_NOTHING_YET = {"held": 0, "sold": 0, "active_reservations": 0, "ready": True, "paused": False, "decided_at": 0}
PEOPLE = ("ada", "bob", "eve")


def in_line(connection: Connection, now: int) -> None:
    """Three people, each with an address, in the line of two products with a unit each. Ada is called."""
    insert_drop(connection, DROP)
    make_room(connection, DROP.line_id, now)
    for sale in (COAT, HAT):
        insert_sale(connection, sale)
        connection.execute(insert(pools).values(sku_id=sale.sku_id, total=1, **_NOTHING_YET))
    for arrival, name in enumerate(PEOPLE):
        put_contact(connection, Contact(name, f"{name}@example.com"), now)
        place = {"sale_id": DROP.line_id, "arrival": arrival, "buyer_id": name, "ticket_id": name, "joined_at": now}
        connection.execute(insert(places).values(**place))
    connection.execute(update(rooms).values(joined=len(PEOPLE), serving=1, opened_at=now))


def sell(connection: Connection, sale: Sale, now: int) -> None:
    connection.execute(update(pools).where(pools.c.sku_id == sale.sku_id).values(sold=1))
    note_sold_out(connection, sale.sale_id, now)


async def messages_of(database: Database) -> Sequence[Message]:
    found, _ = await database.read(lambda c: list_messages(c, limit=100))
    return found


async def test_a_buyer_called_in_the_line_of_a_drop_is_told_once_by_its_name(database: Database) -> None:
    lines = LineMessages(database, Addresses(has_mail=True))
    await database.write(lambda c: in_line(c, database.now_ms(c)))
    assert await lines.pass_once() == 1
    assert await lines.pass_once() == 0
    [told] = await messages_of(database)
    assert (told.buyer_id, told.kind, told.sale_id) == ("ada", "your_turn", "coat")
    letter = Letters(None, "https://shop.example").write(told.kind, "en", COAT, told.values, "")
    assert letter.subject == "It is your turn: Winter drop"
    assert "https://shop.example/s/coat" in letter.text


async def test_the_link_leads_to_a_product_that_is_left_and_not_to_one_without_messages(database: Database) -> None:
    lines = LineMessages(database, Addresses(has_mail=True))
    await database.write(lambda c: in_line(c, database.now_ms(c)))
    await database.write(lambda c: sell(c, COAT, database.now_ms(c)))
    await lines.pass_once()
    await database.write(lambda c: c.execute(update(sales).where(sales.c.sale_id == "hat").values(notify=False)))
    await database.write(lambda c: c.execute(update(rooms).values(serving=2)))
    await lines.pass_once()
    await database.write(lambda c: c.execute(update(sales).values(notify=False)))
    await database.write(lambda c: c.execute(update(rooms).values(serving=3)))
    await lines.pass_once()
    assert {(one.buyer_id, one.sale_id) for one in await messages_of(database)} == {("ada", "hat"), ("bob", "coat")}


async def test_sold_out_is_told_when_every_product_is_sold(database: Database) -> None:
    lines = LineMessages(database, Addresses(has_mail=True))
    await database.write(lambda c: in_line(c, database.now_ms(c)))
    await lines.pass_once()
    await database.write(lambda c: sell(c, COAT, database.now_ms(c)))
    assert await lines.pass_once() == 0
    await database.write(lambda c: sell(c, HAT, database.now_ms(c)))
    assert await lines.pass_once() == len(PEOPLE)
    assert await lines.pass_once() == 0


async def test_people_are_told_although_the_drop_was_closed_or_blocked_meanwhile(database: Database) -> None:
    lines = LineMessages(database, Addresses(has_mail=True))
    await database.write(lambda c: in_line(c, database.now_ms(c)))
    await database.write(lambda c: c.execute(update(sales).values(state=SaleState.LOADING)))
    assert await lines.pass_once() == 1
    for sale in (COAT, HAT):
        await database.write(lambda c, sale=sale: sell(c, sale, database.now_ms(c)))  # type: ignore[misc]
    await database.write(lambda c: c.execute(update(sales).values(state=SaleState.CLOSED)))
    assert await lines.pass_once() == len(PEOPLE)
