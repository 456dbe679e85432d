"""Pages and their files: the same for everyone, from this host and no other, so that a CDN can carry all of it."""

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
from holdfast.http.web.bundle import bundle_scripts, bundle_styles
from holdfast.http.web.documents import send_document

_STATIC = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/vnd.microsoft.icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
# Pictures of products may come from the shop's own hosts; scripts, styles and calls only from here.
_POLICY = (
    "default-src 'none'; script-src 'self'{scripts}; worker-src 'self'; style-src 'self'; connect-src 'self'{calls}; "
    "img-src 'self' https: data:; font-src 'self'; manifest-src 'self';{frames} "
    "base-uri 'none'; form-action 'self'{posts}; frame-ancestors 'none'"
)
_SAFE = [("referrer-policy", "same-origin"), NOSNIFF]
# Short enough that an upgraded server is not shown through its old pages for long.
_CACHED = ("cache-control", "public, max-age=60, stale-while-revalidate=60")
# Its name has the hash of its content.
_IMMUTABLE = ("cache-control", "public, max-age=31536000, immutable")
_STORE_STYLES = ["theme.css", "store/store.css", "store/panel.css"]


class Others(Struct, frozen=True):
    """Other origins that a page may use, separated by blanks."""

    calls: str = ""
    posts: str = ""
    scripts: str = ""
    frames: str = ""


_NO_OTHERS = Others()


class Asset(Struct, frozen=True):
    body: bytes
    media_type: str
    etag: str
    cached: tuple[str, str] = _CACHED


@cache
def _assets() -> dict[str, Asset]:
    """All there are, read once: what is not among them does not exist, whatever the address says."""
    files = {
        path.relative_to(_STATIC).as_posix(): path.read_bytes()
        for path in _STATIC.rglob("*")
        if path.suffix in _MEDIA_TYPES
    }
    files[MODULE] = paths_module(ENDPOINTS).encode()
    bundles = {
        "store.js": bundle_scripts("store/main.js", files, MODULE),
        "front.js": bundle_scripts("store/front.js", files, MODULE),
        "store.css": bundle_styles(_STORE_STYLES, files),
    }
    assets = {name: make_asset(name, body) for name, body in files.items()}
    for name, text in bundles.items():
        made = make_asset(name, text.encode(), _IMMUTABLE)
        assets[name] = assets[_hashed(name, made)] = made
    return assets


def make_asset(name: str, body: bytes, cached: tuple[str, str] = _CACHED) -> Asset:
    return Asset(body, _MEDIA_TYPES[Path(name).suffix], f'"{sha256(body).hexdigest()[:16]}"', cached)


def _hashed(name: str, asset: Asset) -> str:
    stem, _, suffix = name.partition(".")
    return f"bundle/{stem}-{asset.etag[1:-1]}.{suffix}"


def bundle_url(name: str) -> str:
    """Of a page's script or style sheet, under a name that changes with its content."""
    return f"/assets/{_hashed(name, _assets()[name])}"


def transport_security(request: Request) -> Headers:
    """Browsers that came by TLS come by TLS for a year. They ignore it on a plain connection."""
    return [("strict-transport-security", "max-age=31536000")] if is_https(request.header) else []


def page(request: Request, name: str) -> Answer:
    """A static file, or 304 if the browser has it already."""
    asset = _assets().get(name)
    if asset is None:
        raise Problem(problems.NOT_FOUND)
    return send_asset(request, asset)


def send_asset(request: Request, asset: Asset, others: Others = _NO_OTHERS) -> Answer:
    headers = page_headers(request, asset, others)
    # A CDN that compresses files makes the tag a weak one.
    if (request.header("if-none-match") or "").removeprefix("W/") == asset.etag:
        return Answer(304, headers, b"")
    return send_document(request, [*headers, ("content-type", asset.media_type)], asset.body)


def page_headers(request: Request, asset: Asset, others: Others = _NO_OTHERS) -> Headers:
    policy = _POLICY.format(
        scripts=_and(others.scripts),
        calls=_and(others.calls),
        posts=_and(others.posts),
        frames=f" frame-src {others.frames};" if others.frames else "",
    )
    # Wallets of a payment provider open windows of their own, which report back.
    opener = "same-origin-allow-popups" if others.scripts else "same-origin"
    return [
        *_SAFE,
        ("cross-origin-opener-policy", opener),
        asset.cached,
        *transport_security(request),
        ("content-security-policy", policy),
        ("etag", asset.etag),
    ]


def _and(origins: str) -> str:
    return f" {origins}" if origins else ""


async def assets(request: Request, path: str) -> Answer:
    return page(request, path)


async def console(request: Request) -> Answer:
    return page(request, "console/index.html")


async def lottery(request: Request, _sale_id: str) -> Answer:
    return page(request, "lottery/index.html")


async def favicon(request: Request) -> Answer:
    return page(request, "favicon.ico")
