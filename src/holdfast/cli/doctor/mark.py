"""The ledger mark: whether the ledger still has everything that was seen of it."""

from holdfast.bootstrap.marks import compare_kept
from holdfast.cli.doctor.finding import Finding, fail, ok
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import read_mark
from holdfast.ledger.revision import current_revision, newest_revision
from holdfast.settings import Settings

FIX = "holdfast recover shows what is missing; then holdfast recover --import or --accept-loss"


async def examine_mark(settings: Settings, database: Database) -> list[Finding]:
    if await database.read(current_revision) != newest_revision():
        return []
    found = await compare_kept(settings, database)
    if found:
        return [fail("ledger mark", f"the ledger went back: {finding}", FIX) for finding, _ in found]
    mark = await database.read(read_mark)
    seen = "" if mark is None else f", up to event {mark.seq}"
    return [ok("ledger mark", f"the ledger is complete{seen}")]
