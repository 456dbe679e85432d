"""What the ledger knows about rooms."""

import secrets
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.domain.lottery import SEED_BYTES, entry_of, seed_hash
from holdfast.domain.room import RoomState, Ushering
from holdfast.domain.sale import RoomMode, Sale, SaleState
from holdfast.ledger.room_tables import gate_slowness, places, rooms
from holdfast.ledger.sale_tables import sales
from holdfast.ledger.sales import sale_from_row


class SaleAndRoom(Struct, frozen=True):
    sale: Sale
    room: RoomState


def make_room(connection: Connection, sale_id: str, now: int) -> None:
    """If there is none. Every room has a seed, so that its hash is known before anyone joins."""
    seed = secrets.token_bytes(SEED_BYTES)
    values = {"sale_id": sale_id, "seed": seed.hex(), "seed_hash": seed_hash(seed), "created_at": now}
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    connection.execute(insert(rooms).values(**values).on_conflict_do_nothing())


def room_from_row(row: Row[Any]) -> RoomState:
    values = {name: row._mapping[name] for name in RoomState.__struct_fields__}  # noqa: SLF001 - the documented way
    ushering = values["ushering"]
    return RoomState(**values | {"ushering": None if ushering is None else Ushering.from_json(ushering)})


def find_room(connection: Connection, sale_id: str) -> RoomState | None:
    row = connection.execute(select(rooms).where(rooms.c.sale_id == sale_id)).one_or_none()
    return None if row is None else room_from_row(row)


def lock_room(connection: Connection, sale_id: str) -> RoomState | None:
    row = connection.execute(select(rooms).where(rooms.c.sale_id == sale_id).with_for_update()).one_or_none()
    return None if row is None else room_from_row(row)


def update_room(connection: Connection, sale_id: str, **changes: object) -> None:
    connection.execute(update(rooms).where(rooms.c.sale_id == sale_id).values(**changes))


def live_rooms(connection: Connection) -> list[SaleAndRoom]:
    """Those of sales that are not closed and have a room."""
    found = connection.execute(select(rooms).join(sales, sales.c.sale_id == rooms.c.sale_id).where(_IS_LIVE)).all()
    theirs = connection.execute(select(sales).where(_IS_LIVE, sales.c.sale_id.in_([row.sale_id for row in found])))
    by_id = {row.sale_id: sale_from_row(row) for row in theirs}
    return [
        SaleAndRoom(by_id[row.sale_id], room_from_row(row))
        for row in found
        if row.sale_id in by_id and by_id[row.sale_id].room.mode is not RoomMode.OFF
    ]


_IS_LIVE = sales.c.state != SaleState.CLOSED


def list_entries(connection: Connection, sale_id: str, first: int, last: int) -> list[str]:
    """Of the lottery's list, in arrival order. Places are never taken out of it, whoever leaves."""
    wanted = (
        select(places.c.buyer_id, places.c.ticket_id)
        .where(places.c.sale_id == sale_id, places.c.arrival >= first, places.c.arrival < last)
        .order_by(places.c.arrival)
    )
    return [entry_of(sale_id, row.buyer_id, row.ticket_id) for row in connection.execute(wanted)]


def note_slowness(connection: Connection, process: str, slowness: Sequence[tuple[str, float]], now: int) -> None:
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    statement = insert(gate_slowness)
    statement = statement.on_conflict_do_update(
        index_elements=[gate_slowness.c.sku_id, gate_slowness.c.process],
        set_={"slowness_ms": statement.excluded.slowness_ms, "at": statement.excluded.at},
    )
    rows = [{"sku_id": sku_id, "process": process, "slowness_ms": int(ms), "at": now} for sku_id, ms in slowness]
    connection.execute(statement, rows)


def prune_slowness(connection: Connection, older_than: int) -> int:
    """Forget what processes have told that are gone. Each leaves a row for every pool it ever served."""
    return connection.execute(delete(gate_slowness).where(gate_slowness.c.at < older_than)).rowcount


def slowness_of(connection: Connection, sku_id: str, since: int) -> float:
    """As the process sees it that has it worst."""
    of_pool = (gate_slowness.c.sku_id == sku_id, gate_slowness.c.at >= since)
    return float(connection.execute(select(func.max(gate_slowness.c.slowness_ms)).where(*of_pool)).scalar() or 0)
