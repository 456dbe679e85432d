"""Checks that orders and payments agree, and that the providers say the same.

The model. Every charge ends as an order or a refund, and no authorisation stays open for a reservation that has ended.
Violations are found from the ledger alone, by a few set queries (`ledger/money/payment_mismatches.py`) that only read:
purchases must not wait for them. Most passes check what was paid recently; some, and those on demand, check everything.
A thorough pass also asks the providers about recent payments. Most findings are repaired in one way: a short
transaction checks the finding again and reopens the settlement, and the settler walks it to its end, as after a crash.
Orders without a payment are for `UnpaidOrders`, orders that cannot be delivered for `Compensator`.
"""

from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from holdfast.domain.sale.sale import PaymentKind
from holdfast.domain.sale.settling_case import PaymentStatus
from holdfast.errors import EngineError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.money.payment_mismatches import (
    captured_without_order,
    delete_notes,
    left_open,
    look_up_again,
    orphaned_notes,
    providers_not_among,
    reopen_if_disputable,
    reopen_payment,
    settled_since,
    stuck,
)
from holdfast.ledger.tables.money import payments, settlements
from holdfast.payments.port import PaymentProvider, PaymentState
from holdfast.runtime.agent import THOROUGH_PASS_S, Agent
from holdfast.settlement.compensate import Compensation, Compensator
from holdfast.settlement.parked import count_parked
from holdfast.settlement.payment_report import PaymentFinding, PaymentReport, log_findings
from holdfast.settlement.settler import Settler
from holdfast.settlement.unpaid_orders import UnpaidOrders

