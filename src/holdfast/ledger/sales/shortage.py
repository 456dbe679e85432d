"""Sales that sold more than can be delivered, and which of their orders are short of units.

The deliverable number is what an operator declared, or else the total of the pool. Orders are flagged without the lock
of their pool. Each is flagged only while it is neither refunded nor cancelled; the flag depends on nothing else.
"""

from collections.abc import Mapping

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, Select, case, func, select, update

from holdfast.domain.sale.sale import OrderStatus, OversellPolicy
from holdfast.domain.stock.shards import whole_of
from holdfast.ledger.engine.facts import record
from holdfast.ledger.sales.sales import record_sale
from holdfast.ledger.stock.splits import totals
from holdfast.ledger.tables.sales import is_to_source, orders, sales
from holdfast.ledger.tables.stock import pools

# Ids per statement.
NAMED_MAX = 500


class Shortage(Struct, frozen=True):
    """By how many units a sale sold more than can be delivered."""

    sale_id: str
    sku_id: str
    policy: OversellPolicy
    sold_units: int
    deliverable_units: int
    review_above_percent: int = 5
    buffer_units: int = 0

    @property
    def units(self) -> int:
        """`fulfil_first` delivers from the buffer first."""
        spare = self.buffer_units if self.policy is OversellPolicy.FULFIL_FIRST else 0
        return max(self.sold_units - self.deliverable_units - spare, 0)

    @property
    def needs_review(self) -> bool:
        """Whether it is too large to cancel without a person's approval."""
        is_cancelling = self.policy is OversellPolicy.CANCEL_LAST
        return is_cancelling and self.units * 100 > self.sold_units * self.review_above_percent


def declared(connection: Connection) -> list[Shortage]:
    """The sales with a declared number of deliverable units, and those with flagged orders."""
    flagged = select(orders.c.sale_id).where(is_to_source)
    wanted = select(sales).where(sales.c.deliverable_units.is_not(None) | sales.c.sale_id.in_(flagged))
    return [_of(connection, sale) for sale in connection.execute(wanted).all()]


def found_by_counting(connection: Connection) -> list[Shortage]:
    """The sales whose orders exceed the total of their pool. Reads every order."""
    standing = select(orders.c.sku_id, func.sum(orders.c.quantity)).where(_is_delivered()).group_by(orders.c.sku_id)
    sold = {sku_id: int(units) for sku_id, units in connection.execute(standing)}
    total_of = _totals(connection)
    short = [sku_id for sku_id, units in sold.items() if units > total_of.get(sku_id, units)]
    wanted = select(sales).join(pools, pools.c.sale_id == sales.c.sale_id).distinct().where(sales.c.sku_id.in_(short))
    return [_of(connection, sale) for sale in connection.execute(wanted).all()] if short else []


def of_sale(connection: Connection, sale_id: str) -> Shortage | None:
    sale = connection.execute(select(sales).where(sales.c.sale_id == sale_id)).one_or_none()
    return None if sale is None else _of(connection, sale)


def declare(connection: Connection, sale_id: str, deliverable_units: int | None, now: int) -> bool:
    """Whether there is such a sale."""
    said = update(sales).where(sales.c.sale_id == sale_id).values(deliverable_units=deliverable_units)
    sku_id = connection.execute(said.returning(sales.c.sku_id)).scalar_one_or_none()
    if sku_id is not None:
        record_sale(connection, sku_id, {"sale_id": sale_id, "deliverable_units": deliverable_units}, now)
    return sku_id is not None


