"""Purchases that a front puts to the core as a short question: refused exactly as the whole request would be."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from asking_inside import NoConnection
from holdfast.access.identity import Caller
from holdfast.bootstrap.services import Services, open_services
from holdfast.gate import batcher as batcher_module
from holdfast.http.contract.message import Answer, Headers, Request
from holdfast.http.protection import limits as limits_module
from holdfast.http.protection.admission import AdmissionControl, build_admission
from holdfast.http.server.app import App
from holdfast.http.server.fronts.attempts import RefuseAtOnce, RefusingSales
from holdfast.http.server.fronts.channel import Answered, Attempted, Unsure
from holdfast.ledger.access.revocations import Revocation, RevocationKind, revoke
from holdfast.settings import Settings, load_settings
from holdfast.streams.clicks import recorder
from holdfast.streams.clicks.funnel import read_funnel

pytestmark = pytest.mark.usefixtures("_no_refresh")

_TERMS = {
    "name": "Drop",
    "price": {"amount": 100, "currency": "EUR"},
    "starts_at": "2020-01-01T00:00:00Z",
    "payment": "external",
}
PURCHASE = "/v1/sales/drop/purchase"


class Server:
    def __init__(self, services: Services, admission: AdmissionControl) -> None:
        self.services = services
        self.app = App(services, admission)
        self.at_once = RefuseAtOnce(services, admission, self.app.clicks)
        self.front = RefusingSales(services.settings, self.app._router)

    async def ask(self, request: Request) -> Answer:
        answer = await self.app.answer(request)
        assert answer is not None
        return answer

    async def sell(self, units: int, **terms: object) -> None:
        sale = {"sale_id": "drop", "sku_id": "drop", "total_units": units, **_TERMS, **terms}
        assert (await self._operate("/v1/sales", sale)).status == 201

    async def _operate(self, path: str, body: object) -> Answer:
        key = f"Bearer {self.services.settings.service_key_text()}"
        connection = NoConnection([])
        return await self.ask(
            Request("POST", path, "", connection, "id", key, idempotency_key="k", body=msgspec.json.encode(body))
        )

    async def buy(self, buyer_id: str, body: bytes = b'{"quantity":1}') -> Answer:
        return await self.ask(purchase(buyer_id, body=body))

    async def sell_out(self) -> None:
        """And wait until the server knows who has won."""
        assert (await self.buy("winner")).status == 201
        assert (await self.buy("too late")).status == 409
        await self.services.batcher.drain()

    def attempt(
        self, buyer_id: str, tier: int = 0, pass_: str | None = None, token_id: str | None = None
    ) -> Answered | Unsure:
        return self.at_once.answer(Attempted(1, "drop", buyer_id, tier, token_id, "key", 1, pass_, "192.0.2.1", "id"))


def purchase(
    buyer_id: str, key: str = "key", body: bytes = b'{"quantity":1}', headers: Headers | None = None
) -> Request:
    connection = NoConnection(headers or [], "192.0.2.1:4711")
    request = Request("POST", PURCHASE, "", connection, "id", "Bearer a.b.c", idempotency_key=key, body=body)
    request.caller = Caller(buyer_id=buyer_id)
    return request


@pytest.fixture
def _no_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then an attempt is decided although the answer is known. Not here."""
    monkeypatch.setattr(batcher_module, "REFRESHED_AFTER", 10**9)


@pytest.fixture
def _time_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "_now", lambda: 1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(data=tmp_path, rate_per_buyer=2, rate_per_address=1_000)


@pytest.fixture
async def server(settings: Settings) -> AsyncIterator[Server]:
    async with open_services(settings, background=False) as services:
        server = Server(services, build_admission(settings))
        services.batcher._cache_s = 600.0
        yield server
        await server.app.finish()


async def test_the_answer_is_that_to_the_whole_request(server: Server) -> None:
    await server.sell(1)
    await server.sell_out()
    whole, short = await server.buy("one"), server.attempt("other")
    assert isinstance(short, Answered)
    assert (short.status, short.headers, short.body) == (409, whole.headers, whole.body)


async def test_a_winner_gets_the_first_answer_again(server: Server) -> None:
    await server.sell(1)
    await server.sell_out()
    assert server.attempt("winner") == Unsure(1)
    assert (await server.buy("winner")).status == 200


