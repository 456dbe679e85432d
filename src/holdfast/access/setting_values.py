"""Checks of values in settings."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from holdfast.runtime.client_address import parse_networks

# HS256 signs with SHA-256: a secret shorter than its output is easier to guess than the signature is to forge.
MIN_SECRET_BYTES = 32
# The prefix `hf_` and 16 characters: 64 bits of entropy even if they are only hexadecimal.
MIN_SERVICE_KEY = 19


def http_url(url: str, example: str) -> str:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError(f"must be a URL such as {example}")
    return url.rstrip("/")


def is_webhook_secret(secret: str) -> bool:
    return re.fullmatch(r"whsec_[A-Za-z0-9+/_-]{16,}={0,2}", secret) is not None


def _is_public(key: str) -> str:
    """It is sent to every browser, so a secret key here would be disclosed."""
    if key and not key.startswith("pk_"):
        raise ValueError("must be a publishable key, pk_…")
    return key


def _is_secret(key: SecretStr) -> SecretStr:
    """A publishable key (pk_…) can only start payments in a browser."""
    if key.get_secret_value() and not key.get_secret_value().startswith(("sk_", "rk_")):
        raise ValueError("must be a secret key, sk_… or rk_…")
    return key


def _is_service_key(key: SecretStr) -> SecretStr:
    text = key.get_secret_value()
    if text and not (text.startswith("hf_") and len(text) >= MIN_SERVICE_KEY and text.isascii()):
        raise ValueError("must be hf_ followed by at least 16 characters")
    return key


def _is_standard(secret: SecretStr) -> SecretStr:
    if secret.get_secret_value() and not is_webhook_secret(secret.get_secret_value()):
        raise ValueError("must be whsec_ followed by base64")
    return secret


def _is_long(secret: SecretStr) -> SecretStr:
    if 0 < len(secret.get_secret_value().encode()) < MIN_SECRET_BYTES:
        raise ValueError(f"must have at least {MIN_SECRET_BYTES} bytes")
    return secret


def _are_long(keys: SecretStr) -> SecretStr:
    parts = [part.strip().rpartition(":") for part in keys.get_secret_value().split(",") if part]
    if any(len(secret.encode()) < MIN_SECRET_BYTES for _, _, secret in parts):
        raise ValueError(f"each secret must have at least {MIN_SECRET_BYTES} bytes")
    return keys


LongSecret = Annotated[SecretStr, AfterValidator(_is_long)]
SigningKeys = Annotated[SecretStr, AfterValidator(_are_long)]
WebhookSecret = Annotated[SecretStr, AfterValidator(_is_standard)]
ServiceKeyText = Annotated[SecretStr, AfterValidator(_is_service_key)]
StripePublicKey = Annotated[str, AfterValidator(_is_public)]
StripeSecretKey = Annotated[SecretStr, AfterValidator(_is_secret)]


def networks(text: str) -> str:
    try:
        parse_networks(text)
    except ValueError as exc:
        raise ValueError(f"must be networks such as 10.0.0.0/8,fd00::/8 ({exc})") from exc
    return text
