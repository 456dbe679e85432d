"""Who is calling: a service key, or a buyer with a JWT.

Algorithms are fixed by how the server is set up and never by the token: a shared secret means HS256 and nothing else, a
JWKS address means the public-key algorithms below and nothing else. A caller once recognised is remembered for a few
seconds by the exact header, which is also how long a revoked key may still work; a request is let in or not when it
comes, however long its body takes.
"""

import asyncio
import hmac
from time import monotonic, time
from typing import Any

import httpx
import structlog
from joserfc import jws, jwt
from joserfc.errors import JoseError, MissingClaimError
from joserfc.jwk import KeySet, OctKey
from msgspec import Struct

from holdfast.errors import Unavailable
from holdfast.http.console.cookie import SCHEME as SESSION
from holdfast.http.console.sessions import Sessions
from holdfast.http.quick_tokens import QuickTokens
from holdfast.ledger.database import Database
from holdfast.ledger.keys import EVERY_SCOPE, Scope, find_key

log = structlog.get_logger()

REMEMBERED_S = 5.0
REMEMBERED_MAX = 50_000
# The longest tokens in use (RS256, a few claims) have about 1.5 KiB. What is longer is verified each time, so that what
# is remembered fits into a known part of memory whatever buyers send.
REMEMBERED_HEADER_MAX = 4096
SKEW_S = 30
PUBLIC_ALGORITHMS = ["RS256", "ES256", "EdDSA", "Ed25519"]
JWKS_REFRESH_S = 300.0
# An unknown key id may mean that keys were rotated; a flood of made-up ones must not become a flood of fetches, nor an
# outage one of waits.
JWKS_RETRY_S = 10.0
# A request may wait this long for keys, connecting and reading included, and only if there are none yet that could do.
JWKS_TIMEOUT_S = 3.0
# Buyers' tokens are made for a visit or a few. One that claims to last for longer than a month was made by mistake or
# outlives whatever it was stolen from; refusing it bounds both.
MAX_TOKEN_LIFE_S = 30 * 24 * 3600
MAX_BUYER_ID = 200


class Caller(Struct, frozen=True):
    """`buyer_id` is set for buyers only; services have scopes instead."""

    scopes: frozenset[Scope] = frozenset()
    buyer_id: str | None = None
    tier: int = 0


class Unauthorized(Exception):
    """The credentials are missing or not valid. The text says why, for the caller."""


class _Known(Struct, frozen=True):
    caller: Caller
    until: float


class BuyerKeys:
    """The keys buyers' tokens are verified with: one shared secret, or a published set."""

    def __init__(self, secret: str, jwks_url: str) -> None:
        self._jwks_url = jwks_url
        self.algorithms = PUBLIC_ALGORITHMS if jwks_url else ["HS256"]
        self._keys: OctKey | KeySet = KeySet([]) if jwks_url else OctKey.import_key(secret)
        self.quick = None if jwks_url else QuickTokens(secret, SKEW_S)
        self._fetched = self._tried = float("-inf")
        self._fetching = asyncio.Lock()
        self._refresh: asyncio.Task[None] | None = None

    async def keys_for(self, token: str) -> OctKey | KeySet:
        if self._jwks_url and self._may_try():
            if not self._has_key_of(token):
                await self._fetch()
            elif monotonic() - self._fetched > JWKS_REFRESH_S and not self._fetching.locked():
                # Keys that were good go on being good: nobody waits for newer ones, which may never come.
                self._refresh = asyncio.create_task(self._fetch())
        return self._keys

    def _may_try(self) -> bool:
        return self._fetched == float("-inf") or monotonic() - self._tried > JWKS_RETRY_S

    def _has_key_of(self, token: str) -> bool:
        assert isinstance(self._keys, KeySet)
        kid = jws.extract_compact(token.encode()).headers().get("kid")
        return any(key.kid == kid for key in self._keys.keys)

    async def _fetch(self) -> None:
        asked = monotonic()
        async with self._fetching:
            # Whoever waited while another tried shares what came of it, so that an outage is waited for once.
            if self._tried < asked:
                await self._try_to_fetch()
        if self._fetched == float("-inf"):
            raise Unavailable("the keys of buyers' tokens cannot be fetched")

    async def _try_to_fetch(self) -> None:
        try:
            # httpx limits each step; somebody who sends a byte now and then would never be cut off by that.
            async with asyncio.timeout(JWKS_TIMEOUT_S), httpx.AsyncClient(timeout=JWKS_TIMEOUT_S) as client:
                answer = (await client.get(self._jwks_url)).raise_for_status()
            self._keys = KeySet.import_key_set(answer.json())
            self._fetched = monotonic()
        except (httpx.HTTPError, TimeoutError, ValueError, TypeError, KeyError, AttributeError, JoseError) as exc:
            log.warning("buyer_keys_not_fetched", error=repr(exc))
        finally:
            self._tried = monotonic()


