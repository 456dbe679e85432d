"""Webhooks: who hears of events, and what was sent to them."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from holdfast.http.invalid import invalid_request
from holdfast.http.problems import delivery_not_found, too_many_webhooks, webhook_not_found
from holdfast.http.routes.callers import IdentifiedRoute, OperatorKey, TheHouse, json_response
from holdfast.http.webhook_schemas import (
    MAX_WEBHOOKS,
    DeliveryPage,
    DeliveryQuery,
    NewWebhookOut,
    ReplayIn,
    ReplayOut,
    SentOut,
    WebhookChanges,
    WebhookId,
    WebhookIn,
    WebhookList,
    WebhookOut,
    delivery_body,
    moment_ms,
    new_webhook_body,
    webhook_body,
)
from holdfast.ledger.deliveries import find_delivery, list_deliveries, retry_delivery
from holdfast.ledger.webhooks import (
    Webhook,
    change_webhook,
    create_webhook,
    find_webhook,
    list_webhooks,
    rotate_secret,
)
from holdfast.settlement.outbox import desk
from holdfast.settlement.outbox.address import check_url

router = APIRouter(route_class=IdentifiedRoute, prefix="/v1/webhooks", tags=["webhooks"], dependencies=[OperatorKey])


@router.post("", status_code=201, response_model=NewWebhookOut, summary="Have events posted to an address")
async def add(given: WebhookIn, house: TheHouse) -> Response:
    """The secret is in this answer only."""
    url = _checked(given.url, house)

    def work(connection: Connection) -> Webhook:
        if len(list_webhooks(connection)) >= MAX_WEBHOOKS:
            raise too_many_webhooks(MAX_WEBHOOKS)
        return create_webhook(connection, url, given.events, given.description, house.database.now_ms(connection))

    body = new_webhook_body(await house.database.write(work))
    return Response(msgspec.json.encode(body), 201, media_type="application/json")


@router.get("", response_model=WebhookList, summary="List webhooks")
async def list_all(house: TheHouse) -> Response:
    found = await house.database.read(list_webhooks)
    return json_response({"data": [webhook_body(webhook) for webhook in found]})


@router.get("/{webhook_id}", response_model=WebhookOut, summary="One webhook")
async def get_webhook(webhook_id: WebhookId, house: TheHouse) -> Response:
    return json_response(webhook_body(_found(await house.database.read(lambda c: find_webhook(c, webhook_id)))))


@router.patch("/{webhook_id}", response_model=WebhookOut, summary="Change a webhook, disable or enable it")
async def change(webhook_id: WebhookId, given: WebhookChanges, house: TheHouse) -> Response:
    """One that is enabled again goes on where it stopped."""
    changes = given.given
    if "url" in changes:
        changes["url"] = _checked(changes["url"], house)
    enabled = changes.pop("enabled", None)

    def work(connection: Connection) -> Webhook | None:
        if enabled is not None:
            changes["disabled_at"] = None if enabled else house.database.now_ms(connection)
        return change_webhook(connection, webhook_id, changes)

    return json_response(webhook_body(_found(await house.database.write(work))))


@router.delete("/{webhook_id}", status_code=204, summary="Remove a webhook and all that waits for it")
async def remove(webhook_id: WebhookId, house: TheHouse) -> Response:
    if not await desk.remove(house.database, webhook_id):
        raise webhook_not_found()
    return Response(status_code=204)


@router.post("/{webhook_id}/rotate-secret", response_model=NewWebhookOut, summary="A new secret")
async def rotate(webhook_id: WebhookId, house: TheHouse) -> Response:
    """For 24 hours deliveries carry a signature by the old secret as well."""
    database = house.database
    rotated = await database.write(lambda c: rotate_secret(c, webhook_id, database.now_ms(c)))
    return json_response(new_webhook_body(_found(rotated)))


@router.get("/{webhook_id}/deliveries", response_model=DeliveryPage, summary="What was sent, newest first")
async def deliveries(webhook_id: WebhookId, house: TheHouse, wanted: Annotated[DeliveryQuery, Query()]) -> Response:
    def page(connection: Connection) -> dict[str, Any]:
        _found(find_webhook(connection, webhook_id))
        found, has_more = list_deliveries(
            connection, webhook_id, limit=wanted.limit, state=wanted.state, starting_after=wanted.starting_after
        )
        return {"data": [delivery_body(delivery) for delivery in found], "has_more": has_more}

    return json_response(await house.database.read(page))


@router.post("/{webhook_id}/replay", response_model=ReplayOut, summary="Send again")
async def replay(webhook_id: WebhookId, given: ReplayIn, house: TheHouse) -> Response:
    """Under the same `webhook-id` as before. Deliveries are kept for a week after they were done."""
    database = house.database
    _found(await database.read(lambda c: find_webhook(c, webhook_id)))
    if given.delivery_id is None:
        return json_response({"replayed": await desk.replay(database, webhook_id, _since(given))})
    one = given.delivery_id

    def work(connection: Connection) -> None:
        found = find_delivery(connection, one)
        if found is None or found.webhook_id != webhook_id:
            raise delivery_not_found()
        retry_delivery(connection, one, database.now_ms(connection))

    await database.write(work)
    return json_response({"replayed": 1})


@router.post("/{webhook_id}/test", response_model=SentOut, summary="Send something that nothing happened for")
async def send_test(webhook_id: WebhookId, house: TheHouse) -> Response:
    """Its type is `webhook.test`, whatever the webhook wants to hear of."""

    def work(connection: Connection) -> str:
        _found(find_webhook(connection, webhook_id))
        return desk.send_test(house.database, connection, webhook_id)

    return json_response({"delivery_id": await house.database.write(work)})


def _found(webhook: Webhook | None) -> Webhook:
    if webhook is None:
        raise webhook_not_found()
    return webhook


def _checked(url: str, house: TheHouse) -> str:
    try:
        return check_url(url, private=house.settings.calls_private_webhooks)
    except ValueError as exc:
        raise invalid_request({"url": str(exc)}) from exc


def _since(given: ReplayIn) -> int:
    try:
        return moment_ms(given.since or "")
    except ValueError as exc:
        raise invalid_request({"since": "must be a time such as 2027-01-31T12:00:00Z"}) from exc
