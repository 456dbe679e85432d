"""What a batch of settlements of one pool reads and writes, in a few set-wise statements.

Lock order as in `sale_tables.py`: the pool's row is locked before anything here is called, then the settlements, then
wallet accounts, each sorted by id.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, Select, bindparam, func, select, union, update

from holdfast.domain.reservation import Reservation
from holdfast.domain.sale import payment_key_of
from holdfast.ledger.batch import reservation_from_row
from holdfast.ledger.rows import (
    encode_rows,
    insert_rows,
    locked_rows,
    rows_matching,
    rows_parameter,
    update_rows,
    upsert_rows,
)
from holdfast.ledger.sale_tables import (
    is_open_settlement,
    orders,
    payments,
    refunds,
    sales,
    settlements,
    wallet_accounts,
    wallet_entries,
)
from holdfast.ledger.tables import reservations

Account = tuple[str, str]

_PAYMENT = list(payments.c)
_PAYMENT_CHANGES = [
    payments.c[name] for name in ("reservation_id", "amount", "currency", "state", "reference", "reason", "updated_at")
]
_WORK_CHANGES = [
    settlements.c[name]
    for name in ("state", "ending", "successor_id", "attempts", "due_at", "leased_until", "reason", "history")
]
_REFUND = [
    refunds.c[name]
    for name in ("refund_id", "payment_key", "sku_id", "amount", "currency", "cause", "due_at", "created_at")
]


class Item(Struct, frozen=True):
    """Work that is leased: whoever finds another number on the row has lost it."""

    reservation_id: str
    sku_id: str
    fence: int


class DuePool(Struct, frozen=True):
    sku_id: str
    # None if the sale is not known.
    payment: str | None
    count: int


class SettleQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        self._prepare_reads(dialect_name)
        self._prepare_due()
        self._upsert_payments = upsert_rows(dialect_name, payments, _PAYMENT, payments.c.payment_key, _PAYMENT_CHANGES)
        self._update_work = update_rows(dialect_name, settlements, settlements.c.reservation_id, _WORK_CHANGES)
        self.insert_entries = insert_rows(dialect_name, wallet_entries, list(wallet_entries.c))
        self.insert_refunds = insert_rows(dialect_name, refunds, _REFUND)
        account = [wallet_accounts.c[name] for name in ("buyer_id", "currency", "balance", "updated_at")]
        given = rows_parameter(dialect_name, account)
        self._update_accounts = (
            update(wallet_accounts)
            .where(wallet_accounts.c.buyer_id == given.c.buyer_id, wallet_accounts.c.currency == given.c.currency)
            .values(balance=given.c.balance, updated_at=given.c.updated_at)
        )

    def _prepare_reads(self, dialect: str) -> None:
        self._work = locked_rows(dialect, settlements, [settlements.c.reservation_id])
        self._reservations = rows_matching(dialect, reservations, [reservations.c.reservation_id])
        self._payments = _payments_of(dialect)
        self._orders = rows_matching(dialect, orders, [orders.c.reservation_id])
        self._accounts = locked_rows(dialect, wallet_accounts, [wallet_accounts.c.buyer_id, wallet_accounts.c.currency])

    def _prepare_due(self) -> None:
        self._is_due = [
            is_open_settlement,
            settlements.c.due_at <= bindparam("now"),
            settlements.c.leased_until <= bindparam("now"),
        ]
        self._due_pools = (
            select(settlements.c.sku_id, sales.c.payment, func.count().label("count"))
            .select_from(settlements.outerjoin(sales, sales.c.sale_id == settlements.c.sale_id))
            .where(*self._is_due)
            .group_by(settlements.c.sku_id, sales.c.payment)
            .order_by(settlements.c.sku_id)
        )
        self._due = (
            select(settlements.c.reservation_id, settlements.c.sku_id, settlements.c.fence)
            .where(settlements.c.sku_id == bindparam("sku_id"), *self._is_due)
            .order_by(settlements.c.due_at, settlements.c.reservation_id)
            .limit(bindparam("limit"))
        )

    # --- what there is to do

    def due_pools(self, connection: Connection, now: int) -> list[DuePool]:
        rows = connection.execute(self._due_pools, {"now": now})
        return [DuePool(row.sku_id, row.payment, int(row[2])) for row in rows]

    def due(self, connection: Connection, sku_id: str, now: int, limit: int) -> list[Item]:
        """Under the lock of the pool: what is due, for whoever finishes it within the same transaction."""
        rows = connection.execute(self._due, {"sku_id": sku_id, "now": now, "limit": limit})
        return [Item(row.reservation_id, row.sku_id, row.fence) for row in rows]

    def lease(self, connection: Connection, sku_id: str, now: int, until: int, limit: int) -> list[Item]:
        """Take what is due, for a while; others take what is left."""
        wanted = self._due.with_for_update(skip_locked=True)
        ids = [row.reservation_id for row in connection.execute(wanted, {"sku_id": sku_id, "now": now, "limit": limit})]
        if not ids:
            return []
        taken = (
            update(settlements)
            .where(settlements.c.reservation_id.in_(ids))
            .values(leased_until=until, fence=settlements.c.fence + 1)
            .returning(settlements.c.reservation_id, settlements.c.fence)
        )
        return [Item(row.reservation_id, sku_id, row.fence) for row in connection.execute(taken)]

    # --- how it stands

    def lock_work(self, connection: Connection, ids: Sequence[str]) -> dict[str, Row[Any]]:
        rows = connection.execute(self._work, {"rows": encode_rows([id_] for id_ in sorted(ids))})
        return {row.reservation_id: row for row in rows}

    def reservations(self, connection: Connection, ids: Sequence[str]) -> dict[str, Reservation]:
        rows = connection.execute(self._reservations, _ids(ids))
        return {row.reservation_id: reservation_from_row(row) for row in rows}

    def payments(self, connection: Connection, ids: Sequence[str]) -> dict[str, Row[Any]]:
        """By the reservation they are for. One that was moved to another reservation is found for both."""
        keys = {payment_key_of(id_): id_ for id_ in ids}
        rows = list(connection.execute(self._payments, {"rows": encode_rows(zip(ids, keys, strict=True))}))
        by_key = {keys[row.payment_key]: row for row in rows if row.payment_key in keys}
        return by_key | {row.reservation_id: row for row in rows}

    def payments_of_successors(self, connection: Connection, successors: Mapping[str, str]) -> dict[str, Row[Any]]:
        """By the reservation whose place was to be taken."""
        found = self.payments(connection, list(successors.values()))
        return {id_: found[successor] for id_, successor in successors.items() if successor in found}

    def orders(self, connection: Connection, ids: Sequence[str]) -> dict[str, str]:
        """Who moved the money of the orders there are."""
        return {row.reservation_id: row.payment for row in connection.execute(self._orders, _ids(ids))}

    def lock_balances(self, connection: Connection, accounts: Iterable[Account]) -> dict[Account, int]:
        wanted = sorted(set(accounts))
        if not wanted:
            return {}
        rows = connection.execute(self._accounts, {"rows": encode_rows(wanted)})
        return {(row.buyer_id, row.currency): row.balance for row in rows}

    # --- what comes of it

    def store_payments(self, connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            values = ([row[c.name] for c in _PAYMENT] for row in rows)
            connection.execute(self._upsert_payments, {"rows": encode_rows(values)})

    def store_work(self, connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            values = ([row["reservation_id"], *(row[c.name] for c in _WORK_CHANGES)] for row in rows)
            connection.execute(self._update_work, {"rows": encode_rows(values)})

    def store_balances(self, connection: Connection, balances: Mapping[Account, int], now: int) -> None:
        if balances:
            rows = ((*account, balance, now) for account, balance in balances.items())
            connection.execute(self._update_accounts, {"rows": encode_rows(rows)})


def backlog(connection: Connection) -> tuple[int, int | None]:
    """How much is open, and since when."""
    query = select(func.count(), func.min(settlements.c.created_at)).where(is_open_settlement)
    count, oldest = connection.execute(query).one()
    return int(count), oldest


def _ids(ids: Iterable[str]) -> dict[str, str]:
    return {"rows": encode_rows([id_] for id_ in ids)}


def _payments_of(dialect: str) -> Select[Any]:
    """Those of the reservations, or under the keys, that are given: two look-ups by index, one round trip."""
    columns = [payments.c.reservation_id, payments.c.payment_key]
    given = rows_parameter(dialect, columns)
    found = [
        select(payments).join(given, c == given.c[c.name]).with_only_columns(*payments.c).subquery(c.name)
        for c in columns
    ]
    return union(*[select(*part.c) for part in found])  # type: ignore[return-value]
