"""What goes in and out of the webhook routes."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from holdfast.domain.event_type import EVENT_PATTERNS
from holdfast.http.schemas import Timestamp
from holdfast.http.times import rfc3339
from holdfast.ledger.deliveries import Attempt, Delivery
from holdfast.ledger.webhooks import Webhook
from holdfast.settlement.outbox.address import MAX_URL

# Each takes a share of every event and of every pass; this many is far beyond any real number of receivers.
MAX_WEBHOOKS = 50
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"

WebhookId = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_PRINTABLE)]
DeliveryId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_PRINTABLE)]
Url = Annotated[str, StringConstraints(min_length=1, max_length=MAX_URL, pattern=_PRINTABLE)]
Description = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_PRINTABLE)]
Pattern = Annotated[str, Field(json_schema_extra={"enum": sorted(EVENT_PATTERNS)})]


def _known(patterns: list[str]) -> list[str]:
    unknown = [pattern for pattern in patterns if pattern not in EVENT_PATTERNS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no type of event; use * or one of: {', '.join(sorted(EVENT_PATTERNS))}")
    return patterns


Patterns = Annotated[list[Pattern], Field(min_length=1, max_length=len(EVENT_PATTERNS)), AfterValidator(_known)]


class _In(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class WebhookIn(_In):
    url: Url = Field(description="Where events are posted. Resolved and checked again at every connection.")
    events: Patterns = Field(description="Types of events; `order.*` and `*` stand for all of a kind, and for all.")
    description: Description | None = None


class WebhookChanges(_In):
    """What is left out stays as it is."""

    url: Url = ""
    events: Patterns = Field(default=[])
    description: Description | None = None
    enabled: bool = True

    @property
    def given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}


class ReplayIn(_In):
    """One of the two."""

    since: Timestamp | None = Field(default=None, description="Everything made since then is sent again.")
    delivery_id: DeliveryId | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> "ReplayIn":
        if (self.since is None) is (self.delivery_id is None):
            raise ValueError("give either `since` or `delivery_id`")
        return self


class DeliveryQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    state: Literal["waiting", "done", "parked", "dropped"] | None = None
    limit: int = Field(default=20, ge=1, le=100)
    starting_after: DeliveryId | None = Field(
        default=None, description="The last delivery id of the page before: this page goes on after it."
    )


class WebhookOut(BaseModel):
    webhook_id: str
    url: str
    events: list[str]
    description: str | None
    enabled: bool
    disabled_at: Timestamp | None = Field(description="Also set if the receiver answered 410 Gone.")
    created_at: Timestamp


class NewWebhookOut(WebhookOut):
    secret: str = Field(description="Signs every delivery. Shown this once.")


class WebhookList(BaseModel):
    data: list[WebhookOut]


class AttemptOut(BaseModel):
    at: Timestamp
    ms: int
    status: int | None
    error: str | None


class DeliveryOut(BaseModel):
    delivery_id: str = Field(description="Sent as `webhook-id`, the same at every attempt.")
    type: str
    subject: str
    state: Literal["waiting", "done", "parked", "dropped"]
    attempts: int
    last_status: int | None
    reason: str | None
    due_at: Timestamp
    created_at: Timestamp
    done_at: Timestamp | None
    history: list[AttemptOut]
    event: dict[str, Any] = Field(description="The body as it is sent.")


class DeliveryPage(BaseModel):
    data: list[DeliveryOut]
    has_more: bool


class ReplayOut(BaseModel):
    replayed: int


class SentOut(BaseModel):
    delivery_id: str


def webhook_body(webhook: Webhook) -> dict[str, Any]:
    return {
        "webhook_id": webhook.webhook_id,
        "url": webhook.url,
        "events": list(webhook.events),
        "description": webhook.description,
        "enabled": webhook.disabled_at is None,
        "disabled_at": None if webhook.disabled_at is None else rfc3339(webhook.disabled_at),
        "created_at": rfc3339(webhook.created_at),
    }


def new_webhook_body(webhook: Webhook) -> dict[str, Any]:
    return webhook_body(webhook) | {"secret": webhook.secret}


def delivery_body(delivery: Delivery) -> dict[str, Any]:
    return {
        "delivery_id": delivery.delivery_id,
        "type": delivery.type,
        "subject": delivery.subject,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "last_status": delivery.history[-1].status if delivery.history else None,
        "reason": delivery.reason,
        "due_at": rfc3339(delivery.due_at),
        "created_at": rfc3339(delivery.created_at),
        "done_at": None if delivery.done_at is None else rfc3339(delivery.done_at),
        "history": [_attempt_body(attempt) for attempt in delivery.history],
        "event": delivery.event,
    }


def _attempt_body(attempt: Attempt) -> dict[str, Any]:
    return {"at": rfc3339(attempt.at), "ms": attempt.ms, "status": attempt.status, "error": attempt.error}


def moment_ms(text: str) -> int:
    """A moment given in RFC 3339; ValueError if it is none. Without an offset it would be anybody's guess."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("must have an offset, such as Z")
    return round((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
