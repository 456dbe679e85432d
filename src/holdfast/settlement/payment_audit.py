"""Do the ledger's orders and the money agree, and does the provider say the same?

The model. Every charge ends as an order or a refund, and nothing stays set aside for what has ended. What breaks that
is found from the ledger alone, by a few set queries; a thorough look also asks the providers about the payments that
were settled lately. Most of it is mended in one way: the settlement is opened again, and the settler walks it to its
end from how things stand, as it does after a crash. An order without its money is only reported: that needs a person.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import structlog
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, exists, select, update

from holdfast.domain.sale import PaymentKind
from holdfast.domain.settling import PaymentMark
from holdfast.errors import EngineError
from holdfast.ledger.database import Database
from holdfast.ledger.sale_tables import is_open_settlement, orders, payments, refunds, settlements
from holdfast.payments.port import PaymentProvider, PaymentState
from holdfast.settlement.parked import count_parked
from holdfast.settlement.settle import Settler

log = structlog.get_logger()

FINDINGS_MAX = 100
PASS_INTERVAL_S = 30.0
# A settlement takes seconds; one that is open for longer is being held up by something.
STUCK_AFTER_MS = 300_000
# How far back, and how many payments, a thorough look asks the providers about.
ASKED_SINCE_MS = 3_600_000
ASKED_MAX = 200

_CLOSED = ("done", "dropped")
_SET_ASIDE = (PaymentMark.ATTEMPTED, PaymentMark.AUTHORISED, PaymentMark.CLAIMED)


class PaymentFinding(Struct, frozen=True):
    finding: str
    subject: str
    detail: str
    # Whether it is being put right, or waits for a person.
    is_mended: bool


class PaymentReport(Struct, frozen=True):
    checked_at: int
    findings: list[PaymentFinding]
    parked: dict[str, int]

    @property
    def is_ok(self) -> bool:
        return not self.findings and not any(self.parked.values())


class PaymentAudit:
    def __init__(self, database: Database, settler: Settler, providers: Mapping[str, PaymentProvider]) -> None:
        self._database = database
        self._settler = settler
        self._providers = providers

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
        found = await self._database.write(self._look_and_mend)
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
        if not is_due and payment.state in (PaymentMark.DECLINED, PaymentMark.VOIDED):
            self._reopen(connection, payment.reservation_id, now, doubtful=payment.payment_key)
        return True

    # --- from the ledger

    def _look_and_mend(self, connection: Connection) -> list[PaymentFinding]:
        now = self._database.now_ms(connection)
        found: list[PaymentFinding] = []
        for row in connection.execute(_kept_for_nothing()):
            self._reopen(connection, row.reservation_id, now)
            detail = f"{row.amount} {row.currency} was taken, and there is neither an order nor a refund"
            found.append(PaymentFinding("payment_without_order", row.payment_key, detail, is_mended=True))
        for row in connection.execute(_set_aside_for_nothing()):
            self._reopen(connection, row.reservation_id, now)
            detail = f"it is {row.state}, and its reservation has ended"
            found.append(PaymentFinding("payment_left_open", row.payment_key, detail, is_mended=True))
        for row in connection.execute(_orders_without_money()):
            detail = f"{row.amount} {row.currency} by {row.payment} was never taken"
            found.append(PaymentFinding("order_without_payment", row.order_id, detail, is_mended=False))
        for row in connection.execute(_stuck(now - STUCK_AFTER_MS)):
            detail = f"open for {(now - row.created_at) // 1000} s: {row.reason or 'no reason known'}"
            found.append(PaymentFinding("settlement_stuck", row.reservation_id, detail, is_mended=False))
        return found

    def _reopen(self, connection: Connection, reservation_id: str, now: int, doubtful: str | None = None) -> None:
        """The settler looks at it again. What is doubtful is looked up first."""
        if doubtful is not None:
            mark = {"state": PaymentMark.ATTEMPTED.value, "updated_at": now}
            connection.execute(update(payments).where(payments.c.payment_key == doubtful).values(**mark))
        values = {"state": "waiting", "ending": None, "attempts": 0, "due_at": now, "leased_until": 0}
        is_closed = [settlements.c.reservation_id == reservation_id, settlements.c.state.in_(_CLOSED)]
        connection.execute(update(settlements).where(*is_closed).values(**values, fence=settlements.c.fence + 1))

    # --- from the providers

    async def _ask_providers(self) -> list[PaymentFinding]:
        found: list[PaymentFinding] = []
        for row in await self._database.read(self._lately):
            provider = self._providers.get(PaymentKind(row.provider))
            if provider is None:
                continue
            try:
                told = await provider.look_up(row.payment_key)
            except EngineError as exc:
                found.append(PaymentFinding("provider_not_asked", row.provider, str(exc), is_mended=False))
                break
            finding = _compare(row, None if told is None else told.state)
            if finding is not None:
                found.append(finding)
                if finding.is_mended:
                    await self.hint(row.payment_key)
        return found

    def _lately(self, connection: Connection) -> list[Any]:
        since = self._database.now_ms(connection) - ASKED_SINCE_MS
        settled = (PaymentMark.CAPTURED, PaymentMark.DECLINED, PaymentMark.VOIDED)
        query = select(payments).where(
            payments.c.updated_at > since, payments.c.state.in_(settled), payments.c.amount > 0
        )
        newest = query.order_by(payments.c.updated_at.desc()).limit(ASKED_MAX)
        return list(connection.execute(newest))


def _compare(row: Any, told: PaymentState | None) -> PaymentFinding | None:
    is_taken, says_taken = row.state == PaymentMark.CAPTURED, told is PaymentState.CAPTURED
    if is_taken == says_taken and told is not PaymentState.AUTHORISED:
        return None
    detail = f"the ledger has it as {row.state}, {row.provider} as {told or 'unknown'}"
    return PaymentFinding("provider_disagrees", row.payment_key, detail, is_mended=not is_taken)


def _work_is_closed() -> ColumnElement[bool]:
    return exists().where(settlements.c.reservation_id == payments.c.reservation_id, settlements.c.state.in_(_CLOSED))


def _kept_for_nothing() -> Any:
    has_order = exists().where(
        orders.c.reservation_id == payments.c.reservation_id, orders.c.payment == payments.c.provider
    )
    has_refund = exists().where(refunds.c.payment_key == payments.c.payment_key)
    is_kept = and_(payments.c.state == PaymentMark.CAPTURED.value, ~has_order, ~has_refund, _work_is_closed())
    return select(payments).where(is_kept).limit(FINDINGS_MAX)


def _set_aside_for_nothing() -> Any:
    is_open = payments.c.state.in_([mark.value for mark in _SET_ASIDE])
    return select(payments).where(is_open, _work_is_closed()).limit(FINDINGS_MAX)


def _orders_without_money() -> Any:
    was_taken = exists().where(
        payments.c.reservation_id == orders.c.reservation_id, payments.c.state == PaymentMark.CAPTURED.value
    )
    is_ours = orders.c.payment != PaymentKind.EXTERNAL.value
    return select(orders).where(is_ours, ~was_taken).limit(FINDINGS_MAX)


def _stuck(since: int) -> Any:
    return select(settlements).where(is_open_settlement, settlements.c.created_at < since).limit(FINDINGS_MAX)
