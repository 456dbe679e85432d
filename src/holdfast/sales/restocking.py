"""Adds units to a sale, or removes free ones: exactly once per key.

If the database is the gate, the key is written in the transaction that changes the total. If Redis is the gate, the
transaction writes added units as a transfer (`Restocker`), which the pool takes now or, if Redis is away, later.
Removing free units is requested from Redis only once. If that answer is lost, the outcome is unknown, and a retry with
the same key returns `restock_unknown`. A caller that sends no key gets a new one here: it cannot retry, but nothing is
done partially.
"""

from enum import StrEnum
from uuid import uuid4

from sqlalchemy import Connection

from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.command import Restock, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import Unavailable
from holdfast.gate.engine import Restocker
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.restocks import Entered, enter_restock, finish_restock, forget_restock, raise_deliverable


class Unrestocked(StrEnum):
    KEY_REUSED = "idempotency_key_reused"
    UNKNOWN = "restock_unknown"


class _Refused(Exception):
    """Rolls back what was written before the gate refused."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


class Restocking:
    def __init__(self, database: Database, gate: Gate, restocker: Restocker | None) -> None:
        """Without a `restocker`, the database is the gate."""
        self._database = database
        self._gate = gate
        self._restocker = restocker

    async def restock(self, sale: Sale, units: int, key: str | None) -> Verdict | Unrestocked:
        key = uuid4().hex if key is None else key
        if self._restocker is not None and units <= 0:
            return await self._take_from_redis(sale, units, key)
        try:
            verdict = await self._database.write(lambda c: self._restock_here(c, sale, units, key))
        except _Refused as refused:
            return refused.verdict
        if self._restocker is not None:
            await self._restocker.deliver(sale.sku_id)
        return verdict

    def _restock_here(self, connection: Connection, sale: Sale, units: int, key: str) -> Verdict | Unrestocked:
        entered = enter_restock(connection, sale.sale_id, key, units, self._database.now_ms(connection))
        # An earlier release wrote the key in a transaction of its own, so it may be there without the units.
        if entered in (Entered.DONE, Entered.OTHER):
            return Unrestocked.KEY_REUSED if entered is Entered.OTHER else Verdict(Outcome.REPLAYED)
        verdict = self._change_total(connection, sale, units, key)
        if verdict.outcome is not Outcome.MOVED:
            raise _Refused(verdict)
        self._finish(connection, sale, units, key)
        return verdict

    def _change_total(self, connection: Connection, sale: Sale, units: int, key: str) -> Verdict:
        if self._restocker is None:
            return SqlGate(self._database).decide(connection, sale.sku_id, [Restock(units)])[0]
        is_added = self._restocker.add(connection, sale.sku_id, units, _reference(sale.sale_id, key))
        return Verdict(Outcome.MOVED if is_added else Outcome.ILLEGAL)

    async def _take_from_redis(self, sale: Sale, units: int, key: str) -> Verdict | Unrestocked:
        entered = await self._database.write(
            lambda c: enter_restock(c, sale.sale_id, key, units, self._database.now_ms(c))
        )
        if entered is Entered.DONE:
            return Verdict(Outcome.REPLAYED)
        if entered is not Entered.NEW:
            return Unrestocked.KEY_REUSED if entered is Entered.OTHER else Unrestocked.UNKNOWN
        verdict = await self._take(sale, units, key)
        if verdict.outcome is Outcome.MOVED:
            await self._database.write(lambda c: self._finish(c, sale, units, key))
        else:
            await self._database.write(lambda c: forget_restock(c, sale.sale_id, key))
        return verdict

    async def _take(self, sale: Sale, units: int, key: str) -> Verdict:
        try:
            [verdict] = await self._gate.apply(sale.sku_id, [Restock(units)])
        except Unavailable:
            await self._database.write(lambda c: forget_restock(c, sale.sale_id, key))
            raise
        return verdict

    def _finish(self, connection: Connection, sale: Sale, units: int, key: str) -> None:
        now = self._database.now_ms(connection)
        if finish_restock(connection, sale.sale_id, sale.sku_id, key, now):
            raise_deliverable(connection, sale.sale_id, units, now)


def _reference(sale_id: str, key: str) -> str:
    """The separator must not be in the sale's ID, or two sales could have the same. No sale's ID contains a slash."""
    return f"rst/{sale_id}/{key}" if ":" in sale_id else f"rst_{sale_id}:{key}"
