"""Losses that are discovered after an operator has decided how to recover a ledger that went back.

A server that was paused or cut off meanwhile learns of the decision afterwards, and may remember reservations that no
other server knew of. The decision covers them too: they are restored if the operator chose to restore losses and there
are units for them, and given up otherwise. The report of the decision lists them in either case.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

import msgspec
import structlog
from sqlalchemy import Connection, select, update

from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import Acknowledged, lacking
from holdfast.ledger.recovery.restore import restore
from holdfast.ledger.stock.batch import BatchQueries, batch_queries
from holdfast.ledger.tables.incarnations import incarnations

log = structlog.get_logger()

_DECISIONS = (
    select(incarnations.c.number, incarnations.c.report)
    .where(incarnations.c.report.is_not(None))
    .order_by(incarnations.c.number)
)


def _sku_of(lost: Acknowledged) -> str:
    return lost.reservation.sku_id


async def apply_decision(database: Database, acknowledged: Sequence[Acknowledged]) -> None:
    """Apply the latest decision to those of these reservations that the ledger lacks and no decision has named."""
    missing = await database.read(lambda c: _unnamed(c, lacking(c, acknowledged)))
    queries = batch_queries(database.dialect_name)
    for sku_id, group in groupby(sorted(missing, key=_sku_of), key=_sku_of):
        lost = list(group)
        work = partial(_apply, database=database, queries=queries, sku_id=sku_id, lost=lost)
        restored = await database.write(work, timeout_s=60.0)
        given_up = len(lost) - len(restored)
        log.warning("ledger_loss_found_late", sku_id=sku_id, restored=len(restored), given_up=given_up)


def _unnamed(connection: Connection, lost: Sequence[Acknowledged]) -> list[Acknowledged]:
    if not lost:
        return []
    reports = [_decode(row.report) for row in connection.execute(_DECISIONS)]
    named = {each["reservation_id"] for report in reports for each in report["given_up"]}
    return [each for each in lost if each.reservation_id not in named]


def _apply(
    connection: Connection, database: Database, queries: BatchQueries, sku_id: str, lost: Sequence[Acknowledged]
) -> list[str]:
    rows = connection.execute(_DECISIONS.with_for_update()).all()
    report = _decode(rows[-1].report) if rows else None
    is_restoring = report is not None and report.get("restoring", False)
    restored = restore(connection, queries, database, sku_id, lost) if is_restoring else []
    if report is not None:
        report["restored"] += restored
        report["given_up"] += [each.reservation for each in lost if each.reservation_id not in restored]
        amended = {"report": msgspec.json.encode(report).decode()}
        connection.execute(update(incarnations).where(incarnations.c.number == rows[-1].number).values(amended))
    return restored


def _decode(report: str) -> dict[str, Any]:
    return msgspec.json.decode(report, type=dict[str, Any])
