"""Sign-in by OpenID Connect: the authorization code flow with PKCE, for any issuer.

The model. `begin` builds the issuer's URL, and a cookie for the browser with the values that the response must match:
`state` against forged responses, `nonce` against replayed ID tokens, and the verifier of the code challenge. The cookie
is sealed, so the server stores nothing, and any server can finish a sign-in. `finish` exchanges the code and verifies
the ID token: its signature with the issuer's published keys, and `iss`, `aud`, `azp`, `exp`, `nonce`.

On failure: `SignInRefused`, with a reason that is safe to show. An issuer that does not respond is a failure too.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from time import monotonic, time
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
import structlog
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from msgspec import Struct

from holdfast.access.identity import PUBLIC_ALGORITHMS
from holdfast.runtime.sealing import Sealer

log = structlog.get_logger()

# How long a sign-in at the issuer may take.
PENDING_S = 600
TIMEOUT_S = 5.0
# Discovery documents, key sets and token responses have a few kilobytes.
MAX_BYTES = 256 * 1024
METADATA_S = 300.0
SKEW_S = 30
_ABOUT = "oidc sign-in"
_ALGORITHMS = [*PUBLIC_ALGORITHMS, "RS384", "RS512", "PS256", "ES384"]
# What went wrong at the issuer, or on the way to it.
_FAILURES = (httpx.HTTPError, TimeoutError, ValueError, TypeError, KeyError, AttributeError, JoseError, RecursionError)


class SignInRefused(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Identity(Struct, frozen=True):
    issuer: str
    subject: str
    # None unless the issuer has verified it.
    email: str | None


class _Pending(Struct, frozen=True):
    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    until: float


class _Metadata(Struct, frozen=True):
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    issuer: str


class Oidc:
    def __init__(self, issuer: str, client_id: str, client_secret: str, sealer: Sealer) -> None:
        self.issuer, self._client_id, self._client_secret = issuer, client_id, client_secret
        self._sealer = sealer
        self._metadata: tuple[float, _Metadata] | None = None

    async def begin(self, redirect_uri: str) -> tuple[str, str]:
        """The issuer's URL to send the browser to, and the value of its cookie."""
        pending = _Pending(_random(), _random(), _random(), redirect_uri, time() + PENDING_S)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                metadata = await self._discover()
        except _FAILURES as exc:
            raise self._unavailable(exc) from exc
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid email profile",
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": _challenge(pending.verifier),
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in metadata.authorization_endpoint else "?"
        url = f"{metadata.authorization_endpoint}{separator}{urlencode(asked)}"
        return url, self._sealer.seal(msgspec.json.encode(pending), _ABOUT)

    async def finish(self, cookie: str, state: str, code: str) -> Identity:
        """The identity that signed in. Raises `SignInRefused`."""
        pending = self._opened(cookie)
        if pending.until < time() or not hmac.compare_digest(pending.state.encode(), state.encode()):
            raise SignInRefused("sign_in_expired")
        try:
            async with asyncio.timeout(TIMEOUT_S):
                claims = await self._exchange(pending, code)
        except _FAILURES as exc:
            raise self._unavailable(exc) from exc
        return self._identity(claims, pending)

    def _opened(self, cookie: str) -> _Pending:
        try:
            return msgspec.json.decode(self._sealer.open(cookie, _ABOUT), type=_Pending)
        except Exception as exc:
            raise SignInRefused("sign_in_expired") from exc

    async def _exchange(self, pending: _Pending, code: str) -> Mapping[str, Any]:
        metadata = await self._discover()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": pending.redirect_uri}
        form |= {"client_id": self._client_id, "code_verifier": pending.verifier}
        # In the body (client_secret_post): every issuer accepts it, and a public client has none.
        form |= {"client_secret": self._client_secret} if self._client_secret else {}
        answer = await _ask("POST", metadata.token_endpoint, form)
        keys = KeySet.import_key_set(await _ask("GET", metadata.jwks_uri))  # type: ignore[arg-type]
        return jwt.decode(str(answer["id_token"]), keys, algorithms=_ALGORITHMS).claims

    def _identity(self, claims: Mapping[str, Any], pending: _Pending) -> Identity:
        audience, expires_at, subject = claims.get("aud"), claims.get("exp"), claims.get("sub")
        named = audience if isinstance(audience, list) else [audience]
        is_for_us = self._client_id in named and claims.get("azp", self._client_id) == self._client_id
        is_current = isinstance(expires_at, int | float) and expires_at + SKEW_S > time()
        is_answer = hmac.compare_digest(str(claims.get("nonce")).encode(), pending.nonce.encode())
        is_ours = str(claims.get("iss")).rstrip("/") == self.issuer and isinstance(subject, str) and subject != ""
        if not (is_for_us and is_current and is_answer and is_ours):
            log.warning("oidc_token_refused", audience=is_for_us, time=is_current, nonce=is_answer, issuer=is_ours)
            raise SignInRefused("identity_refused")
        email = claims.get("email") if claims.get("email_verified") is True else None
        return Identity(self.issuer, str(subject), email if isinstance(email, str) else None)

    async def _discover(self) -> _Metadata:
        if self._metadata is not None and monotonic() - self._metadata[0] < METADATA_S:
            return self._metadata[1]
        found = await _ask("GET", f"{self.issuer}/.well-known/openid-configuration")
        metadata = msgspec.convert(found, _Metadata)
        if metadata.issuer.rstrip("/") != self.issuer:
            raise ValueError(f"the document is of {metadata.issuer}")
        self._metadata = monotonic(), metadata
        return metadata

    def _unavailable(self, exc: Exception) -> SignInRefused:
        log.warning("oidc_issuer_failed", issuer=self.issuer, error=repr(exc))
        return SignInRefused("issuer_unavailable")


async def _ask(method: str, url: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    content = bytearray()
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with (
        httpx.AsyncClient(timeout=TIMEOUT_S) as client,
        client.stream(method, url, data=form, headers=headers) as answer,
    ):
        answer.raise_for_status()
        async for chunk in answer.aiter_raw():
            content += chunk
            if len(content) > MAX_BYTES:
                raise ValueError(f"the answer has more than {MAX_BYTES} bytes")
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("the answer is not a JSON object")  # noqa: TRY004 - it is about the content
    return found


def _random() -> str:
    return secrets.token_urlsafe(32)


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
