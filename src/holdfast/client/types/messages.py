# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `messages`."""

from datetime import datetime
from typing import NotRequired, TypedDict

from msgspec import Struct


class Contact(Struct, frozen=True, kw_only=True):
    buyer_id: str
    email: str | None = None
    locale: str | None = None
    next_sale: bool
    devices: int  # How many browsers get notifications.
    created_at: datetime
    updated_at: datetime


class PushKeys(TypedDict):
    p256dh: str
    auth: str


class PushSubscription(TypedDict):
    """A browser's `PushSubscription`, as its `toJSON()` gives it."""

    endpoint: str
    keys: PushKeys
    expirationTime: NotRequired[float | None]


class Message(Struct, frozen=True, kw_only=True):
    message_id: str
    buyer_id: str
    sale_id: str
    kind: str
    channel: str
    state: str  # `unknown`: sent, but the reply was lost; `dropped`: no longer wanted, see `reason`.
    attempts: int
    reason: str | None = None
    created_at: datetime
    due_at: datetime
    done_at: datetime | None = None


class MessagePage(Struct, frozen=True, kw_only=True):
    data: list[Message]
    has_more: bool
