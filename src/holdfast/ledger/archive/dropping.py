"""Deletes archived reservations that ended unsold and are old enough (`ledger/stock/pruning.py`).

Only while the archive's files exist and are intact, because afterwards they are the only copy.
"""

from pathlib import Path

from holdfast.domain.stock.reservation import made_at
from holdfast.errors import SettingsError
from holdfast.ledger.archive.runs import ArchiveRun, read_runs
from holdfast.ledger.archive.writing import month_of
from holdfast.ledger.engine.database import Database
from holdfast.ledger.stock.pruning import LEAST_KEPT_MS, ReservationPruner, oldest_returned

PORTION = 2_000


async def drop_archived(database: Database, directory: Path, keep_days: int) -> int:
    """Returns how many reservations were deleted, with all their events."""
    runs = read_runs(directory)
    oldest = await database.read(oldest_returned)
    if not runs or oldest is None:
        return 0
    _ensure_intact(directory, runs, month_of(made_at(oldest)))
    kept_ms = max(keep_days * 24 * 3_600_000, LEAST_KEPT_MS)
    now = await database.read(database.now_ms)
    older_than, pruner = min(now - kept_ms, runs[-1].until_at), ReservationPruner(runs[-1].upto_seq)
    while await database.write(lambda c: pruner.prune(c, older_than, limit=PORTION)):
        pass
    return pruner.deleted


def _ensure_intact(directory: Path, runs: list[ArchiveRun], first_month: str) -> None:
    """Files of earlier months contain nothing that could be deleted now, so they are not checked."""
    for file in [file for run in runs for file in run.files if file.month >= first_month]:
        damage = file.damage_in(directory)
        if damage is not None:
            raise SettingsError(f"{directory / file.path} is {damage}, so nothing was deleted: restore it first")
