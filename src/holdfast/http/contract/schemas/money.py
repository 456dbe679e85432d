"""Orders, wallets, refunds, and what needs attention. Amounts are in minor units: 4999 is 49.99 of most currencies."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.checkout.payment_steps import PaymentPhase, PaymentStep
from holdfast.domain.sale.quote import read_price
from holdfast.domain.sale.sale import MAX_AMOUNT, Order, OrderStatus, OversellPolicy, PaymentKind
from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.inventory import PoolReportOut
from holdfast.http.contract.schemas.quotes import QuotedPriceOut
from holdfast.http.contract.schemas.values import (
    PRINTABLE,
    TEXT,
    AnyId,
    CellName,
    Currency,
    IdempotencyKey,
    Limit,
    OrderId,
    OwnerId,
    SaleId,
    Timestamp,
    UnavailableCells,
)
from holdfast.ledger.money.refunds import RefundView
from holdfast.ledger.money.wallet import Balance
from holdfast.ledger.sales.sale_lists import ORDERS_SHOWN, ListedOrders
from holdfast.payments.port import NextAction
from holdfast.runtime.times import rfc3339
from holdfast.settlement.compensate import Compensation
from holdfast.settlement.parked import ParkedItem
from holdfast.settlement.payment_report import PaymentFinding, PaymentReport


class OrderQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Filters are for service keys; a buyer sees their own."""

    buyer_id: OwnerId | None = None
    sale_id: SaleId | None = None
    status: OrderStatus | None = None
    number: (
        Annotated[str, Meta(min_length=1, max_length=40, pattern=PRINTABLE, description="As it was typed.")] | None
    ) = None
    to_source: Annotated[bool, Meta(description="Only orders whose units have to be sourced.")] = False
    limit: Limit = ORDERS_SHOWN
    starting_after: Annotated[OrderId, Meta(description="The last order ID of the previous page.")] | None = None


class OrderOut(Struct, frozen=True):
    order_id: str
    reservation_id: str
    sale_id: str
    buyer_id: str
    quantity: int
    amount: int
    currency: str
    status: OrderStatus
    refunded_amount: int
    created_at: Timestamp
    updated_at: Timestamp
    confirmed_at: Annotated[Timestamp | None, Meta(description="When it was paid.")]
    number: Annotated[str, Meta(description="Short and readable, for people.", examples=["7K3M-QX2D-9F4T"])]
    unit_price: int
    tracking: Annotated[str | None, Meta(description="The tracking number, once it is fulfilled.")]
    payment: Annotated[PaymentKind, Meta(description="The provider; `external` if a service key confirmed.")]
    units_to_source: Annotated[int, Meta(description="Units of this order that are missing from the stock.")]
    quote: Annotated[QuotedPriceOut | None, Meta(description="The quote it was bought at, if there was one.")]

    @classmethod
    def of(cls, order: Order) -> "OrderOut":
        return copy_fields(
            cls, order, quote=None if order.quote is None else QuotedPriceOut.of(read_price(order.quote))
        )


class FulfilIn(Struct, frozen=True, forbid_unknown_fields=True):
    tracking: Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)] | None = None


class OrderPage(Struct, frozen=True, omit_defaults=True):
    data: list[OrderOut]
    has_more: bool
    unavailable_cells: UnavailableCells = []

    @classmethod
    def of(cls, listed: ListedOrders) -> "OrderPage":
        found, has_more = listed
        return cls([OrderOut.of(order) for order in found], has_more)


class CreditIn(Struct, frozen=True, forbid_unknown_fields=True):
    amount: Annotated[int, Meta(ge=1, le=MAX_AMOUNT)]
    currency: Currency
    idempotency_key: IdempotencyKey
    cell: (
        Annotated[CellName, Meta(description="For servers with cells, each of which has wallets of its own.")] | None
    ) = None


class BalanceOut(Struct, frozen=True):
    buyer_id: str
    balance: int
    currency: str

    @classmethod
    def of(cls, balance: Balance) -> "BalanceOut":
        return copy_fields(cls, balance)


class WalletOut(Struct, frozen=True):
    """`balance` and `currency` are those of the first, for buyers who have one currency only."""

    buyer_id: str
    balance: int
    currency: str | None
    balances: list[BalanceOut]

    @classmethod
    def of(cls, buyer_id: str, balances: Sequence[Balance]) -> "WalletOut":
        first = balances[0] if balances else None
        return cls(
            buyer_id,
            0 if first is None else first.balance,
            None if first is None else first.currency,
            [BalanceOut.of(balance) for balance in balances],
        )


