"""Encrypts a push message for one browser (RFC 8291, RFC 8188), so that the push service cannot read it."""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SALT_BYTES = 16
# The secret that a browser shares with its senders.
AUTH_BYTES = 16
# One record: push services accept at most 4,096 bytes in total.
RECORD_BYTES = 4_096
_LAST_RECORD = b"\x02"


def encrypt(
    plaintext: bytes,
    browser_key: bytes,
    auth: bytes,
    *,
    salt: bytes | None = None,
    key: EllipticCurvePrivateKey | None = None,
) -> bytes:
    """`salt` and `key` are new for each message; only tests pass them. Raises `ValueError` if the key is no point."""
    salt, key = salt or os.urandom(SALT_BYTES), key or generate_private_key(SECP256R1())
    browser = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), browser_key)
    ours = public_bytes(key)
    shared = _derive(key.exchange(ECDH(), browser), auth, b"WebPush: info\0" + browser_key + ours, 32)
    content_key = _derive(shared, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(shared, salt, b"Content-Encoding: nonce\0", 12)
    header = salt + RECORD_BYTES.to_bytes(4) + bytes([len(ours)]) + ours
    return header + AESGCM(content_key).encrypt(nonce, plaintext + _LAST_RECORD, None)


def public_bytes(key: EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(secret)


def from_base64url(text: str) -> bytes:
    return urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


def to_base64url(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()
