"""The storefront: a page for each sale, prerendered with what everyone may know of it.

The sale and the configuration are in it as JSON, so that the page asks the API for `…/now` only. It is the same for
everyone, so that caches can keep it. If the ledger cannot be read, the page comes without them, and asks the API by
itself until it answers.
"""

from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from holdfast.bootstrap.messages import vapid_key_of
from holdfast.bootstrap.services import Services
from holdfast.domain.sale.sale import PaymentKind, Sale
from holdfast.domain.stock.pool import is_sku_id
from holdfast.errors import EngineError
from holdfast.http.contract.caching import NO_SALE_PAGE, SALE_PAGE, tag_headers
from holdfast.http.contract.message import JSON, Answer, Request, encode
from holdfast.http.contract.schemas.sales import SaleOut
from holdfast.http.web.demo import IDENTITY
from holdfast.http.web.pages import Asset, Others, make_asset, page_headers, send_asset
from holdfast.http.web.store_page import not_found_page, store_page
from holdfast.http.web.stripe_script import stripe_origins, stripe_script
from holdfast.settings import Settings

CONFIG_CACHE = "public, max-age=60"
_KEPT_MAX = 2_000


class _Rendered(Struct, frozen=True):
    sale: Sale
    asset: Asset


class StorefrontPages:
    def __init__(self, services: Services) -> None:
        settings = services.settings
        token_url = IDENTITY if settings.demo else settings.buyer_token_url
        self._catalogue = services.catalogue
        self._script = stripe_script(settings.stripe_publishable_key, settings.stripe_api_base)
        self._others = Others(_origin(token_url), " ".join(sorted(settings.origins)))
        self._others_with_stripe = _with_stripe(self._others, settings.stripe_api_base)
        self._config = encode(
            {
                "token_url": token_url or None,
                "demo": settings.demo,
                "simulation_url": settings.demo_simulation_url or None,
                "return_origins": sorted(settings.origins),
                "stripe": self._script,
                "messages": {"mail": bool(settings.smtp_url.get_secret_value()), "push": _push_key(settings)},
            }
        )
        self._rendered: dict[str, _Rendered] = {}
        self._empty = make_asset("index.html", store_page(None, self._facts(None)).encode(), SALE_PAGE)
        self._not_found = make_asset("index.html", not_found_page().encode(), NO_SALE_PAGE)

    async def storefront(self, request: Request, sale_id: str) -> Answer:
        try:
            sale = await self._catalogue.find(sale_id) if is_sku_id(sale_id) else None
        except EngineError:
            return send_asset(request, self._empty, self._others)
        if sale is None:
            return self._no_sale(request)
        takes_cards = self._script is not None and sale.payment is PaymentKind.STRIPE
        answer = send_asset(request, self._page_of(sale), self._others_with_stripe if takes_cards else self._others)
        answer.headers += tag_headers(sale_id)
        return answer

    async def config(self, _request: Request) -> Answer:
        """What the page cannot know by itself: where its visitor's token comes from, and where it may send them."""
        return Answer(200, [JSON, ("cache-control", CONFIG_CACHE), ("x-content-type-options", "nosniff")], self._config)

    def _no_sale(self, request: Request) -> Answer:
        headers = [header for header in page_headers(request, self._not_found) if header[0] != "etag"]
        return Answer(404, [*headers, ("content-type", self._not_found.media_type)], self._not_found.body)

    def _page_of(self, sale: Sale) -> Asset:
        """Rendered once for each version of the sale."""
        kept = self._rendered.get(sale.sale_id)
        if kept is None or kept.sale is not sale:
            if len(self._rendered) >= _KEPT_MAX:
                self._rendered.clear()
            asset = make_asset("index.html", store_page(sale, self._facts(sale)).encode(), SALE_PAGE)
            kept = self._rendered[sale.sale_id] = _Rendered(sale, asset)
        return kept.asset

    def _facts(self, sale: Sale | None) -> bytes:
        shown = None if sale is None else SaleOut.of(sale)
        return encode({"sale": shown, "config": msgspec.Raw(self._config)})


def _with_stripe(others: Others, api_base: str) -> Others:
    """Stripe's script, and what it calls and frames: only on the pages of sales that take cards with it."""
    scripts, calls, frames = stripe_origins(api_base)
    return Others(f"{others.calls} {calls}".strip(), others.posts, scripts, frames)


def _push_key(settings: Settings) -> str | None:
    """What a browser needs to subscribe: the public part."""
    key = vapid_key_of(settings)
    return None if key is None else key.public_key


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
