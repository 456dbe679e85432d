# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `webhooks`."""

from datetime import datetime
from typing import Literal

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, optional, path_of
from holdfast.client.types.webhooks import DeliveryPage, NewWebhook, Replay, Sent, Webhook, WebhookList


def create_webhook(*, url: str, events: list[str], description: str | None = None) -> Call[NewWebhook]:
    """Create a webhook.

    The secret is only in this response.
    """
    return Call(
        method="POST",
        path="/v1/webhooks",
        answers={201: (NewWebhook,)},
        body={"url": url, "events": events, "description": optional(description)},
        is_repeatable=False,
    )


def list_webhooks() -> Call[WebhookList]:
    """List webhooks."""
    return Call(
        method="GET",
        path="/v1/webhooks",
        answers={200: (WebhookList,)},
    )


def get_webhook(webhook_id: str) -> Call[Webhook]:
    """One webhook."""
    return Call(
        method="GET",
        path=path_of("/v1/webhooks/{webhook_id}", webhook_id),
        answers={200: (Webhook,)},
    )


def change_webhook(
    webhook_id: str,
    *,
    url: str | None = None,
    events: list[str] | None = None,
    description: str | UnsetType | None = UNSET,
    enabled: bool | None = None,
) -> Call[Webhook]:
    """Change, disable or enable a webhook.

    A webhook that is enabled again continues where it stopped.
    """
    return Call(
        method="PATCH",
        path=path_of("/v1/webhooks/{webhook_id}", webhook_id),
        answers={200: (Webhook,)},
        body={
            "url": optional(url),
            "events": optional(events),
            "description": description,
            "enabled": optional(enabled),
        },
    )


def delete_webhook(webhook_id: str) -> Call[None]:
    """Remove a webhook and its deliveries."""
    return Call(
        method="DELETE",
        path=path_of("/v1/webhooks/{webhook_id}", webhook_id),
        answers={204: ()},
    )


def rotate_secret(webhook_id: str) -> Call[NewWebhook]:
    """A new secret.

    For 24 hours deliveries carry a signature by the old secret as well.
    """
    return Call(
        method="POST",
        path=path_of("/v1/webhooks/{webhook_id}/rotate-secret", webhook_id),
        answers={200: (NewWebhook,)},
        is_repeatable=False,
    )


def list_deliveries(
    webhook_id: str,
    *,
    state: Literal["done", "dropped", "parked", "waiting"] | None = None,
    limit: int | UnsetType = UNSET,
    starting_after: str | None = None,
) -> Call[DeliveryPage]:
    """List deliveries, newest first."""
    return Call(
        method="GET",
        path=path_of("/v1/webhooks/{webhook_id}/deliveries", webhook_id),
        answers={200: (DeliveryPage,)},
        query={"state": optional(state), "limit": limit, "starting_after": optional(starting_after)},
    )


def replay(webhook_id: str, *, since: datetime | str | None = None, delivery_id: str | None = None) -> Call[Replay]:
    """Send again.

    Under the same `webhook-id` as before. Deliveries are kept for a week after they were done.
    """
    return Call(
        method="POST",
        path=path_of("/v1/webhooks/{webhook_id}/replay", webhook_id),
        answers={200: (Replay,)},
        body={"since": optional(since), "delivery_id": optional(delivery_id)},
    )


def send_test(webhook_id: str) -> Call[Sent]:
    """Send a test event.

    Its type is `webhook.test`, whatever events the webhook is for.
    """
    return Call(
        method="POST",
        path=path_of("/v1/webhooks/{webhook_id}/test", webhook_id),
        answers={200: (Sent,)},
        is_repeatable=False,
    )
