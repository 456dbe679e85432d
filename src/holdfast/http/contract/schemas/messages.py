"""Contacts of buyers, and the log of messages to them."""

from typing import Annotated, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType

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


_Key = Annotated[str, Meta(min_length=80, max_length=100, pattern=r"^[A-Za-z0-9_-]+=*$")]
_Auth = Annotated[str, Meta(min_length=20, max_length=40, pattern=r"^[A-Za-z0-9_-]+=*$")]


class PushKeys(Struct, frozen=True, forbid_unknown_fields=True):
    p256dh: _Key
    auth: _Auth


class PushSubscription(Struct, frozen=True, forbid_unknown_fields=True):
    """A browser's `PushSubscription`, as its `toJSON()` gives it."""

    endpoint: Annotated[str, Meta(max_length=1_000, pattern="^https://", description="A URL of the push service.")]
    keys: PushKeys
    expirationTime: Annotated[float | None, Meta(description="Ignored.")] = None  # noqa: N815 - the browser's name


class ContactIn(Struct, frozen=True, forbid_unknown_fields=True):
    email: Annotated[Email | UnsetType | None, Meta(description="Omitted: unchanged. Null: no mail.")] = UNSET
    locale: MessageLocale | None = None
    next_sale: Annotated[bool, Meta(description="Also announce the next sale, once.")] = False
    push: Annotated[
        PushSubscription | UnsetType, Meta(description="Send notifications to this browser, in addition to the others.")
    ] = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.email, str) and not is_mail_address(self.email):
            raise ValueError("must be an email address")


class ContactOut(Struct, frozen=True):
    buyer_id: str
    email: str | None
    locale: str | None
    next_sale: bool
    devices: Annotated[int, Meta(description="How many browsers get notifications.")]
    created_at: Timestamp
    updated_at: Timestamp

    @classmethod
    def of(cls, contact: Contact, devices: int) -> Self:
        at = {"created_at": rfc3339(contact.created_at), "updated_at": rfc3339(contact.updated_at)}
        return cls(contact.buyer_id, contact.email, contact.locale, contact.next_since is not None, devices, **at)


class MessageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    buyer_id: BuyerId | None = None
    sale_id: SaleId | None = None
    state: MessageState | None = None
    limit: Limit = 20
    starting_after: Annotated[AnyId, Meta(description="The last message ID of the previous page.")] | None = None


class MessageOut(Struct, frozen=True):
    message_id: str
    buyer_id: str
    sale_id: str
    kind: str
    channel: str
    state: Annotated[
        MessageState,
        Meta(description="`unknown`: sent, but the reply was lost; `dropped`: no longer wanted, see `reason`."),
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
