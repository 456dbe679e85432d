"""Encrypts a secret that the database keeps and must not disclose, with a key derived from the signing key.

The first key seals, all of them open. A signing key may be removed once nothing sealed with it is needed any more.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from secrets import token_bytes

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from holdfast.errors import SettingsError
from holdfast.runtime.signing import SigningKey

SEALED = "sealed:"
_NONCE_BYTES = 12
_HKDF_INFO = b"holdfast sealing key 1"


class Sealer:
    def __init__(self, keys: Sequence[SigningKey]) -> None:
        self._ciphers = [AESGCM(HKDF(SHA256(), 32, None, _HKDF_INFO).derive(key.secret.encode())) for key in keys]

    def seal(self, secret: bytes, about: str) -> str:
        """`about` is needed to open it, so a sealed text cannot be used elsewhere."""
        nonce = token_bytes(_NONCE_BYTES)
        sealed = nonce + self._ciphers[0].encrypt(nonce, secret, about.encode())
        return SEALED + urlsafe_b64encode(sealed).decode()

    def open(self, text: str, about: str) -> bytes:
        sealed = urlsafe_b64decode(text.removeprefix(SEALED))
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about.encode())
            except InvalidTag:
                continue
        raise SettingsError(f"the secret of {about} was sealed with a signing key that is not in HOLDFAST_SIGNING_KEY")
