"""Proof of work: for one sale and one buyer, for a short time, once (FAULTS 21)."""

import asyncio
import base64
import json
import time
from dataclasses import dataclass
from typing import Any

import altcha
import pytest
from msgspec.structs import replace

from holdfast.domain.sale.price import MOST_ATTEMPTS
from holdfast.domain.sale.sale import Checkout, PaymentKind, ProofOfWork, Room, Sale
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.challenges import prune_spent
from holdfast.room import challenge as challenge_module
from holdfast.room.challenge import LIFE_S, Challenges, Entry, secrets_from

KEY, OLD_KEY, FOREIGN_KEY = "k" * 32, "o" * 32, "f" * 32


def sale(sale_id: str = "drop", cost: int | None = 8) -> Sale:
    work = None if cost is None else ProofOfWork(cost)
    return Sale(
        sale_id=sale_id, sku_id=sale_id, name="Drop", price_amount=1, currency="EUR", starts_at=0,
        checkout=Checkout.CART, payment=PaymentKind.WALLET, proof_of_work=work,
    )  # fmt: skip


def solve(given: dict[str, Any]) -> str:
    challenge = altcha.Challenge.from_dict(given)
    solution = altcha.solve_challenge(challenge)
    assert solution is not None
    return altcha.Payload(challenge, solution).to_base64()


def tampered(proof: str, *path: str, value: object) -> str:
    payload = json.loads(base64.b64decode(proof))
    inner = payload
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return base64.b64encode(json.dumps(payload).encode()).decode()


@dataclass(frozen=True)
class Door:
    challenges: Challenges

    async def proof(self, buyer_id: str | None = "ada", of: Sale | None = None) -> str:
        return solve(await self.challenges.make(of or sale(), buyer_id))

    async def enter(self, proof: str | None, buyer_id: str = "ada", into: Sale | None = None) -> Entry:
        return await self.challenges.check(into or sale(), buyer_id, proof)


@pytest.fixture
def door(database: Database) -> Door:
    return Door(Challenges(database, secrets_from([KEY, OLD_KEY])))


async def test_a_sale_without_proof_of_work_asks_for_none(door: Door) -> None:
    assert await door.enter(None, into=sale(cost=None)) is Entry.NOT_ASKED


async def test_a_proof_admits_its_buyer_once_and_a_repeat_is_known_for_one(door: Door) -> None:
    proof = await door.proof()
    assert await door.enter(proof) is Entry.ADMITTED
    assert await door.enter(proof) is Entry.REPEATED


async def test_a_proof_of_nobody_belongs_to_the_first_buyer_who_spends_it(door: Door) -> None:
    proof = await door.proof(None)
    assert await door.enter(proof, "eve") is Entry.ADMITTED
    assert await door.enter(proof, "ada") is Entry.SPENT


async def test_a_spent_proof_stays_spent_in_other_processes_and_after_a_restart(door: Door, database: Database) -> None:
    proof = await door.proof(None)
    await door.enter(proof, "eve")
    restarted = Door(Challenges(database, secrets_from([KEY])))
    assert await restarted.enter(proof, "ada") is Entry.SPENT


async def test_of_many_who_spend_one_proof_at_once_one_is_admitted(door: Door, database: Database) -> None:
    proof = await door.proof(None)
    other = Door(Challenges(database, secrets_from([KEY])))
    entries = await asyncio.gather(*[(door, other)[n % 2].enter(proof, f"buyer-{n}") for n in range(40)])
    assert sorted(entries) == [Entry.ADMITTED, *[Entry.SPENT] * 39]


async def test_a_proof_for_another_buyer_or_another_sale_is_foreign(door: Door) -> None:
    assert await door.enter(await door.proof("ada"), "eve") is Entry.FOREIGN
    assert await door.enter(await door.proof("ada", sale("other"))) is Entry.FOREIGN


@pytest.mark.parametrize("proof", [None, ""])
async def test_no_proof_is_missing(door: Door, proof: str | None) -> None:
    assert await door.enter(proof) is Entry.MISSING


