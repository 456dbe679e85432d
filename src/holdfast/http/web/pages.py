"""Pages and their files: the same for everyone, from this host and no other.

Nothing is rendered here. A page is a file that loads its modules from `/assets/`; whatever is about a sale or a buyer
it asks of the API. So a CDN can carry all of it, and a product's name never becomes markup.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from holdfast.http.contract import problems
from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.http.contract.message import Answer, Headers, Request
from holdfast.http.contract.paths_module import MODULE, paths_module
from holdfast.http.contract.problem import NOSNIFF, Problem
from holdfast.http.protection.session_cookie import is_https
from holdfast.http.web.documents import send_document

_STATIC = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
# Pictures of products may come from the shop's own hosts; scripts, styles and calls only from here.
_POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; connect-src 'self'{}; "
    "img-src 'self' https: data:; font-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'{}; frame-ancestors 'none'"
)
_SAFE = [
    ("referrer-policy", "same-origin"),
    NOSNIFF,
    ("cross-origin-opener-policy", "same-origin"),
    # Short enough that an upgraded server is not shown through its old pages for long.
    ("cache-control", "public, max-age=60, stale-while-revalidate=60"),
]


class Asset(Struct, frozen=True):
    body: bytes
    media_type: str
    etag: str


@cache
def _assets() -> dict[str, Asset]:
    """All there are, read once: what is not among them does not exist, whatever the address says."""
    files = {
        path.relative_to(_STATIC).as_posix(): path.read_bytes()
        for path in _STATIC.rglob("*")
        if path.suffix in _MEDIA_TYPES
    }
    files[MODULE] = paths_module(ENDPOINTS).encode()
    return {name: _asset(name, body) for name, body in files.items()}


def _asset(name: str, body: bytes) -> Asset:
    return Asset(body, _MEDIA_TYPES[Path(name).suffix], f'"{sha256(body).hexdigest()[:16]}"')


def transport_security(request: Request) -> Headers:
    """Browsers that came by TLS come by TLS for a year. They ignore it on a plain connection."""
    return [("strict-transport-security", "max-age=31536000")] if is_https(request.header) else []


def page(request: Request, name: str, also_calls: str = "", also_posts: str = "") -> Answer:
    """A static file, or 304 if the browser has it already. It may call this host and `also_calls`, and send forms to
    this host and `also_posts`."""
    asset = _assets().get(name)
    if asset is None:
        raise Problem(problems.NOT_FOUND)
    policy = _POLICY.format(*(f" {origins}" if origins else "" for origins in (also_calls, also_posts)))
    headers = [*_SAFE, *transport_security(request), ("content-security-policy", policy), ("etag", asset.etag)]
    # A CDN that compresses files makes the tag a weak one.
    if (request.header("if-none-match") or "").removeprefix("W/") == asset.etag:
        return Answer(304, headers, b"")
    return send_document(request, [*headers, ("content-type", asset.media_type)], asset.body)


async def assets(request: Request, path: str) -> Answer:
    return page(request, path)


async def console(request: Request) -> Answer:
    return page(request, "console/index.html")


async def lottery(request: Request, _sale_id: str) -> Answer:
    return page(request, "lottery/index.html")


async def front(_request: Request) -> Answer:
    return Answer(307, [("location", "/docs")], b"")
