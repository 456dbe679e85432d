"""Reads a report and makes the proof, both from one snapshot."""

import asyncio
from time import time

from sqlalchemy import Connection

from holdfast.cli.ledger import explained, shown_url
from holdfast.cli.output import fail, show_progress
from holdfast.cli.report.sections import ProvenReport
from holdfast.ledger.sales.report import report_of
from holdfast.settings import Settings
from holdfast.verify.prove import CHECKS, Proof, prove
from holdfast.verify.snapshot import look


def gather(settings: Settings, sale_id: str) -> ProvenReport:
    def work(connection: Connection) -> ProvenReport | None:
        show_progress(f"Reading sale {sale_id}")
        facts = report_of(connection, sale_id, int(time() * 1000))
        if facts is None:
            return None
        findings = prove(
            connection, lambda number, check: show_progress(f"{number + 1} of {len(CHECKS)}: {check.name}")
        )
        return ProvenReport(facts, Proof(findings))

    with explained(settings):
        try:
            proven = asyncio.run(look(settings.database_url, work))
        finally:
            show_progress("")
    if proven is None:
        fail(f"there is no sale {sale_id!r} in {shown_url(settings)}", "List them with: holdfast sales list")
    return proven
