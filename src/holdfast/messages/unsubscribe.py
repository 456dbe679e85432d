"""Links that end messages without signing in: signed, and valid until the contact changes.

A token names the buyer and the time of their subscription. A buyer who opts out and later subscribes again gets new
links, and an older mail cannot end the new subscription.
"""

import hmac
from binascii import Error, a2b_base64

import msgspec
from msgspec import Struct

from holdfast.runtime.signing import Mac, SigningKey, base64url

_STANDARD = str.maketrans("-_", "+/")
_LABEL = b"holdfast-unsubscribe\n"
_TOKEN_MAX = 1_000


class Subscriber(Struct, frozen=True, array_like=True):
    buyer_id: str
    since: int


class UnsubscribeLinks:
    def __init__(self, keys: list[SigningKey], public_url: str) -> None:
        self._macs = [Mac(key.secret.encode()) for key in keys]
        self._public_url = public_url

    def url_of(self, subscriber: Subscriber) -> str:
        return f"{self._public_url}/unsubscribe/{self.token_of(subscriber)}"

    def token_of(self, subscriber: Subscriber) -> str:
        payload = base64url(msgspec.json.encode(subscriber))
        return f"{payload.decode()}.{base64url(self._macs[0].digest(_LABEL + payload)).decode()}"

    def read(self, token: str) -> Subscriber | None:
        """None if we did not issue it."""
        payload, _, given = token.partition(".")
        if len(token) > _TOKEN_MAX or not token.isascii():
            return None
        signatures = [base64url(mac.digest(_LABEL + payload.encode())).decode() for mac in self._macs]
        if not any(hmac.compare_digest(given, one) for one in signatures):
            return None
        try:
            padded = payload.translate(_STANDARD) + "=" * (-len(payload) % 4)
            return msgspec.json.decode(a2b_base64(padded), type=Subscriber)
        except (Error, ValueError, msgspec.DecodeError):
            return None
