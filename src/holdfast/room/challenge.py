"""Proof of work by ALTCHA: joining a room, or buying where there is none, costs some computation.

The model. A challenge asks for the number, below an undisclosed limit, whose key (PBKDF2 of number and salt) starts
with a given prefix. The server drew the number, so the work is bounded, and the signed challenge carries a signature of
the whole key: a client that presents the key has found the number, and verifying that costs the server one hash instead
of one attempt. A challenge is made for one sale, expires after two minutes, and belongs to the buyer who requested it.
One requested without a token belongs to the buyer who spends it first.

Invariants. A challenge is spent by one buyer, once, across all processes and restarts. Verifying anything that is not
signed by one of our keys costs at most one hash.

What happens when it fails. Spent challenges are stored in the ledger; while it is unavailable nobody joins, and nothing
is spent. A buyer whose answer was lost sends the same proof again and is recognised (`REPEATED`): they keep the place
they have, if any, and never get a second one.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from time import monotonic, time
from typing import Any

import altcha
from msgspec import Struct

from holdfast.domain.sale.price import ROUNDS, Demand, attempts_for
from holdfast.domain.sale.sale import Sale
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.challenges import Spending, Spent, spend, spender_of
from holdfast.room.captcha import LIFE_S as CAPTCHA_LIFE_S
from holdfast.room.captcha import CaptchaVerifier, Verified, id_of, token_of
from holdfast.runtime.batching import ONE_QUEUE, KeyedBatcher

ALGORITHM = "PBKDF2/SHA-256"
LIFE_S = 120
# The number is at least the limit divided by this, so that it is never found immediately.
LEAST_PART = 4
SPENT_TOGETHER_MAX = 256
# As many joins as may wait for one room.
SPENDINGS_MAX = 8_192
# Proofs of buyers who came while the store was away.
UNSPENT_MAX = 200_000
DEMANDS_MAX = 10_000
PROOF_MAX = 4_096
# Levels of challenges. The harder one costs several times as much as the usual one, up to the same cap, and at least as
# much as this many attempts.
USUAL, HARDER = 1, 2
HARDER_TIMES, HARDER_LEAST = 8, 800


class Entry(StrEnum):
    """The result of checking a proof, in order of precedence."""

    NOT_ASKED = "not_asked"
    MISSING = "missing"
    # A captcha is required, and this is a puzzle.
    CAPTCHA_ASKED = "captcha_asked"
    # The captcha service did not answer: a puzzle is accepted instead.
    UNVERIFIED = "unverified"
    INVALID = "invalid"
    EXPIRED = "expired"
    # Made for another sale, or for another buyer.
    FOREIGN = "foreign"
    # Of a lower level than this buyer needs.
    TOO_EASY = "too_easy"
    SPENT = "spent"
    # Spent before by the same buyer.
    REPEATED = "repeated"
    ADMITTED = "admitted"


class Secret(Struct, frozen=True):
    """The two secrets that ALTCHA needs, derived from one signing key."""

    challenge: bytes
    key: bytes


class _Proven(Struct, frozen=True):
    """A proof to be spent."""

    challenge_id: str
    expires_at: int


def secrets_from(signing_keys: Sequence[str]) -> list[Secret]:
    return [Secret(_derive(key, b"challenge"), _derive(key, b"challenge key")) for key in signing_keys]


def _derive(signing_key: str, purpose: bytes) -> bytes:
    return hmac.new(signing_key.encode(), b"holdfast " + purpose, hashlib.sha256).digest()


class Challenges:
    def __init__(
        self,
        database: Database,
        signing_secrets: Sequence[Secret],
        captcha: CaptchaVerifier | None = None,
        *,
        is_captcha_required: bool = False,
    ) -> None:
        """The first secret signs, all of them verify. With `captcha`, its tokens are accepted as proofs too."""
        self._secrets = signing_secrets
        self.captcha, self._is_captcha_required = captcha, is_captcha_required
        self._database = database
        self._spendings: KeyedBatcher[Spending, Entry] = KeyedBatcher(
            self._spend, batch_max=SPENT_TOGETHER_MAX, queue_max=SPENDINGS_MAX
        )
        self._demand: dict[str, Demand] = {}
        self._unspent: dict[str, str] = {}
        # Creating one costs an attempt, which releases the interpreter lock, so the event loop is not blocked.
        self._maker = ThreadPoolExecutor(1, "challenges")

    async def make(self, sale: Sale, buyer_id: str | None, level: int = USUAL) -> dict[str, Any]:
        """A new challenge for a sale that requires proof, in ALTCHA's format. Harder ones exist for every sale."""
        demand = self._demand.get(sale.sale_id, Demand()).per_second(monotonic())
        attempts = attempts_for(_cost(sale, level), demand, sale.room.rate_per_second)
        made_for: dict[str, Any] = {"sale": sale.sale_id, "buyer": _mark(buyer_id)}
        if level != USUAL:
            made_for["level"] = level
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._maker, self._make, made_for, attempts)

    def _note(self, sale_id: str) -> None:
        if len(self._demand) >= DEMANDS_MAX:
            self._demand.clear()
        self._demand.setdefault(sale_id, Demand()).note(monotonic())

    def _make(self, made_for: dict[str, Any], attempts: int) -> dict[str, Any]:
        least = attempts // LEAST_PART
        made = altcha.create_challenge(
            ALGORITHM,
            ROUNDS,
            counter=least + secrets.randbelow(attempts - least),
            expires_at=int(time()) + LIFE_S,
            data=made_for,
            hmac_secret=self._secrets[0].challenge,
            hmac_key_secret=self._secrets[0].key,
        )
        return made.to_dict()

    async def check(
        self, sale: Sale, buyer_id: str, proof: str | None, key: str | None = None, level: int = USUAL
    ) -> Entry:
        """Whether this proof admits this buyer. If so, it is spent now. With a key, it admits every request under the
        same key."""
        proven = await self._prove(sale, buyer_id, proof, level)
        if isinstance(proven, Entry):
            return proven
        spending = Spending(proven.challenge_id, sale.sale_id, buyer_id, _claim(key), proven.expires_at)
        return await self._spendings.submit(ONE_QUEUE, spending)

    async def check_unspent(self, sale: Sale, buyer_id: str, proof: str | None, level: int = USUAL) -> Entry:
        """As `check`, without the store: nothing is spent, and `admits_unspent` decides."""
        proven = await self._prove(sale, buyer_id, proof, level, asks_store=False)
        return proven if isinstance(proven, Entry) else Entry.ADMITTED

    async def _prove(
        self, sale: Sale, buyer_id: str, proof: str | None, level: int, *, asks_store: bool = True
    ) -> _Proven | Entry:
        if sale.proof_of_work is None and level == USUAL:
            return Entry.NOT_ASKED
        if not proof:
            return Entry.MISSING
        token = None if self.captcha is None else token_of(proof)
        if token is not None:
            return await self._prove_by_captcha(buyer_id, token, asks_store=asks_store)
        if self._is_captcha_required and self.captcha is not None and self.captcha.breaker.is_closed:
            return Entry.CAPTCHA_ASKED
        payload = _read(proof)
        if payload is None:
            return Entry.INVALID
        entry = self._verify(payload, sale.sale_id, buyer_id, level)
        if entry is not Entry.ADMITTED:
            return entry
        expires_at = payload.challenge.parameters.expires_at
        assert expires_at is not None
        return _Proven(str(payload.challenge.signature), expires_at * 1000)

    async def _prove_by_captcha(self, buyer_id: str, token: str, *, asks_store: bool) -> _Proven | Entry:
        assert self.captcha is not None
        verified, id_ = await self.captcha.verify(token), id_of(token)
        if verified is Verified.YES:
            self._keep_unspent(id_, buyer_id)
        elif verified is not Verified.USED:
            return Entry.INVALID if verified is Verified.NO else Entry.UNVERIFIED
        elif self._unspent.get(id_) != buyer_id and not (asks_store and await self._is_spender(id_, buyer_id)):
            return Entry.SPENT
        return _Proven(id_, int(time() + CAPTCHA_LIFE_S) * 1000)

    async def _is_spender(self, id_: str, buyer_id: str) -> bool:
        """Whether this buyer's token was verified before, and the answer may have been lost."""
        return await self._database.read(lambda connection: spender_of(connection, id_)) == buyer_id

    def _keep_unspent(self, id_: str, buyer_id: str) -> str:
        if len(self._unspent) >= UNSPENT_MAX:
            self._unspent.pop(next(iter(self._unspent)))
        return self._unspent.setdefault(id_, buyer_id)

    def admits_unspent(self, proof: str | None, buyer_id: str) -> bool:
        """For a proof that was verified while the store is away: it admits one buyer in each process."""
        token = None if proof is None or self.captcha is None else token_of(proof)
        if token is not None:
            # Kept when it was verified.
            return self._unspent.get(id_of(token)) == buyer_id
        payload = None if proof is None else _read(proof)
        if payload is None:
            return proof is None
        return self._keep_unspent(str(payload.challenge.signature), buyer_id) == buyer_id

    async def _spend(self, _queue: str, spendings: Sequence[Spending], /) -> list[Entry]:
        spent = await self._database.write(lambda connection: spend(connection, spendings))
        for sale_id in {s.challenge_id: s.sale_id for s in spendings if spent[s.challenge_id].is_new}.values():
            self._note(sale_id)
        return [_entry(spending, spent[spending.challenge_id]) for spending in spendings]

    def _verify(self, payload: altcha.Payload, sale_id: str, buyer_id: str, level: int = USUAL) -> Entry:
        results = [_verified(payload, secret) for secret in self._secrets]
        if any(result.expired for result in results):
            return Entry.EXPIRED
        if not any(result.verified for result in results):
            return Entry.INVALID
        data = payload.challenge.parameters.data or {}
        if data.get("sale") != sale_id or data.get("buyer") not in ("", _mark(buyer_id)):
            return Entry.FOREIGN
        return Entry.ADMITTED if data.get("level", USUAL) >= level else Entry.TOO_EASY

    def close(self) -> None:
        self._maker.shutdown(wait=False)


