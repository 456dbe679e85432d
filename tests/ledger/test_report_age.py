"""What operators are shown of the pools is of now, or said to be old."""

import pytest
from msgspec.structs import replace

from holdfast.domain.stock.command import Provision
from holdfast.gate import reconciler as module
from holdfast.gate.reconciler import FRESH_S, Reconciler
from holdfast.gate.sql import SqlGate
from holdfast.gate.sql_audit import SqlAudit
from holdfast.ledger.engine.database import Database


async def test_old_reports_are_renewed_before_they_are_shown(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    gate, reconciler = SqlGate(database), Reconciler(database, SqlAudit(database))
    await gate.apply("first", [Provision(5)])
    assert [report.sku_id for report in await reconciler.fresh_reports()] == ["first"]
    await gate.apply("second", [Provision(5)])
    assert len(await reconciler.fresh_reports()) == 1
    now += FRESH_S + 0.1
    assert [report.sku_id for report in await reconciler.fresh_reports()] == ["first", "second"]


async def test_a_report_that_could_not_be_renewed_is_not_ok(database: Database) -> None:
    gate, reconciler = SqlGate(database), Reconciler(database, SqlAudit(database))
    for sku_id in ("first", "second"):
        await gate.apply(sku_id, [Provision(5)])
    await reconciler.pass_once()
    old = reconciler.reports["first"]
    reconciler.reports["first"] = replace(old, checked_at=old.checked_at - 600_000)
    findings = {report.sku_id: report.finding for report in await reconciler.fresh_reports()}
    assert findings == {"first": "check_overdue", "second": None}
