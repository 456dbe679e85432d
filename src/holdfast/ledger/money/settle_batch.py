"""Reads and writes a batch of settlements of one pool, in a few set-wise statements.

Lock order as in `tables/sales.py`: the pool's row is locked before anything here is called, then the settlements, then
wallet accounts, each sorted by id.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, Select, bindparam, func, select, union, update

from holdfast.domain.sale.sale import PAID_BY_PROVIDER, payment_key_of
from holdfast.domain.stock.reservation import Reservation, sku_of
from holdfast.ledger.engine.facts import record, row_facts
from holdfast.ledger.engine.rows import (
    encode_rows,
    insert_rows,
    locked_rows,
    rows_matching,
    rows_parameter,
    update_rows,
    upsert_rows,
)
from holdfast.ledger.tables.money import (
    is_open_settlement,
    is_returned,
    payments,
    refunds,
    settlements,
    wallet_accounts,
    wallet_entries,
)
from holdfast.ledger.tables.rows import reservation_from_row
from holdfast.ledger.tables.sales import is_sold, orders, sales
from holdfast.ledger.tables.stock import reservations

Account = tuple[str, str]
CORRECTED = "settlement.corrected"

_PAYMENT = list(payments.c)
_PAYMENT_CHANGES = [
    payments.c[name] for name in ("reservation_id", "amount", "currency", "state", "reference", "reason", "updated_at")
]
_WORK_CHANGES = [
    settlements.c[name]
    for name in ("state", "ending", "successor_id", "attempts", "due_at", "leased_until", "reason", "history")
]
# What is recorded about a settlement; the other columns concern the work itself.
SETTLEMENT = (
    "reservation_id", "sale_id", "sku_id", "buyer_id", "quantity", "state", "ending", "successor_id", "created_at",
)  # fmt: skip
# Reservations without a payment request have none of these.
NOT_ASKED_FOR: dict[str, object] = {
    "order_id": None,
    "key": None,
    "asked_amount": None,
    "restock_units": 0,
    "note": None,
}
REFUND = ("refund_id", "payment_key", "sku_id", "amount", "currency", "cause", "due_at", "created_at")


class Lease(Struct, frozen=True):
    """The right to work on a settlement. It is lost once the row has another fence."""

    reservation_id: str
    sku_id: str
    fence: int


class DuePool(Struct, frozen=True):
    sku_id: str
    # None if the sale is unknown.
    payment: str | None
    count: int


class DuePurchase(Struct, frozen=True):
    reservation_id: str
    sku_id: str
    payment: str | None


class SettleQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        self._prepare_reads(dialect_name)
        self._prepare_due()
        self._upsert_payments = upsert_rows(dialect_name, payments, _PAYMENT, payments.c.payment_key, _PAYMENT_CHANGES)
        self._update_work = update_rows(dialect_name, settlements, settlements.c.reservation_id, _WORK_CHANGES)
        self.insert_entries = insert_rows(dialect_name, wallet_entries, list(wallet_entries.c))
        self.insert_refunds = insert_rows(dialect_name, refunds, [refunds.c[name] for name in REFUND])
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
        self._orders = rows_matching(dialect, orders, [orders.c.reservation_id], is_sold)
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
        by_provider = select(sales.c.sale_id).where(
            sales.c.sale_id == settlements.c.sale_id, sales.c.payment.in_(PAID_BY_PROVIDER)
        )
        self._due_in_ledger = self._due.where(~by_provider.exists())
        self._is_one = settlements.c.reservation_id.in_(bindparam("ids", expanding=True))
        self._due_among = (
            select(settlements.c.reservation_id, settlements.c.sku_id, sales.c.payment)
            .select_from(settlements.outerjoin(sales, sales.c.sale_id == settlements.c.sale_id))
            .where(self._is_one, *self._is_due)
        )

    # --- work

    def due_pools(self, connection: Connection, now: int) -> list[DuePool]:
        rows = connection.execute(self._due_pools, {"now": now})
        return [DuePool(row.sku_id, row.payment, int(row[2])) for row in rows]

    def due(self, connection: Connection, sku_id: str, now: int, limit: int) -> list[Lease]:
        """Due settlements that the ledger can pay without a provider, for a caller that holds the pool's lock and
        finishes them in the same transaction. Provider calls need a lease: another sale of the pool may be paid through
        one."""
        rows = connection.execute(self._due_in_ledger, {"sku_id": sku_id, "now": now, "limit": limit})
        return [Lease(row.reservation_id, row.sku_id, row.fence) for row in rows]

    def due_among(self, connection: Connection, ids: Sequence[str], now: int) -> list[DuePurchase]:
        rows = connection.execute(self._due_among, {"ids": list(ids), "now": now})
        return [DuePurchase(row.reservation_id, row.sku_id, row.payment) for row in rows]

    def due_of(self, connection: Connection, sku_id: str, ids: Sequence[str], now: int) -> list[Lease]:
        """Like `due`, limited to these settlements."""
        given = {"sku_id": sku_id, "ids": list(ids), "now": now, "limit": len(ids)}
        rows = connection.execute(self._due_in_ledger.where(self._is_one), given)
        return [Lease(row.reservation_id, row.sku_id, row.fence) for row in rows]

    def lease(self, connection: Connection, sku_id: str, now: int, until: int, limit: int) -> list[Lease]:
        """Lease due work; other workers skip it."""
        wanted = self._due.with_for_update(skip_locked=True)
        ids = [row.reservation_id for row in connection.execute(wanted, {"sku_id": sku_id, "now": now, "limit": limit})]
        return self._take(connection, ids, until)

    def lease_these(self, connection: Connection, ids: Sequence[str], now: int, until: int) -> list[Lease]:
        """Lease those of these settlements that are due."""
        wanted = select(settlements.c.reservation_id).where(self._is_one, *self._is_due)
        rows = connection.execute(wanted.with_for_update(skip_locked=True), {"ids": list(ids), "now": now})
        return self._take(connection, list(rows.scalars()), until)

    @staticmethod
    def _take(connection: Connection, ids: Sequence[str], until: int) -> list[Lease]:
        if not ids:
            return []
        taken = (
            update(settlements)
            .where(settlements.c.reservation_id.in_(ids))
            .values(leased_until=until, fence=settlements.c.fence + 1)
            .returning(settlements.c.reservation_id, settlements.c.sku_id, settlements.c.fence)
        )
        return [Lease(row.reservation_id, row.sku_id, row.fence) for row in connection.execute(taken)]

    # --- reads

    def lock_work(self, connection: Connection, ids: Sequence[str]) -> dict[str, Row[Any]]:
        rows = connection.execute(self._work, {"rows": encode_rows([id_] for id_ in sorted(ids))})
        return {row.reservation_id: row for row in rows}

    def reservations(self, connection: Connection, ids: Sequence[str]) -> dict[str, Reservation]:
        rows = connection.execute(self._reservations, _ids(ids))
        return {row.reservation_id: reservation_from_row(row) for row in rows}

    def payments(
        self, connection: Connection, ids: Sequence[str], attempts: Mapping[str, int] = {}
    ) -> dict[str, list[Row[Any]]]:
        """By reservation, the earliest attempt first. A payment that moved to a replacement is listed under both."""
        keys = {payment_key_of(id_, n): id_ for id_ in ids for n in range(1, max(attempts.get(id_, 1), 1) + 1)}
        rows = connection.execute(self._payments, {"rows": encode_rows((id_, key) for key, id_ in keys.items())})
        found: dict[str, list[Row[Any]]] = {}
        for row in sorted(rows, key=lambda row: row.attempt):
            for id_ in {row.reservation_id, keys.get(row.payment_key, row.reservation_id)}:
                found.setdefault(id_, []).append(row)
        return found

    def payments_of_replacements(
        self, connection: Connection, successors: Mapping[str, str]
    ) -> dict[str, list[Row[Any]]]:
        """By the replaced reservation."""
        found = self.payments(connection, list(successors.values()))
        return {id_: found[successor] for id_, successor in successors.items() if successor in found}

    def returned(self, connection: Connection, found: Iterable[Sequence[Row[Any]]]) -> set[str]:
        """Which of these payments are being returned without having paid for an order."""
        keys = [row.payment_key for rows in found for row in rows if row.state == "captured"]
        if not keys:
            return set()
        is_one = payments.c.payment_key.in_(keys)
        return set(connection.execute(select(payments.c.payment_key).where(is_one, is_returned)).scalars())

    def orders(self, connection: Connection, ids: Sequence[str]) -> dict[str, str]:
        """How orders were paid, by reservation."""
        return {row.reservation_id: row.payment for row in connection.execute(self._orders, _ids(ids))}

    def lock_balances(self, connection: Connection, accounts: Iterable[Account]) -> dict[Account, int]:
        wanted = sorted(set(accounts))
        if not wanted:
            return {}
        rows = connection.execute(self._accounts, {"rows": encode_rows(wanted)})
        return {(row.buyer_id, row.currency): row.balance for row in rows}

    # --- writes

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


@cache
def settle_queries(dialect_name: str) -> SettleQueries:
    return SettleQueries(dialect_name)


def record_settlement(connection: Connection, reservation_id: str, now: int) -> None:
    """Record a settlement that was changed outside its regular course."""
    names = [settlements.c[name] for name in SETTLEMENT]
    found = connection.execute(select(*names).where(settlements.c.reservation_id == reservation_id)).one_or_none()
    if found is not None:
        facts = {"settlements": [row_facts(settlements, found)]}
        record(connection, found.sku_id, CORRECTED, now, facts, subject=reservation_id)


def record_payment(connection: Connection, payment_key: str, now: int) -> None:
    """Record a payment that was changed outside its settlement."""
    found = connection.execute(select(payments).where(payments.c.payment_key == payment_key)).one_or_none()
    if found is not None:
        sku_id = sku_of(found.reservation_id) or ""
        facts = {"payments": [row_facts(payments, found)]}
        record(connection, sku_id, CORRECTED, now, facts, subject=found.reservation_id)


def backlog(connection: Connection) -> tuple[int, int | None]:
    """How many settlements are open, and since when."""
    query = select(func.count(), func.min(settlements.c.created_at)).where(is_open_settlement)
    count, oldest = connection.execute(query).one()
    return int(count), oldest


def _ids(ids: Iterable[str]) -> dict[str, str]:
    return {"rows": encode_rows([id_] for id_ in ids)}


def _payments_of(dialect: str) -> Select[Any]:
    """By reservation or by key: two index look-ups in one round trip."""
    columns = [payments.c.reservation_id, payments.c.payment_key]
    given = rows_parameter(dialect, columns)
    found = [
        select(payments).join(given, c == given.c[c.name]).with_only_columns(*payments.c).subquery(c.name)
        for c in columns
    ]
    return union(*[select(*part.c) for part in found])  # type: ignore[return-value]
