"""The fields of Stripe's PaymentIntent that we read."""

from enum import StrEnum

from msgspec import Struct

from holdfast.payments.port import Charge, ListedPayment, NextAction, Payment, PaymentState

KEY = "holdfast_key"
# In the metadata of an intent that was begun with the buyer present.
PRESENT = "buyer_present"
AUTHENTICATION_REQUIRED = "authentication_required"
AUTHENTICATION_FAILED = "authentication_failed"


class CancelReason(StrEnum):
    """Stripe stores the reason with the intent, so a declined payment can be told from a voided one years later."""

    VOIDED = "requested_by_customer"
    # Declined: the buyer failed the bank's authentication, or nobody was present to complete it.
    DECLINED = "abandoned"


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
    client_secret: str | None = None

    @property
    def is_present(self) -> bool:
        return PRESENT in self.metadata

    @property
    def needs_buyer(self) -> bool:
        """The bank wants the buyer to authenticate, which is impossible off session."""
        return self.status in ("requires_action", "requires_confirmation")

    @property
    def is_to_be_cancelled(self) -> bool:
        """Off session nobody can authenticate. On session, the buyer has the secret of a declined intent, and could pay
        with it again while the next intent is in progress."""
        if self.is_present:
            return self.status == "requires_payment_method" and self.last_payment_error is not None
        return self.needs_buyer

    @property
    def next_action(self) -> NextAction | None:
        return NextAction(self.client_secret) if self.needs_buyer and self.client_secret else None

    def payment(self, key: str) -> Payment:
        state, reason = self._status()
        # Stripe also reports a voided authorisation as refunded, though no money moved.
        is_moved = state is PaymentState.CAPTURED and isinstance(self.latest_charge, LatestCharge)
        refunded = self.latest_charge.amount_refunded if is_moved else 0  # type: ignore[union-attr]
        needs_buyer = self.is_present and self.needs_buyer
        return Payment(key, state, self.id, reason, self.amount, refunded, needs_buyer)

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
        error = self.last_payment_error
        if self.status == "canceled" and self.cancellation_reason == CancelReason.DECLINED:
            return PaymentState.DECLINED, _reason(error) or AUTHENTICATION_REQUIRED
        if self.status == "canceled":
            return PaymentState.VOIDED, self.cancellation_reason
        if self.status == "requires_payment_method" and error is not None:
            return PaymentState.DECLINED, _reason(error)
        # Includes a new intent that is being confirmed: neither declined nor authorised.
        return PaymentState.PENDING, None


def _reason(error: PaymentError | None) -> str | None:
    if error is None:
        return None
    is_unauthenticated = error.code == "payment_intent_authentication_failure"
    return AUTHENTICATION_FAILED if is_unauthenticated else error.decline_code or error.code


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
