"""The storefront: one page for all sales, which asks the API about the one in its address."""

from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, Request, Response

from holdfast.http.pages import page
from holdfast.http.routes.callers import TheHouse
from holdfast.http.routes.demo import IDENTITY
from holdfast.settings import Settings

router = APIRouter(include_in_schema=False)

CONFIG_CACHE = "public, max-age=60"


@router.api_route("/s/{sale_id}", methods=["GET", "HEAD"])
async def storefront(request: Request, house: TheHouse, sale_id: str) -> Response:
    """The same for any sale, there or not: caches need one copy, and the page says what the API says."""
    del sale_id
    return page(request, "store/index.html", also_calls=_origin(_token_url(house.settings)))


@router.api_route("/store/config.json", methods=["GET", "HEAD"])
async def config(house: TheHouse) -> Response:
    """What the page cannot know by itself: where its visitor's token comes from."""
    settings = house.settings
    body = msgspec.json.encode({"token_url": _token_url(settings) or None, "demo": settings.demo})
    headers = {"cache-control": CONFIG_CACHE, "x-content-type-options": "nosniff"}
    return Response(body, headers=headers, media_type="application/json")


def _token_url(settings: Settings) -> str:
    return IDENTITY if settings.demo else settings.buyer_token_url


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
