"""What is refused where money is concerned."""

from holdfast.http.problems import Problem
from holdfast.ledger.refunds import RefundProblem

_REFUNDS: dict[str, tuple[int, str]] = {
    "order_not_found": (404, "No such order"),
    "refund_exceeds_order": (409, "More than is left"),
    "restock_needs_full_refund": (422, "Units return with all of the money"),
    "idempotency_key_reused": (422, "Idempotency key reused"),
}


def refund_refused(problem: RefundProblem) -> Problem:
    status, title = _REFUNDS[problem.reason]
    members = {"refundable": problem.left} if problem.reason == "refund_exceeds_order" else {}
    return Problem(status, problem.reason, title, str(problem), **members)


def key_required() -> Problem:
    return Problem(400, "idempotency_key_required", "Idempotency key required", "Send an `Idempotency-Key` header.")


def key_reused() -> Problem:
    return Problem(422, "idempotency_key_reused", "Idempotency key reused", "This key was used with another request.")


def parked_not_found() -> Problem:
    return Problem(404, "parked_not_found", "Not parked", "Nothing is parked under this id, or not any more.")


def drop_refused(detail: str) -> Problem:
    return Problem(409, "money_is_out", "Money is out", detail)


def sale_not_found() -> Problem:
    return Problem(404, "sale_not_found", "No such sale", "There is no sale by this id.")


def notice_refused(detail: str) -> Problem:
    return Problem(401, "signature_refused", "Not signed by the provider", detail)


def money_problems() -> list[Problem]:
    """One for each reason, for the reference."""
    refunds = [refund_refused(RefundProblem(reason, title)) for reason, (_, title) in _REFUNDS.items()]
    others = [key_required(), parked_not_found(), drop_refused("Retry it: it ends as an order or a refund.")]
    return [*refunds, *others, sale_not_found(), notice_refused("The signature is missing, wrong or old.")]
