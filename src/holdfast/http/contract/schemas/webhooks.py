"""Webhooks and their deliveries."""

from typing import Annotated, Any, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from holdfast.domain.stock.event_type import EVENT_PATTERNS
from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.values import PRINTABLE, AnyId, EventPattern, Limit, Moment, Timestamp
from holdfast.ledger.events.deliveries import Attempt, Delivery
from holdfast.ledger.events.webhooks import Webhook
from holdfast.runtime.outgoing.address import MAX_URL

# Each takes a share of every event and of every pass; this many is far beyond any real number of receivers.
MAX_WEBHOOKS = 50

DeliveryId = AnyId
Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_URL,
        pattern=PRINTABLE,
        description="Where events are posted. Resolved and checked again at every connection.",
    ),
]
Description = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)]
Patterns = Annotated[
    list[EventPattern],
    Meta(
        min_length=1,
        max_length=len(EVENT_PATTERNS),
        description="Event types; `order.*` means all of a kind, `*` all.",
    ),
]
DeliveryState = Literal["waiting", "done", "parked", "dropped"]


class WebhookIn(Struct, frozen=True, forbid_unknown_fields=True):
    url: Url
    events: Patterns
    description: Description | None = None


class WebhookChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """What is left out stays as it is."""

    url: Url | UnsetType = UNSET
    events: Patterns | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        return {name: value for name, value in structs.asdict(self).items() if value is not UNSET}


class ReplayIn(Struct, frozen=True, forbid_unknown_fields=True):
    """One of the two."""

    since: Annotated[Moment, Meta(description="All deliveries created since then are sent again.")] | None = None
    delivery_id: DeliveryId | None = None

    def __post_init__(self) -> None:
        if (self.since is None) is (self.delivery_id is None):
            raise ValueError("give either `since` or `delivery_id`")


class DeliveryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    state: DeliveryState | None = None
    limit: Limit = 20
    starting_after: Annotated[DeliveryId, Meta(description="The last delivery ID of the previous page.")] | None = None


class WebhookOut(Struct, frozen=True):
    webhook_id: str
    url: str
    events: list[str]
    description: str | None
    enabled: bool
    disabled_at: Annotated[Timestamp | None, Meta(description="Also set if the receiver answered 410 Gone.")]
    created_at: Timestamp

    @classmethod
    def of(cls, webhook: Webhook) -> Self:
        return copy_fields(cls, webhook, events=list(webhook.events), enabled=webhook.disabled_at is None)


class NewWebhookOut(WebhookOut, frozen=True):
    secret: Annotated[str, Meta(description="Signs every delivery. Shown only once.")]


class WebhookList(Struct, frozen=True):
    data: list[WebhookOut]


class AttemptOut(Struct, frozen=True):
    at: Timestamp
    ms: int
    status: int | None
    error: str | None

    @classmethod
    def of(cls, attempt: Attempt) -> "AttemptOut":
        return copy_fields(cls, attempt)


class DeliveryOut(Struct, frozen=True):
    delivery_id: Annotated[str, Meta(description="Sent as `webhook-id`, the same at every attempt.")]
    type: str
    subject: str
    state: DeliveryState
    attempts: int
    last_status: int | None
    reason: str | None
    due_at: Timestamp
    created_at: Timestamp
    done_at: Timestamp | None
    history: list[AttemptOut]
    event: Annotated[dict[str, Any], Meta(description="The request body.")]

    @classmethod
    def of(cls, delivery: Delivery) -> "DeliveryOut":
        history = [AttemptOut.of(attempt) for attempt in delivery.history]
        return copy_fields(cls, delivery, history=history, last_status=history[-1].status if history else None)


class DeliveryPage(Struct, frozen=True):
    data: list[DeliveryOut]
    has_more: bool


class ReplayOut(Struct, frozen=True):
    replayed: int


class SentOut(Struct, frozen=True):
    delivery_id: str
