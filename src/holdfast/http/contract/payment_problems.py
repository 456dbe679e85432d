"""The problems of paying for a reservation. They are part of the catalogue in `problems.py`."""

from holdfast.http.contract.problem import ProblemKind


def _kind(status: int, reason: str, title: str, detail: str, action: str = "") -> ProblemKind:
    return ProblemKind(reason=reason, status=status, title=title, detail=detail, action=action)


EXTERNAL_PAYMENT = _kind(
    409,
    "external_payment",
    "Paid elsewhere",
    "This sale is paid outside Holdfast: the service that takes the payment confirms, with a service key.",
)
PAYMENT_REQUIRED = _kind(
    403,
    "payment_required",
    "Payment required",
    "This sale is paid through Holdfast: only its payment confirms the reservation.",
    "Let the buyer confirm, which starts the payment.",
)
PAYMENT_METHOD_REQUIRED = _kind(
    409,
    "payment_method_required",
    "Name a payment method",
    "The last payment was declined. Its card is not charged again unless the request names it.",
    "Confirm with a `payment_method`: another card, or the same one.",
)
PAYMENT_REFUSALS = (EXTERNAL_PAYMENT, PAYMENT_REQUIRED, PAYMENT_METHOD_REQUIRED)
