"""Verifies and reads a webhook that the sandbox sent."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from standardwebhooks import Webhook, WebhookVerificationError

from holdfast.payments.notice import Notice, NoticeRefused


class Update(Struct, frozen=True):
    key: str
    state: str


class Message(Struct, frozen=True):
    type: str
    timestamp: str
    data: Update


_decode = msgspec.json.Decoder(Message).decode


def read_webhook(secret: str, body: bytes, headers: Mapping[str, str]) -> Notice:
    """The notice, if the signature is valid and recent. Header names are in lower case."""
    try:
        Webhook(secret).verify(body, dict(headers))
        message = _decode(body)
    except (WebhookVerificationError, ValueError) as exc:
        raise NoticeRefused(str(exc)) from exc
    return Notice(headers["webhook-id"], message.type, message.data.key)