@pytest.mark.parametrize(("kind", "revoked"), [(RevocationKind.BUYER, "ada"), (RevocationKind.TOKEN, "stolen")])
async def test_a_revoked_buyer_is_told_so_and_not_that_all_is_sold(
    server: Server, kind: RevocationKind, revoked: str
) -> None:
    await server.sell(1)
    await server.sell_out()
    assert isinstance(server.attempt("ada", token_id="stolen"), Answered)
    database, list_ = server.services.database, server.services.control.revoked_buyers
    now = await database.read(database.now_ms)
    await database.write(lambda c: revoke(c, Revocation(kind, revoked, now, now + 3_600_000, None, "test")))
    await list_.refresh()
    assert server.attempt("ada", token_id="stolen") == Unsure(1)
    assert isinstance(server.attempt("bob", token_id="own"), Answered)


async def test_somebody_whose_purchase_is_being_decided_may_be_a_winner(server: Server) -> None:
    await server.sell(1)
    await server.sell_out()
    deciding = asyncio.ensure_future(server.buy("ada", body=b'{"quantity":2}'))
    await asyncio.sleep(0)  # Until it waits for its batch; two units are not covered by a refusal of one.
    assert server.attempt("ada") == Unsure(1)
    assert isinstance(server.attempt("somebody else"), Answered)
    await deciding


@pytest.mark.parametrize(
    "terms",
    [
        {"units_per_address": 1},
        {"proof_of_work": {"cost": 8}},
        {"room": {"mode": "fifo"}},
    ],
    ids=lambda terms: next(iter(terms)),
)
async def test_what_needs_a_closer_look_gets_one(server: Server, terms: dict[str, object]) -> None:
    await server.sell(1, **terms)
    await server.services.catalogue.find("drop")
    assert server.attempt("ada") == Unsure(1)


async def test_a_lower_tier_than_the_one_refused_is_decided(server: Server) -> None:
    await server.sell(1)
    await server.sell_out()
    assert server.attempt("ada", tier=-1) == Unsure(1)


@pytest.mark.usefixtures("_time_stands")
async def test_limits_count_both_ways_together(server: Server) -> None:
    await server.sell(1)
    await server.sell_out()
    statuses = []
    for _ in range(6):
        statuses.append((await server.buy("ada")).status)
        answered = server.attempt("ada")
        assert isinstance(answered, Answered)
        statuses.append(answered.status)
    assert statuses == [409] * 10 + [429] * 2


async def test_a_front_asks_shortly_only_where_the_last_purchase_was_refused(server: Server) -> None:
    front, buyer = server.front, ("ada", 0, None, None, None)
    assert front.attempt(1, purchase("ada"), buyer) is None
    front.note(purchase("ada"), Answer(201, [], b""))
    assert front.attempt(1, purchase("ada"), buyer) is None
    front.note(purchase("ada"), Answer(409, [], b""))
    assert front.attempt(1, purchase("ada"), buyer) == Attempted(
        1, "drop", "ada", 0, None, "key", 1, None, "192.0.2.1", "id"
    )
    front.forget(purchase("ada"))
    assert front.attempt(1, purchase("ada"), buyer) is None


@pytest.mark.parametrize(
    "request_",
    [
        purchase("ada", key="not a\nkey"),
        purchase("ada", body=b"{"),
        purchase("ada", body=b'{"quantity":0}'),
        purchase("ada", body=b'{"quantity":2,"min_quantity":1}'),
        purchase("ada", headers=[("origin", "https://shop.example")]),
    ],
    ids=["key", "no JSON", "no quantity", "partial", "other origin"],
)
async def test_anything_unusual_goes_to_the_core_whole(server: Server, request_: Request) -> None:
    server.front.note(purchase("ada"), Answer(409, [], b""))
    assert server.front.attempt(1, request_, ("ada", 0, None, None, None)) is None


async def test_refusals_told_at_once_are_recorded(server: Server) -> None:
    await server.sell(1)
    await server.sell_out()
    noted = len(server.services.refusals._waiting)
    server.attempt("ada")
    assert [refusal.owner_id for refusal in server.services.refusals._waiting[noted:]] == ["ada"]


async def test_refusals_told_at_once_are_clicks_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first Parquet file of a process takes a busy machine longer than a server that stops would wait.
    monkeypatch.setattr(recorder, "STOP_S", 60.0)
    settings = load_settings(data=tmp_path, clicks_to=str(tmp_path / "clicks"))
    async with open_services(settings, background=False) as services:
        server = Server(services, build_admission(settings))
        services.batcher._cache_s = 600.0
        await server.sell(1)
        await server.sell_out()
        assert isinstance(server.attempt("ada"), Answered)
        assert (await server.buy("ada")).status == 409
        await server.app.finish()
    [refused] = read_funnel(tmp_path / "clicks", "drop").refusals
    assert (refused.step, refused.clicks, refused.people) == ("attempt", 3, 2)
