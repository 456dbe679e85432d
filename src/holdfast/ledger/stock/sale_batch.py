"""The additional writes of a batch whose pool is in a sale: settlements to do, and orders."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    String,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    null,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.domain.sale.sale import OrderStatus, PaymentKind, order_id_of, order_number_of
from holdfast.domain.stock.command import Transition
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.shards import whole_of
from holdfast.domain.stock.state import Changes
from holdfast.ledger.engine.facts import encode_facts, row_facts
from holdfast.ledger.engine.rows import encode_rows, insert_rows, rows_parameter
from holdfast.ledger.tables.money import settlements
from holdfast.ledger.tables.sales import orders, quoted_prices, sales
from holdfast.ledger.tables.stock import events

_WORK = [settlements.c[name] for name in ("reservation_id", "sale_id", "sku_id", "buyer_id", "quantity")] + [
    settlements.c.due_at,
    settlements.c.created_at,
]
_SOLD = [orders.c[name] for name in ("order_id", "reservation_id", "sku_id", "buyer_id", "quantity", "number")]
# All columns except the number, which is computed from the reservation.
_ORDER = [column for column in orders.c if column.name != "number"]
_EVENTS = [
    events.c[name] for name in ("sku_id", "reservation_id", "type", "at", "quantity", "expires_at", "subject", "facts")
]
# A payment or settlement reached an end that no other event records.
SETTLED = "settlement.ended"
DECLINED = "payment.declined"
_RETURNED = (Status.FAILED, Status.CANCELLED, Status.EXPIRED)


class SaleQueries:
    """The statements of one engine, built once."""

    def __init__(self, dialect_name: str) -> None:
        self._insert_settlements = insert_rows(dialect_name, settlements, _WORK)
        self._begin_again = _begin_again(dialect_name)
        self._insert_events = insert_rows(dialect_name, events, _EVENTS)
        self._begin_orders = _insert_orders(dialect_name, OrderStatus.PENDING)
        self._confirm_orders = _insert_orders(dialect_name, OrderStatus.CONFIRMED)

    def record(self, connection: Connection, sale_id: str, changes: Changes, now: int) -> None:
        """Under the lock of the pool. A direct confirm means payment was taken externally."""
        changed = [*changes.created, *changes.moved]
        self._begin(connection, sale_id, changed, now)
        sold = [r for r in changed if r.status is Status.CONFIRMED]
        if sold:
            self.order(connection, sale_id, sold, PaymentKind.EXTERNAL, now)
        self.cancel(connection, changed, now)

    def _begin(self, connection: Connection, sale_id: str, changed: Sequence[Reservation], now: int) -> None:
        """Settlements to do, and orders to be paid."""
        begun: dict[bool, list[tuple[object, ...]]] = {False: [], True: []}
        for r in changed:
            if r.status is Status.SETTLING:
                work = (r.reservation_id, sale_id, r.sku_id, r.owner_id, r.quantity, now, now)
                begun[r.attempts > 1].append(work)
        if begun[False]:
            self._insert_settlements(connection, begun[False])
        if begun[True]:
            connection.execute(self._begin_again, {"rows": encode_rows(begun[True])})
        ordered = [r for r in changed if r.status is Status.SETTLING]
        if ordered:
            given = {"rows": _sold_rows(ordered), "of_sale": sale_id, "now": now}
            fresh = connection.execute(self._begin_orders, given).all()
            self._tell(connection, "order.pending", _as_given(fresh, ordered), now)

    def cancel(self, connection: Connection, changed: Sequence[Reservation], now: int) -> None:
        """Cancel the orders of reservations that ended unpaid. An order exists only if a payment was begun."""
        ids = [r.reservation_id for r in changed if r.attempts and r.status in _RETURNED]
        if ids:
            unpaid = [orders.c.reservation_id.in_(ids), orders.c.status == OrderStatus.PENDING.value]
            ended = update(orders).where(*unpaid).values(status=OrderStatus.CANCELLED.value, updated_at=now)
            self._tell(connection, "order.cancelled", connection.execute(ended.returning(*_ORDER)).all(), now)

    def _tell(self, connection: Connection, event: str, found: Sequence[Row[Any]], now: int) -> None:
        if found:
            self._insert_events(connection, [_ordered(event, order, now, {}) for order in found])

    def order(
        self,
        connection: Connection,
        sale_id: str,
        sold: Sequence[Reservation],
        payment: PaymentKind,
        now: int,
        paid: Mapping[str, Mapping[str, object]] = {},
    ) -> set[str]:
        """Write the orders of these reservations and their events, once; returns which are new. `paid`: the facts of
        their payments, by reservation."""
        given = {"rows": _sold_rows(sold), "of_sale": sale_id, "payment": payment, "now": now}
        fresh = _as_given(connection.execute(self._confirm_orders, given).all(), sold)
        if fresh:
            told = [_ordered("order.confirmed", o, now, paid.get(o.reservation_id, {})) for o in fresh]
            self._insert_events(connection, told)
        return {o.reservation_id for o in fresh}

    def settled(
        self,
        connection: Connection,
        sku_id: str,
        now: int,
        facts: Mapping[str, Mapping[str, object]],
        declined: Mapping[str, Reservation] = {},
    ) -> None:
        """Record the other writes of settlements, by reservation. `declined`: those whose payment was declined."""
        rows: list[tuple[object, ...]] = []
        for reservation_id, about in facts.items():
            kept, said = declined.get(reservation_id), encode_facts(about)
            if kept is None:
                rows.append((sku_id, None, SETTLED, now, None, None, reservation_id, said))
            else:
                told = (DECLINED, now, kept.quantity, kept.expires_at, reservation_id, said)
                rows.append((sku_id, reservation_id, *told))
        if rows:
            self._insert_events(connection, rows)


def concerns_sale(changes: Changes) -> bool:
    """Whether there is something to record."""
    return any(
        r.status in (Status.SETTLING, Status.CONFIRMED) or (r.attempts and r.status in _RETURNED)
        for r in (*changes.created, *changes.moved)
    )


def _as_given(found: Sequence[Row[Any]], given: Sequence[Reservation]) -> list[Row[Any]]:
    """A database returns rows in any order. The facts of payments have running balances, so they must be in order."""
    places = {r.reservation_id: place for place, r in enumerate(given)}
    return sorted(found, key=lambda order: places[order.reservation_id])


def _sold_rows(sold: Sequence[Reservation]) -> str:
    return encode_rows(
        (
            order_id_of(r.reservation_id),
            r.reservation_id,
            whole_of(r.sku_id),
            r.owner_id,
            r.quantity,
            order_number_of(r.reservation_id),
        )
        for r in sold
    )


def _ordered(event: str, order: Row[Any], now: int, paid: Mapping[str, object]) -> tuple[object, ...]:
    facts = encode_facts({"orders": [row_facts(orders, order)], **paid})
    about = (order.sku_id, order.reservation_id, event, now, order.quantity, None, order.order_id)
    return (*about, facts)


def _begin_again(dialect_name: str) -> Any:
    """The next payment attempt. A settlement that ended its reservation cannot begin again: the constraint on the state
    refuses a journal entry that says so."""
    insert = sqlite_insert if dialect_name == "sqlite" else postgresql_insert
    given = rows_parameter(dialect_name, _WORK)
    # As in `upsert_rows`.
    statement = insert(settlements).from_select([c.name for c in _WORK], select(*given.c).where(true()))
    has_ended = settlements.c.ending.in_((Transition.CONFIRM.value, Transition.FAIL.value))
    begun = {
        "state": case((has_ended, "ended"), else_="waiting"),
        "ending": None,
        "attempts": 0,
        "reason": None,
        "due_at": statement.excluded.due_at,
        "created_at": statement.excluded.created_at,
        "leased_until": 0,
        "fence": settlements.c.fence + 1,
    }
    return statement.on_conflict_do_update(index_elements=[settlements.c.reservation_id], set_=begun)


def _is_price_of(given: Any) -> ColumnElement[bool]:
    """Limited to those that may have a quote (`may_be_quoted`), so the others cost no look-up."""
    is_quoted = func.substr(given.c.reservation_id, 17, 1) == literal("8")
    return and_(is_quoted, quoted_prices.c.reservation_id == given.c.reservation_id)


def _insert_orders(dialect_name: str, status: OrderStatus) -> Any:
    is_paid = status is OrderStatus.CONFIRMED
    insert = sqlite_insert if dialect_name == "sqlite" else postgresql_insert
    given = rows_parameter(dialect_name, _SOLD)
    sale = sales.c.sale_id == bindparam("of_sale")
    priced = select(
        *given.c,
        sales.c.sale_id,
        func.coalesce(quoted_prices.c.amount, sales.c.price_amount * given.c.quantity).label("amount"),
        func.coalesce(quoted_prices.c.currency, sales.c.currency).label("currency"),
        quoted_prices.c.quote,
        (bindparam("payment", type_=String) if is_paid else sales.c.payment).label("payment"),
        literal(status.value).label("status"),
        bindparam("now", type_=BigInteger).label("created_at"),
        bindparam("now", type_=BigInteger).label("updated_at"),
        (bindparam("now", type_=BigInteger) if is_paid else cast(null(), BigInteger)).label("confirmed_at"),
    ).select_from(given.join(sales, sale).outerjoin(quoted_prices, _is_price_of(given)))
    if dialect_name == "sqlite":
        # Without a WHERE, SQLite parses the ON of ON CONFLICT as that of a join.
        priced = priced.where(true())
    statement = insert(orders).from_select([c.name for c in priced.selected_columns], priced)
    # The settler may have written the order before the journal recorded the sale.
    if not is_paid:
        return statement.on_conflict_do_nothing().returning(*_ORDER)
    names = ("payment", "status", "updated_at", "confirmed_at")
    return statement.on_conflict_do_update(
        index_elements=[orders.c.reservation_id],
        set_={name: statement.excluded[name] for name in names},
        where=orders.c.confirmed_at.is_(None),
    ).returning(*_ORDER)
