"""Do the ledger's orders and the money agree, and does the provider say the same?

The model. Every charge ends as an order or a refund, and nothing stays set aside for what has ended. What breaks that
is found from the ledger alone, by a few set queries (`ledger/money_at_odds.py`), which only read: purchases must not
wait for them. Most looks ask about what was paid lately; now and then, and on demand, about everything. A thorough look
also asks the providers about the payments that were settled lately. Most of it is mended in one way: in a short
transaction of its own, in which it is asked again, the settlement is opened again, and the settler walks it to its end
from how things stand, as it does after a crash. An order without its money is looked into by `UnpaidOrders`, one that
cannot be delivered by `Compensator`.
"""

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any

import structlog
from sqlalchemy import Connection, Row, Select, select, update

from holdfast.domain.sale import PaymentKind
from holdfast.domain.settling import PaymentMark
from holdfast.errors import EngineError
from holdfast.ledger.database import Database
from holdfast.ledger.money_at_odds import (
    doubt,
    forget_notes,
    kept_for_nothing,
    notes_for_nothing,
    providers_not_among,
    reopen_if_doubtful,
    set_aside_for_nothing,
    settled_lately,
    stuck,
    take_up,
)
from holdfast.ledger.sale_tables import payments, settlements
from holdfast.payments.port import PaymentProvider, PaymentState
from holdfast.settlement.compensate import Compensation, Compensator
from holdfast.settlement.parked import count_parked
from holdfast.settlement.payment_report import PaymentFinding, PaymentReport
from holdfast.settlement.settle import Settler
from holdfast.settlement.unpaid_orders import UnpaidOrders

log = structlog.get_logger()

PASS_INTERVAL_S = 30.0
# What was paid before this was looked at several times already.
RECENT_MS = 180_000
# How often to look at everything.
FULL_INTERVAL_S = 3_600.0
# A purchase takes seconds from noting the method to its reservation.
NOTE_KEPT_MS = 3_600_000
# A settlement takes seconds; one that is open for longer is being held up by something.
STUCK_AFTER_MS = 300_000
# How far back, and how many payments, a thorough look asks the providers about.
ASKED_SINCE_MS = 3_600_000
ASKED_MAX = 200
# Orders that a finding names; the rest can be listed.
NAMED_MAX = 10


