"""A signed receipt for every hold granted by Redis: proof for its owner in case the hold is lost.

Redis may be flushed, or fail over to a lagging replica, before a hold reaches the ledger. Then only its owner knows
about it. With the receipt they get a clear answer (`reservation_lost`: it was granted, it is gone, nothing was charged)
instead of `not_found`.

A receipt is a JWT (HS256). Signing is our own code, because every grant needs it and a library takes twenty times as
long. Reading uses the library, because it is rare and reading is where mistakes are made.
"""

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OctKey
from msgspec import Struct

from holdfast.domain.stock.reservation import Reservation
from holdfast.runtime.signing import Mac, SigningKey, base64url

_encode = msgspec.json.Encoder().encode
_ALGORITHM = "HS256"
TYPE = "holdfast-receipt"


class Receipt(Struct, frozen=True):
    reservation_id: str
    owner_id: str
    quantity: int
    created_at_s: int


class Receipts:
    def __init__(self, keys: list[SigningKey]) -> None:
        first = keys[0]
        self._mac = Mac(first.secret.encode())
        self._head = base64url(_encode({"alg": _ALGORITHM, "kid": first.key_id, "typ": TYPE}))
        self._keys = KeySet([OctKey.import_key(key.secret, {"kid": key.key_id, "alg": _ALGORITHM}) for key in keys])

    def sign(self, r: Reservation) -> str:
        claims = {"jti": r.reservation_id, "sub": r.owner_id, "qty": r.quantity, "iat": r.created_at // 1000}
        signed = self._head + b"." + base64url(_encode(claims))
        return (signed + b"." + base64url(self._mac.digest(signed))).decode()

    def read(self, text: str) -> Receipt | None:
        """The content of a receipt, or None if it is not one of ours."""
        try:
            token = jwt.decode(text, self._keys, algorithms=[_ALGORITHM])
        except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        if token.header.get("typ") != TYPE:
            return None
        claims = token.claims
        return Receipt(str(claims.get("jti")), str(claims.get("sub")), int(claims["qty"]), int(claims["iat"]))