class Doorkeeper:
    def __init__(self, database: Database, service_key: str, buyer_keys: BuyerKeys) -> None:
        self._database = database
        self.sessions = Sessions(database, service_key)
        self._service_key = service_key.encode()
        self._buyer_keys = buyer_keys
        self._known: dict[str, _Known] = {}

    def recognise(self, authorization: str | None) -> Caller | None:
        """The caller, if this very header was accepted a moment ago. Costs a dictionary look-up."""
        known = self._known.get(authorization or "")
        return known.caller if known is not None and known.until > monotonic() else None

    async def identify(self, authorization: str | None) -> Caller:
        if authorization is None:
            raise Unauthorized("Send `Authorization: Bearer …` with a service key or a buyer's token.")
        caller = self.recognise(authorization)
        if caller is not None:
            return caller
        scheme, _, token = authorization.partition(" ")
        if scheme == SESSION:
            return await self._session(authorization, token)
        # Padding is refused: with it, one token would be remembered under any number of headers.
        if scheme.lower() != "bearer" or not token or token != token.strip():
            raise Unauthorized("Only `Authorization: Bearer …` is understood.")
        if token.startswith("hf_"):
            return self._remember(authorization, await self._service(token), REMEMBERED_S)
        buyer, lifetime_s = await self._buyer(token)
        return self._remember(authorization, buyer, min(lifetime_s, REMEMBERED_S))

    def _remember(self, authorization: str, caller: Caller, seconds: float) -> Caller:
        if len(authorization) > REMEMBERED_HEADER_MAX:
            return caller
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[authorization] = _Known(caller, monotonic() + seconds)
        return caller

    async def _service(self, token: str) -> Caller:
        if hmac.compare_digest(token.encode(), self._service_key):
            return Caller(EVERY_SCOPE)
        key = await self._database.read(lambda connection: find_key(connection, token))
        if key is None:
            raise Unauthorized("This service key is not known, or was revoked.")
        return Caller(key.scopes)

    async def _session(self, authorization: str, token: str) -> Caller:
        session = await self.sessions.find(token)
        if session is None:
            raise Unauthorized("This session is over. Sign in again.")
        return self._remember(authorization, Caller(session.scopes), min(session.left_s, REMEMBERED_S))

    def forget(self, authorization: str) -> None:
        """Here at once; other processes within seconds."""
        self._known.pop(authorization, None)

    async def _buyer(self, token: str) -> tuple[Caller, float]:
        now, quick = time(), self._buyer_keys.quick
        known = None if quick is None else quick.read(token, now)
        if known is not None:
            exp, subject, tier = known.exp, known.sub, known.tier
        else:
            claims = await self._claims(token)
            exp, subject, tier = claims["exp"], claims["sub"], claims.get("tier", 0)
        lifetime_s = exp + SKEW_S - now
        if lifetime_s > MAX_TOKEN_LIFE_S + SKEW_S:
            raise Unauthorized(f"The token's `exp` is more than {MAX_TOKEN_LIFE_S // 86_400} days ahead.")
        return _buyer_from(subject, tier), lifetime_s

    async def _claims(self, token: str) -> dict[str, Any]:
        try:
            keys = await self._buyer_keys.keys_for(token)
            claims = jwt.decode(token, keys, algorithms=self._buyer_keys.algorithms).claims
            _CLAIMS.validate(claims)
            # An integer of any length is a time, but not one that can be reckoned with.
            float(claims["exp"])
        except MissingClaimError as exc:
            raise Unauthorized(f"The token has no `{exc.claim}`; it needs `sub` (the buyer) and `exp`.") from exc
        except (JoseError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as exc:
            raise Unauthorized("This token is not valid: wrong signature, expired, or not a token.") from exc
        if self._buyer_keys.quick is not None:
            self._buyer_keys.quick.learn(token)
        return claims


_CLAIMS = jwt.JWTClaimsRegistry(leeway=SKEW_S, exp={"essential": True}, sub={"essential": True})


def _buyer_from(subject: object, tier: object) -> Caller:
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_BUYER_ID or not subject.isprintable():
        raise Unauthorized("The token's `sub` must be a printable text of 1 to 200 characters.")
    if not isinstance(tier, int) or isinstance(tier, bool):
        raise Unauthorized("The token's `tier` must be an integer.")
    return Caller(buyer_id=subject, tier=tier)
