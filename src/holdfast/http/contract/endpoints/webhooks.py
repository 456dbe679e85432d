"""Webhooks."""

from functools import partial

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import OPERATE, READ_OPERATE, Answers, Endpoint, IfUnknown, Priority
from holdfast.http.contract.schemas.webhooks import (
    DeliveryPage,
    DeliveryQuery,
    NewWebhookOut,
    ReplayIn,
    ReplayOut,
    SentOut,
    WebhookChanges,
    WebhookIn,
    WebhookList,
    WebhookOut,
)

_endpoint = partial(Endpoint, tag="webhooks", priority=Priority.CONSOLE)

CREATE_WEBHOOK = _endpoint(
    "create_webhook",
    "POST /v1/webhooks",
    summary="Create a webhook",
    description="The secret is only in this response.",
    access=OPERATE,
    body=WebhookIn,
    answers={201: Answers("The new webhook", NewWebhookOut)},
    problems=(problems.TOO_MANY_WEBHOOKS,),
    if_unknown=IfUnknown.CHECK_WEBHOOKS,
)
LIST_WEBHOOKS = _endpoint(
    "list_webhooks",
    "GET /v1/webhooks",
    summary="List webhooks",
    access=READ_OPERATE,
    answers={200: Answers("All webhooks", WebhookList)},
)
GET_WEBHOOK = _endpoint(
    "get_webhook",
    "GET /v1/webhooks/{webhook_id}",
    summary="One webhook",
    access=READ_OPERATE,
    answers={200: Answers("The webhook", WebhookOut)},
    problems=(problems.WEBHOOK_NOT_FOUND,),
)
CHANGE_WEBHOOK = _endpoint(
    "change_webhook",
    "PATCH /v1/webhooks/{webhook_id}",
    summary="Change, disable or enable a webhook",
    description="A webhook that is enabled again continues where it stopped.",
    access=OPERATE,
    body=WebhookChanges,
    answers={200: Answers("The webhook", WebhookOut)},
    problems=(problems.WEBHOOK_NOT_FOUND,),
)
DELETE_WEBHOOK = _endpoint(
    "delete_webhook",
    "DELETE /v1/webhooks/{webhook_id}",
    summary="Remove a webhook and its deliveries",
    access=OPERATE,
    answers={204: Answers("Removed")},
    problems=(problems.WEBHOOK_NOT_FOUND,),
)
ROTATE_SECRET = _endpoint(
    "rotate_secret",
    "POST /v1/webhooks/{webhook_id}/rotate-secret",
    summary="A new secret",
    description="For 24 hours deliveries carry a signature by the old secret as well.",
    access=OPERATE,
    answers={200: Answers("The webhook with its new secret", NewWebhookOut)},
    problems=(problems.WEBHOOK_NOT_FOUND,),
    if_unknown=IfUnknown.CHECK_ROTATION,
)
LIST_DELIVERIES = _endpoint(
    "list_deliveries",
    "GET /v1/webhooks/{webhook_id}/deliveries",
    summary="List deliveries, newest first",
    access=READ_OPERATE,
    query=DeliveryQuery,
    answers={200: Answers("A page of deliveries", DeliveryPage)},
    problems=(problems.WEBHOOK_NOT_FOUND,),
)
REPLAY = _endpoint(
    "replay",
    "POST /v1/webhooks/{webhook_id}/replay",
    summary="Send again",
    description="Under the same `webhook-id` as before. Deliveries are kept for a week after they were done.",
    access=OPERATE,
    body=ReplayIn,
    answers={200: Answers("How many", ReplayOut)},
    problems=(problems.WEBHOOK_NOT_FOUND, problems.DELIVERY_NOT_FOUND),
)
SEND_TEST = _endpoint(
    "send_test",
    "POST /v1/webhooks/{webhook_id}/test",
    summary="Send a test event",
    description="Its type is `webhook.test`, whatever events the webhook is for.",
    access=OPERATE,
    answers={200: Answers("The delivery", SentOut)},
    problems=(problems.WEBHOOK_NOT_FOUND,),
    if_unknown=IfUnknown.CHECK_DELIVERIES,
)
