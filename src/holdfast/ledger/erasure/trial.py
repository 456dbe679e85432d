"""Erases a buyer, or shows what that would change."""

from functools import partial

from sqlalchemy import Connection, func, select

from holdfast.ledger.engine.database import Database
from holdfast.ledger.erasure.erasing import Erasure, RolledBack, erase, find_candidates
from holdfast.ledger.erasure.redaction import Redaction, new_pseudonym
from holdfast.ledger.tables.stock import events

# Enough for a buyer with thousands of events. Most have ten.
TIMEOUT_S = 60.0


async def erase_buyer(database: Database, buyer_id: str, *, trial: bool = False) -> Erasure:
    """History is scanned first, without a lock."""
    redaction = Redaction(buyer_id, new_pseudonym(buyer_id))
    scanned, candidates = await database.read(partial(_scan, redaction))
    try:
        return await database.write(
            lambda c: erase(c, redaction, candidates, scanned, database.now_ms(c), trial=trial), timeout_s=TIMEOUT_S
        )
    except RolledBack as end:
        return end.erasure


def _scan(redaction: Redaction, connection: Connection) -> tuple[int, list[int]]:
    last = connection.execute(select(func.coalesce(func.max(events.c.seq), 0))).scalar_one()
    return last, find_candidates(connection, redaction, 0)
