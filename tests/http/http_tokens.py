"""Buyers' tokens, good and bad, made by hand so that they can be wrong in every way."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from http_serving import BUYER_SECRET

HS256 = {"alg": "HS256", "typ": "JWT"}


def claims_of(buyer_id: object = "ada", **more: object) -> dict[str, object]:
    return {"sub": buyer_id, "exp": int(time.time()) + 600} | more


def without(claims: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in claims.items() if key != name}


def encode(part: Any) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def hmac_token(claims: Any, header: Any = HS256, secret: str | bytes = BUYER_SECRET, digest: str = "sha256") -> str:
    """A token signed with a shared secret, whatever its header says."""
    return signed_token(f"{encode(header)}.{encode(claims)}", secret, digest)


def signed_token(signed: str, secret: str | bytes = BUYER_SECRET, digest: str = "sha256") -> str:
    """With the signature of a header and claims that are encoded already."""
    key = secret.encode() if isinstance(secret, str) else secret
    return f"{signed}.{encode(hmac.new(key, signed.encode(), getattr(hashlib, digest)).digest())}"


def buyer_token(buyer_id: object = "ada", **more: object) -> str:
    return hmac_token(claims_of(buyer_id, **more))


def tampered(token: str, **changes: object) -> str:
    """The token with other claims and the old signature."""
    header, payload, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return f"{header}.{encode(claims | changes)}.{signature}"