class PaymentStepOut(Struct, frozen=True):
    """What the payment in progress needs next."""

    status: Annotated[
        PaymentPhase,
        Meta(description="`action_required`: the buyer must authenticate. `none`: no payment in progress."),
    ]
    client_secret: Annotated[
        str | None, Meta(description="Stripe: for `stripe.handleNextAction` in the buyer's browser.")
    ] = None
    url: Annotated[str | None, Meta(description="Sandbox: the page where the buyer answers the bank.")] = None

    @classmethod
    def of(cls, step: PaymentStep) -> "PaymentStepOut":
        action = step.action or NextAction()
        return cls(step.phase, action.client_secret, action.url)


class RefundIn(Struct, frozen=True, forbid_unknown_fields=True):
    amount: Annotated[int, Meta(ge=1, le=MAX_AMOUNT * 10**6, description="Omitted: all that remains.")] | None = None
    restock: Annotated[bool, Meta(description="Return the units to stock; only with a full refund.")] = False
    reason: (
        Annotated[
            str,
            Meta(min_length=1, max_length=300, pattern=TEXT, description="For your records; not shown to the buyer."),
        ]
        | None
    ) = None


class RefundOut(Struct, frozen=True):
    refund_id: str
    order_id: str | None
    amount: int
    currency: str
    restock_units: int
    status: Annotated[
        str, Meta(description="`done`, `waiting` (the provider is being asked) or `parked` (needs attention).")
    ]
    created_at: Timestamp
    reason: str | None = None

    @classmethod
    def of(cls, refund: RefundView) -> "RefundOut":
        return copy_fields(cls, refund, status=refund.state, reason=refund.note)


class TriedOut(Struct, frozen=True):
    at: Timestamp
    step: str
    error: str


class ParkedOut(Struct, frozen=True):
    parked_id: str
    kind: str
    reason: str | None
    attempts: int
    created_at: Timestamp
    history: list[TriedOut]

    @classmethod
    def of(cls, item: ParkedItem) -> "ParkedOut":
        history = [TriedOut(rfc3339(tried["at"]), tried["step"], tried["error"]) for tried in item.history]
        return copy_fields(cls, item, history=history)


class ParkedPage(Struct, frozen=True):
    data: list[ParkedOut]
    has_more: bool


ParkedKind = Literal["settlement", "refund", "delivery", "journal", "message"]


class ParkedQuery(Struct, frozen=True, forbid_unknown_fields=True):
    kind: ParkedKind | None = None
    limit: Limit = 20
    starting_after: Annotated[AnyId, Meta(description="The last parked ID of the previous page.")] | None = None


class RetryIn(Struct, frozen=True, forbid_unknown_fields=True):
    kind: ParkedKind


class RetriedOut(Struct, frozen=True):
    retried: int


class CompensateIn(Struct, frozen=True, forbid_unknown_fields=True):
    deliverable_units: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=MAX_TOTAL_UNITS,
                description="How many units of the sale can be delivered; null: all of them.",
            ),
        ]
        | None
    )
    approved: Annotated[
        bool, Meta(description="Also cancel if more than `review_above_percent` is oversold. Review first.")
    ] = False


class CompensationOut(Struct, frozen=True):
    sale_id: str
    policy: OversellPolicy
    sold_units: int
    deliverable_units: int
    cancelled: Annotated[list[str], Meta(description="Orders cancelled and refunded now, newest first.")]
    shortfall_units: Annotated[int, Meta(description="Units sold that have to be sourced.")]
    to_source: Annotated[dict[str, int], Meta(description="Units to source, by order.")]
    needs_review: Annotated[bool, Meta(description="Too much to cancel without `approved`: nothing was cancelled.")] = (
        False
    )

    @classmethod
    def of(cls, done: Compensation) -> "CompensationOut":
        return copy_fields(cls, done)


class PaymentFindingOut(Struct, frozen=True):
    finding: str
    subject: str
    detail: str
    repairing: Annotated[bool, Meta(description="Whether it is being repaired, or waits for a person.")]

    @classmethod
    def of(cls, found: PaymentFinding) -> "PaymentFindingOut":
        return copy_fields(cls, found, repairing=found.is_repaired)


class PaymentReportOut(Struct, frozen=True):
    ok: bool
    checked_at: Timestamp
    findings: list[PaymentFindingOut]
    parked: dict[str, int]

    @classmethod
    def of(cls, report: PaymentReport) -> "PaymentReportOut":
        findings = [PaymentFindingOut.of(found) for found in report.findings]
        return copy_fields(cls, report, ok=report.is_ok, findings=findings)


class FullReconciliationOut(Struct, frozen=True):
    ok: bool
    data: list[PoolReportOut]
    payments: PaymentReportOut
