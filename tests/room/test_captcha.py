"""Captcha tokens, verified by a service on a real socket that speaks `siteverify`."""

from collections.abc import AsyncIterator

import altcha
import pytest
from risk_service import FakeService, run_service

from holdfast.domain.sale.sale import Checkout, PaymentKind, ProofOfWork, Sale
from holdfast.ledger.engine.database import Database
from holdfast.room.challenge import Challenges, Entry, secrets_from
from holdfast.room.site_verify import FAILURES_MAX, SiteVerify

SALE = Sale(
    sale_id="drop",
    sku_id="drop",
    name="Drop",
    price_amount=1,
    currency="EUR",
    starts_at=0,
    checkout=Checkout.CART,
    payment=PaymentKind.EXTERNAL,
    proof_of_work=ProofOfWork(8),
)
SECRETS = secrets_from(["s" * 32])
GENUINE = {"success": True, "hostname": "shop.example", "error-codes": []}
USED = {"success": False, "error-codes": ["timeout-or-duplicate"]}


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with run_service() as service:
        service.answer = GENUINE
        yield service


@pytest.fixture
async def door(database: Database, service: FakeService) -> AsyncIterator[Challenges]:
    captcha = SiteVerify(service.url, "site-secret", 0.5)
    yield Challenges(database, SECRETS, captcha, is_captcha_required=True)
    await captcha.close()


async def puzzle(door: Challenges) -> str:
    read = altcha.Challenge.from_dict(await door.make(SALE, "ada"))
    solution = altcha.solve_challenge(read)
    assert solution is not None
    return altcha.Payload(read, solution).to_base64()


async def test_a_token_admits_one_buyer_once_in_all_processes(
    door: Challenges, service: FakeService, database: Database
) -> None:
    assert await door.check(SALE, "ada", "captcha:tok-1") is Entry.ADMITTED
    assert service.asked == [{"secret": "site-secret", "response": "tok-1"}]
    service.answer = USED
    other = Challenges(database, SECRETS, door.captcha)
    for process in (door, other):
        assert await process.check(SALE, "ada", "captcha:tok-1") is Entry.REPEATED
        assert await process.check(SALE, "eve", "captcha:tok-1") is Entry.SPENT
        assert await process.check(SALE, "eve", "captcha:never-seen") is Entry.SPENT
        assert not process.admits_unspent("captcha:never-seen", "eve"), "nor while the store is away"
    assert door.admits_unspent("captcha:tok-1", "ada")


async def test_a_wrong_token_and_a_puzzle_alone_are_refused(door: Challenges, service: FakeService) -> None:
    service.answer = {"success": False, "error-codes": ["invalid-input-response"]}
    assert await door.check(SALE, "ada", "captcha:made-up") is Entry.INVALID
    assert await door.check(SALE, "ada", "captcha:") is Entry.INVALID
    assert await door.check(SALE, "ada", await puzzle(door)) is Entry.CAPTCHA_ASKED
    assert await door.check(SALE, "ada", None) is Entry.MISSING


async def test_no_text_that_cannot_be_a_token_reaches_the_service(door: Challenges, service: FakeService) -> None:
    """It may answer such a thing in a way that looks like a failure, which would switch the captcha off."""
    service.status, service.answer = 400, "too long"
    for wrong in ("x" * 5_000, "tök", "tok tok", "tok\n"):
        assert await door.check(SALE, "ada", f"captcha:{wrong}") is Entry.INVALID
    assert service.asked == []
    assert await door.check(SALE, "ada", await puzzle(door)) is Entry.CAPTCHA_ASKED


@pytest.mark.parametrize(
    ("status", "answer"),
    [(200, {"success": False, "error-codes": ["invalid-input-secret"]}), (503, GENUINE), (200, "no json"), (0, None)],
    ids=["wrong secret", "broken", "not understood", "slow"],
)
async def test_while_the_service_does_not_answer_nobody_passes_by_token_and_everybody_by_puzzle(
    door: Challenges, service: FakeService, status: int, answer: object
) -> None:
    if not status:
        service.is_answering.clear()
        assert isinstance(door.captcha, SiteVerify)
        door.captcha._timeout_s = 0.02
    service.status, service.answer = status, answer
    for number in range(FAILURES_MAX):
        assert await door.check(SALE, "ada", f"captcha:tok-{number}") is Entry.UNVERIFIED
    asked = len(service.asked)
    assert await door.check(SALE, "ada", "captcha:tok") is Entry.UNVERIFIED
    assert len(service.asked) == asked
    assert await door.check(SALE, "ada", await puzzle(door)) is Entry.ADMITTED
