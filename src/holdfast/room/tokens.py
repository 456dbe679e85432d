"""Tickets and passes: signed tokens, each bound to a sale, a buyer and one kind.

Tickets are only read by Holdfast and are issued to everyone who joins, so they are signed with the secret (HS256).
Passes are also read by other services: they are signed with an Ed25519 key derived from the secret (HKDF), and the
public key is published as a JWKS, so that any service can verify a pass offline. A pass also carries an edge tag, an
HMAC that nginx verifies in microseconds: with it a proxy drops forgeries, and it never replaces the signature.
Provisional tickets are signed with a key of their own, derived from the secret too, because a proxy may issue them;
with that key nothing else can be signed. A key ID implies one algorithm and one kind, whatever the token claims. The
first key signs, all keys verify. To rotate, put a new key first and remove the old one after its last ticket has
expired; all tokens stay valid.

Signing is our own code, because a library takes several times as long. Reading uses the library, because reading is
where mistakes are made. Reading a pass takes about half a millisecond, more than the rest of a purchase, so tokens that
were read or signed here are cached, up to a limit.
"""

import hmac
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from secrets import token_bytes
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OctKey, OKPKey
from msgspec import Struct

from holdfast.runtime.signing import Mac, SigningKey, base64url

# Servers query the engine's time, and the duration of a slow query becomes an error of their clock.
SKEW_S = 30
# The longest validity after signing: a sale can be that far in the future, and a pass lasts a day at most.
MAX_TICKET_S, MAX_PASS_S = 400 * 86_400, 86_460
REMEMBERED_MAX = 50_000
# Our tokens have about 400 bytes. Longer ones are refused unread.
MAX_TOKEN = 2_000
TICKET, PASS, PROVISIONAL = "holdfast-ticket", "holdfast-pass", "holdfast-provisional"
_HS256, _ED25519 = "HS256", "Ed25519"
_ID_BYTES, _IDS_AT_ONCE = 16, 256
_HKDF_INFO = b"holdfast pass signing key 1"
_EDGE_HKDF_INFO = b"holdfast edge key 1"
_PROVISIONAL_HKDF_INFO = b"holdfast provisional ticket key 1"
# Impossible to guess in the life of a pass, and 24 characters of base64 without padding.
_EDGE_TAG_BYTES = 18

_encode = msgspec.json.Encoder().encode


class Ticket(Struct, frozen=True, omit_defaults=True):
    sub: str
    sale: str
    jti: str
    arrival: int
    iat: int
    exp: int
    # For a lottery: the commitment at joining. The position counts from 1 and is set once it is known.
    seed_hash: str | None = None
    position: int | None = None
    # The public value named for the draw; and after it, the line of the entry in the list, from 0.
    beacon_source: str | None = None
    entry: int | None = None


class Provisional(Struct, frozen=True):
    """An arrival, before there is a place: the stamp in milliseconds, who stamped it, and the count of that process."""

    sub: str
    sale: str
    jti: str
    at: int
    node: str
    seq: int
    iat: int
    exp: int
    # Placed behind everybody who came before the opening.
    last: bool = False


class Pass(Struct, frozen=True):
    sub: str
    sale: str
    jti: str
    iat: int
    exp: int


class _TaggedPass(Pass, frozen=True):
    edge: str


class TicketIds:
    """Random IDs, read from the system in batches. Each read releases the interpreter lock, and getting it back under
    load takes longer than the rest of a ticket."""

    def __init__(self) -> None:
        self._left: list[str] = []

    def next(self) -> str:
        if not self._left:
            drawn = token_bytes(_ID_BYTES * _IDS_AT_ONCE)
            parts = range(0, len(drawn), _ID_BYTES)
            self._left = [base64url(drawn[at : at + _ID_BYTES]).decode() for at in parts]
        return self._left.pop()


class Tokens:
    def __init__(self, keys: Sequence[SigningKey]) -> None:
        first = keys[0]
        sign_ticket, private = Mac(first.secret.encode()).digest, _pass_key(first)
        public = [OKPKey.import_key(_public(key)) for key in keys]
        self.jwks: dict[str, Any] = {"keys": [_public(key) for key in keys]}
        self._tickets = _Kind(
            TICKET, _HS256, first.key_id, sign_ticket, KeySet(list(map(_secret, keys))), Ticket, MAX_TICKET_S
        )
        self._edge_mac = Mac(_edge_key(first).encode())
        self._passes = _Kind(PASS, _ED25519, _pass_id(first), private.sign, KeySet(list(public)), Pass, MAX_PASS_S)

        self._provisional = _ProvisionalTickets(keys)

    def sign_provisional(self, ticket: Provisional) -> str:
        return self._provisional.sign(ticket)

    def read_provisional(self, text: str, now_s: float) -> Provisional | None:
        return self._provisional.read(text, now_s)

    def sign_ticket(self, ticket: Ticket) -> str:
        return self._tickets.sign(ticket)

    def sign_pass(self, given: Pass) -> str:
        token = self._passes.sign(_TaggedPass(given.sub, given.sale, given.jti, given.iat, given.exp, self._tag(given)))
        self._passes.remember(token, given)
        return token

    def _tag(self, given: Pass) -> str:
        mac = self._edge_mac.digest(f"{given.jti}.{given.sale}.{given.exp}".encode())
        return base64url(mac[:_EDGE_TAG_BYTES]).decode()

    def read_ticket(self, text: str, now_s: float) -> Ticket | None:
        ticket: Ticket | None = self._tickets.read(text, now_s)
        return ticket if ticket is not None and now_s < ticket.exp + SKEW_S else None

    def read_any_pass(self, text: str, now_s: float) -> Pass | None:
        """Also accepts an expired pass."""
        known: Pass | None = self._passes.read(text, now_s)
        return known


