"""Changes of a sale's stock under an idempotency key: each happens once."""

from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, case, delete, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.engine.facts import record, row_facts
from holdfast.ledger.sales.sales import record_sale
from holdfast.ledger.tables.sales import restocks, sales


class Entered(StrEnum):
    NEW = "new"
    # Requested before, with no recorded result.
    UNFINISHED = "unfinished"
    DONE = "done"
    # Requested before, with another number of units.
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


def finish_restock(connection: Connection, sale_id: str, sku_id: str, key: str, now: int) -> bool:
    """Whether it was unfinished until now."""
    done = update(restocks).where(_is_it(sale_id, key), ~restocks.c.is_done).values(is_done=True)
    row = connection.execute(done.returning(*restocks.c)).one_or_none()
    if row is not None:
        record(connection, sku_id, "sale.restocked", now, {"restocks": [row_facts(restocks, row)]}, subject=sale_id)
    return row is not None


def forget_restock(connection: Connection, sale_id: str, key: str) -> None:
    """Called if it was refused, so that it may be requested again."""
    connection.execute(delete(restocks).where(_is_it(sale_id, key), ~restocks.c.is_done))


def raise_deliverable(connection: Connection, sale_id: str, units: int, now: int) -> None:
    """Adjusts the number of deliverable units if an operator declared one."""
    after = sales.c.deliverable_units + units
    raised = update(sales).where(sales.c.sale_id == sale_id, sales.c.deliverable_units.is_not(None))
    raised = raised.values(deliverable_units=case((after < 0, 0), else_=after))
    row = connection.execute(raised.returning(sales.c.sku_id, sales.c.deliverable_units)).one_or_none()
    if row is not None:
        record_sale(connection, row.sku_id, {"sale_id": sale_id, "deliverable_units": row.deliverable_units}, now)


def _is_it(sale_id: str, key: str) -> ColumnElement[bool]:
    return (restocks.c.sale_id == sale_id) & (restocks.c.key == key)
