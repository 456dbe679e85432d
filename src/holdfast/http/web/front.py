"""`/`: what is on sale, and what will be."""

import asyncio
from time import monotonic

from holdfast.bootstrap.services import Services
from holdfast.domain.sale.sale import Phase, Sale, in_words
from holdfast.errors import EngineError
from holdfast.http.contract.message import Answer, Request
from holdfast.http.web.html import Html, document, element
from holdfast.http.web.pages import Asset, bundle_url, make_asset, send_asset
from holdfast.http.web.store_page import common_head
from holdfast.runtime.times import rfc3339

SHOWN_MAX = 24
FRESH_S = 2.0
_WORDS = {
    Phase.OPEN: "Available",
    Phase.ALL_HELD: "All in carts",
    Phase.SOLD_OUT: "Sold out",
    Phase.PAUSED: "Paused",
}
_LOOKS = {Phase.OPEN: "tag good", Phase.ALL_HELD: "tag warn", Phase.PAUSED: "tag warn"}


class FrontPage:
    def __init__(self, services: Services) -> None:
        self._catalogue, self._pools = services.catalogue, services.pool_reads
        self._links = [("API", "/docs"), ("Console", "/console")]
        if services.settings.demo_simulation_url:
            self._links.append(("Simulation", services.settings.demo_simulation_url))
        self._asset: Asset | None = None
        self._until = 0.0

    async def front(self, request: Request) -> Answer:
        if self._asset is None or self._until <= monotonic():
            self._until = monotonic() + FRESH_S
            self._asset = make_asset(
                "index.html", (await self._render()).encode(), ("cache-control", "public, max-age=5")
            )
        return send_asset(request, self._asset)

    async def _render(self) -> str:
        now = self._catalogue.now_ms()
        current = [sale for sale in self._catalogue.all() if sale.phase(now, None) is not Phase.ENDED]
        # What is open comes first, the newest of it on top; then what opens next.
        current.sort(key=lambda sale: (sale.starts_at > now, abs(sale.starts_at - now)))
        shown = current[:SHOWN_MAX]
        phases = await asyncio.gather(*[self._phase(sale, now) for sale in shown])
        rows = [_row(sale, phase) for sale, phase in zip(shown, phases, strict=True)]
        content = (
            element("ul", rows, class_="sales")
            if rows
            else element("p", "Nothing is on sale right now.", data_word="nothing")
        )
        main = element("main", element("h1", "On sale", data_word="title"), content, class_="plain-page")
        header = element(
            "header",
            element(
                "span",
                element("img", src="/assets/holdfast.svg", alt="", width="28", height="28"),
                " Holdfast",
                class_="brand",
            ),
            element("nav", (element("a", text, href=href) for text, href in self._links)),
            class_="header",
        )
        head = [
            *common_head("On sale"),
            element("link", rel="stylesheet", href=bundle_url("store.css")),
            element("script", type="module", src=bundle_url("front.js")),
        ]
        return document(head, [header, main])

    async def _phase(self, sale: Sale, now: int) -> Phase:
        try:
            view = await self._pools.look(sale.sku_id)
        except EngineError:
            view = None
        return sale.phase(now, None if view is None else view.pool.availability)


def _row(sale: Sale, phase: Phase) -> Html:
    """What the visitor's language and time zone change is marked: a script writes it anew, see `store/front.js`."""
    opens = rfc3339(sale.starts_at)
    state = (
        element("time", f"Opens {opens[:16].replace('T', ' ')} UTC", datetime=opens)
        if phase is Phase.UPCOMING
        else element("span", _WORDS[phase], data_state=phase.value)
    )
    price = element(
        "span",
        in_words(sale.price_amount, sale.currency),
        class_="figures",
        data_amount=str(sale.price_amount),
        data_currency=sale.currency,
    )
    return element(
        "li",
        element(
            "a",
            element("b", sale.name),
            price,
            element("span", state, class_=_LOOKS.get(phase, "tag")),
            href=f"/s/{sale.sale_id}",
        ),
    )
