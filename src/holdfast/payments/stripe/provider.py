"""Payments through Stripe: a PaymentIntent per charge, confirmed immediately and captured later.

A card is named by a confirmation token (`ctoken_…`), made by Stripe's Payment Element in the buyer's browser, or by a
saved payment method (`pm_…`). With a token the buyer is present: if the bank requires authentication (3-D Secure), the
payment is pending until the buyer has responded. Off session nobody can respond, so a saved card that requires
authentication is declined.

Stripe's idempotency keys, derived from ours, make creating intents and refunds safe; Stripe keeps them for at least 24
hours. Captures and cancellations carry none: an intent's own state allows each once, and with a key Stripe would repeat
a stored failure, even a 500, for as long as it keeps the key.

How an unknown outcome is resolved. Stripe cannot look up "the intent with this key". It can look up an intent by its
ID, which is exact, so IDs are remembered. A charge whose response was lost has no ID yet. The same create is then sent
again under the same key, and Stripe either repeats its first response or executes the request now. After a restart, and
without an ID, only search by metadata is left, which usually lags by up to a minute. So None then means "not found",
and authorising the same charge again within 24 hours is certain not to create a second one.
"""

from collections import OrderedDict
from typing import Any

from holdfast.errors import OutcomeUnknown
from holdfast.payments.port import Charge, NextAction, Payment, PaymentPage, PaymentState, Refund, RefundRefused
from holdfast.payments.stripe.connection import StripeConnection, StripeRefusal, part, read
from holdfast.payments.stripe.intent import KEY, PRESENT, CancelReason, Intent, IntentList, RefundList, StripeRefund

# More than can be in progress at once; evicted ones are found by search.
REMEMBERED = 20_000
# Intents per page: a response of more than 64 KB is not read.
LISTED = 10
# Prefix of the Payment Element's confirmation tokens.
ELEMENT_PREFIX = "ctoken_"
# Expanded, because the charge has the refunded amount.
_EXPAND = {"expand": ["latest_charge"]}


