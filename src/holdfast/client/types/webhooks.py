# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `webhooks`."""

from datetime import datetime
from typing import Any

from msgspec import Struct


class NewWebhook(Struct, frozen=True, kw_only=True):
    webhook_id: str
    url: str
    events: list[str]
    description: str | None = None
    enabled: bool
    disabled_at: datetime | None = None  # Also set if the receiver answered 410 Gone.
    created_at: datetime
    secret: str  # Signs every delivery. Shown only once.


class Webhook(Struct, frozen=True, kw_only=True):
    webhook_id: str
    url: str
    events: list[str]
    description: str | None = None
    enabled: bool
    disabled_at: datetime | None = None  # Also set if the receiver answered 410 Gone.
    created_at: datetime


class WebhookList(Struct, frozen=True, kw_only=True):
    data: list[Webhook]


class Attempt(Struct, frozen=True, kw_only=True):
    at: datetime
    ms: int
    status: int | None = None
    error: str | None = None


class Delivery(Struct, frozen=True, kw_only=True):
    delivery_id: str  # Sent as `webhook-id`, the same at every attempt.
    type: str
    subject: str
    state: str
    attempts: int
    last_status: int | None = None
    reason: str | None = None
    due_at: datetime
    created_at: datetime
    done_at: datetime | None = None
    history: list[Attempt]
    event: dict[str, Any]  # The request body.


class DeliveryPage(Struct, frozen=True, kw_only=True):
    data: list[Delivery]
    has_more: bool


class Replay(Struct, frozen=True, kw_only=True):
    replayed: int


class Sent(Struct, frozen=True, kw_only=True):
    delivery_id: str
