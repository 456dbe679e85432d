"""Checks of values in settings."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from holdfast.runtime.client_address import parse_networks


def http_url(url: str, example: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError(f"must be a URL such as {example}")
    return url.rstrip("/")


def is_webhook_secret(secret: str) -> bool:
    return re.fullmatch(r"whsec_[A-Za-z0-9+/_-]{16,}={0,2}", secret) is not None


def _is_public(key: str) -> str:
    """It is sent to every browser, so a secret key here would be given away."""
    if key and not key.startswith("pk_"):
        raise ValueError("must be a publishable key, pk_…")
    return key


def _is_secret(key: SecretStr) -> SecretStr:
    """A publishable key (pk_…) can only start payments in a browser."""
    if key.get_secret_value() and not key.get_secret_value().startswith(("sk_", "rk_")):
        raise ValueError("must be a secret key, sk_… or rk_…")
    return key


StripePublicKey = Annotated[str, AfterValidator(_is_public)]
StripeSecretKey = Annotated[SecretStr, AfterValidator(_is_secret)]


def networks(text: str) -> str:
    try:
        parse_networks(text)
    except ValueError as exc:
        raise ValueError(f"must be networks such as 10.0.0.0/8,fd00::/8 ({exc})") from exc
    return text