class PaymentAudit:
    def __init__(
        self,
        database: Database,
        settler: Settler,
        providers: Mapping[str, PaymentProvider],
        compensator: Compensator,
    ) -> None:
        self._database = database
        self._settler = settler
        self._providers = providers
        self._unpaid = UnpaidOrders(database, providers)
        self._compensator = compensator
        self._full_at = -FULL_INTERVAL_S

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PASS_INTERVAL_S * random.uniform(0.5, 1.5))
            try:
                await self.look()
            except EngineError as exc:
                log.warning("payment_audit_failed", error=str(exc))
            except Exception:
                log.exception("payment_audit_failed")

    async def look(self, *, thorough: bool = False) -> PaymentReport:
        """Find what is wrong, and mend what can be mended."""
        is_full = thorough or monotonic() - self._full_at >= FULL_INTERVAL_S
        found = await self._look_recently() + (await self._look_at_all() if is_full else [])
        if is_full:
            self._full_at = monotonic()
        found += [_oversold(done) for done in await self._compensator.look(is_full=is_full)]
        if thorough:
            found += await self._ask_providers()
        if any(finding.is_mended for finding in found):
            self._settler.nudge()
        for finding in found:
            log.warning("payments_at_odds", finding=finding.finding, subject=finding.subject, detail=finding.detail)
        now, parked = await self._database.read(lambda c: (self._database.now_ms(c), count_parked(c)))
        return PaymentReport(now, found, parked)

    async def hint(self, payment_key: str) -> bool:
        """The provider says that something happened: look now. Said twice, or for nothing, it does no harm."""
        known = await self._database.write(lambda c: self._hint(c, payment_key))
        if known:
            self._settler.nudge()
        return known

    def _hint(self, connection: Connection, payment_key: str) -> bool:
        payment = connection.execute(select(payments).where(payments.c.payment_key == payment_key)).one_or_none()
        if payment is None:
            return False
        is_open = [settlements.c.reservation_id == payment.reservation_id, settlements.c.state == "waiting"]
        now = self._database.now_ms(connection)
        due = update(settlements).where(*is_open, settlements.c.leased_until <= now).values(due_at=now)
        is_due = connection.execute(due).rowcount
        if not is_due and reopen_if_doubtful(connection, payment, now):
            doubt(connection, payment_key, now)
        return True

    # --- from the ledger

    async def _look_recently(self) -> list[PaymentFinding]:
        now = await self._database.read(self._database.now_ms)
        found = await self._mend_kept(now - RECENT_MS)
        aside = set_aside_for_nothing()
        for row in await self._rows(aside):
            detail = f"it is {row.state}, and its reservation has ended"
            found += await self._mend(aside, row, "payment_left_open", detail)
        for row in await self._rows(stuck(now - STUCK_AFTER_MS)):
            detail = f"open for {(now - row.created_at) // 1000} s: {row.reason or 'no reason known'}"
            found.append(PaymentFinding("settlement_stuck", row.reservation_id, detail, is_mended=False))
        return found

    async def _look_at_all(self) -> list[PaymentFinding]:
        found = await self._mend_kept(since=0) + await self._unpaid.mend()
        await self._forget_notes()
        return found

    async def _forget_notes(self) -> None:
        before = await self._database.read(self._database.now_ms) - NOTE_KEPT_MS
        while notes := await self._database.read(lambda c: notes_for_nothing(c, before)):
            await self._database.write(partial(forget_notes, keys=notes, before=before))

    async def _mend_kept(self, since: int) -> list[PaymentFinding]:
        found, kept = [], kept_for_nothing(since)
        for row in await self._rows(kept):
            detail = f"{row.amount} {row.currency} was taken, and there is neither an order nor a refund"
            found += await self._mend(kept, row, "payment_without_order", detail)
        return found

    async def _rows(self, question: Select[Any]) -> list[Row[Any]]:
        return await self._database.read(lambda c: list(c.execute(question)))

    async def _mend(self, question: Select[Any], payment: Row[Any], name: str, detail: str) -> list[PaymentFinding]:
        """What is in order by the time that it is looked at again was on its way there."""

        def work(connection: Connection) -> bool | None:
            return take_up(connection, question, payment.payment_key, self._database.now_ms(connection))

        is_mended = await self._database.write(work)
        return [] if is_mended is None else [PaymentFinding(name, payment.payment_key, detail, is_mended=is_mended)]

    # --- from the providers

    async def _ask_providers(self) -> list[PaymentFinding]:
        missing = await self._database.read(lambda c: providers_not_among(c, self._providers))
        detail = "has payments in the ledger and is not configured here, so it was not asked about any of them"
        found = [PaymentFinding("provider_not_configured", name, f"{name} {detail}", False) for name in missing]
        for row in await self._database.read(self._lately):
            provider = self._providers.get(PaymentKind(row.provider))
            if provider is None:
                continue
            try:
                told = await provider.look_up(row.payment_key, row.reference)
            except EngineError as exc:
                found.append(PaymentFinding("provider_not_asked", row.provider, str(exc), is_mended=False))
                break
            finding = _compare(row, None if told is None else told.state)
            if finding is not None:
                found.append(finding)
                if finding.is_mended:
                    await self.hint(row.payment_key)
        return found

    def _lately(self, connection: Connection) -> list[Row[Any]]:
        since = self._database.now_ms(connection) - ASKED_SINCE_MS
        return list(connection.execute(settled_lately(since, ASKED_MAX)))


def _oversold(done: Compensation) -> PaymentFinding:
    detail = f"{done.sold_units} units are sold, {done.deliverable_units} can be delivered"
    if done.cancelled:
        detail += f"; cancelled and refunded: {', '.join(done.cancelled)}"
    if done.to_source:
        waiting = ", ".join(f"{order_id} ({units})" for order_id, units in list(done.to_source.items())[:NAMED_MAX])
        more = len(done.to_source) - NAMED_MAX
        detail += f"; to be found for {waiting}" + (f" and {more} more orders" if more > 0 else "")
    return PaymentFinding("oversold", done.sale_id, detail, is_mended=not done.shortfall_units)


def _compare(row: Any, told: PaymentState | None) -> PaymentFinding | None:
    is_taken, says_taken = row.state == PaymentMark.CAPTURED, told is PaymentState.CAPTURED
    if is_taken == says_taken and told is not PaymentState.AUTHORISED:
        return None
    detail = f"the ledger has it as {row.state}, {row.provider} as {told or 'unknown'}"
    return PaymentFinding("provider_disagrees", row.payment_key, detail, is_mended=not is_taken)
