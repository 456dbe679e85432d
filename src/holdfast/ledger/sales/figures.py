"""Figures of a sale from the ledger: a few indexed sums, cheap enough to compute every second."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, func, literal_column, select

from holdfast.domain.room.room import RoomState
from holdfast.domain.sale.sale import SaleState, line_of_sale
from holdfast.domain.stock.shards import whole_of
from holdfast.ledger.room.rooms import room_from_row
from holdfast.ledger.stock.pool_counts import counts_of
from holdfast.ledger.stock.splits import names_of
from holdfast.ledger.tables.money import is_open_settlement, settlements
from holdfast.ledger.tables.room import rooms
from holdfast.ledger.tables.sales import sales
from holdfast.ledger.tables.stock import pool_counts, pools
from holdfast.runtime import counters


class SaleFigures(Struct, frozen=True):
    at: int
    # Open payments, their units, and the time of the oldest.
    open_settlements: int
    settling_units: int
    oldest_settlement_at: int | None
    parked_units: int
    counts: Mapping[str, int]
    of_server: Mapping[str, int]


def figures_of(connection: Connection, sku_id: str, now: int) -> SaleFigures:
    names = names_of(connection, sku_id)
    count, units, oldest = _settling(connection, names, is_open_settlement)
    _, parked_units, _ = _settling(connection, names, settlements.c.state == literal_column("'parked'"))
    return SaleFigures(
        now,
        count,
        units,
        oldest,
        parked_units,
        counts_of(connection, sku_id),
        counts_of(connection, ""),
    )


class SaleStanding(Struct, frozen=True):
    """The metrics of a sale, for dashboards of many sales."""

    sale_id: str
    units: Mapping[str, int]
    attempts: Mapping[str, int]
    returned: Mapping[str, int]
    room: RoomState | None


def standing_of_sales(connection: Connection, *, limit: int) -> list[SaleStanding]:
    """The newest sales that are not closed. A few queries, however many there are."""
    wanted = select(sales.c.sale_id, sales.c.sku_id, sales.c.drop_id).where(sales.c.state != SaleState.CLOSED)
    found = connection.execute(wanted.order_by(sales.c.starts_at.desc(), sales.c.sale_id).limit(limit)).all()
    sale_of = {row.sku_id: row.sale_id for row in found}
    units, counts = _units_by_sku(connection, sale_of), _counts_by_sku(connection, sale_of)
    lines = {row.sale_id: line_of_sale(row.sale_id, row.drop_id) for row in found}
    rows = connection.execute(select(rooms).where(rooms.c.sale_id.in_(set(lines.values()))))
    in_rooms = {row.sale_id: room_from_row(row) for row in rows}
    return [
        SaleStanding(
            sale_id,
            units.get(sku_id, {}),
            _starting(counts.get(sku_id, {}), counters.TOLD),
            _starting(counts.get(sku_id, {}), counters.RETURNED),
            in_rooms.get(lines[sale_id]),
        )
        for sku_id, sale_id in sale_of.items()
    ]


def _units_by_sku(connection: Connection, skus: Collection[str]) -> dict[str, dict[str, int]]:
    """Shards count for their pool."""
    query = select(pools.c.sku_id, pools.c.total, pools.c.held, pools.c.sold).where(pools.c.sale_id.is_not(None))
    summed: dict[str, dict[str, int]] = {}
    for row in connection.execute(query):
        sku_id = whole_of(row.sku_id)
        if sku_id in skus:
            of_sku = summed.setdefault(sku_id, {"available": 0, "held": 0, "sold": 0})
            free = row.total - row.held - row.sold
            for state, units in (("available", free), ("held", row.held), ("sold", row.sold)):
                of_sku[state] += units
    return summed


def _counts_by_sku(connection: Connection, skus: Collection[str]) -> dict[str, dict[str, int]]:
    query = select(pool_counts.c.sku_id, pool_counts.c.name, pool_counts.c.number)
    found: dict[str, dict[str, int]] = {}
    for row in connection.execute(query.where(pool_counts.c.sku_id.in_(skus))):
        found.setdefault(row.sku_id, {})[row.name] = row.number
    return found


def _starting(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in counts.items() if name.startswith(prefix)}


def _settling(
    connection: Connection, names: Sequence[str], is_wanted: ColumnElement[bool]
) -> tuple[int, int, int | None]:
    units = func.coalesce(func.sum(settlements.c.quantity), 0)
    wanted = select(func.count(), units, func.min(settlements.c.created_at))
    count, sum_, oldest = connection.execute(wanted.where(settlements.c.sku_id.in_(names), is_wanted)).one()
    return int(count), int(sum_), oldest
