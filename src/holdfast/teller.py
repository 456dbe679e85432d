"""Brings to the ledger what this process has counted (counting.py)."""

import asyncio

import structlog

from holdfast import counting
from holdfast.errors import EngineError, OutcomeUnknown
from holdfast.ledger.database import Database
from holdfast.ledger.pool_counts import add_counts

log = structlog.get_logger()

NOTE_EVERY_S = 0.5


class Teller:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self) -> None:
        while True:
            try:
                await self.note()
            except EngineError as exc:
                log.debug("counts_not_noted", error=str(exc))
            except Exception:
                log.exception("counts_not_noted")
            await asyncio.sleep(NOTE_EVERY_S)

    async def note(self) -> None:
        taken = counting.take()
        if not taken:
            return
        try:
            await self._database.write(lambda c: add_counts(c, taken))
        except OutcomeUnknown:
            raise  # Rather too few than twice as many.
        except EngineError:
            counting.put_back(taken)
            raise
