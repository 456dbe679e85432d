"""Webhooks that Holdfast posts to your server: check the signature, then read the event."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from standardwebhooks import Webhook, WebhookVerificationError

from holdfast.client.errors import InvalidSignature


class WebhookEvent(Struct, frozen=True, kw_only=True):
    """A CloudEvent. `id` is the same in every attempt: store it to process each event once."""

    id: str
    type: str
    source: str
    time: datetime
    subject: str | None = None
    data: dict[str, Any] = {}


def verify_webhook(body: bytes, headers: Mapping[str, str], secret: str) -> WebhookEvent:
    """The event in `body`, which must be the unmodified request body. `create_webhook` returned the `secret`.

    Raises `InvalidSignature` if it was not signed with this secret, or more than five minutes ago.
    """
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError) as exc:
        raise InvalidSignature(str(exc)) from exc
    return msgspec.json.decode(body, type=WebhookEvent)
