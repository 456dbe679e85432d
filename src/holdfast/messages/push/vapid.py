"""Identifies the sender of a push message to the push service by a signature (VAPID, RFC 8292).

Browsers store the public key with each subscription, so it must stay the same: with another key, every buyer has to
subscribe again.
"""

import re
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, derive_private_key
from joserfc import jwt
from joserfc.jwk import ECKey

from holdfast.errors import SettingsError
from holdfast.messages.push.encryption import from_base64url, public_bytes, to_base64url

KEY_BYTES = 32
_KEY = re.compile(r"[A-Za-z0-9_-]{43}=?")
_USE = "HOLDFAST_PUSH_KEY: must be a VAPID private key, 32 bytes in base64url"
# A push service refuses tokens that are valid for longer than a day.
TOKEN_S, RENEW_S = 12 * 3_600, 3_600
_TOKENS_MAX = 1_000


class VapidKey:
    def __init__(self, text: str, contact: str) -> None:
        self._key, self._contact = _private_key(text), contact
        self.public_key = to_base64url(public_bytes(self._key))
        self._jwk = ECKey.import_key(_jwk(self._key, self.public_key))
        self._tokens: dict[str, tuple[str, int]] = {}

    def authorization(self, endpoint: str, now_s: int) -> str:
        """For the service at this endpoint. Signed once every few hours for each service."""
        parts = urlsplit(endpoint)
        audience = f"{parts.scheme}://{parts.netloc}"
        token, expires_s = self._tokens.get(audience, ("", 0))
        if expires_s - RENEW_S <= now_s:
            if len(self._tokens) >= _TOKENS_MAX:
                self._tokens.clear()
            expires_s = now_s + TOKEN_S
            claims = {"aud": audience, "exp": expires_s, "sub": self._contact}
            token = jwt.encode({"alg": "ES256", "typ": "JWT"}, claims, self._jwk)
            self._tokens[audience] = token, expires_s
        return f"vapid t={token}, k={self.public_key}"


def check_push(contact: str, key: str) -> None:
    if contact and not re.fullmatch(r"(mailto:[^\s@]+@[^\s@]+|https://[^\s/]+\S*)", contact):
        raise SettingsError("HOLDFAST_PUSH_CONTACT: use mailto:ops@shop.example or https://shop.example")
    if key:
        _private_key(key)


def _private_key(text: str) -> EllipticCurvePrivateKey:
    """As `web-push generate-vapid-keys` writes it: 32 bytes in base64url."""
    if _KEY.fullmatch(text) is None:
        raise SettingsError(_USE)
    try:
        return derive_private_key(int.from_bytes(from_base64url(text)), SECP256R1())
    except ValueError:
        raise SettingsError(_USE) from None


def _jwk(key: EllipticCurvePrivateKey, public_key: str) -> dict[str, str | list[str]]:
    point = from_base64url(public_key)
    private = key.private_numbers().private_value.to_bytes(KEY_BYTES)
    return {
        "kty": "EC",
        "crv": "P-256",
        "x": to_base64url(point[1:33]),
        "y": to_base64url(point[33:]),
        "d": to_base64url(private),
    }
