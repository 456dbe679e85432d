"""A quick yes to buyers' tokens that are signed with the shared secret.

The model. joserfc reads tokens, and takes longer for it than all the rest of a join; but the thousands that come per
second are alike in all but what they claim. So the head of a token that joserfc has accepted is remembered, and another
token with the very same head is read here: the signature by `hmac`, the claims by msgspec, the same rules.

The invariants: this only ever says yes, and only where joserfc would (tests/http/test_quick_tokens.py holds the two
against each other). Whatever is unusual (a head not seen before, a float for a time, any doubt) is left to joserfc, and
so is every no.
"""

import hmac
from binascii import a2b_base64

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.signing import base64url

# A few issuers at most share the secret, each with a head of its own.
HEADS_MAX = 16
# Of the payload, in base64. Longer ones are rare enough to take the long way.
PAYLOAD_MAX = 1_024
# Beyond this, integers and the clock's floats do not mix well.
LATEST_EXP = 2**53
_STANDARD = bytes.maketrans(b"-_", b"+/")


class Claims(Struct, frozen=True):
    """What is checked of a token. Numbers are told apart from floats, which msgspec would take for integers."""

    sub: str
    exp: int | float
    tier: int | float = 0
    nbf: int | float | UnsetType = UNSET
    iat: int | float | UnsetType = UNSET
    iss: str | UnsetType = UNSET
    jti: str | UnsetType = UNSET
    aud: str | list[str] | UnsetType = UNSET


class _Head(Struct, frozen=True, forbid_unknown_fields=True):
    """Anything else in a head may change how the rest is to be read."""

    alg: str
    typ: str | UnsetType = UNSET
    kid: str | UnsetType = UNSET


_claims_of = msgspec.json.Decoder(Claims).decode
_head_of = msgspec.json.Decoder(_Head).decode


class QuickTokens:
    def __init__(self, secret: str, skew_s: int) -> None:
        self._mac = hmac.new(secret.encode(), digestmod="sha256")
        self._skew_s = skew_s
        self._heads: set[bytes] = set()

    def learn(self, token: str) -> None:
        """To be told of a token that was accepted."""
        head = token.encode().partition(b".")[0]
        try:
            _head_of(_decoded(head))
        except ValueError:
            return
        if len(self._heads) < HEADS_MAX:
            self._heads.add(head)

    def read(self, token: str, now: float) -> Claims | None:
        """What it claims; None if that takes a closer look."""
        try:
            signed, _, signature = token.encode("ascii").rpartition(b".")
            head, _, payload = signed.partition(b".")
            if head not in self._heads or len(payload) > PAYLOAD_MAX or not self._is_ours(signed, signature):
                return None
            claims = _claims_of(_decoded(payload).decode())
        except ValueError:
            return None
        return claims if self._is_on(claims, now) else None

    def _is_ours(self, signed: bytes, signature: bytes) -> bool:
        mac = self._mac.copy()
        mac.update(signed)
        return hmac.compare_digest(base64url(mac.digest()), signature)

    def _is_on(self, claims: Claims, now: float) -> bool:
        latest = int(now) + self._skew_s
        return (
            claims.sub != ""
            and type(claims.exp) is int
            and int(now) - self._skew_s < claims.exp < LATEST_EXP
            and type(claims.tier) is int
            and _is_past(claims.nbf, latest)
            and _is_past(claims.iat, latest)
        )


def _is_past(at: float | UnsetType, latest: int) -> bool:
    return at is UNSET or (type(at) is int and at <= latest)


def _decoded(segment: bytes) -> bytes:
    """Raises ValueError for anything but base64url as it is written without padding."""
    content = a2b_base64(segment.translate(_STANDARD) + b"==")
    if base64url(content) != segment:
        raise ValueError("not base64url")
    return content
