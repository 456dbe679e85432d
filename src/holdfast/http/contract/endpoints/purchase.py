"""Buying in a sale."""

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import Answers, Endpoint, IfUnknown, Priority, buyer
from holdfast.http.contract.headers import PASS, PURCHASE_KEY, REPLAYED_NOTE, RETRY
from holdfast.http.contract.schemas.quotes import QuoteIn, QuoteOut
from holdfast.http.contract.schemas.sales import PurchaseIn, PurchaseOut

PURCHASE = Endpoint(
    "purchase",
    "POST /v1/sales/{sale_id}/purchase",
    summary="Reserve units, or pay for them at once",
    tag="sales",
    description="For buyers. Where checkout is instant, the payment begins at once.",
    access=buyer("Only buyers purchase; send a buyer token. Services reserve through the inventory."),
    priority=Priority.PURCHASE,
    checks_path=False,
    body=PurchaseIn,
    headers=(PURCHASE_KEY, PASS, RETRY),
    answers={
        201: Answers("Reserved, and on disk", PurchaseOut),
        200: Answers("The first result again", PurchaseOut, {"Idempotency-Replayed": REPLAYED_NOTE}),
    },
    problems=(
        *problems.PURCHASE_REFUSALS,
        problems.SALE_NOT_FOUND,
        problems.ADMISSION_REQUIRED,
        *problems.PROOF_REFUSALS,
    ),
    if_unknown=IfUnknown.SAME_KEY,
    example={"status": "active", "amount": 9_998},
    is_logged=False,
)
QUOTE = Endpoint(
    "quote",
    "POST /v1/sales/{sale_id}/quote",
    summary="Fix what a purchase will cost",
    tag="sales",
    description="For buyers. The purchase that names the quote is settled at this amount, whatever the rate is then. "
    "A quote is valid for one purchase, for two minutes.",
    access=buyer("Quotes are only for buyers; send a buyer token."),
    priority=Priority.PURCHASE,
    checks_path=False,
    body=QuoteIn,
    answers={201: Answers("The quote", QuoteOut)},
    problems=(problems.SALE_NOT_FOUND, problems.SALE_ENDED, problems.NOT_READY),
    example={"amount": 10_841, "currency": "USD", "rate": "1.0842"},
    is_logged=False,
)
