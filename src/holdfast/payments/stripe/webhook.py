"""Verifies and reads a webhook that Stripe sent."""

import msgspec
import stripe
from msgspec import Struct

from holdfast.payments.notice import Notice, NoticeRefused
from holdfast.payments.stripe.intent import KEY

# Stripe's own advice. Its library refuses older webhooks, not ones from the future: the signature is enough.
TOLERANCE_S = 300


class _Subject(Struct):
    metadata: dict[str, str] = {}


class _Data(Struct):
    object: _Subject


class _Event(Struct):
    id: str
    type: str
    data: _Data


_decode = msgspec.json.Decoder(_Event).decode


def read_webhook(secret: str, body: bytes, signature: str | None) -> Notice:
    """`signature` is the header Stripe-Signature. An event about a payment that is not ours has no key."""
    try:
        stripe.WebhookSignature.verify_header(body, signature, secret, TOLERANCE_S)
        event = _decode(body)
    except (stripe.SignatureVerificationError, ValueError) as exc:
        raise NoticeRefused(str(exc)) from exc
    return Notice(event.id, event.type, event.data.object.metadata.get(KEY))
