# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `messages`."""

from datetime import datetime

from msgspec import Struct


class Contact(Struct, frozen=True, kw_only=True):
    buyer_id: str
    email: str | None = None
    locale: str | None = None
    next_sale: bool
    created_at: datetime
    updated_at: datetime


class Message(Struct, frozen=True, kw_only=True):
    message_id: str
    buyer_id: str
    sale_id: str
    kind: str
    channel: str
    state: str  # `unknown`: sent, and the reply was lost; `dropped`: not wanted any more, see `reason`.
    attempts: int
    reason: str | None = None
    created_at: datetime
    due_at: datetime
    done_at: datetime | None = None


class MessagePage(Struct, frozen=True, kw_only=True):
    data: list[Message]
    has_more: bool
