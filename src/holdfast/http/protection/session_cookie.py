"""The console operator's session, in a cookie that no script can read.

A browser sends cookies with requests that any site's page makes. So the cookie counts only beside a header that no
other site's page can send without permission (`Holdfast-Console`), and, for a request that changes something, only if
the browser says that the page is ours. Otherwise the cookie is ignored.

Where the page came by TLS, the cookie's name begins with `__Host-`: browsers take such a cookie from this host alone,
and only by TLS, so neither another host of the domain nor a plain connection can plant one. Without TLS, as on a
developer's machine, browsers refuse that name, and the cookie has another one that counts nowhere else.
"""

from collections.abc import Callable

from holdfast.access.console_sessions import SCHEME

NAME = "__Host-holdfast_session"
PLAIN_NAME = "holdfast_session"
# Of a sign-in at the issuer that is not finished.
PENDING, PLAIN_PENDING = "__Host-holdfast_oidc", "holdfast_oidc"
MAX_PENDING = 2_000
MARK = "holdfast-console"
# Ours have 60 characters. Longer ones are ignored.
MAX_TOKEN = 200
_SAFE = frozenset({"GET", "HEAD"})

Header = Callable[[str], str | None]


def session_in(method: str, header: Header) -> str | None:
    """What the request would have as its `Authorization`, if it comes from the console."""
    if header(MARK) is None:
        return None
    cookies = header("cookie") or ""
    token = _cookie(cookies, NAME) or (None if is_https(header) else _cookie(cookies, PLAIN_NAME))
    if token is None or (method not in _SAFE and not is_same_origin(header)):
        return None
    return f"{SCHEME} {token}"


def is_https(header: Header) -> bool:
    """Whether the page came by TLS, which ends at a proxy: the proxy says so, or the browser by what it writes."""
    if header("x-forwarded-proto") == "https":
        return True
    return (header("origin") or header("referer") or "").startswith("https://")


def is_same_origin(header: Header) -> bool:
    """According to the browser. Without TLS some send no `Sec-Fetch-Site`, but all send the page's origin."""
    site = header("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin, host = header("origin"), header("host")
    return origin is not None and host is not None and origin.partition("://")[2] == host


def pending_in(header: Header, *, is_tls: bool) -> str | None:
    """Of a sign-in at the issuer, which sends the browser back: its `Referer` may be the issuer's, and not ours."""
    cookies = header("cookie") or ""
    return _cookie(cookies, PENDING, MAX_PENDING) or (None if is_tls else _cookie(cookies, PLAIN_PENDING, MAX_PENDING))


def _cookie(cookies: str, wanted: str, longest: int = MAX_TOKEN) -> str | None:
    for part in cookies.split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted and 0 < len(value) <= longest:
            return value
    return None


def set_cookie(token: str, lasts_s: int, header: Header) -> str:
    name, secure = (NAME, "; Secure") if is_https(header) else (PLAIN_NAME, "")
    return f"{name}={token}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}"


def set_pending_cookie(value: str, lasts_s: int, *, is_tls: bool) -> str:
    """Lax: the browser comes back from another site, and must send it."""
    name, secure = (PENDING, "; Secure") if is_tls else (PLAIN_PENDING, "")
    return f"{name}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Lax{secure}"
