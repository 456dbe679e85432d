"""Verifies a pass: signed with a published Ed25519 key, of the right kind, and not expired.

The algorithm and the kind are fixed here and never taken from the token.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

TYPE, ALGORITHM = "holdfast-pass", "Ed25519"
SKEW_S = 30
MAX_TOKEN = 2_000
# A pass lasts a day at most.
MAX_LIFE_S = 86_460


@dataclass(frozen=True)
class Pass:
    """Permission for one buyer to buy in one sale until `expires_at`, in seconds since 1970."""

    buyer_id: str
    sale_id: str
    pass_id: str
    expires_at: int


def key_id_of(token: str) -> str | None:
    """The ID of the key that it claims to be signed with, unverified. None if it is not a pass."""
    try:
        head = token.split(".", 1)[0].encode()
        header = json.loads(base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4)))
    except (ValueError, RecursionError):
        return None
    key_id = header.get("kid") if isinstance(header, dict) and len(token) <= MAX_TOKEN else None
    return key_id if isinstance(key_id, str) else None


def read_pass(token: str, keys: KeySet, now_s: float) -> Pass | None:
    """The pass if it is valid and not expired, else None."""
    try:
        signed = jws.deserialize_compact(token, keys, algorithms=[ALGORITHM])
        header, claims = signed.headers(), json.loads(signed.payload)
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if header.get("typ") != TYPE or header.get("kid") is None or not isinstance(claims, dict):
        return None
    return _from(claims, now_s)


def _from(claims: dict[str, Any], now_s: float) -> Pass | None:
    if not all(isinstance(claims.get(name), str) and claims[name] for name in ("sub", "sale", "jti")):
        return None
    # Exactly int, because bool is a subclass of int.
    if not all(type(claims.get(name)) is int for name in ("iat", "exp")):
        return None
    issued, expires = claims["iat"], claims["exp"]
    is_possible = issued <= now_s + SKEW_S and 0 < expires - issued <= MAX_LIFE_S
    if not is_possible or not is_in_time(expires, now_s):
        return None
    return Pass(claims["sub"], claims["sale"], claims["jti"], expires)


def is_in_time(expires_at: int, now_s: float) -> bool:
    return now_s < expires_at + SKEW_S
