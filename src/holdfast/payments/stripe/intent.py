"""The fields of Stripe's PaymentIntent that we read."""

from enum import StrEnum

from msgspec import Struct

from holdfast.payments.port import Charge, ListedPayment, Payment, PaymentState

KEY = "holdfast_key"
AUTHENTICATION_REQUIRED = "authentication_required"


class CancelReason(StrEnum):
    """Stripe keeps the reason with the intent, so a declined payment can be told from a voided one years later."""

    VOIDED = "requested_by_customer"
    NEEDS_BUYER = "abandoned"


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
    currency: str = ""
    created: int = 0

    @property
    def needs_buyer(self) -> bool:
        """The bank wants the buyer to authenticate, which is impossible off session."""
        return self.status in ("requires_action", "requires_confirmation")

    def payment(self, key: str) -> Payment:
        state, reason = self._status()
        # Stripe also calls a voided authorisation refunded, though no money moved.
        is_moved = state is PaymentState.CAPTURED and isinstance(self.latest_charge, LatestCharge)
        refunded = self.latest_charge.amount_refunded if is_moved else 0  # type: ignore[union-attr]
        return Payment(key, state, self.id, reason, self.amount, refunded)

    def listed(self) -> ListedPayment:
        about = self.metadata
        charge = Charge(
            about[KEY],
            self.amount,
            self.currency.upper(),
            about.get("buyer", ""),
            about.get("reservation", ""),
            about.get("sale", ""),
            purchase_key=about.get("purchase_key"),
            purchase_fingerprint=about.get("purchase_fingerprint"),
            ledger_mark=about.get("ledger_mark"),
        )
        return ListedPayment(self.payment(charge.key), charge, self.created * 1000)

    def _status(self) -> tuple[PaymentState, str | None]:
        if self.status == "requires_capture":
            return PaymentState.AUTHORISED, None
        if self.status == "succeeded":
            return PaymentState.CAPTURED, None
        if self.status == "canceled" and self.cancellation_reason == CancelReason.NEEDS_BUYER:
            return PaymentState.DECLINED, AUTHENTICATION_REQUIRED
        if self.status == "canceled":
            return PaymentState.VOIDED, self.cancellation_reason
        error = self.last_payment_error
        if self.status == "requires_payment_method" and error is not None:
            return PaymentState.DECLINED, error.decline_code or error.code
        # Includes a new intent that is being confirmed: neither declined nor authorised.
        return PaymentState.PENDING, None


class StripeRefund(Struct):
    id: str
    amount: int
    status: str | None = None
    metadata: dict[str, str] = {}
    failure_reason: str | None = None


class IntentList(Struct):
    data: list[Intent]
    has_more: bool = False


class RefundList(Struct):
    data: list[StripeRefund]
