"""Proof of work, by ALTCHA: a price for joining.

The model. A challenge says: find the number, below a limit you are not told, whose key (PBKDF2 of number and salt)
begins like this. The number was drawn here, so the work is bounded, and the signed challenge carries a signature of the
whole key: whoever shows the key has found the number, and to see that costs us one hash, not one attempt. A challenge
is made for one sale, lives for two minutes, and belongs to the buyer who asked for it. Whoever asked without a token
gets one that belongs to nobody yet; it becomes the buyer's who spends it first.

The invariants: a challenge is spent by one buyer, once, whichever process is asked and whatever was restarted since;
nothing that is not signed by one of our keys costs more than a hash.

What happens when it fails. Spent ones are kept in the ledger; if that is away nobody joins, and nothing is spent. A
buyer whose answer was lost sends the same proof again, and is recognised (`REPEATED`): the place they have, if any, is
theirs. To give a second place for it would be wrong.
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

from holdfast.domain.price import ROUNDS, Demand, attempts_for
from holdfast.domain.sale import Sale
from holdfast.ledger.challenges import Spending, spend
from holdfast.ledger.database import Database

ALGORITHM = "PBKDF2/SHA-256"
LIFE_S = 120
# The least part of the limit at which the number is: nobody is lucky at once.
LEAST_PART = 4
SPENT_TOGETHER_MAX = 256
DEMANDS_MAX = 10_000
PROOF_MAX = 4_096


class Entry(StrEnum):
    """What a proof is worth, in order of precedence."""

    NOT_ASKED = "not_asked"
    MISSING = "missing"
    INVALID = "invalid"
    EXPIRED = "expired"
    # Made for another sale, or for another buyer.
    FOREIGN = "foreign"
    SPENT = "spent"
    # By the same buyer, before.
    REPEATED = "repeated"
    ADMITTED = "admitted"


class Secret(Struct, frozen=True):
    """The two secrets that ALTCHA wants, made from one signing key."""

    challenge: bytes
    key: bytes


def secrets_from(signing_keys: Sequence[str]) -> list[Secret]:
    return [Secret(_derive(key, b"challenge"), _derive(key, b"challenge key")) for key in signing_keys]


def _derive(signing_key: str, purpose: bytes) -> bytes:
    return hmac.new(signing_key.encode(), b"holdfast " + purpose, hashlib.sha256).digest()


class Challenges:
    def __init__(self, database: Database, signing_secrets: Sequence[Secret]) -> None:
        """The first secret signs, all of them are believed."""
        self._secrets = signing_secrets
        self._spender = _Spender(database)
        self._demand: dict[str, Demand] = {}
        # Making one costs an attempt, for which the interpreter lock is let go; the event loop goes on meanwhile.
        self._maker = ThreadPoolExecutor(1, "challenges")

    async def make(self, sale: Sale, buyer_id: str | None) -> dict[str, Any]:
        """A new challenge for a sale that asks for proof, as ALTCHA's clients read it."""
        assert sale.proof_of_work is not None
        attempts = attempts_for(sale.proof_of_work.cost, self._note(sale.sale_id), sale.room.rate_per_second)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._maker, self._make, sale.sale_id, _mark(buyer_id), attempts)

    def _note(self, sale_id: str) -> float:
        if len(self._demand) >= DEMANDS_MAX:
            self._demand.clear()
        return self._demand.setdefault(sale_id, Demand()).note(monotonic())

    def _make(self, sale_id: str, mark: str, attempts: int) -> dict[str, Any]:
        least = attempts // LEAST_PART
        made = altcha.create_challenge(
            ALGORITHM,
            ROUNDS,
            counter=least + secrets.randbelow(attempts - least),
            expires_at=int(time()) + LIFE_S,
            data={"sale": sale_id, "buyer": mark},
            hmac_secret=self._secrets[0].challenge,
            hmac_key_secret=self._secrets[0].key,
        )
        return made.to_dict()

    async def check(self, sale: Sale, buyer_id: str, proof: str | None) -> Entry:
        """Whether this buyer may come in by this proof; if so, it is spent now."""
        if sale.proof_of_work is None:
            return Entry.NOT_ASKED
        if not proof:
            return Entry.MISSING
        payload = _read(proof)
        if payload is None:
            return Entry.INVALID
        entry = self._verify(payload, sale.sale_id, buyer_id)
        if entry is not Entry.ADMITTED:
            return entry
        parameters, signature = payload.challenge.parameters, payload.challenge.signature
        assert parameters.expires_at is not None
        claim, expires_at = secrets.randbits(62), parameters.expires_at * 1000
        return await self._spender.spend(Spending(str(signature), sale.sale_id, buyer_id, claim, expires_at))

    def _verify(self, payload: altcha.Payload, sale_id: str, buyer_id: str) -> Entry:
        results = [_verified(payload, secret) for secret in self._secrets]
        if any(result.expired for result in results):
            return Entry.EXPIRED
        if not any(result.verified for result in results):
            return Entry.INVALID
        data = payload.challenge.parameters.data or {}
        if data.get("sale") != sale_id or data.get("buyer") not in ("", _mark(buyer_id)):
            return Entry.FOREIGN
        return Entry.ADMITTED

    def close(self) -> None:
        self._maker.shutdown(wait=False)


def _mark(buyer_id: str | None) -> str:
    """Whom a challenge is for, without saying who that is."""
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


class _Waiting(Struct, eq=False):
    spending: Spending
    answer: "asyncio.Future[Entry]"


class _Spender:
    """Proofs that arrive while others are being written are written together, next."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def spend(self, spending: Spending) -> Entry:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Entry] = loop.create_future()
        self._waiting.append(_Waiting(spending, answer))
        if self._writing is None:
            self._writing = loop.create_task(self._write())
        return await answer

    async def _write(self) -> None:
        while self._waiting:
            together = self._waiting[:SPENT_TOGETHER_MAX]
            del self._waiting[:SPENT_TOGETHER_MAX]
            await self._write_together(together)
        self._writing = None

    async def _write_together(self, together: list[_Waiting]) -> None:
        spendings = [waiting.spending for waiting in together]
        try:
            owners = await self._database.write(lambda connection: spend(connection, spendings))
        except Exception as exc:
            for waiting in together:
                if not waiting.answer.done():
                    waiting.answer.set_exception(exc)
            return
        for waiting in together:
            if not waiting.answer.done():
                waiting.answer.set_result(_entry(waiting.spending, *owners[waiting.spending.challenge_id]))


def _entry(spending: Spending, buyer_id: str, claim: int) -> Entry:
    if buyer_id != spending.buyer_id:
        return Entry.SPENT
    return Entry.ADMITTED if claim == spending.claim else Entry.REPEATED
