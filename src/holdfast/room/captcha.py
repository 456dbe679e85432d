"""Captcha tokens as proofs: how to recognise them, the key they are spent under, and the verifier's results.

The verifier itself is in `site_verify.py`, which needs an HTTP client: it is imported only where one is configured.
"""

from enum import StrEnum
from hashlib import sha256
from typing import Protocol

from holdfast.runtime.breaker import Breaker

PREFIX = "captcha:"
# The services accept a token for two to five minutes.
LIFE_S = 600


class Verified(StrEnum):
    YES = "yes"
    NO = "no"
    # Too old, or verified before, perhaps by an earlier request of the same buyer.
    USED = "used"
    UNKNOWN = "unknown"


class CaptchaVerifier(Protocol):
    breaker: Breaker

    async def verify(self, token: str) -> Verified: ...

    async def close(self) -> None: ...


def token_of(proof: str) -> str | None:
    return proof.removeprefix(PREFIX) if proof.startswith(PREFIX) else None


def id_of(token: str) -> str:
    """The key under which it is spent."""
    return f"captcha-{sha256(token.encode()).hexdigest()[:40]}"
