"""Authenticates a caller: a service key, a console session, or a buyer with a JWT.

The server's settings determine the algorithms, never the token: a shared secret only allows HS256, and a JWKS URL only
allows the public-key algorithms below. An authenticated caller is cached by the exact header, for a few seconds. If the
shared secret signed its token, it is cached until the token expires, because that secret does not change while a server
runs. A request is authenticated when it arrives, however long its body takes.

A key or session that can be revoked is looked up again for every request, so that every server refuses it from the next
request on. Requests that arrive together share one read.
"""

import asyncio
import hmac
import json
import re
from collections.abc import Sequence
from math import inf
from time import monotonic, time
from typing import Any

import httpx
import structlog
from joserfc import jws, jwt
from joserfc.errors import JoseError, MissingClaimError
from joserfc.jwk import KeySet, OctKey
from msgspec import Struct
from sqlalchemy import Connection

from holdfast.access.console_sessions import SCHEME as SESSION
from holdfast.access.console_sessions import Sessions
from holdfast.access.quick_tokens import QuickTokens
from holdfast.errors import Unavailable
from holdfast.ledger.access.console_sessions import is_standing_session
from holdfast.ledger.access.keys import EVERY_SCOPE, Scope, find_key, is_standing_key
from holdfast.ledger.engine.database import Database
from holdfast.runtime.batching import ONE_QUEUE, KeyedBatcher

log = structlog.get_logger()

REMEMBERED_S = 5.0
# Keys and sessions that one read looks up again.
CHECKS_MAX, QUEUE_MAX = 1_024, 65_536
REMEMBERED_MAX = 50_000
# The longest tokens in use (RS256, a few claims) have about 1.5 KiB. Longer headers are not cached.
REMEMBERED_HEADER_MAX = 4096
# For all headers together: enough for 50,000 usual tokens.
REMEMBERED_BYTES = 32 * 1024**2
SKEW_S = 30
PUBLIC_ALGORITHMS = ["RS256", "ES256", "EdDSA", "Ed25519"]
JWKS_REFRESH_S = 300.0
# An unknown key ID may mean that keys were rotated. Many forged ones must not cause many fetches, and an outage must
# not make every request wait.
JWKS_RETRY_S = 10.0
# The longest a request waits for keys, including connecting and reading. It only waits if no known key matches.
JWKS_TIMEOUT_S = 3.0
# Some hundred keys; most publishers have two.
JWKS_MAX_BYTES = 64 * 1024
# Buyers' tokens are made for a few visits. A token that is valid for more than a month is a mistake, and a risk if
# stolen, so it is refused.
MAX_TOKEN_LIFE_S = 30 * 24 * 3600
MAX_BUYER_ID = 200
# Far beyond any real time, and small enough for arithmetic.
LATEST = 2**53
# Other tokens signed with the same keys (refresh tokens, ID tokens for others, our receipts) are not buyers' tokens.
TOKEN_TYPES = frozenset({"jwt", "at+jwt"})
_CUSTOMER = re.compile(r"cus_[A-Za-z0-9]{1,100}")


class Caller(Struct, frozen=True):
    """`buyer_id` is only set for buyers. Services have scopes instead."""

    scopes: frozenset[Scope] = frozenset()
    buyer_id: str | None = None
    tier: int = 0
    # What makes a service revocable: its key, its console session. The admin key has neither.
    key_id: str | None = None
    session_id: str | None = None
    is_legacy: bool = False
    # For a service: the name of its key or its operator. The admin key has none.
    name: str | None = None
    operator_id: str | None = None
    # Stripe's ID of the buyer as a customer, whose saved cards may be charged.
    stripe_customer: str | None = None
    # When the buyer's account was created, in seconds since 1970, according to their token.
    account_created_at: int | None = None
    # The ID of a buyer's token (`jti`), by which it can be revoked.
    token_id: str | None = None

    @property
    def is_revocable(self) -> bool:
        return self.key_id is not None or self.session_id is not None

    @property
    def shown_name(self) -> str:
        """The actor to record for a service."""
        if self.operator_id is None and self.name is not None:
            return f"key {self.name}"
        return self.name or "the admin key"


class Unauthorized(Exception):
    """The credentials are missing or invalid. The message tells the caller why."""


class _Known(Struct, frozen=True):
    caller: Caller
    until: float
    # By the wall clock, which may be set, and which continues while the machine is suspended.
    expires_at: float


