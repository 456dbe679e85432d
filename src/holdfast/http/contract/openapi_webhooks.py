"""The `webhooks` of the OpenAPI document: the requests that subscribers' servers receive."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.domain.stock.event_type import EventType
from holdfast.http.contract.schemas.values import Timestamp

Schema = dict[str, Any]

MEDIA_TYPE = "application/cloudevents+json"
_SIGNED = {
    "webhook-id": "The same at every attempt, for deduplication.",
    "webhook-timestamp": "When it was sent, in seconds since 1970. Refuse requests older than five minutes.",
    "webhook-signature": "`v1,` and HMAC-SHA256 of `id.timestamp.body` in base64; several are separated by spaces.",
}
_ANSWERS = {
    "2XX": "Accepted; it is not sent again.",
    "410": "The receiver is gone; the webhook is disabled.",
    "default": "It is retried, with growing pauses.",
}
_ABOUT: dict[str, Schema] = {
    "reservation": {"reservation_id": "rsv_…", "sku_id": "demo", "sale_id": "drop", "owner_id": "ada", "quantity": 2},
    "order": {"order_id": "ord_…", "reservation_id": "rsv_…", "sale_id": "drop", "buyer_id": "ada", "quantity": 2},
    "pool": {"sku_id": "demo", "available": 498, "held": 2, "sold": 0, "total_units": 500},
    "sale": {"sale_id": "drop", "sku_id": "demo"},
    "payment": {"reservation_id": "rsv_…", "sale_id": "drop", "reason": "insufficient_funds"},
}  # fmt: skip


class WebhookEvent(Struct, frozen=True):
    """CloudEvents 1.0, signed as Standard Webhooks."""

    specversion: str
    id: str
    source: str
    type: EventType
    subject: Annotated[str, Meta(description="The ID of what it is about.")]
    time: Timestamp
    datacontenttype: str
    data: Annotated[dict[str, Any], Meta(description="As it was when it happened.")]


def webhooks() -> dict[str, Schema]:
    return {str(kind): {"post": _operation(kind)} for kind in EventType}


def _operation(kind: EventType) -> Schema:
    content = {"schema": {"$ref": "#/components/schemas/WebhookEvent"}, "example": _example(kind)}
    return {
        "tags": ["webhooks"],
        "summary": f"`{kind}` happened",
        "operationId": f"events.{kind}",
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": words, "schema": {"type": "string"}}
            for name, words in _SIGNED.items()
        ],
        "requestBody": {"required": True, "content": {MEDIA_TYPE: content}},
        "responses": {status: {"description": words} for status, words in _ANSWERS.items()},
        "security": [],
    }


def _example(kind: EventType) -> Schema:
    data = _ABOUT.get(kind.partition(".")[0], {})
    return {
        "specversion": "1.0",
        "id": "evt_17",
        "source": "/holdfast",
        "type": str(kind),
        "subject": next(iter(data.values()), ""),
        "time": "2026-03-01T10:00:00.000Z",
        "datacontenttype": "application/json",
        "data": data,
    }
