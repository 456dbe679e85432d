"""Runs all checks on one snapshot."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection

from holdfast.verify import erasures, history, keys, line, money, orders, replay, reservations, stock, wallet
from holdfast.verify.check import Check, Computed, Finding, Ledger, Level
from holdfast.verify.history import History

CHECKS: tuple[Check | Computed, ...] = (
    *stock.CHECKS,
    *reservations.CHECKS,
    *keys.CHECKS,
    *orders.CHECKS,
    *money.CHECKS,
    *wallet.CHECKS,
    *line.CHECKS,
    *history.CHECKS,
    *erasures.CHECKS,
    *replay.CHECKS,
)

Progress = Callable[[int, Check | Computed], None]


class Proof(Struct, frozen=True):
    findings: Sequence[Finding]
    strict: bool = False
    """Whether notes fail the verification too. Work in progress never does."""
    history: History | None = None
    """With checkpoints: how far they prove history."""

    @property
    def ok(self) -> bool:
        notes = any(finding.count for finding in self.findings if finding.level is Level.NOTE)
        return all(finding.ok for finding in self.findings) and not (self.strict and notes)

    def body(self) -> dict[str, Any]:
        shown = {} if self.history is None else {"history": msgspec.to_builtins(self.history)}
        return {"ok": self.ok, "checks": [finding.body() for finding in self.findings]} | shown


def prove(connection: Connection, progress: Progress = lambda _number, _check: None) -> list[Finding]:
    ledger = Ledger(connection)
    findings = []
    for number, check in enumerate(CHECKS):
        progress(number, check)
        findings.append(ledger.run(check))
    return findings
