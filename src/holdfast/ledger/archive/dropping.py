"""Deletes archived reservations that ended unsold and are old enough (`ledger/stock/pruning.py`)."""

from holdfast.ledger.archive.runs import ArchiveRun
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.pruning import LEAST_KEPT_MS, ReservationPruner

PORTION = 2_000


async def drop_archived(database: Database, last: ArchiveRun, keep_days: int) -> int:
    """Returns how many reservations were deleted, with all their events."""
    kept_ms = max(keep_days * 24 * 3_600_000, LEAST_KEPT_MS)
    now = await database.read(database.now_ms)
    older_than, pruner = min(now - kept_ms, last.until_at), ReservationPruner(last.upto_seq)
    while await database.write(lambda c: pruner.prune(c, older_than, limit=PORTION)):
        pass
    return pruner.deleted
