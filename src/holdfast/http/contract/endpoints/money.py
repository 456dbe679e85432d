"""Orders, wallets and refunds, and what payment providers tell us."""

from functools import partial

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import MONEY, PUBLIC, SALES, Answers, Endpoint, Priority, RateClass, buyer_or
from holdfast.http.contract.headers import REQUIRED_KEY
from holdfast.http.contract.schemas.money import (
    BalanceOut,
    CreditIn,
    FulfilIn,
    OrderOut,
    OrderPage,
    OrderQuery,
    RefundIn,
    RefundOut,
    WalletOut,
)
from holdfast.http.contract.team_problems import APPROVAL_REQUIRED
from holdfast.ledger.access.keys import Scope

_NOTICE = "It is only a hint: the payment is looked up at the provider."

_endpoint = partial(Endpoint, tag="money")

LIST_ORDERS = _endpoint(
    "list_orders",
    "GET /v1/orders",
    summary="List orders, newest first",
    tag="orders",
    access=buyer_or(Scope.SALES, Scope.READ),
    priority=Priority.READ,
    query=OrderQuery,
    answers={200: Answers("A page of orders", OrderPage)},
    is_logged=False,
)
GET_ORDER = _endpoint(
    "get_order",
    "GET /v1/orders/{order_id}",
    summary="One order",
    tag="orders",
    access=buyer_or(Scope.SALES, Scope.READ),
    priority=Priority.READ,
    answers={200: Answers("The order", OrderOut)},
    problems=(problems.ORDER_NOT_FOUND,),
    is_logged=False,
)
FULFIL_ORDER = _endpoint(
    "fulfil_order",
    "POST /v1/orders/{order_id}/fulfil",
    summary="Mark a paid order as sent to its buyer",
    description=(
        "Once per order. A repeat with the same tracking number returns the same result; the same key with another "
        "number is refused."
    ),
    tag="orders",
    access=SALES,
    priority=Priority.FINISH,
    headers=(REQUIRED_KEY,),
    body=FulfilIn,
    answers={200: Answers("The order", OrderOut)},
    problems=(
        problems.ORDER_NOT_FOUND,
        problems.ORDER_NOT_PAID,
        problems.ORDER_FULFILLED,
        problems.IDEMPOTENCY_KEY_REUSED,
    ),
)
REFUND_ORDER = _endpoint(
    "refund_order",
    "POST /v1/orders/{order_id}/refund",
    summary="Refund an order, or part of it",
    description="For an order that was paid externally (`external`), this only records the refund.",
    access=MONEY,
    priority=Priority.FINISH,
    headers=(REQUIRED_KEY,),
    body=RefundIn,
    answers={200: Answers("The refund", RefundOut)},
    problems=(
        problems.ORDER_NOT_FOUND,
        problems.ORDER_NOT_PAID,
        problems.REFUND_EXCEEDS_ORDER,
        problems.RESTOCK_NEEDS_FULL_REFUND,
        problems.IDEMPOTENCY_KEY_REUSED,
        APPROVAL_REQUIRED,
    ),
)
CREDIT_WALLET = _endpoint(
    "credit_wallet",
    "POST /v1/wallets/{buyer_id:rest}/credit",
    summary="Add money to a buyer's wallet",
    description="Once per buyer and key. A retry returns the first result.",
    access=MONEY,
    priority=Priority.CONSOLE,
    body=CreditIn,
    answers={200: Answers("The balance", BalanceOut)},
    problems=(problems.IDEMPOTENCY_KEY_REUSED,),
)
GET_WALLET = _endpoint(
    "get_wallet",
    "GET /v1/wallets/{buyer_id:rest}",
    summary="A buyer's balances",
    access=buyer_or(Scope.MONEY, Scope.OPERATE, Scope.READ),
    priority=Priority.CONSOLE,
    answers={200: Answers("The wallet", WalletOut)},
)
SANDBOX_WEBHOOK = _endpoint(
    "sandbox_webhook",
    "POST /v1/payments/sandbox/webhook",
    summary="A notice from the payment sandbox",
    description=f"Signed as Standard Webhooks. {_NOTICE}",
    access=PUBLIC,
    priority=Priority.FINISH,
    rate=RateClass.PROBE,
    answers={204: Answers("Noted")},
    problems=(problems.SIGNATURE_REFUSED, problems.NOT_FOUND),
)
STRIPE_WEBHOOK = _endpoint(
    "stripe_webhook",
    "POST /v1/payments/stripe/webhook",
    summary="A notice from Stripe",
    description=f"With Stripe's signature. {_NOTICE}",
    access=PUBLIC,
    priority=Priority.FINISH,
    rate=RateClass.PROBE,
    answers={204: Answers("Noted")},
    problems=(problems.SIGNATURE_REFUSED, problems.NOT_FOUND),
)