class _Kind(Struct, eq=False):
    typ: str
    algorithm: str
    key_id: str
    signature: Callable[[bytes], bytes]
    keys: KeySet
    claims: Any
    max_life_s: int
    known: dict[str, Any] = {}
    head: bytes = b""
    """The encoded header of every token signed here."""

    def __post_init__(self) -> None:
        self.head = _head(self.algorithm, self.key_id, self.typ) + b"."

    def sign(self, claims: Ticket | Pass) -> str:
        content = self.head + base64url(_encode(claims))
        return (content + b"." + base64url(self.signature(content))).decode()

    def read(self, text: str, now_s: float) -> Any:
        """The claims if the token is ours, of this kind and plausible; otherwise None."""
        claims = self.known.get(text)
        if claims is None and len(text) <= MAX_TOKEN:
            claims = self._verified(text)
            if claims is not None and self._is_possible(claims, now_s):
                self.remember(text, claims)
            else:
                claims = None
        return claims

    def _verified(self, text: str) -> Any:
        try:
            signed = jws.deserialize_compact(text, self.keys, algorithms=[self.algorithm])
            header = signed.headers()
            # Without a key ID the library would try any matching key.
            if header.get("typ") != self.typ or header.get("kid") is None:
                return None
            return msgspec.json.decode(signed.payload, type=self.claims)
        except (JoseError, msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def _is_possible(self, claims: Ticket | Pass, now_s: float) -> bool:
        return claims.iat <= now_s + SKEW_S and 0 < claims.exp - claims.iat <= self.max_life_s

    def remember(self, text: str, claims: Any) -> None:
        if len(self.known) >= REMEMBERED_MAX:
            self.known.clear()
        self.known[text] = claims


class _ProvisionalTickets:
    """Read with our own code, because they are read by the hundred thousand. A token is ours if it begins, byte by
    byte, with a header that we sign under: there is no other header to interpret."""

    def __init__(self, keys: Sequence[SigningKey]) -> None:
        self._macs = {head.encode(): Mac(secret.encode()) for head, secret in provisional_keys(keys).items()}
        self._head, self._mac = next(iter(self._macs.items()))

    def sign(self, ticket: Provisional) -> str:
        content = self._head + b"." + base64url(_encode(ticket))
        return (content + b"." + base64url(self._mac.digest(content))).decode()

    def read(self, text: str, now_s: float) -> Provisional | None:
        if len(text) > MAX_TOKEN or not text.isascii():
            return None
        content, _, signature = text.encode().rpartition(b".")
        head, _, payload = content.partition(b".")
        mac = self._macs.get(head)
        if mac is None or not hmac.compare_digest(base64url(mac.digest(content)), signature):
            return None
        try:
            ticket = _read_provisional(urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
        except (msgspec.MsgspecError, ValueError):
            return None
        is_possible = ticket.iat <= now_s + SKEW_S and 0 < ticket.exp - ticket.iat <= MAX_TICKET_S
        return ticket if is_possible and ticket.at <= (now_s + SKEW_S) * 1000 and now_s < ticket.exp else None


_read_provisional = msgspec.json.Decoder(Provisional).decode


def provisional_keys(keys: Sequence[SigningKey]) -> dict[str, str]:
    """The secrets that provisional tickets are signed with, each by the first part of such tickets. The first signs."""
    return {_head(_HS256, f"{key.key_id}-provisional", PROVISIONAL).decode(): _provisional_key(key) for key in keys}


def _provisional_key(key: SigningKey) -> str:
    return base64url(HKDF(SHA256(), 32, None, _PROVISIONAL_HKDF_INFO).derive(key.secret.encode())).decode()


def _secret(key: SigningKey) -> OctKey:
    return OctKey.import_key(key.secret, {"kid": key.key_id, "alg": _HS256, "use": "sig"})


def _pass_id(key: SigningKey) -> str:
    return f"{key.key_id}-pass"


def _pass_key(key: SigningKey) -> Ed25519PrivateKey:
    derived = HKDF(SHA256(), 32, None, _HKDF_INFO).derive(key.secret.encode())
    return Ed25519PrivateKey.from_private_bytes(derived)


def edge_keys(keys: Sequence[SigningKey]) -> dict[str, str]:
    """The secrets that edge tags are verified with, each by the first part of the passes signed with its key. They sign
    nothing else: with one of them a forgery passes the edge, and fails at the server."""
    return {_head(_ED25519, _pass_id(key), PASS).decode(): _edge_key(key) for key in keys}


def _head(algorithm: str, key_id: str, typ: str) -> bytes:
    return base64url(_encode({"alg": algorithm, "kid": key_id, "typ": typ}))


def _edge_key(key: SigningKey) -> str:
    return base64url(HKDF(SHA256(), 32, None, _EDGE_HKDF_INFO).derive(key.secret.encode())).decode()


def _public(key: SigningKey) -> dict[str, Any]:
    point = base64url(_pass_key(key).public_key().public_bytes_raw()).decode()
    return {"kty": "OKP", "crv": "Ed25519", "x": point, "kid": _pass_id(key), "alg": _ED25519, "use": "sig"}
