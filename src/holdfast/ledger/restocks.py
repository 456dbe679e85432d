"""Changes of a sale's stock that were asked for under a key: each happens once."""

from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, case, delete, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.sale_tables import restocks, sales


class Entered(StrEnum):
    NEW = "new"
    # Asked for before, and nobody wrote down what came of it.
    UNFINISHED = "unfinished"
    DONE = "done"
    # Asked for before with another number of units.
    OTHER = "other"


def enter_restock(connection: Connection, sale_id: str, key: str, units: int, now: int) -> Entered:
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    asked = insert(restocks).values(sale_id=sale_id, key=key, units=units, created_at=now)
    if connection.execute(asked.on_conflict_do_nothing()).rowcount == 1:
        return Entered.NEW
    first = connection.execute(select(restocks).where(_is_it(sale_id, key))).one()
    if first.units != units:
        return Entered.OTHER
    return Entered.DONE if first.is_done else Entered.UNFINISHED


def finish_restock(connection: Connection, sale_id: str, key: str) -> bool:
    """Whether nobody had before."""
    done = update(restocks).where(_is_it(sale_id, key), ~restocks.c.is_done).values(is_done=True)
    return connection.execute(done).rowcount == 1


def forget_restock(connection: Connection, sale_id: str, key: str) -> None:
    """It was refused, and may be asked for again."""
    connection.execute(delete(restocks).where(_is_it(sale_id, key), ~restocks.c.is_done))


def raise_deliverable(connection: Connection, sale_id: str, units: int) -> None:
    """Units that come, or go, can be delivered, or not any more, where somebody said how many can."""
    after = sales.c.deliverable_units + units
    raised = update(sales).where(sales.c.sale_id == sale_id, sales.c.deliverable_units.is_not(None))
    connection.execute(raised.values(deliverable_units=case((after < 0, 0), else_=after)))


def _is_it(sale_id: str, key: str) -> ColumnElement[bool]:
    return (restocks.c.sale_id == sale_id) & (restocks.c.key == key)
