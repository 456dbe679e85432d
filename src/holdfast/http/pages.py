"""The pages people see: files that are the same for everyone, from this host and no other.

Nothing is rendered here. A page is a file that loads its modules from `/assets/`; whatever is about a sale or a buyer
it asks of the API. So a CDN can carry all of it, and a product's name never becomes markup.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, Request, Response
from msgspec import Struct

import holdfast.web
from holdfast.http.problems import Problem

router = APIRouter(include_in_schema=False)

_STATIC = Path(holdfast.web.__file__).parent / "static"
_MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
# Pictures of products may come from the shop's own hosts; scripts, styles and calls only from here.
_POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; connect-src 'self'{}; "
    "img-src 'self' https: data:; font-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_SAFE = {
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    # Short enough that an upgraded server is not shown through its old pages for long.
    "cache-control": "public, max-age=60, stale-while-revalidate=60",
}


class Asset(Struct, frozen=True):
    body: bytes
    media_type: str
    etag: str


@cache
def _assets() -> dict[str, Asset]:
    """All there are, read once: what is not among them does not exist, whatever the address says."""
    files = (path for path in _STATIC.rglob("*") if path.suffix in _MEDIA_TYPES)
    return {path.relative_to(_STATIC).as_posix(): _read(path) for path in files}


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(body, _MEDIA_TYPES[path.suffix], f'"{sha256(body).hexdigest()[:16]}"')


def page(request: Request, name: str, also_calls: str = "") -> Response:
    """A file of web/static, or 304 if the browser has it already. It may call this host, and `also_calls`."""
    asset = _assets().get(name)
    if asset is None:
        raise Problem(404, "not_found", "Not found", "There is nothing at this address. See /docs.")
    policy = _POLICY.format(f" {also_calls}" if also_calls else "")
    headers = _SAFE | {"content-security-policy": policy, "etag": asset.etag}
    # A CDN that packs files smaller makes the tag a weak one.
    if request.headers.get("if-none-match", "").removeprefix("W/") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, headers=headers, media_type=asset.media_type)


@router.api_route("/assets/{path:path}", methods=["GET", "HEAD"])
async def asset(request: Request, path: str) -> Response:
    return page(request, path)