@pytest.mark.parametrize(
    "proof",
    ["x", "e30=", "bnVsbA==", "W10=", base64.b64encode(b'{"challenge":[],"solution":{}}').decode(), "A" * 5_000],
)
async def test_what_is_not_a_proof_is_invalid(door: Door, proof: str) -> None:
    assert await door.enter(proof) is Entry.INVALID


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("solution", "derivedKey"), "00" * 32),
        (("solution", "derivedKey"), None),
        (("challenge", "parameters", "cost"), 1),
        (("challenge", "parameters", "keySignature"), ""),
        (("challenge", "parameters", "keyPrefix"), ""),
        (("challenge", "parameters", "expiresAt"), 9_999_999_999),
        (("challenge", "parameters", "expiresAt"), None),
        (("challenge", "parameters", "data"), {"sale": "drop", "buyer": ""}),
        (("challenge", "parameters", "data"), {"__proto__": {}}),
        (("challenge", "parameters", "nonce"), "00" * 16),
        (("challenge", "parameters", "algorithm"), "SHA-256"),
        (("challenge", "signature"), None),
        (("challenge", "signature"), "00" * 32),
    ],
)
async def test_a_proof_that_was_changed_is_invalid(door: Door, path: tuple[str, ...], value: object) -> None:
    assert await door.enter(tampered(await door.proof("eve"), *path, value=value)) is Entry.INVALID


async def test_a_solution_spliced_onto_another_challenge_is_invalid(door: Door) -> None:
    solved, unsolved = await door.proof(), await door.challenges.make(sale(), "ada")
    assert await door.enter(tampered(solved, "challenge", value=unsolved)) is Entry.INVALID


async def test_an_expired_proof_is_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(challenge_module, "time", lambda: time.time() - LIFE_S - 2)
    assert await door.enter(await door.proof()) is Entry.EXPIRED


async def test_keys_rotate_and_a_foreign_key_is_not_believed(door: Door, database: Database) -> None:
    before, foreign = (Door(Challenges(database, secrets_from([key]))) for key in (OLD_KEY, FOREIGN_KEY))
    assert await door.enter(await before.proof()) is Entry.ADMITTED
    assert await door.enter(await foreign.proof()) is Entry.INVALID


async def test_only_solved_challenges_raise_the_price(door: Door) -> None:
    slow = replace(sale(), room=Room(rate_per_second=1))

    async def attempts() -> int:
        solution = altcha.solve_challenge(altcha.Challenge.from_dict(await door.challenges.make(slow, "ada")))
        assert solution is not None
        return solution.counter

    for _ in range(200):
        await door.challenges.make(slow, None)
    proof = await door.proof(None, slow)
    for _ in range(60):
        await door.enter(proof, into=slow)
    assert await attempts() < 8
    for _ in range(40):
        assert await door.enter(await door.proof("ada", slow), into=slow) is Entry.ADMITTED
    assert await attempts() >= 8


async def test_spent_proofs_are_forgotten_after_they_expired(door: Door, database: Database) -> None:
    await door.enter(await door.proof())
    now = int(time.time() * 1000)
    assert await database.write(lambda c: prune_spent(c, now, limit=10)) == 0
    assert await database.write(lambda c: prune_spent(c, now + LIFE_S * 1000 + 1_000, limit=10)) == 1


async def test_checking_a_proof_costs_a_hundredth_of_solving_it_at_most(door: Door) -> None:
    given = await door.challenges.make(sale(cost=MOST_ATTEMPTS), "ada")
    started = time.process_time()
    proof = solve(given)
    solving = time.process_time() - started
    payload = altcha.Payload.from_base64(proof)
    checking = []
    for _ in range(5):
        started = time.process_time()
        assert door.challenges._verify(payload, "drop", "ada") is Entry.ADMITTED
        checking.append(time.process_time() - started)
    assert min(checking) * 100 < solving
