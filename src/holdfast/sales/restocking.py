"""Units that come to a sale, or leave it: once for each key.

Where the database is the gate, the key is written in the transaction that changes the total. Where Redis is, units that
come are a transfer that is known by the key (`RedisRestocker`), so whoever asks again finds them written or taken. Free
units that are taken away there are asked of the gate once; if its answer was lost, nobody can say, and that is what the
next who asks under this key is told.
"""

from enum import StrEnum

from sqlalchemy import Connection

from holdfast.domain.command import Restock, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.sale import Sale
from holdfast.errors import Unavailable
from holdfast.gate.port import Gate
from holdfast.gate.restock import RedisRestocker
from holdfast.gate.sql import SqlGate
from holdfast.ledger.database import Database
from holdfast.ledger.restocks import Entered, enter_restock, finish_restock, forget_restock, raise_deliverable


class Unrestocked(StrEnum):
    KEY_REUSED = "idempotency_key_reused"
    UNKNOWN = "restock_unknown"


class _Refused(Exception):
    """Rolls back what was written before the gate said no."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


class Restocking:
    def __init__(self, database: Database, gate: Gate, restocker: RedisRestocker | None) -> None:
        """Without a `restocker`, the database is the gate."""
        self._database = database
        self._gate = gate
        self._restocker = restocker

    async def restock(self, sale: Sale, units: int, key: str | None) -> Verdict | Unrestocked:
        if key is None:
            [verdict] = await self._gate.apply(sale.sku_id, [Restock(units)])
            if verdict.outcome is Outcome.MOVED:
                await self._database.write(lambda c: raise_deliverable(c, sale.sale_id, units))
            return verdict
        if self._restocker is not None:
            return await self._restock_redis(self._restocker, sale, units, key)
        try:
            return await self._database.write(lambda c: self._restock_here(c, sale, units, key))
        except _Refused as refused:
            return refused.verdict

    def _restock_here(self, connection: Connection, sale: Sale, units: int, key: str) -> Verdict | Unrestocked:
        entered = enter_restock(connection, sale.sale_id, key, units, self._database.now_ms(connection))
        if entered is not Entered.NEW:
            return Unrestocked.KEY_REUSED if entered is Entered.OTHER else Verdict(Outcome.REPLAYED)
        [verdict] = SqlGate(self._database).decide(connection, sale.sku_id, [Restock(units)])
        if verdict.outcome is not Outcome.MOVED:
            raise _Refused(verdict)
        self._finish(connection, sale, units, key)
        return verdict

    async def _restock_redis(
        self, restocker: RedisRestocker, sale: Sale, units: int, key: str
    ) -> Verdict | Unrestocked:
        entered = await self._database.write(
            lambda c: enter_restock(c, sale.sale_id, key, units, self._database.now_ms(c))
        )
        if entered is Entered.DONE:
            return Verdict(Outcome.REPLAYED)
        if entered is Entered.OTHER or (entered is Entered.UNFINISHED and units <= 0):
            return Unrestocked.KEY_REUSED if entered is Entered.OTHER else Unrestocked.UNKNOWN
        verdict = await self._add(restocker, sale, units, key) if units > 0 else await self._take(sale, units, key)
        if verdict.outcome is Outcome.MOVED:
            await self._database.write(lambda c: self._finish(c, sale, units, key))
        else:
            await self._database.write(lambda c: forget_restock(c, sale.sale_id, key))
        return verdict

    async def _add(self, restocker: RedisRestocker, sale: Sale, units: int, key: str) -> Verdict:
        if not await restocker.has_room(sale.sku_id, units):
            return Verdict(Outcome.ILLEGAL)
        await restocker.restock(sale.sku_id, units, f"rst_{sale.sale_id}:{key}")
        return Verdict(Outcome.MOVED)

    async def _take(self, sale: Sale, units: int, key: str) -> Verdict:
        try:
            [verdict] = await self._gate.apply(sale.sku_id, [Restock(units)])
        except Unavailable:
            await self._database.write(lambda c: forget_restock(c, sale.sale_id, key))
            raise
        return verdict

    def _finish(self, connection: Connection, sale: Sale, units: int, key: str) -> None:
        if finish_restock(connection, sale.sale_id, key):
            raise_deliverable(connection, sale.sale_id, units)
