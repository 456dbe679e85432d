"""A ledger in which everything has happened that may: sold, paid, declined, given back, and still under way.

Stock is decided by the real gate. The rows of payments, refunds and the wallet are written here as the comments of
their tables say, in the transactions they say. Its first event is of an earlier release, so that what is
written by hand counts as not provable, and every other check can be seen at work.
"""

from functools import partial
from typing import Any

from sqlalchemy import Connection, Table, insert, select, update

from holdfast.domain.sale.drop import Drop
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState, order_id_of, payment_key_of
from holdfast.domain.stock.command import Command, Move, Provision, Reserve, Transition
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import Reservation
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.facts import record
from holdfast.ledger.sales.allowances import claim_units
from holdfast.ledger.sales.drops import insert_drop
from holdfast.ledger.sales.sales import insert_sale, put_pool_in_sale
from holdfast.ledger.tables.money import payments, refunds, settlements, wallet_accounts, wallet_entries
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events
from holdfast.testing.states import MINUTE, NOW
from set_clock import SetClock

SKU = "sneaker"
PRICE = 4_999
LIMIT = 4
SALE = Sale(
    sale_id="drop",
    sku_id=SKU,
    name="Drop",
    price_amount=PRICE,
    currency="EUR",
    starts_at=NOW - MINUTE,
    per_buyer_limit=LIMIT,
    drop_id="winter",
    checkout=Checkout.INSTANT,
    payment=PaymentKind.WALLET,
    state=SaleState.READY,
    created_at=NOW - 2 * MINUTE,
    updated_at=NOW - MINUTE,
    opened_at=NOW - MINUTE,
)


# Far above what anyone has.
DROP = Drop(drop_id="winter", name="Winter", starts_at=SALE.starts_at, per_buyer_limit=10 * LIMIT, created_at=NOW)


def id_of(number: int) -> str:
    return f"rsv_{number:032}_{SKU}"


class SoldWorld:
    def __init__(self, database: Database) -> None:
        self.database = database
        self._gate = SqlGate(SetClock(database))

    async def fill(self) -> None:
        await self._open()
        await self.sell(1, "ada", 2, PaymentKind.WALLET)
        await self.sell(2, "bob", 1, PaymentKind.SANDBOX)
        await self.sell(3, "cid", 2, PaymentKind.WALLET)
        await self._write(lambda c: give_back(c, 3, 2 * PRICE))
        await self.sell(4, "dan", 3, PaymentKind.SANDBOX)
        await self._write(lambda c: give_back(c, 4, 100))
        await self._decline(5, "eve")
        await self._charge_in_vain(6, "fay")
        await self._begin_paying(7, "gus")
        await self._decide(Reserve(id_of(8), "Zoë 'quote\" 🎟", 1, 1, key="k1"), Move(Transition.CONFIRM, id_of(8)))
        await self._decide(Reserve(id_of(9), "ivy", 1, 1, key="k1"), Move(Transition.CANCEL, id_of(9)))
        await self._decide(Reserve(id_of(10), "jon", 2, 2, key="k2"))

    async def sell(self, number: int, buyer_id: str, quantity: int, kind: PaymentKind) -> None:
        await self._decide(Reserve(id_of(number), buyer_id, quantity, quantity, settle=True))

        def paid(connection: Connection) -> None:
            take(connection, number, buyer_id, quantity * PRICE, kind)
            [row] = _rows(connection, settlements, number)
            sold = Reservation(id_of(number), SKU, buyer_id, row.quantity, _SETTLING, NOW, NOW)
            self._gate.queries.sales.order(connection, SALE.sale_id, [sold], kind, NOW)
            _finish(connection, number, "confirmed")

        await self._write(paid)
        await self._decide(Move(Transition.CONFIRM, id_of(number)))

    async def _open(self) -> None:
        def in_sale(connection: Connection) -> None:
            insert_drop(connection, DROP)
            insert_sale(connection, SALE)
            put_pool_in_sale(connection, SKU, SALE.sale_id, NOW)

        def from_before(connection: Connection) -> None:
            connection.execute(insert(events).values(sku_id=SKU, type="pool.drift", at=NOW))

        await self._write(from_before)
        await self._decide(Provision(20, Rules(per_owner_limit=LIMIT)))
        await self._write(in_sale)

    async def _decline(self, number: int, buyer_id: str) -> None:
        await self._decide(Reserve(id_of(number), buyer_id, 1, 1, settle=True))

        def declined(connection: Connection) -> None:
            insert_payment(connection, number, buyer_id, PRICE, PaymentKind.SANDBOX, "declined")
            _finish(connection, number, "failed")

        await self._write(declined)
        await self._decide(Move(Transition.FAIL, id_of(number)))

    async def _charge_in_vain(self, number: int, buyer_id: str) -> None:
        """Charged, and then there was no unit for it any more: the money goes back."""
        await self._decide(Reserve(id_of(number), buyer_id, 1, 1, settle=True), Move(Transition.FAIL, id_of(number)))

        def charged(connection: Connection) -> None:
            insert_payment(connection, number, buyer_id, PRICE, PaymentKind.SANDBOX, "captured")
            insert_refund(connection, number, PRICE, order_id=None)
            _finish(connection, number, "failed")

        await self._write(charged)

    async def _begin_paying(self, number: int, buyer_id: str) -> None:
        await self._decide(Reserve(id_of(number), buyer_id, 1, 1, settle=True))
        await self._write(lambda c: insert_payment(c, number, buyer_id, PRICE, PaymentKind.SANDBOX, "claimed"))

    async def _decide(self, *commands: Command) -> None:
        for command in commands:
            if isinstance(command, Reserve):
                await self._write(partial(claim_units, sale=SALE, command=command, now=NOW))
        for verdict in await self._gate.apply(SKU, commands):
            assert verdict.outcome.is_success, verdict

    async def _write(self, work: Any) -> None:
        await self.database.write(work)


