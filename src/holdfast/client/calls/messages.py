# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `messages`."""

from typing import Literal

from msgspec import UNSET, UnsetType

from holdfast.client.call import Call, optional, path_of
from holdfast.client.types.messages import Contact, Message, MessagePage, PushSubscription


def get_contact() -> Call[Contact]:
    """Where you get messages."""
    return Call(
        method="GET",
        path="/v1/me/contact",
        answers={200: (Contact,)},
    )


def put_contact(
    *,
    email: str | UnsetType | None = UNSET,
    locale: str | None = None,
    next_sale: bool | UnsetType = UNSET,
    push: PushSubscription | None = None,
) -> Call[Contact]:
    """Ask for messages.

    For buyers: your turn, order confirmed, payment declined, order cancelled, refunded, sold out, and the next
    sale if asked for. Nobody gets messages without having asked. Every mail has a link that ends them. `push` adds
    a browser that gets notifications.
    """
    return Call(
        method="PUT",
        path="/v1/me/contact",
        answers={200: (Contact,)},
        body={"email": email, "locale": optional(locale), "next_sale": next_sale, "push": optional(push)},
    )


def delete_contact() -> Call[None]:
    """End all messages."""
    return Call(
        method="DELETE",
        path="/v1/me/contact",
        answers={204: ()},
    )


def list_messages(
    *,
    buyer_id: str | None = None,
    sale_id: str | None = None,
    state: Literal["dropped", "failed", "sending", "sent", "unknown", "waiting"] | None = None,
    limit: int | UnsetType = UNSET,
    starting_after: str | None = None,
) -> Call[MessagePage]:
    """What was sent to buyers, newest first."""
    return Call(
        method="GET",
        path="/v1/ops/messages",
        answers={200: (MessagePage,)},
        query={
            "buyer_id": optional(buyer_id),
            "sale_id": optional(sale_id),
            "state": optional(state),
            "limit": limit,
            "starting_after": optional(starting_after),
        },
    )


def resend_message(message_id: str) -> Call[Message]:
    """Resend a message that failed, was dropped or may be lost.

    A message that was sent, or is about to be, is not changed.
    """
    return Call(
        method="POST",
        path=path_of("/v1/ops/messages/{message_id}/resend", message_id),
        answers={200: (Message,)},
    )
