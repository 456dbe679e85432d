"""Webhooks: endpoints that receive events, and their deliveries."""

from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, json, no_content
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import invalid_request
from holdfast.http.contract.schemas.webhooks import (
    MAX_WEBHOOKS,
    DeliveryOut,
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
from holdfast.ledger.events.deliveries import find_delivery, list_deliveries, retry_delivery
from holdfast.ledger.events.webhooks import (
    Webhook,
    change_webhook,
    create_webhook,
    find_webhook,
    list_webhooks,
    rotate_secret,
)
from holdfast.runtime.outgoing.address import check_url
from holdfast.webhooks import admin


class WebhookEndpoints:
    def __init__(self, services: Services) -> None:
        self._database, self._reads = services.database, services.reads
        self._calls_private = services.settings.webhook_private

    async def create(self, _request: Request, given: WebhookIn) -> Answer:
        url, events = self._checked(given.url), [str(pattern) for pattern in given.events]

        def work(connection: Connection) -> Webhook:
            if len(list_webhooks(connection)) >= MAX_WEBHOOKS:
                detail = f"There are {MAX_WEBHOOKS} webhooks already. Remove one first."
                raise Problem(problems.TOO_MANY_WEBHOOKS, detail)
            return create_webhook(connection, url, events, given.description, self._database.now_ms(connection))

        return json(NewWebhookOut.of(await self._database.write(work)), 201)

    async def list(self, _request: Request) -> Answer:
        return json(WebhookList([WebhookOut.of(webhook) for webhook in await self._database.read(list_webhooks)]))

    async def get(self, _request: Request, webhook_id: str) -> Answer:
        return json(WebhookOut.of(_found(await self._database.read(lambda c: find_webhook(c, webhook_id)))))

    async def change(self, _request: Request, webhook_id: str, given: WebhookChanges) -> Answer:
        changes = given.changes()
        if "url" in changes:
            changes["url"] = self._checked(changes["url"])
        if "events" in changes:
            changes["events"] = [str(pattern) for pattern in changes["events"]]
        enabled = changes.pop("enabled", None)

        def work(connection: Connection) -> Webhook | None:
            if enabled is not None:
                changes["disabled_at"] = None if enabled else self._database.now_ms(connection)
            return change_webhook(connection, webhook_id, changes)

        return json(WebhookOut.of(_found(await self._database.write(work))))

    async def remove(self, _request: Request, webhook_id: str) -> Answer:
        if not await admin.remove(self._database, webhook_id):
            raise Problem(problems.WEBHOOK_NOT_FOUND)
        return no_content()

    async def rotate(self, _request: Request, webhook_id: str) -> Answer:
        rotated = await self._database.write(lambda c: rotate_secret(c, webhook_id, self._database.now_ms(c)))
        return json(NewWebhookOut.of(_found(rotated)))

    async def deliveries(self, _request: Request, webhook_id: str, wanted: DeliveryQuery) -> Answer:
        def page(connection: Connection) -> DeliveryPage:
            _found(find_webhook(connection, webhook_id))
            found, has_more = list_deliveries(
                connection, webhook_id, limit=wanted.limit, state=wanted.state, starting_after=wanted.starting_after
            )
            return DeliveryPage([DeliveryOut.of(delivery) for delivery in found], has_more)

        return json(await self._reads.read(page))

    async def replay(self, _request: Request, webhook_id: str, given: ReplayIn) -> Answer:
        _found(await self._database.read(lambda c: find_webhook(c, webhook_id)))
        if given.since is not None:
            return json(ReplayOut(await admin.replay(self._database, webhook_id, given.since)))
        one = given.delivery_id or ""

        def work(connection: Connection) -> None:
            found = find_delivery(connection, one)
            if found is None or found.webhook_id != webhook_id:
                raise Problem(problems.DELIVERY_NOT_FOUND)
            retry_delivery(connection, one, self._database.now_ms(connection))

        await self._database.write(work)
        return json(ReplayOut(1))

    async def send_test(self, _request: Request, webhook_id: str) -> Answer:
        def work(connection: Connection) -> str:
            _found(find_webhook(connection, webhook_id))
            return admin.send_test(self._database, connection, webhook_id)

        return json(SentOut(await self._database.write(work)))

    def _checked(self, url: str) -> str:
        try:
            return check_url(url, private=self._calls_private)
        except ValueError as exc:
            raise invalid_request({"url": str(exc)}) from exc


def _found(webhook: Webhook | None) -> Webhook:
    if webhook is None:
        raise Problem(problems.WEBHOOK_NOT_FOUND)
    return webhook
