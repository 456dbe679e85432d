"""Signs buyers' tokens as an auth service would, and forges tokens that a server must refuse."""

import hmac
from collections.abc import Mapping
from time import time

import msgspec

from holdfast.runtime.signing import base64url

LIFETIME_S = 6 * 3_600
_HS256 = base64url(b'{"alg":"HS256"}')
_NONE = base64url(b'{"alg":"none"}')


class BuyerTokens:
    def __init__(self, secret: str, claims: Mapping[str, str] | None = None) -> None:
        """`claims` are the additional claims that the server requires (`Settings.buyer_claims`)."""
        # Copied for each token, so that the key is hashed only once.
        self._keyed = hmac.new(secret.encode(), digestmod="sha256")
        encoded = msgspec.json.encode({"exp": int(time()) + LIFETIME_S, **(claims or {})})
        self._others = encoded[1:]

    def sign(self, buyer_id: str) -> bytes:
        signed = _HS256 + b"." + self._claims(buyer_id)
        mac = self._keyed.copy()
        mac.update(signed)
        return signed + b"." + base64url(mac.digest())

    def unsigned(self, buyer_id: str) -> bytes:
        return _NONE + b"." + self._claims(buyer_id) + b"."

    def _claims(self, buyer_id: str) -> bytes:
        return base64url(b'{"sub":"%b",%b' % (buyer_id.encode(), self._others))


def authorization(token: bytes | str) -> bytes:
    """The header that carries a buyer's token or a service key."""
    return b"Authorization: Bearer %b\r\n" % (token if isinstance(token, bytes) else token.encode())