class StripeProvider:
    def __init__(self, api_key: str, timeout_s: float, api_base: str = "") -> None:
        self._stripe = StripeConnection(api_key, timeout_s, api_base)
        self._intent_ids: OrderedDict[str, str] = OrderedDict()
        self._unanswered: OrderedDict[str, Charge] = OrderedDict()

    async def authorise(self, charge: Charge) -> Payment:
        _remember(self._unanswered, charge.key, charge)
        try:
            received = await self._stripe.call("post", "payment_intents", _creation(charge), f"{charge.key}:authorise")
        except StripeRefusal as exc:
            payment = self._refused(charge, exc)
        else:
            intent = read(received.data, Intent)
            current = self._retrieve(intent.id, charge.key) if received.is_replayed else self._seen(intent, charge.key)
            payment = await current
            if payment.amount != charge.amount:
                raise OutcomeUnknown(f"Stripe has another amount for {charge.key}: {payment.amount}")
        self._unanswered.pop(charge.key, None)
        return payment

    async def capture(self, payment: Payment) -> Payment:
        changed = await self._change(payment, "capture", {})
        if changed.state in (PaymentState.AUTHORISED, PaymentState.PENDING):
            raise OutcomeUnknown(f"Stripe did not capture {payment.key}, and still has it {changed.state}")
        return changed

    async def void(self, payment: Payment) -> Payment:
        changed = await self._change(payment, "cancel", {"cancellation_reason": CancelReason.VOIDED.value})
        if changed.state is PaymentState.AUTHORISED:
            raise OutcomeUnknown(f"Stripe did not cancel {payment.key}")
        return changed

    async def refund(self, payment: Payment, amount: int, key: str) -> Refund:
        intent_id = await self._id_of(payment)
        made = await self._find_refund(intent_id, key)
        if made is None:
            made = await self._make_refund(intent_id, amount, key)
        elif made.amount != amount:
            raise RefundRefused(f"key_reused: {key} gave back {made.amount} before")
        if made.status in ("failed", "canceled"):
            raise RefundRefused(made.failure_reason or f"refund_{made.status}")
        return Refund(key, made.id, made.amount, is_done=made.status == "succeeded")

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        intent_id = reference or self._intent_ids.get(key)
        if intent_id is not None:
            return await self._retrieve(intent_id, key)
        charge = self._unanswered.get(key)
        if charge is None:
            return await self._search(key)
        try:
            return await self.authorise(charge)
        except OutcomeUnknown:
            # Stripe may repeat a stored failure for a day; then only search is left.
            found = await self._search(key)
            if found is None:
                raise
            return found

    async def next_action(self, key: str, reference: str) -> NextAction | None:
        received = await self._stripe.demand("get", f"payment_intents/{part(reference)}", {})
        intent = read(received.data, Intent)
        return intent.next_action if intent.is_present and intent.metadata.get(KEY) == key else None

    async def list_since(self, since: int, after: str | None = None) -> PaymentPage:
        query: dict[str, Any] = {"created": {"gte": since // 1000}, "limit": LISTED, "expand": ["data.latest_charge"]}
        query |= {"starting_after": after} if after else {}
        received = await self._stripe.demand("get", "payment_intents", query)
        found = read(received.data, IntentList)
        listed = [intent.listed() for intent in found.data if KEY in intent.metadata]
        return PaymentPage(listed, found.data[-1].id if found.has_more and found.data else None)

    async def close(self) -> None:
        await self._stripe.close()

    async def _change(self, payment: Payment, verb: str, parameters: dict[str, Any]) -> Payment:
        """If Stripe refuses, the intent's status says why."""
        intent_id = await self._id_of(payment)
        try:
            received = await self._stripe.call(
                "post", f"payment_intents/{part(intent_id)}/{verb}", {**parameters, **_EXPAND}
            )
        except StripeRefusal:
            return await self._retrieve(intent_id, payment.key)
        return await self._seen(read(received.data, Intent), payment.key)

    async def _retrieve(self, intent_id: str, key: str) -> Payment:
        received = await self._stripe.demand("get", f"payment_intents/{part(intent_id)}", _EXPAND)
        return await self._seen(read(received.data, Intent), key)

    async def _seen(self, intent: Intent, key: str) -> Payment:
        if intent.metadata.get(KEY) != key:
            raise OutcomeUnknown(f"Stripe answered about another payment than {key}")
        _remember(self._intent_ids, key, intent.id)
        if intent.is_to_be_cancelled:
            parameters = {"cancellation_reason": CancelReason.DECLINED.value, **_EXPAND}
            received = await self._stripe.demand("post", f"payment_intents/{part(intent.id)}/cancel", parameters)
            intent = read(received.data, Intent)
        return intent.payment(key)

    def _refused(self, charge: Charge, exc: StripeRefusal) -> Payment:
        """A declined card leaves an intent behind; an invalid request does not."""
        intent = exc.body.get("payment_intent")
        intent_id = intent.get("id") if isinstance(intent, dict) else None
        if isinstance(intent_id, str):
            _remember(self._intent_ids, charge.key, intent_id)
        return Payment(charge.key, PaymentState.DECLINED, intent_id, exc.code, charge.amount)

    async def _search(self, key: str) -> Payment | None:
        quoted = key.replace("\\", "\\\\").replace("'", "\\'")
        query = {"query": f"metadata['{KEY}']:'{quoted}'", "limit": 10}
        received = await self._stripe.demand("get", "payment_intents/search", query)
        found = [intent for intent in read(received.data, IntentList).data if intent.metadata.get(KEY) == key]
        if len(found) > 1:
            raise OutcomeUnknown(
                f"Stripe has {len(found)} payments under the key {key}, which an operator has to check"
            )
        # Search results may be a minute old.
        return await self._retrieve(found[0].id, key) if found else None

    async def _id_of(self, payment: Payment) -> str:
        known = payment.reference or self._intent_ids.get(payment.key)
        if known is not None:
            return known
        found = await self.look_up(payment.key)
        if found is None or found.reference is None:
            raise OutcomeUnknown(f"Stripe does not find a payment under the key {payment.key}")
        return found.reference

    async def _find_refund(self, intent_id: str, key: str) -> StripeRefund | None:
        """Lists are exact, and go back further than idempotency keys."""
        received = await self._stripe.demand("get", "refunds", {"payment_intent": intent_id, "limit": 100})
        refunds = read(received.data, RefundList).data
        return next((refund for refund in refunds if refund.metadata.get(KEY) == key), None)

    async def _make_refund(self, intent_id: str, amount: int, key: str) -> StripeRefund:
        parameters = {"payment_intent": intent_id, "amount": amount, "metadata": {KEY: key}}
        try:
            received = await self._stripe.call("post", "refunds", parameters, f"{key}:refund")
        except StripeRefusal as exc:
            raise RefundRefused(str(exc)) from exc
        return read(received.data, StripeRefund)


def _creation(charge: Charge) -> dict[str, Any]:
    metadata = {KEY: charge.key, "reservation": charge.reservation_id, "sale": charge.sale_id, "buyer": charge.buyer_id}
    if charge.purchase_key is not None and charge.purchase_fingerprint is not None:
        metadata |= {"purchase_key": charge.purchase_key, "purchase_fingerprint": charge.purchase_fingerprint}
    if charge.ledger_mark is not None:
        metadata["ledger_mark"] = charge.ledger_mark
    if _is_token(charge.method):
        metadata[PRESENT] = "yes"
    return {
        "amount": charge.amount,
        "currency": charge.currency.lower(),
        "capture_method": "manual",
        "confirm": True,
        "payment_method_types": ["card"],
        "metadata": metadata,
        **({"customer": charge.customer} if charge.customer else {}),
        **_paid_with(charge.method),
        **_EXPAND,
    }


def _is_token(method: str | None) -> bool:
    return method is not None and method.startswith(ELEMENT_PREFIX)


def _paid_with(method: str | None) -> dict[str, Any]:
    if _is_token(method):
        # Stripe's script shows the bank's page in a frame; nothing leaves ours.
        return {"confirmation_token": method, "use_stripe_sdk": True}
    return {"off_session": True, **({"payment_method": method} if method else {})}


def _remember(memory: OrderedDict[str, Any], key: str, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)