PASS_INTERVAL_S = 30.0
# What was paid earlier has been checked several times already.
RECENT_MS = 180_000
# How often to check everything.
FULL_INTERVAL_S = 3_600.0
# A purchase takes seconds from storing the method to its reservation.
NOTE_KEPT_MS = 3_600_000
# A settlement takes seconds; one that is open for this long is blocked by something.
STUCK_AFTER_MS = 300_000
# How far back a thorough pass asks the providers, and about how many payments.
ASKED_SINCE_MS = 3_600_000
ASKED_MAX = 200
# Orders listed in a finding; the rest can be listed with the API.
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

    def agent(self) -> Agent[PaymentReport]:
        return Agent(
            "payment_audit",
            self.look,
            PASS_INTERVAL_S,
            jitter=0.5,
            rests_first=True,
            longest_pass_s=THOROUGH_PASS_S,
        )

    async def look(self, *, thorough: bool = False) -> PaymentReport:
        """Find what is inconsistent, and repair what can be repaired."""
        is_full = thorough or monotonic() - self._full_at >= FULL_INTERVAL_S
        found = await self._check_recent() + (await self._check_all() if is_full else [])
        if is_full:
            self._full_at = monotonic()
        found += [_oversold(done) for done in await self._compensator.look(is_full=is_full)]
        if thorough:
            found += await self._ask_providers()
        if any(finding.is_repaired for finding in found):
            self._settler.nudge()
        log_findings(found)
        now, parked = await self._database.read(lambda c: (self._database.now_ms(c), count_parked(c)))
        return PaymentReport(now, found, parked)

    async def hint(self, payment_key: str) -> bool:
        """The provider reports that something happened: check now. Safe to repeat."""
        if await self._is_only_declined(payment_key):
            return True
        known = await self._database.write(lambda c: self._hint(c, payment_key))
        if known:
            self._settler.nudge()
        return known

    async def _is_only_declined(self, payment_key: str) -> bool:
        """Whether the provider only repeats a decline that the buyer already knows."""
        query = select(payments).where(payments.c.payment_key == payment_key, payments.c.state == "declined")
        declined = await self._database.read(lambda c: c.execute(query).one_or_none())
        provider = None if declined is None else self._providers.get(declined.provider)
        if declined is None or provider is None:
            return False
        try:
            known = await provider.look_up(payment_key, declined.reference)
        except EngineError:
            return False
        return known is not None and known.state in (PaymentState.DECLINED, PaymentState.VOIDED)

    def _hint(self, connection: Connection, payment_key: str) -> bool:
        payment = connection.execute(select(payments).where(payments.c.payment_key == payment_key)).one_or_none()
        if payment is None:
            return False
        is_open = [settlements.c.reservation_id == payment.reservation_id, settlements.c.state == "waiting"]
        now = self._database.now_ms(connection)
        due = update(settlements).where(*is_open, settlements.c.leased_until <= now).values(due_at=now)
        is_due = connection.execute(due).rowcount
        if not is_due and reopen_if_disputable(connection, payment, now):
            look_up_again(connection, payment_key, now)
        return True

    # --- from the ledger

    async def _check_recent(self) -> list[PaymentFinding]:
        now = await self._database.read(self._database.now_ms)
        found = await self._repair_captured(now - RECENT_MS)
        unfinished = left_open()
        for row in await self._rows(unfinished):
            detail = f"it is {row.state}, and its reservation has ended"
            found += await self._repair(unfinished, row, "payment_left_open", detail)
        for row in await self._rows(stuck(now - STUCK_AFTER_MS)):
            detail = f"open for {(now - row.created_at) // 1000} s: {row.reason or 'no reason known'}"
            found.append(PaymentFinding("settlement_stuck", row.reservation_id, detail, is_repaired=False))
        return found

    async def _check_all(self) -> list[PaymentFinding]:
        found = await self._repair_captured(since=0) + await self._unpaid.repair()
        await self._delete_notes()
        return found

    async def _delete_notes(self) -> None:
        before = await self._database.read(self._database.now_ms) - NOTE_KEPT_MS
        while notes := await self._database.read(lambda c: orphaned_notes(c, before)):
            await self._database.write(partial(delete_notes, keys=notes, before=before))

    async def _repair_captured(self, since: int) -> list[PaymentFinding]:
        found, unmatched = [], captured_without_order(since)
        for row in await self._rows(unmatched):
            detail = f"{row.amount} {row.currency} was captured, and there is neither an order nor a refund"
            found += await self._repair(unmatched, row, "payment_without_order", detail)
        return found

    async def _rows(self, query: Select[Any]) -> list[Row[Any]]:
        return await self._database.read(lambda c: list(c.execute(query)))

    async def _repair(self, query: Select[Any], payment: Row[Any], name: str, detail: str) -> list[PaymentFinding]:
        """A finding that is gone when it is checked again was only work in progress."""

        def work(connection: Connection) -> bool | None:
            return reopen_payment(connection, query, payment.payment_key, self._database.now_ms(connection))

        is_repaired = await self._database.write(work)
        if is_repaired is None:
            return []
        return [PaymentFinding(name, payment.payment_key, detail, is_repaired=is_repaired)]

    # --- from the providers

    async def _ask_providers(self) -> list[PaymentFinding]:
        missing = await self._database.read(lambda c: providers_not_among(c, self._providers))
        detail = "has payments in the ledger and is not configured here, so none of them was checked with it"
        found = [PaymentFinding("provider_not_configured", name, f"{name} {detail}", False) for name in missing]
        now = await self._database.read(self._database.now_ms)
        for row in await self._rows(settled_since(now - ASKED_SINCE_MS, ASKED_MAX)):
            provider = self._providers.get(PaymentKind(row.provider))
            if provider is None:
                continue
            try:
                known = await provider.look_up(row.payment_key, row.reference)
            except EngineError as exc:
                found.append(PaymentFinding("provider_not_asked", row.provider, str(exc), is_repaired=False))
                break
            finding = _compare(row, None if known is None else known.state)
            if finding is not None:
                found.append(finding)
                if finding.is_repaired:
                    await self.hint(row.payment_key)
        return found


def _oversold(done: Compensation) -> PaymentFinding:
    detail = f"{done.sold_units} units are sold, {done.deliverable_units} can be delivered"
    if done.needs_review:
        detail += "; too much to cancel by itself: an operator has to approve it"
    if done.cancelled:
        detail += f"; cancelled and refunded: {', '.join(done.cancelled)}"
    if done.to_source:
        waiting = ", ".join(f"{order_id} ({units})" for order_id, units in list(done.to_source.items())[:NAMED_MAX])
        more = len(done.to_source) - NAMED_MAX
        detail += f"; to be found for {waiting}" + (f" and {more} more orders" if more > 0 else "")
    return PaymentFinding("oversold", done.sale_id, detail, is_repaired=not done.shortfall_units)


def _compare(row: Any, known: PaymentState | None) -> PaymentFinding | None:
    is_taken, says_taken = row.state == PaymentStatus.CAPTURED, known is PaymentState.CAPTURED
    if is_taken == says_taken and known is not PaymentState.AUTHORISED:
        return None
    detail = f"the ledger has it as {row.state}, {row.provider} as {known or 'unknown'}"
    return PaymentFinding("provider_disagrees", row.payment_key, detail, is_repaired=not is_taken)
