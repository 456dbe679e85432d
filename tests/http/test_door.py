"""What stands at the door, asked directly: the price of joining, the cap on places, limits that stay small."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from time import thread_time

import altcha
import pytest
from http_tokens import claims_of, hmac_token
from msgspec import structs

from asking_inside import NoWire
from holdfast.bootstrap import House, open_house
from holdfast.domain.bucket import Policy
from holdfast.domain.concurrency import MOST, Limiter, Priority
from holdfast.domain.sale import Checkout, PaymentKind, ProofOfWork, Room, RoomMode, Sale
from holdfast.http import limits as limits_module
from holdfast.http import shedding
from holdfast.http.challenge import check_entry
from holdfast.http.client_address import ClientAddresses, parse_networks
from holdfast.http.limits import Buckets
from holdfast.http.patrol import Patrol
from holdfast.http.places import Places
from holdfast.http.problems import Problem
from holdfast.http.requests import Request
from holdfast.http.room_lane import RoomLane
from holdfast.http.shedding import Feature, Shedder, priority_of
from holdfast.room.challenge import Entry
from holdfast.settings import Settings, load_settings

BUYER_SECRET = "b0ye45ec" * 4
SALE = Sale(
    sale_id="drop", sku_id="drop", name="Drop", price_amount=1, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.WALLET, proof_of_work=ProofOfWork(8),
)  # fmt: skip


def request(peer: str = "192.0.2.1:4711", forwarded: str = "") -> Request:
    headers = [("x-forwarded-for", forwarded)] if forwarded else []
    return Request("POST", "/v1/sales/drop/queue", "", NoWire(headers, peer), "id")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(data=tmp_path, buyer_secret=BUYER_SECRET, places_per_address=2)


@pytest.fixture
async def house(settings: Settings) -> AsyncIterator[House]:
    async with open_house(settings, background=False) as house:
        yield house


async def solved(house: House, buyer_id: str | None = "ada") -> str:
    challenge = altcha.Challenge.from_dict(await house.door.challenges.make(SALE, buyer_id))
    solution = altcha.solve_challenge(challenge)
    assert solution is not None
    return altcha.Payload(challenge, solution).to_base64()


async def refused(house: House, proof: str | None, buyer_id: str = "ada") -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        await check_entry(house, SALE, buyer_id, proof, request())
    return caught.value.status, caught.value.reason


async def test_the_join_asks_for_proof_and_spends_it(house: House) -> None:
    proof = await solved(house)
    assert await refused(house, None) == (403, "proof_required")
    assert await refused(house, "nonsense") == (403, "proof_invalid")
    assert await refused(house, proof, "eve") == (403, "proof_invalid")
    assert await check_entry(house, SALE, "ada", proof, request()) is Entry.ADMITTED
    assert await check_entry(house, SALE, "ada", proof, request()) is Entry.REPEATED
    anyones = await solved(house, None)
    assert await check_entry(house, SALE, "bob", anyones, request()) is Entry.ADMITTED
    assert await refused(house, anyones) == (403, "proof_spent")


async def test_an_address_takes_so_many_places_and_no_proof_is_spent_on_more(house: House) -> None:
    for _ in range(2):
        house.door.places.taken("drop", request())
    assert await refused(house, await solved(house)) == (429, "too_many_places")
    other = request("192.0.2.2:1")
    assert await check_entry(house, SALE, "ada", await solved(house), other) is Entry.ADMITTED
    house.door.places.left("drop", request())
    assert await check_entry(house, SALE, "ada", await solved(house), request()) is Entry.ADMITTED


def test_places_are_not_counted_for_loopback_nor_where_there_is_no_cap() -> None:
    for places, who in (
        (Places(ClientAddresses((), limit_loopback=False), 1), request("127.0.0.1:1")),
        (Places(ClientAddresses((), limit_loopback=True), 0), request()),
    ):
        for _ in range(5):
            places.taken("drop", who)
        places.check("drop", who)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1:4711", "", "192.0.2.1"),
        ("[2001:db8::1]:4711", "", "2001:db8::1"),
        ("192.0.2.1:4711", "198.51.100.1", "192.0.2.1"),
        ("10.0.0.1:80", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1:80", "203.0.113.9, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1:80", "203.0.113.9, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1:80", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1:80", "nonsense", "10.0.0.1"),
        ("10.0.0.1:80", "", "10.0.0.1"),
        ("[::ffff:10.0.0.1]:80", "198.51.100.1:99", "198.51.100.1"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_client_is_the_first_address_from_the_right_that_is_no_trusted_proxy(
    peer: str, forwarded: str, client: str
) -> None:
    addresses = ClientAddresses(parse_networks("10.0.0.0/8, fd00::/8"), limit_loopback=False)
    assert addresses.client_of(request(peer, forwarded)) == client


@pytest.fixture
def few_buckets(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(limits_module, "BUCKETS_MAX", 100)
    return 100


def test_buckets_stay_few_and_forget_the_idle_first(few_buckets: int) -> None:
    buckets = Buckets(Policy("test", burst=1, every_ms=1_000))
    for n in range(few_buckets):
        buckets.take(f"idle-{n}", now=0)
    assert buckets.take("busy", now=5_000).is_allowed
    assert len(buckets) == 1
    assert not buckets.take("busy", now=5_001).is_allowed
    for n in range(10 * few_buckets):
        buckets.take(f"crowd-{n}", now=5_002)
        assert len(buckets) <= few_buckets


async def test_limits_cost_a_service_less_than_a_microsecond(house: House) -> None:
    authorization = f"Bearer {house.settings.service_key_text()}"
    await house.doorkeeper.identify(authorization)
    recognise, rounds, best = house.doorkeeper.recognise, 5_000, float("inf")
    for _ in range(20):
        started = thread_time()
        for _ in range(rounds):
            caller = recognise(authorization)
            assert caller is not None
            if caller.buyer_id is not None:
                house.door.limits.check_buyer(request(), caller)
        best = min(best, (thread_time() - started) / rounds)
    print(f"{best * 1e9:.0f} ns")
    assert best < 1e-6


@pytest.mark.parametrize(
    ("method", "path", "priority"),
    [
        ("POST", "/v1/reservations/r/confirm", Priority.FINISH),
        ("DELETE", "/v1/reservations/r", Priority.FINISH),
        ("POST", "/v1/payments/stripe", Priority.FINISH),
        ("POST", "/v1/sales/s/pause", Priority.FINISH),
        ("POST", "/v1/sales/s/purchase", Priority.PURCHASE),
        ("POST", "/v1/inventory/s/reserve", Priority.PURCHASE),
        ("POST", "/v1/sales/s/queue", Priority.JOIN),
        ("POST", "/v1/sales/s/admission", Priority.JOIN),
        ("GET", "/v1/sales/s/challenge", Priority.JOIN),
        ("GET", "/v1/sales/s/now", Priority.READ),
        ("GET", "/v1/orders", Priority.READ),
        ("GET", "/v1/ops/pools", Priority.CONSOLE),
        ("GET", "/metrics", Priority.CONSOLE),
        ("GET", "/docs", Priority.CONSOLE),
        ("GET", "/healthz/live", None),
        ("GET", "/healthz/ready", None),
    ],
)
def test_what_is_begun_is_finished_first(method: str, path: str, priority: Priority | None) -> None:
    assert priority_of(method, path) is priority


async def test_features_rest_under_pressure_and_say_so() -> None:
    shedder = Shedder(Limiter(10))
    shedder.check(Feature.ODDS)
    for _ in range(8):
        assert shedder.limiter.enter(Priority.FINISH)
    with pytest.raises(Problem) as caught:
        shedder.check(Feature.ODDS)
    assert (caught.value.status, caught.value.members) == (503, {"switched_off": Feature.ODDS})
    assert not shedder.limiter.has_room(Priority.READ)
    answer = await shedder.refuse(Priority.READ)
    assert (answer.status, len(answer.body) < 300) == (503, True)
    for _ in range(8):
        shedder.leave(Priority.FINISH, 0.0)
    assert shedder.switched_off == list(Feature)


def test_whoever_finishes_is_let_in_though_the_limit_has_shrunk_below_what_is_in_flight() -> None:
    limiter = Limiter(100)
    while limiter.enter(Priority.PURCHASE):
        pass
    limiter.limit = 10
    assert not limiter.has_room(Priority.PURCHASE)
    assert all(limiter.enter(Priority.FINISH) for _ in range(MOST - 90))
    assert not limiter.enter(Priority.FINISH)


async def test_a_limit_is_forgotten_when_nothing_was_bought_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    shedder = Shedder(Limiter(1_000, least=10))
    for number in range(500):
        assert shedder.limiter.enter(Priority.PURCHASE)
        shedder.limiter.leave(10.0 if number < 20 else 900.0, number * 20.0)
    shrunk = shedder.limiter.limit
    shedder.tend()
    assert shedder.limiter.limit == shrunk
    monkeypatch.setattr(shedding, "FORGET_S", -1.0)
    shedder.tend()
    assert shrunk < shedder.limiter.limit == 1_000


async def test_forecasts_rest_under_pressure_and_a_place_is_told_all_the_same(house: House) -> None:
    room = Room(RoomMode.FIFO)
    await house.office.create(structs.replace(SALE, proof_of_work=None, room=room, payment=PaymentKind.EXTERNAL))
    joining = request()
    joining.authorization = f"Bearer {hmac_token(claims_of(), secret=BUYER_SECRET)}"
    lane, shedder = RoomLane(house, Patrol()), house.door.shedder
    told = json.loads((await lane.join(joining, "drop")).body)
    assert (told["position"], told["odds"], told["switched_off"]) == (1, 0.0, [])
    await shedder.refuse(Priority.READ)
    told = json.loads((await lane.join(joining, "drop")).body)
    assert (told["position"], told["eta_seconds"], told["odds"], told["hopeless"]) == (1, None, None, False)
    assert told["switched_off"] == ["odds"]


def test_proxies_that_are_not_networks_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="HOLDFAST_TRUSTED_PROXIES: must be networks such as"):
        load_settings(data=tmp_path, trusted_proxies="10.0.0.0/8, example.com")
