"""Checks of values in settings."""

import re
from urllib.parse import urlsplit


def http_url(url: str, example: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError(f"must be a URL such as {example}")
    return url.rstrip("/")


def is_webhook_secret(secret: str) -> bool:
    return re.fullmatch(r"whsec_[A-Za-z0-9+/_-]{16,}={0,2}", secret) is not None
