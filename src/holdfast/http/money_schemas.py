"""What goes in and out where money is concerned. Amounts are in minor units: 4999 is 49.99 of most currencies."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from holdfast.domain.pool import MAX_TOTAL_UNITS
from holdfast.domain.sale import MAX_AMOUNT, OversellPolicy
from holdfast.http.schemas import ReconciliationOut, Timestamp
from holdfast.http.times import rfc3339
from holdfast.ledger.refunds import RefundView
from holdfast.ledger.wallet import Balance
from holdfast.settlement.compensate import Compensation
from holdfast.settlement.parked import ParkedItem
from holdfast.settlement.payment_report import PaymentReport

_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
BuyerId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_PRINTABLE)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_PRINTABLE)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=_PRINTABLE)]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]


class _In(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class CreditIn(_In):
    amount: int = Field(ge=1, le=MAX_AMOUNT)
    currency: Currency
    idempotency_key: Key


class BalanceOut(BaseModel):
    buyer_id: str
    balance: int
    currency: str


class WalletOut(BaseModel):
    """`balance` and `currency` are those of the first, for buyers who have one currency only."""

    buyer_id: str
    balance: int
    currency: str | None
    balances: list[BalanceOut]


class RefundIn(_In):
    amount: int | None = Field(default=None, ge=1, le=MAX_AMOUNT * 10**6, description="Left out: all that is left.")
    restock: bool = Field(default=False, description="The units are for sale again; only with all of the money.")


class RefundOut(BaseModel):
    refund_id: str
    order_id: str
    amount: int
    currency: str
    restock_units: int
    status: str = Field(description="`done`, `waiting` (the provider is being asked) or `parked` (needs a person).")
    created_at: Timestamp


class TriedOut(BaseModel):
    at: Timestamp
    step: str
    error: str


class ParkedOut(BaseModel):
    parked_id: str
    kind: str
    reason: str | None
    attempts: int
    created_at: Timestamp
    history: list[TriedOut]


class ParkedPage(BaseModel):
    data: list[ParkedOut]
    has_more: bool


ParkedKind = Literal["settlement", "refund", "delivery"]


class ParkedQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ParkedKind | None = None
    limit: int = Field(default=20, ge=1, le=100)
    starting_after: Id | None = Field(default=None, description="The last parked id of the page before.")


class RetryIn(_In):
    kind: ParkedKind


class RetriedOut(BaseModel):
    retried: int


class CompensateIn(_In):
    deliverable_units: int | None = Field(
        ge=0,
        le=MAX_TOTAL_UNITS,
        description="How many units of the sale there really are; null: all after all.",
    )


class CompensationOut(BaseModel):
    sale_id: str
    policy: OversellPolicy
    sold_units: int
    deliverable_units: int
    cancelled: list[str] = Field(description="Orders cancelled and refunded now, newest first.")
    shortfall_units: int = Field(description="Units sold that somebody has to find.")
    to_source: dict[str, int] = Field(description="The orders that wait for them, and how many each.")


class PaymentFindingOut(BaseModel):
    finding: str
    subject: str
    detail: str
    mended: bool = Field(description="Whether it is being put right, or waits for a person.")


class PaymentReportOut(BaseModel):
    ok: bool
    checked_at: Timestamp
    findings: list[PaymentFindingOut]
    parked: dict[str, int]


class FullReconciliationOut(ReconciliationOut):
    payments: PaymentReportOut


def balance_body(balance: Balance) -> dict[str, Any]:
    return {"buyer_id": balance.buyer_id, "balance": balance.balance, "currency": balance.currency}


def wallet_body(buyer_id: str, balances: list[Balance]) -> dict[str, Any]:
    first = balances[0] if balances else None
    return {
        "buyer_id": buyer_id,
        "balance": 0 if first is None else first.balance,
        "currency": None if first is None else first.currency,
        "balances": [balance_body(balance) for balance in balances],
    }


def refund_body(refund: RefundView) -> dict[str, Any]:
    return {
        "refund_id": refund.refund_id,
        "order_id": refund.order_id,
        "amount": refund.amount,
        "currency": refund.currency,
        "restock_units": refund.restock_units,
        "status": "waiting" if refund.state == "telling" else refund.state,
        "created_at": rfc3339(refund.created_at),
    }


def parked_body(item: ParkedItem) -> dict[str, Any]:
    return {
        "parked_id": item.parked_id,
        "kind": item.kind,
        "reason": item.reason,
        "attempts": item.attempts,
        "created_at": rfc3339(item.created_at),
        "history": [tried | {"at": rfc3339(tried["at"])} for tried in item.history],
    }


def compensation_body(done: Compensation) -> dict[str, Any]:
    return {
        "sale_id": done.sale_id,
        "policy": done.policy,
        "sold_units": done.sold_units,
        "deliverable_units": done.deliverable_units,
        "cancelled": done.cancelled,
        "shortfall_units": done.shortfall_units,
        "to_source": done.to_source,
    }


def payment_report_body(report: PaymentReport) -> dict[str, Any]:
    return {
        "ok": report.is_ok,
        "checked_at": rfc3339(report.checked_at),
        "findings": [
            {"finding": f.finding, "subject": f.subject, "detail": f.detail, "mended": f.is_mended}
            for f in report.findings
        ],
        "parked": report.parked,
    }
