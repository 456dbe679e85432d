"""The risk service: four verdicts, and joins that go on when it is slow, broken or down."""

import socket
from collections.abc import AsyncIterator
from time import monotonic

import pytest
from risk_service import FakeService, run_service

from holdfast.domain.room.risk import RiskVerdict, Visit
from holdfast.room.risk import FAILURES_MAX, RiskHook


def visit(buyer_id: str = "ada") -> Visit:
    return Visit("drop", buyer_id, 1, "d" * 32, "192.0.2.7", 86_400)


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with run_service() as service:
        yield service


@pytest.fixture
async def hook(service: FakeService) -> AsyncIterator[RiskHook]:
    hook = RiskHook(service.url, "secret", 0.5)
    yield hook
    await hook.close()


async def test_the_service_is_told_who_joins_and_its_verdict_counts_for_a_while(
    service: FakeService, hook: RiskHook
) -> None:
    for verdict in RiskVerdict:
        service.answer = {"verdict": verdict, "reason": "seen before", "score": 0.3}
        assert await hook.assess(visit(verdict), "request-1") is verdict
    service.answer = {"verdict": "deny"}
    assert await hook.assess(visit("allow"), "request-2") is RiskVerdict.ALLOW, "no second call"
    assert service.asked[0] == {
        "sale_id": "drop", "buyer_id": "allow", "tier": 1, "device": "d" * 32, "address": "192.0.2.7",
        "account_age_seconds": 86_400,
    }  # fmt: skip
    assert (service.headers[0]["authorization"], service.headers[0]["x-request-id"]) == ("Bearer secret", "request-1")


@pytest.mark.parametrize(
    ("status", "answer"),
    [(500, {"verdict": "deny"}), (200, "not json"), (200, {"verdict": "maybe"}), (200, "x" * 100_000), (302, "")],
)
async def test_a_service_that_is_broken_allows(
    service: FakeService, hook: RiskHook, status: int, answer: object
) -> None:
    service.status, service.answer = status, answer
    assert await hook.assess(visit(), "id") is RiskVerdict.ALLOW
    service.status, service.answer = 200, {"verdict": "deny"}
    assert await hook.assess(visit(), "id") is RiskVerdict.DENY, "a failure is not kept"


async def test_a_slow_service_costs_its_budget_then_nothing_and_is_used_again_when_it_is_back(
    service: FakeService,
) -> None:
    hook = RiskHook(service.url, timeout_s=0.05)
    service.answer = {"verdict": "deny"}
    service.is_answering.clear()
    began = monotonic()
    assert await hook.assess(visit(), "id") is RiskVerdict.ALLOW
    assert monotonic() - began >= 0.04
    for _ in range(FAILURES_MAX - 1):
        await hook.assess(visit(), "id")
    asked = len(service.asked)
    assert [await hook.assess(visit(), "id") for _ in range(100)] == [RiskVerdict.ALLOW] * 100
    assert len(service.asked) == asked, "the breaker is open"
    service.is_answering.set()
    hook.breaker._until = 0.0
    while await hook.assess(visit(), "id") is not RiskVerdict.DENY:
        hook.breaker._until = 0.0
    assert hook.breaker.is_closed
    await hook.close()


async def test_a_service_that_is_down_allows_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        hook = RiskHook(f"http://127.0.0.1:{unused.getsockname()[1]}/", timeout_s=0.5)
        assert [await hook.assess(visit(), "id") for _ in range(20)] == [RiskVerdict.ALLOW] * 20
    assert not hook.breaker.is_closed
    await hook.close()
