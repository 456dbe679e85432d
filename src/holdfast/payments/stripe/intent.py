"""Stripe's PaymentIntent, as far as we read it."""

from enum import StrEnum

from msgspec import Struct

from holdfast.payments.port import Payment, PaymentState

KEY = "holdfast_key"
AUTHENTICATION_REQUIRED = "authentication_required"


class CancelReason(StrEnum):
    """Stripe keeps the reason with the intent, so it still tells a refused payment from a voided one years later."""

    VOIDED = "requested_by_customer"
    NEEDS_THE_BUYER = "abandoned"


class LatestCharge(Struct):
    amount_refunded: int = 0


class PaymentError(Struct):
    code: str | None = None
    decline_code: str | None = None


class Intent(Struct):
    id: str
    status: str
    amount: int
    metadata: dict[str, str] = {}
    latest_charge: LatestCharge | str | None = None
    last_payment_error: PaymentError | None = None
    cancellation_reason: str | None = None

    @property
    def needs_the_buyer(self) -> bool:
        """Somebody would have to answer the bank's question, and nobody is there: these are payments off session."""
        return self.status in ("requires_action", "requires_confirmation")

    def payment(self, key: str) -> Payment:
        state, reason = self._standing()
        # Stripe also calls it refunded when an authorisation is let go of; no money had moved then.
        is_moved = state is PaymentState.CAPTURED and isinstance(self.latest_charge, LatestCharge)
        refunded = self.latest_charge.amount_refunded if is_moved else 0  # type: ignore[union-attr]
        return Payment(key, state, self.id, reason, self.amount, refunded)

    def _standing(self) -> tuple[PaymentState, str | None]:
        if self.status == "requires_capture":
            return PaymentState.AUTHORISED, None
        if self.status == "succeeded":
            return PaymentState.CAPTURED, None
        if self.status == "canceled" and self.cancellation_reason == CancelReason.NEEDS_THE_BUYER:
            return PaymentState.DECLINED, AUTHENTICATION_REQUIRED
        if self.status == "canceled":
            return PaymentState.VOIDED, self.cancellation_reason
        error = self.last_payment_error
        if self.status == "requires_payment_method" and error is not None:
            return PaymentState.DECLINED, error.decline_code or error.code
        # Also a new intent that is just being confirmed: not refused, not authorised.
        return PaymentState.PENDING, None


class StripeRefund(Struct):
    id: str
    amount: int
    status: str | None = None
    metadata: dict[str, str] = {}
    failure_reason: str | None = None


class IntentList(Struct):
    data: list[Intent]


class RefundList(Struct):
    data: list[StripeRefund]
