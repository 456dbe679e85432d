"""`/docs`: the API reference, as one page that needs no script and nothing from another host."""

from functools import lru_cache

from fastapi import APIRouter, FastAPI, Request, Response

from holdfast.web.reasons import all_reasons
from holdfast.web.reference import render

router = APIRouter(include_in_schema=False)

_SAFE = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    # Short enough that an upgraded server is not described by its old page for long.
    "cache-control": "public, max-age=60",
}


@router.api_route("/docs", methods=["GET", "HEAD"])
async def docs(request: Request) -> Response:
    return Response(_page(request.app), headers=_SAFE, media_type="text/html")


@lru_cache(maxsize=4)
def _page(app: FastAPI) -> str:
    """An application's routes stay as they are once it serves, and so does its page."""
    return render(app.openapi(), all_reasons())
