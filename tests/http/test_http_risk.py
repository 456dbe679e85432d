"""Joins that a risk service has a say in, and accounts per device."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import altcha
import msgspec
import pytest
from risk_service import FakeService, run_service

from asking_inside import NoConnection
from holdfast.access.identity import Caller
from holdfast.audit.ask import ask
from holdfast.audit.search import Question
from holdfast.bootstrap.services import Services, open_services
from holdfast.http.contract.message import Request
from holdfast.http.server.app import App
from holdfast.runtime.breaker import Circuit
from holdfast.settings import load_settings

DEVICE = "d" * 32


class Server:
    def __init__(self, services: Services, service: FakeService) -> None:
        self.services, self.service = services, service
        self.app = App(services)

    async def ask(self, request: Request) -> tuple[int, dict[str, Any]]:
        answer = await self.app.answer(request)
        assert answer is not None
        return answer.status, msgspec.json.decode(answer.body) if answer.body else {}

    async def sell(self, mode: str = "fifo", opens_in_s: float = -60) -> None:
        body = msgspec.json.encode(
            {
                "sale_id": "drop",
                "sku_id": "drop",
                "total_units": 5,
                "name": "Drop",
                "price": {"amount": 100, "currency": "EUR"},
                "starts_at": (datetime.now(UTC) + timedelta(seconds=opens_in_s)).isoformat(),
                "payment": "external",
                "room": {"mode": mode},
            }
        )
        key = f"Bearer {self.services.settings.service_key_text()}"
        request = Request("POST", "/v1/sales", "", NoConnection([]), "id", key, idempotency_key="k", body=body)
        assert (await self.ask(request))[0] == 201

    async def of_buyer(
        self,
        method: str,
        path: str,
        buyer_id: str,
        *,
        ticket: str = "",
        query: str = "",
        headers: Sequence[tuple[str, str]] = (),
        **body: Any,
    ) -> tuple[int, dict[str, Any]]:
        client = NoConnection([*headers, *([("holdfast-ticket", ticket)] if ticket else [])], "192.0.2.1:4711")
        caller = Caller(buyer_id=buyer_id, account_created_at=1_000_000_000)
        given = msgspec.json.encode(body) if body else b""
        url = f"/v1/sales/drop/{path}"
        return await self.ask(Request(method, url, query, client, "id", "Bearer a.b.c", caller, body=given))

    async def join(self, buyer_id: str, verdict: str = "allow", **body: Any) -> tuple[int, dict[str, Any]]:
        self.service.answer = {"verdict": verdict}
        return await self.of_buyer("POST", "queue", buyer_id, **body)

    async def story(self, buyer_id: str) -> list[str]:
        services = self.services
        timeline = await ask(services.database, services.settings.audit_directory, Question(buyer_id))
        return [moment.outcome or moment.type for moment in timeline.moments]

    async def await_story(self, buyer_id: str, *expected: str) -> None:
        """Refusals are written a moment later, and by another clock than joins: within a few milliseconds their order
        is not certain."""
        for _ in range(3_000):
            if sorted(story := await self.story(buyer_id)) == sorted(expected):
                return
            await asyncio.sleep(0.02)
        raise TimeoutError(f"{buyer_id}: {story}")


@asynccontextmanager
async def serving(data: Path, service: FakeService, *, background: bool = False, **more: Any) -> AsyncIterator[Server]:
    settings = load_settings(data=data, risk_url=service.url, risk_timeout_ms=2_000, **more)
    async with open_services(settings, background=background) as services:
        server = Server(services, service)
        yield server
        await server.app.finish()


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with run_service() as service:
        yield service


async def test_the_service_denies_or_asks_for_a_harder_puzzle_and_both_are_in_the_timeline(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.room.challenge.HARDER_LEAST", 20)
    async with serving(tmp_path, service) as server:
        await server.sell()
        assert (await server.join("ada", device=DEVICE))[0] == 200
        [told] = service.asked
        assert told["account_age_seconds"] > 20 * 365 * 86_400
        assert (told["device"], told["address"], told["buyer_id"]) == (DEVICE, "192.0.2.1", "ada")
        status, denied = await server.join("eve", "deny")
        assert (status, denied["reason"]) == (403, "join_denied")
        status, refused = await server.join("bob", "harder_puzzle")
        assert (status, refused["reason"], refused["level"]) == (403, "proof_required", 2)
        assert (await server.of_buyer("GET", "challenge", "bob"))[0] == 204, "the sale asks nobody else for a proof"
        _, challenge = await server.of_buyer("GET", "challenge", "bob", query="level=2")
        read = altcha.Challenge.from_dict(challenge)
        solution = altcha.solve_challenge(read)
        assert solution is not None
        proof = altcha.Payload(read, solution).to_base64()
        assert (await server.join("bob", "harder_puzzle", proof=proof))[0] == 200
        await server.await_story("eve", "join_denied")
        await server.await_story("bob", "harder_puzzle", "room.joined")


@pytest.mark.parametrize("name", ["holdfast-reputation", "x-amzn-waf-holdfast-reputation"])
async def test_a_proxy_says_in_a_header_what_it_knows_and_the_strictest_verdict_counts(
    service: FakeService, tmp_path: Path, name: str
) -> None:
    async with serving(tmp_path, service) as server:
        await server.sell()
        for buyer_id, verdict, headers, status, reason in (
            ("ada", "allow", [(name, "allow")], 200, None),
            ("bob", "allow", [(name, "Harder_Puzzle")], 403, "proof_required"),
            ("cid", "harder_puzzle", [(name, "allow")], 403, "proof_required"),
            ("dan", "harder_puzzle", [(name, "allow"), (name, "harder_puzzle, deny")], 403, "join_denied"),
            ("eve", "deny", [], 403, "join_denied"),
            ("fay", "allow", [(name, "42"), (name, "")], 200, None),
        ):
            service.answer = {"verdict": verdict}
            answered, body = await server.of_buyer("POST", "queue", buyer_id, headers=headers)
            assert (answered, body.get("reason")) == (status, reason), buyer_id
        assert "dan" not in [told["buyer_id"] for told in service.asked], "nothing could change it"
        await server.await_story("dan", "join_denied")


async def test_the_lottery_tail_is_behind_everybody_who_came_before_the_opening(
    service: FakeService, tmp_path: Path
) -> None:
    async with serving(tmp_path, service, background=True) as server:
        await server.sell("lottery", opens_in_s=1.5)
        status, bob = await server.join("bob", "lottery_tail")
        assert (status, bob["provisional"], bob["position"]) == (202, True, None)
        assert (await server.join("ada"))[0] == 200
        assert (await server.join("cid"))[0] == 200
        status, waiting = await server.of_buyer("GET", "queue/status", "bob", ticket=bob["ticket"])
        assert status == 202
        while waiting["position"] is None:
            await asyncio.sleep(0.05)
            status, waiting = await server.of_buyer("GET", "queue/status", "bob", ticket=waiting["ticket"])
        assert (status, waiting["position"]) == (200, 3)
        assert "room.sent_last" in await server.story("bob")


async def test_a_device_has_so_many_accounts_in_a_sale_and_must_be_named(service: FakeService, tmp_path: Path) -> None:
    async with serving(tmp_path, service, accounts_per_device=2) as server:
        await server.sell()
        status, refused = await server.join("ada")
        assert (status, refused["reason"]) == (403, "device_required")
        for buyer_id in ("ada", "bob", "ada"):
            assert (await server.join(buyer_id, device=DEVICE))[0] == 200
        status, refused = await server.join("cid", device=DEVICE)
        assert (status, refused["reason"]) == (409, "device_limit")
        assert (await server.join("cid", device="e" * 32))[0] == 200
        server.services.arrival_stager.note_failure()
        assert (await server.join("dan", device=DEVICE))[0] == 409, "while the store is away, too"
        assert (await server.join("dan", device="f" * 32))[0] == 202


async def test_a_service_that_is_away_stops_nobody_and_health_names_it(service: FakeService, tmp_path: Path) -> None:
    async with serving(tmp_path, service) as server:
        await server.sell()
        service.status = 500
        for number in range(8):
            assert (await server.join(f"buyer-{number}", "deny"))[0] == 200
        assert server.services.risk is not None
        assert server.services.risk.breaker.state is Circuit.OPEN
        assert server.services.open_breakers == ["risk"]
