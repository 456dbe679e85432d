"""Buyers' tokens, as a login would sign them; and such as nobody should believe."""

import hmac
from time import time

from holdfast.signing import base64url

LIFE_S = 6 * 3_600
_HS256 = base64url(b'{"alg":"HS256"}')
_NONE = base64url(b'{"alg":"none"}')


class Tokens:
    def __init__(self, secret: str) -> None:
        # Copied for each token: the key is hashed in once.
        self._keyed = hmac.new(secret.encode(), digestmod="sha256")
        self._exp = int(time()) + LIFE_S

    def bearer(self, buyer_id: str) -> str:
        return f"Bearer {self._sign(buyer_id).decode()}"

    def authorization(self, buyer_id: str) -> bytes:
        return _header(self._sign(buyer_id))

    def _sign(self, buyer_id: str) -> bytes:
        signed = _HS256 + b"." + self._claims(buyer_id)
        mac = self._keyed.copy()
        mac.update(signed)
        return signed + b"." + base64url(mac.digest())

    def unsigned(self, buyer_id: str) -> bytes:
        return _header(_NONE + b"." + self._claims(buyer_id) + b".")

    def _claims(self, buyer_id: str) -> bytes:
        return base64url(b'{"sub":"%b","exp":%d}' % (buyer_id.encode(), self._exp))


def _header(token: bytes) -> bytes:
    return b"Authorization: Bearer " + token + b"\r\n"
