"""Provisional tickets: exchanged for a place as soon as there is one, although others still arrive."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import altcha
import msgspec
import pytest
from msgspec.structs import replace

from asking_inside import NoConnection
from holdfast.access.identity import Caller
from holdfast.bootstrap.services import Services, open_services
from holdfast.domain.sale.sale import ProofOfWork
from holdfast.http.contract.message import SEEN, Answer, Request
from holdfast.http.server.app import App
from holdfast.ledger.room.arrivals import merge
from holdfast.room.arrival_stager import HELD_AFTER_S
from holdfast.settings import load_settings

QUEUE = "/v1/sales/drop/queue"
_SALE = {
    "sale_id": "drop",
    "sku_id": "drop",
    "total_units": 5,
    "name": "Drop",
    "price": {"amount": 100, "currency": "EUR"},
    "starts_at": "2020-01-01T00:00:00Z",
    "payment": "external",
    "room": {"mode": "fifo"},
}


class Server:
    def __init__(self, services: Services) -> None:
        self.services, self.stager = services, services.arrival_stager
        self.app = App(services)

    async def ask(self, request: Request) -> Answer:
        answer = await self.app.answer(request)
        assert answer is not None
        return answer

    async def sell(self) -> None:
        key = f"Bearer {self.services.settings.service_key_text()}"
        body = msgspec.json.encode(_SALE)
        request = Request("POST", "/v1/sales", "", NoConnection([]), "id", key, idempotency_key="k", body=body)
        assert (await self.ask(request)).status == 201

    async def join(self, buyer_id: str) -> Answer:
        return await self.ask(of_buyer("POST", buyer_id))

    async def status(self, buyer_id: str, joined: Answer) -> Answer:
        return await self.ask(of_buyer("GET", buyer_id, msgspec.json.decode(joined.body)["ticket"]))

    async def leave(self, buyer_id: str, joined: Answer) -> Answer:
        return await self.ask(of_buyer("DELETE", buyer_id, msgspec.json.decode(joined.body)["ticket"]))

    async def merge(self) -> None:
        await self.stager.pass_once()
        database = self.services.database
        await database.write(lambda c: merge(c, "drop", database, limit=10))

    def keep_an_arrival(self) -> None:
        """That is not staged: nothing runs in the background here. It came a while ago."""
        self.stager.stamp("drop", "somebody", "of-somebody", self.services.catalogue.now_ms())
        [(key, kept)] = self.stager._kept.items()
        self.stager._kept[key] = replace(kept, at=kept.at - HELD_AFTER_S)


def of_buyer(method: str, buyer_id: str, ticket: str | None = None, body: bytes = b"") -> Request:
    headers = [] if ticket is None else [("holdfast-ticket", ticket)]
    connection = NoConnection(headers, "192.0.2.1:4711")
    path = f"{QUEUE}/status" if method == "GET" else QUEUE
    return Request(method, path, "", connection, "id", "Bearer a.b.c", Caller(buyer_id=buyer_id), body=body)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with open_services(load_settings(data=tmp_path), background=False) as services:
        server = Server(services)
        await server.sell()
        yield server
        await server.app.finish()


async def test_a_place_is_found_while_arrivals_are_kept_and_nobody_overtakes_them(server: Server) -> None:
    assert (await server.join("ada")).status == 200
    server.keep_an_arrival()
    ada, bob = await server.join("ada"), await server.join("bob")
    assert (ada.status, bob.status) == (202, 202)
    found = await server.status("ada", ada)
    assert (found.status, msgspec.json.decode(found.body)["position"]) == (200, 1)
    assert (await server.status("bob", bob)).status == 202


async def test_a_ticket_whose_place_was_left_gives_no_other(server: Server) -> None:
    server.stager.note_failure()
    ada = await server.join("ada")
    server.stager._away_until = 0.0
    assert (await server.status("ada", ada)).status == 202
    await server.merge()
    assert (await server.status("ada", ada)).status == 200
    assert [(await server.leave("ada", ada)).status for _ in range(2)] == [204, 204]
    refused = await server.status("ada", ada)
    assert (refused.status, msgspec.json.decode(refused.body)["reason"]) == (409, "place_released")


async def test_a_join_beyond_the_requests_in_flight_asks_the_store_for_nothing_and_is_limited_and_proven(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    sale = server.services.catalogue.cached("drop")
    assert sale is not None
    sale = replace(sale, proof_of_work=ProofOfWork(8), updated_at=sale.updated_at + 1)
    server.services.catalogue.put(sale)
    made = altcha.Challenge.from_dict(await server.services.challenges.make(sale, "ada"))
    solution = altcha.solve_challenge(made)
    assert solution is not None
    body = msgspec.json.encode({"proof": altcha.Payload(made, solution).to_base64()})
    monkeypatch.setattr(server.app._limiter, "has_room", lambda _: False)

    async def write(*_: object, **__: object) -> None:
        raise AssertionError("the store was asked")

    monkeypatch.setattr(server.services.database, "write", write)
    answers = [await server.ask(of_buyer("POST", "ada", body=given)) for given in (body, b"")]
    assert [answer.status for answer in answers] == [202, 403]
    foreign = await server.ask(of_buyer("POST", "eve", body=body))
    assert (foreign.status, msgspec.json.decode(foreign.body)["reason"]) == (403, "proof_invalid")
    statuses = [(await server.ask(of_buyer("POST", "ada", body=body))).status for _ in range(300)]
    assert statuses[-1] == 429, "the rate limit holds"


@pytest.mark.slow
async def test_the_room_is_normal_again_soon_after_a_blip_while_two_hundred_join_per_second(tmp_path: Path) -> None:
    async with open_services(load_settings(data=tmp_path, rate_per_address=0), background=True) as services:
        server, statuses = Server(services), list[int]()

        async def join(buyer_id: str) -> None:
            statuses.append((await server.join(buyer_id)).status)

        await server.sell()
        server.stager.note_failure()
        async with asyncio.timeout(30), asyncio.TaskGroup() as joins:
            while statuses[-300:] != [200] * 300:
                joins.create_task(join(f"buyer-{len(statuses)}-{monotonic()}"))
                await asyncio.sleep(0.005)
        assert statuses[0] == 202
        await server.app.finish()


async def test_a_store_that_is_away_is_not_asked(server: Server) -> None:
    await server.join("ada")
    server.stager.note_failure()
    ada = await server.join("ada")
    assert (ada.status, (await server.status("ada", ada)).status) == (202, 202)


async def test_nobody_gets_a_place_in_a_sale_that_has_ended(server: Server) -> None:
    server.stager.note_failure()
    ada = await server.join("ada")
    sale = server.services.catalogue.cached("drop")
    assert sale is not None
    server.services.catalogue.put(replace(sale, ends_at=sale.starts_at + 1, updated_at=sale.updated_at + 1))
    refused = await server.status("ada", ada)
    assert (refused.status, msgspec.json.decode(refused.body)["reason"]) == (409, "sale_ended")


async def test_a_stamp_does_not_ask_the_primary_for_its_position(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def token() -> str:
        return "position"

    monkeypatch.setattr(server.services.reads, "token", token)
    server.services.reads.has_tokens = True
    assert (SEEN, "position") in (await server.join("ada")).headers
    server.keep_an_arrival()
    assert SEEN not in dict((await server.join("bob")).headers)
