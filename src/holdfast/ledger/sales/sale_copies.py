"""Copies sales that have not begun from one ledger to another, and removes them from the first.

Nobody has bought in such a sale or joined its line, so it consists of its row, its room with the sealed seed (whose
hash may already be published), and the keys of its restocks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Table, delete, exists, func, insert, or_, select, update

from holdfast.domain.sale.sale import SaleState
from holdfast.domain.stock.reservation import made_at
from holdfast.ledger.engine.facts import record, row_facts
from holdfast.ledger.sales.sales import is_pool_of
from holdfast.ledger.stock.splits import names_of, totals
from holdfast.ledger.tables.room import FOR_ADVANCER, arrivals, rooms
from holdfast.ledger.tables.sales import restocks, sales
from holdfast.ledger.tables.stock import pools, reservations

# A sale that starts within this time is not moved: buyers are about to arrive.
OPENS_SOON_MS = 60_000

_TABLES: tuple[Table, ...] = (sales, rooms, restocks)
# The destination ledger writes these itself.
_OWN = {"sales": {"state", "problem", "updated_at"}, "rooms": set(FOR_ADVANCER), "restocks": set[str]()}

Rows = Sequence[Mapping[str, Any]]
SaleCopy = Mapping[str, Rows]
"""By table."""


class Stock(Struct, frozen=True):
    """The stock of a SKU, whether or not it is split."""

    total: int
    held: int
    sold: int


def stock_of(connection: Connection, sku_id: str) -> Stock | None:
    sums = [func.coalesce(func.sum(pools.c[name]), 0) for name in ("total", "held", "sold")]
    count, total, held, sold = connection.execute(select(func.count(), *sums).where(is_pool_of(sku_id))).one()
    if not count:
        return None
    return Stock(totals(connection, [sku_id]).get(sku_id, int(total)), int(held), int(sold))


def last_made_at(connection: Connection, sku_id: str) -> int:
    """When the newest reservation was made; 0 if there is none."""
    of_pool = reservations.c.sku_id.in_(names_of(connection, sku_id))
    newest = connection.execute(select(func.max(reservations.c.reservation_id)).where(of_pool)).scalar()
    return 0 if newest is None else made_at(newest)


def obstacle_to_moving(connection: Connection, sku_id: str, now: int) -> str | None:
    """Why the SKU cannot leave this ledger now, in words."""
    for sale in connection.execute(select(sales).where(*_is_live(sku_id)).order_by(sales.c.sale_id)):
        if sale.drop_id is not None:
            return (
                f"the sale {sale.sale_id} is part of the drop {sale.drop_id}, whose sales are in one cell. To sell it "
                "in another: create a new drop, close this sale, move the SKU to the cell of the new drop, and create "
                "the sale anew there"
            )
        if sale.starts_at <= now + OPENS_SOON_MS:
            return f"the sale {sale.sale_id} is open, or opens within a minute"
        if sale.state != SaleState.READY:
            return f"the sale {sale.sale_id} is not loaded: {sale.problem or 'try again in a minute'}"
        joined = exists().where(rooms.c.sale_id == sale.sale_id, or_(rooms.c.joined > 0, rooms.c.entrants.is_not(None)))
        if connection.execute(select(joined | exists().where(arrivals.c.sale_id == sale.sale_id))).scalar():
            return f"buyers have joined the line of the sale {sale.sale_id}"
    return None


def live_sale_ids(connection: Connection, sku_id: str) -> list[str]:
    return list(connection.execute(select(sales.c.sale_id).where(*_is_live(sku_id))).scalars())


def _is_live(sku_id: str) -> tuple[Any, ...]:
    return sales.c.sku_id == sku_id, sales.c.state != SaleState.CLOSED


def read_copy(connection: Connection, sale_id: str) -> SaleCopy:
    """Leaves out the columns that each ledger sets for itself."""
    return {table.name: _rows(connection, table, sale_id) for table in _TABLES}


def _rows(connection: Connection, table: Table, sale_id: str) -> Rows:
    columns = [c for c in table.c if c.name not in _OWN[table.name]]
    found = connection.execute(select(*columns).where(table.c.sale_id == sale_id).order_by(*table.primary_key))
    return [dict(row) for row in found.mappings()]


def write_copy(connection: Connection, sku_id: str, sale_id: str, copy: SaleCopy, now: int) -> None:
    """The copied sale is in the state loading. An existing copy is replaced, unless it is the same."""
    if read_copy(connection, sale_id) == copy:
        return
    remove_copy(connection, sku_id, sale_id, now)
    own: Mapping[str, Mapping[str, object]] = {"sales": {"state": SaleState.LOADING, "updated_at": now}}
    facts: dict[str, list[dict[str, object]]] = {}
    for table in _TABLES:
        rows = [{**row, **own.get(table.name, {})} for row in copy[table.name]]
        if rows:
            added = [connection.execute(insert(table).values(row).returning(*table.c)).one() for row in rows]
            facts[table.name] = [row_facts(table, row) for row in added]
    record(connection, sku_id, "sale.moved_in", now, facts, subject=sale_id)


def remove_copy(connection: Connection, sku_id: str, sale_id: str, now: int) -> None:
    """Remove the copy if it exists. Its events stay."""
    removed: dict[str, list[dict[str, object]]] = {}
    for table in _TABLES:
        gone = delete(table).where(table.c.sale_id == sale_id).returning(*table.primary_key)
        rows = [dict(row) for row in connection.execute(gone).mappings()]
        if rows:
            removed[table.name] = rows
    if removed:
        record(connection, sku_id, "sale.moved_out", now, {"removed": removed}, subject=sale_id)
        _put_pool_back(connection, sku_id, sale_id, now)


def _put_pool_back(connection: Connection, sku_id: str, sale_id: str, now: int) -> None:
    """Anything that may still be settled in the pool belongs to the sale before."""
    closed = (sales.c.sku_id == sku_id, sales.c.state == SaleState.CLOSED)
    latest = select(sales.c.sale_id).where(*closed).order_by(sales.c.closed_at.desc()).limit(1)
    before = connection.execute(latest).scalar()
    put = update(pools).where(is_pool_of(sku_id), pools.c.sale_id == sale_id).values(sale_id=before)
    names = connection.execute(put.returning(pools.c.sku_id)).scalars()
    rows = [{"sku_id": name, "sale_id": before} for name in sorted(names)]
    if rows:
        record(connection, sku_id, "pool.in_sale", now, {"pools": rows}, subject=before)
