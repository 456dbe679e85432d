"""Fast verification of buyers' tokens that are signed with the shared secret.

The model. joserfc takes longer to read a token than the rest of a join takes. But thousands of tokens per second only
differ in their claims. So the header of a token that joserfc accepted is cached, and another token with the same header
is verified here: the signature with `Mac`, the claims with msgspec, by the same rules.

The invariants: this code only accepts, and only what joserfc would accept (tests/http/test_quick_tokens.py compares the
two). Anything unusual (an unknown header, a float for a time) is left to joserfc, and so is every refusal.
"""

import hmac
from binascii import a2b_base64, b2a_base64

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.runtime.signing import Mac, base64url

# At most a few issuers share the secret, each with its own header.
HEADS_MAX = 16
# Of the payload, in base64. Longer ones are rare and are left to joserfc.
PAYLOAD_MAX = 1_024
# Larger integers are not exact as floats, which the clock uses.
LATEST_EXP = 2**53
# Characters that exist only in the standard alphabet become a byte that neither alphabet has.
_STANDARD = bytes.maketrans(b"-_+/", b"+/\0\0")


class Claims(Struct, frozen=True):
    """The claims that are checked. Floats are declared because msgspec would otherwise convert them to integers."""

    sub: str
    exp: int | float
    tier: int | float = 0
    nbf: int | float | UnsetType = UNSET
    iat: int | float | UnsetType = UNSET
    iss: str | UnsetType = UNSET
    jti: str | UnsetType = UNSET
    aud: str | list[str] | UnsetType = UNSET
    stripe_customer: str | None = None
    account_created_at: int | float | None = None


class _Head(Struct, frozen=True, forbid_unknown_fields=True):
    """Any other field of a header may change how the token must be read."""

    alg: str
    typ: str | UnsetType = UNSET
    kid: str | UnsetType = UNSET


_claims_of = msgspec.json.Decoder(Claims).decode
_head_of = msgspec.json.Decoder(_Head).decode


class QuickTokens:
    def __init__(self, secret: str, skew_s: int) -> None:
        self._mac = Mac(secret.encode())
        self._skew_s = skew_s
        self._heads: set[bytes] = set()

    def learn(self, token: str) -> None:
        """Cache the header of a token that joserfc accepted."""
        head = token.encode().partition(b".")[0]
        try:
            _head_of(_decoded(head))
        except ValueError:
            return
        if len(self._heads) < HEADS_MAX:
            self._heads.add(head)

    def read(self, token: str, now: float) -> Claims | None:
        """The claims, or None if joserfc has to decide."""
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
        return hmac.compare_digest(base64url(self._mac.digest(signed)), signature)

    def _is_on(self, claims: Claims, now: float) -> bool:
        latest = int(now) + self._skew_s
        return (
            claims.sub != ""
            and type(claims.exp) is int
            and int(now) - self._skew_s < claims.exp < LATEST_EXP
            and type(claims.tier) is int
            and type(claims.account_created_at) is not float
            and (claims.nbf is UNSET or _is_past(claims.nbf, latest))
            and (claims.iat is UNSET or _is_past(claims.iat, latest))
        )


def _is_past(at: float, latest: int) -> bool:
    return type(at) is int and at <= latest


def _decoded(segment: bytes) -> bytes:
    """Raises ValueError for anything but canonical base64url without padding."""
    standard = segment.translate(_STANDARD)
    content = a2b_base64(standard + b"==")
    if b2a_base64(content, newline=False).rstrip(b"=") != standard:
        raise ValueError("not base64url")
    return content
