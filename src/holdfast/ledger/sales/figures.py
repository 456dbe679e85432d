"""How a sale stands in the ledger: a few sums by index, cheap enough for every second."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, func, literal_column, select

from holdfast.ledger.stock.pool_counts import counts_of
from holdfast.ledger.stock.splits import names_of
from holdfast.ledger.tables.money import is_open_settlement, settlements


class SaleFigures(Struct, frozen=True):
    at: int
    # Payments that are open, their units, and since when the oldest is.
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


def _settling(
    connection: Connection, names: Sequence[str], is_wanted: ColumnElement[bool]
) -> tuple[int, int, int | None]:
    units = func.coalesce(func.sum(settlements.c.quantity), 0)
    wanted = select(func.count(), units, func.min(settlements.c.created_at))
    count, sum_, oldest = connection.execute(wanted.where(settlements.c.sku_id.in_(names), is_wanted)).one()
    return int(count), int(sum_), oldest
