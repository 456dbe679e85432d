"""Contacts of buyers, and the log of messages to them."""

from typing import Annotated, Literal, Self

from msgspec import Meta, Struct

from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.values import EMAIL, LOCALE, AnyId, BuyerId, Limit, SaleId, Timestamp
from holdfast.ledger.messages.contacts import Contact
from holdfast.ledger.messages.message_log import Message
from holdfast.messages.mail_settings import is_mail_address
from holdfast.runtime.times import rfc3339

MessageState = Literal["waiting", "sending", "sent", "failed", "unknown", "dropped"]
Email = Annotated[
    str,
    Meta(min_length=3, max_length=254, pattern=EMAIL, description="Where messages go.", examples=["ada@example.com"]),
]
MessageLocale = Annotated[str, Meta(pattern=LOCALE, description="The language of messages; null: that of the sale.")]


class ContactIn(Struct, frozen=True, forbid_unknown_fields=True):
    email: Email
    locale: MessageLocale | None = None
    next_sale: Annotated[bool, Meta(description="Also tell me about the next sale, once.")] = False

    def __post_init__(self) -> None:
        if not is_mail_address(self.email):
            raise ValueError("must be an email address")


class ContactOut(Struct, frozen=True):
    buyer_id: str
    email: str | None
    locale: str | None
    next_sale: bool
    created_at: Timestamp
    updated_at: Timestamp

    @classmethod
    def of(cls, contact: Contact) -> Self:
        at = {"created_at": rfc3339(contact.created_at), "updated_at": rfc3339(contact.updated_at)}
        return cls(contact.buyer_id, contact.email, contact.locale, contact.next_since is not None, **at)


class MessageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    buyer_id: BuyerId | None = None
    sale_id: SaleId | None = None
    state: MessageState | None = None
    limit: Limit = 20
    starting_after: Annotated[AnyId, Meta(description="The last message ID of the page before.")] | None = None


class MessageOut(Struct, frozen=True):
    message_id: str
    buyer_id: str
    sale_id: str
    kind: str
    channel: str
    state: Annotated[
        MessageState,
        Meta(description="`unknown`: sent, and the reply was lost; `dropped`: not wanted any more, see `reason`."),
    ]
    attempts: int
    reason: str | None
    created_at: Timestamp
    due_at: Timestamp
    done_at: Timestamp | None

    @classmethod
    def of(cls, message: Message) -> Self:
        return copy_fields(cls, message)


class MessagePage(Struct, frozen=True):
    data: list[MessageOut]
    has_more: bool
