"""A ledger that returned to an earlier state: what the processes know about it, and the operator's recovery.

Marks and exports are kept here instead of in files; like files, they survive the crash of a process.
"""

from functools import partial
from pathlib import Path

from msgspec import Struct

from holdfast.bootstrap.recovery import Decision, Missing, decide
from holdfast.gate.engine import Engine
from holdfast.gate.engine import Evidence as RedisEvidence
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import KeptMark, Loss, lacking, read_mark
from holdfast.ledger.mark.watch import LedgerWatch, MarkStore
from holdfast.ledger.recovery.late_losses import apply_decision
from holdfast.payments.port import PaymentProvider
from holdfast.settlement.unknown_charges import UnknownCharges

PLACE = "simulated"


class MarkInMemory:
    def __init__(self) -> None:
        self._kept: KeptMark | None = None

    async def read(self) -> KeptMark | None:
        return self._kept

    async def write(self, kept: KeptMark) -> None:
        self._kept = kept


class Evidence(Struct):
    """What remains outside the ledger."""

    marks: dict[str, MarkInMemory] = {}
    losses: list[Loss] = []


class SimulatedWatch(LedgerWatch):
    """Exports to the evidence instead of a file."""

    def __init__(self, process: str, database: Database, engine: Engine, evidence: Evidence) -> None:
        store = evidence.marks.setdefault(process, MarkInMemory())
        stores: list[MarkStore] = [store] if engine.evidence is None else [store, engine.evidence]
        contribute = partial(apply_decision, database)
        super().__init__(database, PLACE, stores, Path(PLACE), engine.acknowledged, contribute=contribute)
        self._evidence = evidence

    async def _keep(self, loss: Loss) -> None:
        self._evidence.losses.append(loss)


async def recover(
    database: Database, provider: PaymentProvider, evidence: Evidence, in_redis: RedisEvidence | None
) -> Decision:
    """Does what `holdfast recover` does with the exports of all servers."""
    losses, charges = evidence.losses, UnknownCharges(database, {"sandbox": provider})
    known = [each for loss in losses for each in loss.reservations]
    known += [] if in_redis is None else await in_redis.holds()
    ledger, lost = await database.read(lambda c: (read_mark(c), lacking(c, known)))
    unknown = await charges.find(0, [loss.seen.incarnation for loss in losses])
    missing = Missing([loss.finding for loss in losses], ledger, [loss.seen for loss in losses], lost, unknown.ours)
    return await decide(database, in_redis, missing, charges, "operator", restoring=True)
