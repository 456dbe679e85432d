"""The storefront: one page for all sales, which asks the API about the one in its address."""

from urllib.parse import urlsplit

from holdfast.http.contract.message import JSON, Answer, Request, encode
from holdfast.http.web.demo import IDENTITY
from holdfast.http.web.pages import page
from holdfast.settings import Settings

CONFIG_CACHE = "public, max-age=60"


class StorefrontPages:
    def __init__(self, settings: Settings) -> None:
        token_url = IDENTITY if settings.demo else settings.buyer_token_url
        self._also_calls = _origin(token_url)
        self._also_posts = " ".join(sorted(settings.origins))
        self._config = encode(
            {"token_url": token_url or None, "demo": settings.demo, "return_origins": sorted(settings.origins)}
        )

    async def storefront(self, request: Request, _sale_id: str) -> Answer:
        """The same for any sale: caches need one copy, and the page shows what the API answers."""
        return page(request, "store/index.html", self._also_calls, self._also_posts)

    async def config(self, _request: Request) -> Answer:
        """What the page cannot know by itself: where its visitor's token comes from, and where it may send them."""
        return Answer(200, [JSON, ("cache-control", CONFIG_CACHE), ("x-content-type-options", "nosniff")], self._config)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
