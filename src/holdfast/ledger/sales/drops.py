"""Queries on drops."""

from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import asdict
from sqlalchemy import Connection, func, insert, select, update

from holdfast.domain.sale.drop import Drop
from holdfast.domain.sale.sale import Sale, SaleState
from holdfast.ledger.engine.facts import record
from holdfast.ledger.sales.sale_lists import update_sale_if
from holdfast.ledger.tables.rows import drop_from_row, sale_from_row
from holdfast.ledger.tables.sales import drops, sales


def stream_of(drop_id: str) -> str:
    """The value that a drop's events have instead of a SKU."""
    return f"drop:{drop_id}"


def drop_values(drop: Drop) -> dict[str, object]:
    """By column."""
    return asdict(drop) | {"room": msgspec.json.encode(drop.room).decode()}


def insert_drop(connection: Connection, drop: Drop) -> None:
    values = drop_values(drop)
    connection.execute(insert(drops).values(**values))
    record(connection, stream_of(drop.drop_id), "drop.created", drop.created_at, {"drops": [values]})


def find_drop(connection: Connection, drop_id: str) -> Drop | None:
    row = connection.execute(select(drops).where(drops.c.drop_id == drop_id)).one_or_none()
    return None if row is None else drop_from_row(row)


def lock_drop(connection: Connection, drop_id: str) -> Drop | None:
    """Taken before the lock of any of its sales and of its room."""
    row = connection.execute(select(drops).where(drops.c.drop_id == drop_id).with_for_update()).one_or_none()
    return None if row is None else drop_from_row(row)


def update_drop(connection: Connection, drop: Drop, names: Collection[str], now: int) -> None:
    """Under the drop's lock: store the current values of these columns."""
    values = {name: value for name, value in drop_values(drop).items() if name in {*names, "updated_at"}}
    connection.execute(update(drops).where(drops.c.drop_id == drop.drop_id).values(**values))
    record(connection, stream_of(drop.drop_id), "drop.changed", now, {"drops": [{"drop_id": drop.drop_id, **values}]})


def list_drops(connection: Connection, *, limit: int, starting_after: str | None) -> tuple[list[Drop], bool]:
    """By id. Returns one page, and whether there is more."""
    wanted = select(drops).order_by(drops.c.drop_id).limit(limit + 1)
    if starting_after is not None:
        wanted = wanted.where(drops.c.drop_id > starting_after)
    page = [drop_from_row(row) for row in connection.execute(wanted)]
    return page[:limit], len(page) > limit


def changed_drops(connection: Connection, since: int, *, limit: int) -> list[Drop]:
    """The drops updated since then, latest first."""
    wanted = select(drops).where(drops.c.updated_at >= since).order_by(drops.c.updated_at.desc()).limit(limit)
    return [drop_from_row(row) for row in connection.execute(wanted)]


def sales_of_drops(connection: Connection, drop_ids: Collection[str]) -> dict[str, list[Sale]]:
    """The sales of each drop, in order of creation."""
    wanted = select(sales).where(sales.c.drop_id.in_(drop_ids)).order_by(sales.c.created_at, sales.c.sale_id)
    found: dict[str, list[Sale]] = {drop_id: [] for drop_id in drop_ids}
    for row in connection.execute(wanted):
        found[row.drop_id].append(sale_from_row(row))
    return found


def count_sales(connection: Connection, drop_id: str) -> int:
    of_drop = select(func.count()).select_from(sales).where(sales.c.drop_id == drop_id)
    return int(connection.execute(of_drop).scalar_one())


def change_rooms(connection: Connection, drop: Drop, now: int) -> None:
    """Copy the room of a drop to its sales."""
    room: Mapping[str, object] = {"room": drop_values(drop)["room"]}
    for sale in sales_of_drops(connection, [drop.drop_id])[drop.drop_id]:
        if sale.state is not SaleState.CLOSED and sale.room != drop.room:
            update_sale_if(connection, sale, dict(room), now=now)
