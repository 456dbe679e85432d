"""The findings of a payment audit."""

from collections.abc import Iterable

import structlog
from msgspec import Struct

log = structlog.get_logger()


class PaymentFinding(Struct, frozen=True):
    finding: str
    subject: str
    detail: str
    # Whether it is being repaired; otherwise an operator has to act.
    is_repaired: bool


class PaymentReport(Struct, frozen=True):
    checked_at: int
    findings: list[PaymentFinding]
    parked: dict[str, int]

    @property
    def is_ok(self) -> bool:
        return not self.findings and not any(self.parked.values())


def log_findings(findings: Iterable[PaymentFinding]) -> None:
    for finding in findings:
        log.warning("payments_inconsistent", finding=finding.finding, subject=finding.subject, detail=finding.detail)
