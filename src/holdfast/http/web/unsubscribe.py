"""The page that ends messages: a link in every mail leads here, and no sign-in is asked for."""

from sqlalchemy import Connection

from holdfast.bootstrap.messages import unsubscribe_links
from holdfast.bootstrap.services import Services
from holdfast.http.contract.message import Answer, Request
from holdfast.http.contract.problem import NO_STORE
from holdfast.http.web.html import Html, document, element
from holdfast.http.web.pages import bundle_url, make_asset, page_headers
from holdfast.http.web.store_page import common_head
from holdfast.ledger.messages.contacts import delete_contact, find_contact
from holdfast.messages.unsubscribe import Subscriber


class UnsubscribePages:
    def __init__(self, services: Services) -> None:
        self._database, self._links = services.database, unsubscribe_links(services.settings)

    async def ask(self, request: Request, token: str) -> Answer:
        if self._links.read(token) is None:
            return _not_valid(request)
        button = element("form", element("button", "Unsubscribe · Abmelden", class_="button"), method="post")
        return _page(
            request,
            "Stop all messages?",
            "You will get no more messages from this shop.",
            "Sie erhalten dann keine Nachrichten von diesem Shop mehr.",
            button,
        )

    async def unsubscribe(self, request: Request, token: str) -> Answer:
        subscriber = self._links.read(token)
        if subscriber is None:
            return _not_valid(request)
        await self._database.write(lambda c: _end(c, subscriber))
        return _page(
            request,
            "Messages stopped",
            "You will get no more messages. You can ask for them again at any time.",
            "Sie erhalten keine Nachrichten mehr. Sie können jederzeit wieder darum bitten.",
        )


def _end(connection: Connection, subscriber: Subscriber) -> None:
    """Only what was asked for when the mail was sent."""
    found = find_contact(connection, subscriber.buyer_id)
    if found is not None and found.created_at == subscriber.since:
        delete_contact(connection, subscriber.buyer_id)


def _not_valid(request: Request) -> Answer:
    return _page(
        request,
        "Link not valid",
        "This link is not complete. Please copy all of it.",
        "Dieser Link ist nicht vollständig. Bitte kopieren Sie ihn ganz.",
        status=404,
    )


def _page(
    request: Request, title: str, text: str, german: str, button: Html | None = None, *, status: int = 200
) -> Answer:
    head = [*common_head(title), element("link", rel="stylesheet", href=bundle_url("store.css"))]
    body = element(
        "main",
        element("h1", title),
        element("p", text),
        element("p", german, lang="de"),
        button,
        class_="plain-page",
    )
    asset = make_asset("index.html", document(head, [body]).encode())
    headers = [header for header in page_headers(request, asset) if header[0] not in ("cache-control", "etag")]
    return Answer(status, [*headers, NO_STORE, ("content-type", asset.media_type)], asset.body)
