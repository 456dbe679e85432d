"""How often a buyer has tried to buy in a sale: once per idempotency key, whatever the outcome."""

from sqlalchemy import Connection, func, insert, select, text

from holdfast.ledger.tables.sales import purchase_attempts


def take_attempt(connection: Connection, sale_id: str, buyer_id: str, key: str, *, limit: int, now: int) -> bool:
    """Whether the buyer may try with this key; if so, the attempt is recorded. A retry does not count again."""
    if connection.dialect.name == "postgresql":
        # Other transactions of this buyer wait; on SQLite there is only one writer anyway.
        lock = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 21))")
        connection.execute(lock, {"name": f"{sale_id}\n{buyer_id}"})
    a = purchase_attempts.c
    theirs = (a.sale_id == sale_id, a.buyer_id == buyer_id)
    if connection.execute(select(a.key).where(*theirs, a.key == key)).first() is not None:
        return True
    tried = connection.execute(select(func.count()).select_from(purchase_attempts).where(*theirs)).scalar_one()
    if tried >= limit:
        return False
    noted = {"sale_id": sale_id, "buyer_id": buyer_id, "key": key, "created_at": now}
    connection.execute(insert(purchase_attempts).values(noted))
    return True
