"""Origins of URLs, as browsers compare them: scheme, host and port only.

Strict on purpose: a URL that two parsers could read differently has no origin here. Browsers treat a backslash as a
slash, drop line breaks, and parse `user@host`; each of these has been used to redirect a browser to another site.
"""

import re
from urllib.parse import urlsplit

# Printable ASCII without the characters that parsers treat differently.
_PLAIN = re.compile(r"[Hh][Tt][Tt][Pp][Ss]?://[!#-;=?A-\[\]_a-z~]+\Z")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"([a-z0-9]([a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9_-]*[a-z0-9])?\.?\Z|\[[0-9a-f:.]+\]\Z")


def origin_of(url: str) -> str | None:
    """The origin of an absolute http(s) URL without user information; None for anything else."""
    if not _PLAIN.match(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    if not _HOST.match(host) or port == 0:
        return None
    shown = "" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{host}{shown}"


def parse_origins(text: str) -> frozenset[str]:
    """Origins separated by commas. Raises ValueError for anything that is not exactly an origin."""
    given = [part.strip().rstrip("/") for part in text.split(",") if part.strip()]
    wrong = [one for one in given if urlsplit(one).path or "?" in one or "#" in one or origin_of(one) is None]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} is not an origin: write https://shop.example.com, without a path")
    return frozenset(filter(None, map(origin_of, given)))