_SETTLING: Any = "settling"


def _rows(connection: Connection, table: Table, number: int) -> list[Any]:
    return list(connection.execute(select(table).where(table.c.reservation_id == id_of(number))))


def _finish(connection: Connection, number: int, ending: str) -> None:
    work = update(settlements).where(settlements.c.reservation_id == id_of(number))
    connection.execute(work.values(state="done", ending=ending))


def insert_payment(
    connection: Connection, number: int, buyer_id: str, amount: int, kind: PaymentKind, state: str
) -> None:
    values = {
        "payment_key": payment_key_of(id_of(number)),
        "reservation_id": id_of(number),
        "sale_id": SALE.sale_id,
        "buyer_id": buyer_id,
        "provider": kind,
        "amount": amount,
        "currency": "EUR",
        "state": state,
        "created_at": NOW,
        "updated_at": NOW,
    }
    connection.execute(insert(payments).values(values))


def insert_refund(
    connection: Connection, number: int, amount: int, *, order_id: str | None, state: str = "done"
) -> None:
    values = {
        "refund_id": f"ref_{number}_{amount}_{state}",
        "payment_key": payment_key_of(id_of(number)),
        "order_id": order_id,
        "key": f"{amount}{state}",
        "sku_id": SKU,
        "amount": amount,
        "currency": "EUR",
        "cause": "asked",
        "state": state,
        "due_at": NOW,
        "created_at": NOW,
    }
    connection.execute(insert(refunds).values(values))


def take(connection: Connection, number: int, buyer_id: str, amount: int, kind: PaymentKind) -> None:
    insert_payment(connection, number, buyer_id, amount, kind, "captured")
    if kind is PaymentKind.WALLET:
        account = {"buyer_id": buyer_id, "currency": "EUR", "balance": 1_000, "updated_at": NOW}
        connection.execute(insert(wallet_accounts).values(account))
        move(connection, f"top-up-{number}", buyer_id, amount + 1_000)
        move(connection, f"pay-{number}", buyer_id, -amount, reservation_id=id_of(number))


def give_back(connection: Connection, number: int, amount: int) -> None:
    [order], [payment] = _rows(connection, orders, number), _rows(connection, payments, number)
    insert_refund(connection, number, amount, order_id=order.order_id)
    refunded = order.refunded_amount + amount
    status = "refunded" if refunded == order.amount else "confirmed"
    change_order(connection, number, refunded_amount=refunded, status=status)
    facts = {"orders": [{"order_id": order.order_id, "refunded_amount": refunded, "status": status}]}
    record(connection, SKU, "order.refunded", NOW, facts)
    if payment.provider == PaymentKind.WALLET:
        move(connection, f"refund-{number}", order.buyer_id, amount, reservation_id=id_of(number))
        account = update(wallet_accounts).where(wallet_accounts.c.buyer_id == order.buyer_id)
        connection.execute(account.values(balance=wallet_accounts.c.balance + amount))


def change_order(connection: Connection, number: int, **changes: object) -> None:
    connection.execute(update(orders).where(orders.c.order_id == order_id_of(id_of(number))).values(**changes))


def move(
    connection: Connection, transfer_id: str, buyer_id: str, amount: int, reservation_id: str | None = None
) -> None:
    """Both sides of a transfer between a buyer and the house."""
    for account, change in ((f"buyer:{buyer_id}", amount), ("house", -amount)):
        values = {"transfer_id": transfer_id, "account": account, "currency": "EUR", "amount": change, "kind": "made"}
        connection.execute(insert(wallet_entries).values(values | {"reservation_id": reservation_id, "at": NOW}))