def _cost(sale: Sale, level: int) -> int:
    cost = 0 if sale.proof_of_work is None else sale.proof_of_work.cost
    return cost if level == USUAL else max(cost * HARDER_TIMES, HARDER_LEAST)


def _mark(buyer_id: str | None) -> str:
    """A hash of the buyer ID, so that a challenge does not disclose it."""
    return "" if buyer_id is None else hashlib.sha256(buyer_id.encode()).hexdigest()[:32]


def _read(proof: str) -> altcha.Payload | None:
    if len(proof) > PROOF_MAX:
        return None
    try:
        payload = altcha.Payload.from_base64(proof)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return payload if isinstance(payload.challenge.parameters.expires_at, int) else None


def _verified(payload: altcha.Payload, secret: Secret) -> altcha.VerifySolutionResult:
    try:
        return altcha.verify_solution(payload, secret.challenge, hmac_key_secret=secret.key)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return altcha.VerifySolutionResult(False, True, True, 0.0, verified=False)


def _claim(key: str | None) -> int:
    if key is None:
        return secrets.randbits(62)
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) >> 2


def _entry(spending: Spending, spent: Spent) -> Entry:
    if spent.buyer_id != spending.buyer_id:
        return Entry.SPENT
    return Entry.ADMITTED if spent.claim == spending.claim else Entry.REPEATED
