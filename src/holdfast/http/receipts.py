"""A signed receipt for every hold that Redis granted: proof for its owner, should the hold be lost.

Redis may be flushed, or fail over to a replica that was behind, before the ledger has heard of a hold. Then nobody
knows it any more but its owner. With the receipt they get a clear answer (`reservation_lost`: it was granted, it is
gone, nothing was charged) instead of being told that it never was.

A receipt is a JWT (HS256). It is signed here by hand, because it is made for every grant and a library takes twenty
times as long; it is read by the library, because that happens rarely and reading is where mistakes are made.
"""

import hashlib
import hmac
from binascii import b2a_base64

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OctKey
from msgspec import Struct

from holdfast.domain.reservation import Reservation

_encode = msgspec.json.Encoder().encode
_ALGORITHM = "HS256"
TYPE = "holdfast-receipt"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class SigningKey(Struct, frozen=True):
    key_id: str
    secret: str


def parse_signing_keys(text: str) -> list[SigningKey]:
    """`secret`, or `id:secret,id:secret`: the first one signs, all of them are believed."""
    keys = []
    for part in text.split(","):
        key_id, colon, secret = part.strip().partition(":")
        keys.append(SigningKey(key_id, secret) if colon else SigningKey(_fingerprint(key_id), key_id))
    return keys


def _fingerprint(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:8]


class Receipt(Struct, frozen=True):
    reservation_id: str
    owner_id: str


class Receipts:
    def __init__(self, keys: list[SigningKey]) -> None:
        first = keys[0]
        # Copied for each receipt: the key is prepared once.
        self._keyed = hmac.new(first.secret.encode(), digestmod="sha256")
        self._head = _base64(_encode({"alg": _ALGORITHM, "kid": first.key_id, "typ": TYPE}))
        self._keys = KeySet([OctKey.import_key(key.secret, {"kid": key.key_id, "alg": _ALGORITHM}) for key in keys])

    def sign(self, r: Reservation) -> str:
        claims = {"jti": r.reservation_id, "sub": r.owner_id, "qty": r.quantity, "iat": r.created_at // 1000}
        signed = self._head + b"." + _base64(_encode(claims))
        mac = self._keyed.copy()
        mac.update(signed)
        return (signed + b"." + _base64(mac.digest())).decode()

    def read(self, text: str) -> Receipt | None:
        """What the receipt says, or None if it is not one of ours."""
        try:
            token = jwt.decode(text, self._keys, algorithms=[_ALGORITHM])
        except (JoseError, ValueError):
            return None
        if token.header.get("typ") != TYPE:
            return None
        return Receipt(str(token.claims.get("jti")), str(token.claims.get("sub")))


def _base64(data: bytes) -> bytes:
    return b2a_base64(data, newline=False).translate(_URL_SAFE).rstrip(b"=")
