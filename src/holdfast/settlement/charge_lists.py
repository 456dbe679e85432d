"""Reads the providers' lists of charges every few minutes, so that the ledger knows every charge.

Separate from the payment audit: a busy provider takes minutes to list its charges, and the audit's checks must not
wait.
"""

from holdfast.errors import EngineError
from holdfast.ledger.engine.database import Database
from holdfast.runtime.agent import THOROUGH_PASS_S, Agent
from holdfast.settlement.payment_report import PaymentFinding, log_findings
from holdfast.settlement.settler import Settler
from holdfast.settlement.unknown_charges import UnknownCharge, UnknownCharges

INTERVAL_S = 180.0
# Each read starts some time before the last one, because a charge may be listed late. The first starts an hour back.
OVERLAP_MS = 600_000
FIRST_MS = 3_600_000


class ChargeLists:
    def __init__(self, database: Database, settler: Settler, charges: UnknownCharges, *, restores: bool = True) -> None:
        """`restores`: whether a reservation that the ledger lacks may be recreated (`UnknownCharges.adopt`)."""
        self._database, self._settler, self._charges, self._restores = database, settler, charges, restores
        self._read_until = 0

    def agent(self) -> Agent[list[PaymentFinding]]:
        return Agent(
            "charge_lists", self.read, INTERVAL_S, jitter=0.5, rests_first=True, longest_pass_s=THOROUGH_PASS_S
        )

    async def read(self) -> list[PaymentFinding]:
        """Turns charges that the providers have and the ledger lacks into orders, refunds or parked items."""
        now = await self._database.read(self._database.now_ms)
        since = max(self._read_until - OVERLAP_MS if self._read_until else now - FIRST_MS, 0)
        try:
            unknown = (await self._charges.find(since, is_by_sale=False)).ours
        except EngineError as exc:
            # The next read starts where this one did.
            found = [PaymentFinding("provider_not_asked", "charges", str(exc), is_repaired=False)]
            log_findings(found)
            return found
        adopted = [(each, await self._charges.adopt(each, restores=self._restores)) for each in unknown]
        self._read_until = now
        found = [_finding(each, result) for each, result in adopted if result != "known"]
        log_findings(found)
        if any(finding.is_repaired for finding in found):
            self._settler.nudge()
        return found


def _finding(charge: UnknownCharge, result: str) -> PaymentFinding:
    about = charge.listed.charge
    detail = f"{charge.provider} has {about.amount} {about.currency} that the ledger does not know; now {result}"
    return PaymentFinding("unknown_charge", about.key, detail, is_repaired=result != "parked")
