"""The keys that tickets, passes and receipts are signed with."""

import hashlib
from binascii import b2a_base64

from msgspec import Struct

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class SigningKey(Struct, frozen=True):
    key_id: str
    secret: str


def parse_signing_keys(text: str) -> list[SigningKey]:
    """`secret`, or `id:secret,id:secret`: the first signs, all of them verify."""
    keys = []
    for part in text.split(","):
        key_id, colon, secret = part.strip().partition(":")
        keys.append(SigningKey(key_id, secret) if colon else SigningKey(_fingerprint(key_id), key_id))
    return keys


def _fingerprint(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:8]


def base64url(data: bytes) -> bytes:
    return b2a_base64(data, newline=False).translate(_URL_SAFE).rstrip(b"=")