class BuyerKeys:
    """The keys that verify buyers' tokens: one shared secret, or a published set."""

    def __init__(self, secret: str, jwks_url: str, audience: str = "", issuer: str = "") -> None:
        self._jwks_url = jwks_url
        self.are_published = jwks_url != ""
        self._audience, self._issuer = audience, issuer
        self.algorithms = PUBLIC_ALGORITHMS if jwks_url else ["HS256"]
        self._keys: OctKey | KeySet = KeySet([]) if jwks_url else OctKey.import_key(secret)
        self.quick = None if jwks_url else QuickTokens(secret, SKEW_S)
        self._fetched = self._tried = float("-inf")
        self._fetching = asyncio.Lock()
        self._refresh: asyncio.Task[None] | None = None

    def check_origin(self, audience: object, issuer: object) -> None:
        """Refuses tokens that the same keys signed for other audiences."""
        named = audience if isinstance(audience, list) else [audience]
        if self._audience and self._audience not in named:
            raise Unauthorized("The token's `aud` does not name this service.")
        if self._issuer and issuer != self._issuer:
            raise Unauthorized("The token's `iss` is not the issuer of buyers' tokens.")

    async def identify(self, token: str) -> tuple[Caller, float]:
        """The buyer of a token, and its remaining validity in seconds. Raises `Unauthorized`."""
        now, quick = time(), self.quick
        known = None if quick is None else quick.read(token, now)
        if known is not None:
            self.check_origin(known.aud, known.iss)
            exp = known.exp
            buyer = _buyer_from(known.sub, known.tier, known.stripe_customer, known.account_created_at, known.jti)
        else:
            claims = await self._claims(token)
            self.check_origin(claims.get("aud"), claims.get("iss"))
            exp = claims["exp"]
            others = (claims.get("stripe_customer"), claims.get("account_created_at"), claims.get("jti"))
            buyer = _buyer_from(claims["sub"], claims.get("tier", 0), *others)
        lifetime_s = exp + SKEW_S - now
        if lifetime_s > MAX_TOKEN_LIFE_S + SKEW_S:
            raise Unauthorized(f"The token's `exp` is more than {MAX_TOKEN_LIFE_S // 86_400} days ahead.")
        return buyer, lifetime_s

    async def _claims(self, token: str) -> dict[str, Any]:
        try:
            keys = await self.keys_for(token)
            decoded = jwt.decode(token, keys, algorithms=self.algorithms)
            claims = decoded.claims
            _CLAIMS.validate(claims)
            # An integer of any length is a valid JSON number, but may be too large for a float.
            float(claims["exp"])
        except MissingClaimError as exc:
            raise Unauthorized(f"The token has no `{exc.claim}`; it needs `sub` (the buyer) and `exp`.") from exc
        except (JoseError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as exc:
            raise Unauthorized("This token is not valid: wrong signature, expired, or not a token.") from exc
        kind = decoded.header.get("typ", "JWT")
        if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in TOKEN_TYPES:
            raise Unauthorized("The token's `typ` is not that of an access token.")
        if self.quick is not None:
            self.quick.learn(token)
        return claims

    async def keys_for(self, token: str) -> OctKey | KeySet:
        if self._jwks_url and self._may_try():
            if not self._has_key_of(token):
                await self._fetch()
            elif monotonic() - self._fetched > JWKS_REFRESH_S and not self._fetching.locked():
                # The known keys stay valid, so no request waits for newer ones.
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
            # Concurrent requests share one fetch, so that they wait for an outage only once.
            if self._tried < asked:
                await self._try_to_fetch()
        if self._fetched == float("-inf"):
            raise Unavailable("the keys of buyers' tokens cannot be fetched")

    async def _try_to_fetch(self) -> None:
        try:
            # httpx only limits each step, which does not stop a server that sends one byte at a time.
            async with asyncio.timeout(JWKS_TIMEOUT_S), httpx.AsyncClient(timeout=JWKS_TIMEOUT_S) as client:
                content = await _download(client, self._jwks_url)
            self._keys = KeySet.import_key_set(json.loads(content))
            self._fetched = monotonic()
        except (httpx.HTTPError, TimeoutError, ValueError, TypeError, KeyError, AttributeError, JoseError) as exc:
            log.warning("buyer_keys_not_fetched", error=repr(exc))
        finally:
            self._tried = monotonic()


async def _download(client: httpx.AsyncClient, url: str) -> bytes:
    """Reads a limited size, without decompression: a small response could unpack to gigabytes."""
    content = bytearray()
    async with client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
        answer.raise_for_status()
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise ValueError("the answer is encoded, which was not asked for")
        async for chunk in answer.aiter_raw():
            content += chunk
            if len(content) > JWKS_MAX_BYTES:
                raise ValueError(f"the answer has more than {JWKS_MAX_BYTES} bytes")
    return bytes(content)


class Authenticator:
    def __init__(self, database: Database, service_key: str, buyer_keys: BuyerKeys) -> None:
        self._database = database
        self.sessions = Sessions(database, service_key)
        self._service_key, self._service_length = service_key.encode(), len("bearer ") + len(service_key)
        self._buyer_keys = buyer_keys
        self._known: dict[str, _Known] = {}
        self._known_bytes = 0
        # One round trip on PostgreSQL. On SQLite a lock-free read would wait for the writer.
        self._look = database.lock_free_read if database.dialect_name == "postgresql" else database.read
        self._checks: KeyedBatcher[Caller, bool] = KeyedBatcher(self._check, batch_max=CHECKS_MAX, queue_max=QUEUE_MAX)

    def recognise(self, authorization: str | None) -> Caller | None:
        """The caller, if this exact header was accepted a moment ago, or has the admin key. Needs no store."""
        if authorization is None:
            return None
        known = self._known.get(authorization)
        if known is not None and known.until > monotonic() and known.expires_at > time():
            return known.caller
        # The key's length is no secret, and checking it first spares buyers the comparison.
        if len(authorization) != self._service_length:
            return None
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(token.encode(), self._service_key):
            return self._remember(authorization, Caller(EVERY_SCOPE), REMEMBERED_S)
        return None

    async def is_still_valid(self, authorization: str, caller: Caller) -> bool:
        """Looks up again a recognised caller that can be revoked."""
        is_valid = await self._checks.submit(ONE_QUEUE, caller)
        if not is_valid:
            self.forget(authorization)
        return is_valid

    async def _check(self, _queue: str, callers: Sequence[Caller], /) -> list[bool]:
        keys, sessions = {caller.key_id for caller in callers}, {caller.session_id for caller in callers}

        def standing(connection: Connection) -> tuple[set[str | None], set[str | None]]:
            return (
                {id_ for id_ in keys if id_ is None or is_standing_key(connection, id_)},
                {id_ for id_ in sessions if id_ is None or is_standing_session(connection, id_)},
            )

        keys, sessions = await self._look(standing)
        return [caller.key_id in keys and caller.session_id in sessions for caller in callers]

    async def identify(self, authorization: str | None) -> Caller:
        if authorization is None:
            raise Unauthorized("Send `Authorization: Bearer …` with a service key or a buyer's token.")
        return self.recognise(authorization) or await self.look_up(authorization)

    async def look_up(self, authorization: str) -> Caller:
        """The caller of a header that is not cached. Raises `Unauthorized`."""
        scheme, _, token = authorization.partition(" ")
        if scheme == SESSION:
            return await self._session(authorization, token)
        # Padding is refused: with it, one token could be cached under any number of headers.
        if scheme.lower() != "bearer" or not token or token != token.strip():
            raise Unauthorized("Only `Authorization: Bearer …` is supported.")
        if token.startswith("hf_"):
            return self._remember(authorization, await self._service(token), REMEMBERED_S)
        buyer, lifetime_s = await self._buyer_keys.identify(token)
        # A published key may be withdrawn.
        seconds = min(lifetime_s, REMEMBERED_S) if self._buyer_keys.are_published else lifetime_s
        return self._remember(authorization, buyer, seconds, time() + lifetime_s)

    def _remember(self, authorization: str, caller: Caller, seconds: float, expires_at: float = inf) -> Caller:
        if len(authorization) > REMEMBERED_HEADER_MAX:
            return caller
        if len(self._known) >= REMEMBERED_MAX or self._known_bytes + len(authorization) > REMEMBERED_BYTES:
            self._known.clear()
            self._known_bytes = 0
        if authorization not in self._known:
            self._known_bytes += len(authorization)
        self._known[authorization] = _Known(caller, monotonic() + seconds, expires_at)
        return caller

    async def _service(self, token: str) -> Caller:
        key = await self._database.read(lambda connection: find_key(connection, token))
        if key is None:
            raise Unauthorized("This service key is unknown or was revoked.")
        return Caller(key.scopes, key_id=key.key_id, is_legacy=key.is_legacy, name=key.name)

    async def _session(self, authorization: str, token: str) -> Caller:
        session = await self.sessions.find(token)
        if session is None:
            raise Unauthorized("This session has ended. Sign in again.")
        caller = Caller(
            session.scopes,
            key_id=session.key_id,
            session_id=session.session_id,
            is_legacy=session.is_legacy,
            name=session.name,
            operator_id=session.operator_id,
        )
        return self._remember(authorization, caller, min(session.left_s, REMEMBERED_S))

    def forget(self, authorization: str) -> None:
        if self._known.pop(authorization, None) is not None:
            self._known_bytes -= len(authorization)


_CLAIMS = jwt.JWTClaimsRegistry(leeway=SKEW_S, exp={"essential": True}, sub={"essential": True})


def _buyer_from(subject: object, tier: object, customer: object, made_at: object, jti: object) -> Caller:
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_BUYER_ID or not subject.isprintable():
        raise Unauthorized("The token's `sub` must be a printable text of 1 to 200 characters.")
    if not isinstance(tier, int) or isinstance(tier, bool):
        raise Unauthorized("The token's `tier` must be an integer.")
    if customer is not None and not (isinstance(customer, str) and _CUSTOMER.fullmatch(customer)):
        raise Unauthorized("The token's `stripe_customer` must be Stripe's ID of a customer, as in cus_….")
    if made_at is not None and (not isinstance(made_at, int) or isinstance(made_at, bool) or abs(made_at) > LATEST):
        raise Unauthorized("The token's `account_created_at` must be an integer, in seconds since 1970.")
    token_id = jti if isinstance(jti, str) else None
    return Caller(buyer_id=subject, tier=tier, stripe_customer=customer, account_created_at=made_at, token_id=token_id)
