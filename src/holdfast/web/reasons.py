"""Every reason a request can be refused for, made by the code that refuses."""

from holdfast.domain.command import Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Pool
from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.sale import Checkout, PaymentKind, Sale
from holdfast.errors import Busy, OutcomeUnknown, Unavailable
from holdfast.http.challenge import proof_problems
from holdfast.http.limits import rate_limited
from holdfast.http.money_problems import money_problems
from holdfast.http.places import too_many_places
from holdfast.http.problems import (
    Problem,
    below_committed,
    delivery_not_found,
    forbidden,
    from_engine,
    internal_error,
    key_not_found,
    refusal,
    reservation_lost,
    shards_fixed,
    too_many_webhooks,
    unauthorized,
    webhook_not_found,
)
from holdfast.http.room_problems import room_problems
from holdfast.http.sale_problems import (
    admission_required,
    external_payment,
    idempotency_key_required,
    office_refusal,
    order_not_found,
    purchase_refusal,
    sale_not_found,
    unrestocked,
)
from holdfast.http.webhook_schemas import MAX_WEBHOOKS
from holdfast.sales.office import Refusal
from holdfast.sales.restocking import Unrestocked

_POOL = Pool("demo", total=500, held=40, sold=60)
_SALE = Sale(
    sale_id="demo",
    sku_id="demo",
    name="Demo",
    price_amount=4_999,
    currency="EUR",
    starts_at=0,
    checkout=Checkout.CART,
    payment=PaymentKind.WALLET,
)


def _of_sales() -> list[Problem]:
    return [
        idempotency_key_required(),
        admission_required(),
        external_payment(),
        sale_not_found(),
        order_not_found(),
        *(office_refusal(refused) for refused in Refusal),
        unrestocked(Unrestocked.UNKNOWN),
        *room_problems(_SALE),
    ]


def all_reasons() -> list[Problem]:
    """One problem for each reason, by status."""
    engine = map(from_engine, (Busy(), OutcomeUnknown(), Unavailable()))
    problems = [*_of_requests(), *_of_verdicts(), *money_problems(), *engine]
    by_reason: dict[str, Problem] = {}
    for problem in [*problems, internal_error()]:
        by_reason.setdefault(problem.reason, problem)
    return sorted(by_reason.values(), key=lambda problem: problem.status)


def _of_verdicts() -> list[Problem]:
    moves = [refusal(Verdict(Outcome.ILLEGAL, _reservation(status))) for status in Status if status != Status.ACTIVE]
    refusals = [outcome for outcome in Outcome if not outcome.is_success and outcome is not Outcome.ILLEGAL]
    return [
        *(refusal(Verdict(o)) for o in refusals),
        *moves,
        *(purchase_refusal(Verdict(o, available=0), _SALE.state) for o in (Outcome.ALL_HELD, Outcome.SOLD_OUT)),
        below_committed(Verdict(Outcome.INSUFFICIENT, pool=_POOL)),
        shards_fixed(4),
    ]


def _reservation(status: Status) -> Reservation:
    return Reservation("", "", "", 1, status, 0, 0)


def _of_requests() -> list[Problem]:
    """What is refused before it reaches the gate. The details here stand for many, so they are said in general."""
    return [
        Problem(400, "invalid_json", "The body is not JSON", "Send a JSON object as the body."),
        unauthorized("Credentials are missing, unknown, expired or revoked."),
        forbidden("These credentials are good, but do not allow this."),
        Problem(404, "not_found", "Not found", "There is nothing at this address."),
        Problem(405, "method_not_allowed", "Method not allowed", "This address knows other methods."),
        Problem(408, "request_timeout", "Too slow", "The body did not arrive in time."),
        webhook_not_found(),
        key_not_found(),
        delivery_not_found(),
        too_many_webhooks(MAX_WEBHOOKS),
        reservation_lost(),
        *_of_sales(),
        rate_limited(),
        too_many_places(),
        *proof_problems(),
        Problem(413, "body_too_large", "Body too large", "Send at most 16 KiB."),
        Problem(
            422,
            "invalid_request",
            "The request is not valid",
            "A field is missing, unknown, of the wrong type or out of range; `errors` says which.",
        ),
        Problem(431, "headers_too_large", "Headers too large", "Send at most 16 KiB of headers."),
    ]
