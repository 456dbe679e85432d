"""The session of the console's operator, in a cookie that no script can read.

A browser sends cookies with whatever a page of anybody makes it ask. So the cookie counts only beside a header that no
other site's page can send without being allowed to (`Holdfast-Console`), and, where something is changed, only if the
browser says that the page is ours. Otherwise it is as if there were none.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

NAME = "holdfast_session"
MARK = "holdfast-console"
SCHEME = "Session"
# Ours have 60 characters. Nothing longer is looked at.
MAX_TOKEN = 200
_SAFE = frozenset({"GET", "HEAD"})

Header = Callable[[str], str | None]


def session_in(method: str, header: Header) -> str | None:
    """What the request would have as its `Authorization`, if it comes from the console."""
    if header(MARK) is None:
        return None
    token = _cookie(header("cookie") or "")
    if token is None or (method not in _SAFE and not is_same_origin(header)):
        return None
    return f"{SCHEME} {token}"


def is_same_origin(header: Header) -> bool:
    """As the browser has it. Those that do not say so where there is no TLS name the page's origin all the same."""
    site = header("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin, host = header("origin"), header("host")
    return origin is not None and host is not None and urlsplit(origin).netloc == host


def _cookie(cookies: str) -> str | None:
    for part in cookies.split(";"):
        name, _, value = part.strip().partition("=")
        if name == NAME and 0 < len(value) <= MAX_TOKEN:
            return value
    return None


def set_cookie(token: str, lasts_s: int, origin: str | None) -> str:
    """`Secure` if the page came by TLS, which only the browser knows: it ends at a proxy."""
    secure = "; Secure" if (origin or "").startswith("https://") else ""
    return f"{NAME}={token}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}"