def _of(connection: Connection, sale: Row[tuple[object, ...]]) -> Shortage:
    row = sale._mapping  # noqa: SLF001 - the documented way to columns by name
    sale_id, sku_id = str(row["sale_id"]), str(row["sku_id"])
    sold = _sold(connection, orders.c.sale_id == sale_id)
    limits = [] if row["deliverable_units"] is None else [int(row["deliverable_units"])]
    is_its_pool = connection.execute(select(pools.c.sku_id).where(pools.c.sale_id == sale_id).limit(1)).scalar()
    if is_its_pool is not None:
        to_others = _sold(connection, (orders.c.sku_id == sku_id) & (orders.c.sale_id != sale_id))
        limits.append(_totals(connection, sku_id)[sku_id] - to_others)
    policy, deliverable = OversellPolicy(row["oversell_policy"]), max(min(limits, default=sold), 0)
    review = {"review_above_percent": row["review_above_percent"], "buffer_units": row["buffer_units"]}
    return Shortage(sale_id, sku_id, policy, sold, deliverable, **review)


def _totals(connection: Connection, sku_id: str | None = None) -> dict[str, int]:
    """The totals of pools, by SKU."""
    of_split = totals(connection, None if sku_id is None else [sku_id])
    whole = select(pools.c.sku_id, pools.c.total)
    if sku_id is not None:
        whole = whole.where(pools.c.sku_id == sku_id)
    return {whole_of(row.sku_id): row.total for row in connection.execute(whole)} | of_split


def _stands() -> ColumnElement[bool]:
    """Whether it still has to be delivered."""
    return orders.c.status == OrderStatus.CONFIRMED.value


def _is_delivered() -> ColumnElement[bool]:
    """Whether its units were delivered, or have to be."""
    return orders.c.status.in_((OrderStatus.CONFIRMED.value, OrderStatus.FULFILLED.value))


def _sold(connection: Connection, which: ColumnElement[bool]) -> int:
    total = select(func.coalesce(func.sum(orders.c.quantity), 0)).where(which, _is_delivered())
    return int(connection.execute(total).scalar_one())


# --- its orders


def beyond(connection: Connection, short: Shortage) -> dict[str, int]:
    """The newest orders, until the rest can be delivered, and how many units each is short of."""
    excess, found = short.units, dict[str, int]()
    for row in connection.execute(_newest(short.sale_id)) if excess else ():
        found[row.order_id] = min(row.quantity, excess)
        excess -= found[row.order_id]
        if not excess:
            break
    return found


def _newest(sale_id: str) -> Select[tuple[str, int]]:
    standing = select(orders.c.order_id, orders.c.quantity).where(orders.c.sale_id == sale_id, _stands())
    return standing.order_by(orders.c.created_at.desc(), orders.c.order_id.desc())


def flagged(connection: Connection, sale_id: str) -> dict[str, int]:
    rows = connection.execute(
        select(orders.c.order_id, orders.c.units_to_source).where(orders.c.sale_id == sale_id, is_to_source)
    )
    return {row.order_id: row.units_to_source for row in rows}


def flag(connection: Connection, short: Shortage, wanted: Mapping[str, int], now: int) -> bool:
    """Flag exactly these orders, and record an event if that changed anything."""
    before = flagged(connection, short.sale_id)
    changed = {id_: wanted.get(id_, 0) for id_ in {*before, *wanted} if before.get(id_, 0) != wanted.get(id_, 0)}
    written: list[dict[str, object]] = []
    names = sorted(changed)
    for part in (names[at : at + NAMED_MAX] for at in range(0, len(names), NAMED_MAX)):
        units = case({id_: changed[id_] for id_ in part}, value=orders.c.order_id)
        lacks_none = [id_ for id_ in part if not changed[id_]]
        may = orders.c.order_id.in_(part) & (_stands() | orders.c.order_id.in_(lacks_none))
        flagged_now = update(orders).where(may).values(units_to_source=units, updated_at=now)
        written_columns = (orders.c.order_id, orders.c.units_to_source, orders.c.updated_at)
        rows = connection.execute(flagged_now.returning(*written_columns))
        written += [dict(row) for row in rows.mappings()]
    if written:
        about = {"subject": short.sale_id, "quantity": sum(wanted.values())}
        record(connection, short.sku_id, "pool.drift", now, {"orders": written}, **about)
    return bool(written)
