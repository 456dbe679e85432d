"""All checks, one after the other, on one snapshot."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.verify import keys, line, money, orders, reservations, stock, wallet
from holdfast.verify.check import Check, Computed, Finding, Ledger, Level

CHECKS: tuple[Check | Computed, ...] = (
    *stock.CHECKS,
    *reservations.CHECKS,
    *keys.CHECKS,
    *orders.CHECKS,
    *money.CHECKS,
    *wallet.CHECKS,
    *line.CHECKS,
)

Progress = Callable[[int, Check | Computed], None]


class Proof(Struct, frozen=True):
    findings: Sequence[Finding]
    strict: bool = False
    """Whether notes refute too. What is under way never does."""

    @property
    def ok(self) -> bool:
        notes = any(finding.count for finding in self.findings if finding.level is Level.NOTE)
        return all(finding.ok for finding in self.findings) and not (self.strict and notes)

    def body(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [finding.body() for finding in self.findings]}


def prove(connection: Connection, progress: Progress = lambda _number, _check: None) -> list[Finding]:
    ledger = Ledger(connection)
    findings = []
    for number, check in enumerate(CHECKS):
        progress(number, check)
        findings.append(ledger.ask(check))
    return findings
