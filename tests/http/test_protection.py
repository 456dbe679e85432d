"""What stands before the endpoints, asked directly: the price of joining, the cap on places, limits that stay small."""

import json
from collections.abc import AsyncIterator
from ipaddress import IPv6Address
from pathlib import Path
from time import thread_time

import altcha
import pytest
from http_tokens import claims_of, hmac_token
from msgspec import structs
from prometheus_client import REGISTRY

from asking_inside import NoConnection
from holdfast.bootstrap.services import Services, open_services
from holdfast.domain.sale.sale import Checkout, PaymentKind, ProofOfWork, Room, RoomMode, Sale
from holdfast.domain.stock.command import Provision
from holdfast.http.contract.endpoint import RateClass
from holdfast.http.contract.message import Request
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.room import JoinIn
from holdfast.http.endpoints.health import HealthEndpoints
from holdfast.http.endpoints.room import RoomEndpoints
from holdfast.http.protection import limits as limits_module
from holdfast.http.protection import shedding
from holdfast.http.protection.admission import AdmissionControl, build_admission
from holdfast.http.protection.host_load import HostLoad, Usage
from holdfast.http.protection.host_pressure import HostPressure
from holdfast.http.protection.limits import Buckets, Limits
from holdfast.http.protection.places import Places
from holdfast.http.protection.shedding import Feature, Shedder
from holdfast.room.challenge import Entry
from holdfast.runtime.client_address import ClientAddresses, parse_networks
from holdfast.runtime.concurrency_limit import MOST, Limiter, Priority
from holdfast.runtime.token_bucket import Policy
from holdfast.settings import Settings, load_settings

BUYER_SECRET = "b0ye45ec" * 4
SALE = Sale(
    sale_id="drop", sku_id="drop", name="Drop", price_amount=1, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.WALLET, proof_of_work=ProofOfWork(8),
)  # fmt: skip


def request(peer: str = "192.0.2.1:4711", forwarded: str = "") -> Request:
    headers = [("x-forwarded-for", forwarded)] if forwarded else []
    return Request("POST", "/v1/sales/drop/queue", "", NoConnection(headers, peer), "id")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(data=tmp_path, buyer_secret=BUYER_SECRET, places_per_address=2)


@pytest.fixture
async def holdfast(settings: Settings) -> AsyncIterator[Services]:
    async with open_services(settings, background=False) as holdfast:
        yield holdfast


@pytest.fixture
async def admission(settings: Settings) -> AdmissionControl:
    return build_admission(settings)


@pytest.fixture
def room(holdfast: Services, admission: AdmissionControl) -> RoomEndpoints:
    return RoomEndpoints(holdfast, admission)


async def solved(holdfast: Services, buyer_id: str | None = "ada") -> str:
    challenge = altcha.Challenge.from_dict(await holdfast.challenges.make(SALE, buyer_id))
    solution = altcha.solve_challenge(challenge)
    assert solution is not None
    return altcha.Payload(challenge, solution).to_base64()


async def refused(room: RoomEndpoints, proof: str | None, buyer_id: str = "ada") -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        await room.check_entry(request(), SALE, buyer_id, proof)
    return caught.value.status, caught.value.reason


async def test_the_join_asks_for_proof_and_spends_it(holdfast: Services, room: RoomEndpoints) -> None:
    proof = await solved(holdfast)
    assert await refused(room, None) == (403, "proof_required")
    assert await refused(room, "nonsense") == (403, "proof_invalid")
    assert await refused(room, proof, "eve") == (403, "proof_invalid")
    assert await room.check_entry(request(), SALE, "ada", proof) is Entry.ADMITTED
    assert await room.check_entry(request(), SALE, "ada", proof) is Entry.REPEATED
    anyones = await solved(holdfast, None)
    assert await room.check_entry(request(), SALE, "bob", anyones) is Entry.ADMITTED
    assert await refused(room, anyones) == (403, "proof_spent")


async def test_an_address_takes_so_many_places_and_no_proof_is_spent_on_more(
    holdfast: Services, room: RoomEndpoints, admission: AdmissionControl
) -> None:
    for ticket_id in "ab":
        admission.places.taken("drop", ticket_id, request().connection)
    assert await refused(room, await solved(holdfast)) == (429, "too_many_places")
    other = request("192.0.2.2:1")
    assert await room.check_entry(other, SALE, "ada", await solved(holdfast)) is Entry.ADMITTED
    admission.places.left("a")
    assert await room.check_entry(request(), SALE, "ada", await solved(holdfast)) is Entry.ADMITTED


def test_places_are_not_counted_for_loopback_nor_where_there_is_no_cap() -> None:
    for places, who in (
        (Places(ClientAddresses((), limit_loopback=False), 1), request("127.0.0.1:1")),
        (Places(ClientAddresses((), limit_loopback=True), 0), request()),
    ):
        for _ in range(5):
            places.taken("drop", "ticket", who.connection)
        places.check("drop", who.connection)


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
        ("10.0.0.1:80", "nonsense", "unknown"),
        ("10.0.0.1:80", "nonsense, 10.0.0.2", "unknown"),
        ("10.0.0.1:80", ", 10.0.0.2", "unknown"),
        ("10.0.0.1:80", "fe80::1%eth0", "unknown"),
        ("10.0.0.1:80", "1" * 1_000, "unknown"),
        ("10.0.0.1:80", "203.0.113.9" + ", 10.0.0.2" * 5_000, "unknown"),
        ("10.0.0.1:80", "", "10.0.0.1"),
        ("[::ffff:10.0.0.1]:80", "198.51.100.1:99", "198.51.100.1"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_client_is_the_first_address_from_the_right_that_is_no_trusted_proxy(
    peer: str, forwarded: str, client: str
) -> None:
    addresses = ClientAddresses(parse_networks("10.0.0.0/8, fd00::/8"), limit_loopback=False)
    assert addresses.client_of(request(peer, forwarded).connection)[0] == client


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


async def test_limits_cost_a_service_less_than_a_microsecond(holdfast: Services, admission: AdmissionControl) -> None:
    authorization = f"Bearer {holdfast.settings.service_key_text()}"
    await holdfast.authenticator.identify(authorization)
    recognise, rounds, best = holdfast.authenticator.recognise, 5_000, float("inf")
    for _ in range(20):
        started = thread_time()
        for _ in range(rounds):
            caller = recognise(authorization)
            assert caller is not None
            if caller.buyer_id is not None:
                admission.limits.check_buyer("/", caller, RateClass.NORMAL)
        best = min(best, (thread_time() - started) / rounds)
    print(f"{best * 1e9:.0f} ns")
    assert best < 1e-6


async def test_features_rest_under_pressure_and_say_so() -> None:
    shedder = Shedder(Limiter(10))
    shedder.check(Feature.ODDS)
    for _ in range(8):
        assert shedder.limiter.enter(Priority.FINISH)
    with pytest.raises(Problem) as caught:
        shedder.check(Feature.ODDS)
    assert (caught.value.status, caught.value.members) == (503, {"degraded_features": ["odds"]})
    assert not shedder.limiter.has_room(Priority.READ)
    answer = await shedder.refuse(Priority.READ)
    assert (answer.status, len(answer.body) < 300) == (503, True)
    for _ in range(8):
        shedder.leave(Priority.FINISH, 0.0)
    assert shedder.degraded_features == ["odds", "audit_search", "event_streams"]


def test_optional_reads_are_off_from_ninety_percent_until_below_eighty() -> None:
    pressure = HostPressure(90)
    for usage, is_high in ((0.89, False), (0.9, True), (0.81, True), (0.79, False), (0.85, False), (0.95, True)):
        pressure.note(Usage(0.0, usage))
        assert pressure.is_high is is_high, usage


def test_one_busy_second_turns_nothing_off_and_a_few_do() -> None:
    pressure = HostPressure(90)
    found = []
    for _ in range(5):
        pressure.note(Usage(1.0, 0.1))
        found.append(pressure.is_high)
    assert found == [False, False, False, True, True]
    assert Shedder(host=pressure).degraded_features == ["optional_reads"]


def test_with_a_limit_of_zero_the_host_is_never_looked_at() -> None:
    pressure = HostPressure(0, HostLoad(Path("/nowhere")))
    pressure.tend()
    assert not pressure.is_high


def test_finishing_requests_are_admitted_though_the_limit_has_shrunk_below_what_is_in_flight() -> None:
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


async def test_an_autoscaler_is_told_how_many_requests_are_in_flight() -> None:
    shedder = Shedder()
    for shown in (1.0, 2.0):
        assert shedder.limiter.enter(Priority.PURCHASE)
        shedder.tend()
        assert REGISTRY.get_sample_value("holdfast_requests_in_flight") == shown
    shedder.leave(Priority.PURCHASE, 0.0)
    shedder.tend()
    assert REGISTRY.get_sample_value("holdfast_requests_in_flight") == 1.0


async def test_forecasts_rest_under_pressure_and_a_place_is_told_all_the_same(
    holdfast: Services, room: RoomEndpoints, admission: AdmissionControl
) -> None:
    fifo = Room(RoomMode.FIFO)
    await holdfast.sale_operations.create(
        structs.replace(SALE, proof_of_work=None, room=fifo, payment=PaymentKind.EXTERNAL)
    )
    await holdfast.batcher.submit("drop", Provision(10))
    joining = request()
    token = hmac_token(claims_of(), secret=BUYER_SECRET)
    joining.caller = await holdfast.authenticator.identify(f"Bearer {token}")
    told = json.loads((await room.join(joining, "drop", JoinIn())).body)
    assert (told["position"], told["odds"], told["degraded_features"]) == (1, 0.0, [])
    await admission.shedder.refuse(Priority.READ)
    told = json.loads((await room.join(joining, "drop", JoinIn())).body)
    assert (told["position"], told["eta_seconds"], told["odds"], told["likely_sold_out"]) == (1, None, None, False)
    assert told["degraded_features"] == ["odds"]


def test_proxies_that_are_not_networks_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="HOLDFAST_TRUSTED_PROXIES: must be networks such as"):
        load_settings(data=tmp_path, trusted_proxies="10.0.0.0/8, example.com")


def test_the_busy_are_remembered_however_many_come_along(few_buckets: int) -> None:
    buckets = Buckets(Policy("test", burst=1, every_ms=1_000_000))
    assert buckets.take("busy", now=1).is_allowed
    for n in range(10 * few_buckets):
        assert buckets.take(f"crowd-{n}", now=2).is_allowed
        assert not buckets.take("busy", now=2).is_allowed
        assert len(buckets) <= few_buckets


def test_an_ipv6_client_gains_little_by_changing_networks() -> None:
    limits = Limits(ClientAddresses((), limit_loopback=False), per_address=1, per_buyer=1)
    passed = 0
    for n in range(2_000):
        address = IPv6Address(int(IPv6Address("2001:db8::")) + (n << 64))
        passed += limits.check_address(request(f"[{address}]:4711"), RateClass.NORMAL) is None
    # Of 2,000 networks in one /48, and not all of them in one /56. The clock runs meanwhile.
    assert passed <= 2 * limits_module.NETWORK_FACTORS[0] * limits_module.BURST_S
    assert limits.check_address(request("[2001:db8:1::1]:4711"), RateClass.NORMAL) is None


def test_guessing_keys_shuts_out_no_neighbour_and_gains_little_by_changing_networks() -> None:
    limits = Limits(ClientAddresses((), limit_loopback=False), per_address=1, per_buyer=1)

    def is_looked_up(network: int) -> bool:
        asked = request(f"[2001:db8:0:{network:x}::1]:4711")
        asked.authorization = "Bearer hf_guess"
        if limits.check_address(asked, RateClass.NORMAL) is not None:
            return False
        limits.count_unauthorized(asked, RateClass.NORMAL)
        return True

    assert sum(is_looked_up(1) for _ in range(100)) < 2 * limits_module.WRONG_KEYS.burst
    assert is_looked_up(2)
    widest = limits_module.NETWORK_FACTORS[0] * limits_module.WRONG_KEYS.burst
    assert sum(is_looked_up(n) for n in range(3, 2_000)) < 2 * widest


async def test_the_admin_key_is_recognised_without_a_look(holdfast: Services) -> None:
    key = holdfast.settings.service_key_text()
    for authorization in (f"Bearer {key}", f"bearer {key}"):
        caller = holdfast.authenticator.recognise(authorization)
        assert caller is not None
        assert not caller.is_revocable
    for wrong in (f"Bearer {key}x", f"Bearer  {key}", f"Basic {key}", key, "", None):
        assert holdfast.authenticator.recognise(wrong) is None


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("a:b:c", "unknown"),
        ("x" * 10_000, "unknown"),
        ("fe80::1%" + "x" * 10_000, "unknown"),
        ("a:b:c%eth0", "unknown"),
        ("", "unknown"),
        ("unix", "unix"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("[2001:db8::1]:4711", "2001:db8::"),
    ],
)
def test_peers_that_are_no_addresses_are_counted_together(peer: str, counted: str) -> None:
    limits = Limits(addresses := ClientAddresses((), limit_loopback=False), per_address=1, per_buyer=1)
    assert addresses.limited(request(peer).connection) == counted
    assert limits.check_address(request(peer), RateClass.NORMAL) is None


async def test_ready_asks_no_store_however_often_it_is_asked(
    holdfast: Services, admission: AdmissionControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a store was asked")

    health = HealthEndpoints(holdfast, admission.shedder)
    with monkeypatch.context() as patch:
        for name in ("read", "lock_free_read", "write"):
            patch.setattr(holdfast.database, name, fail)
        for _ in range(100):
            assert (await health.ready(request())).status == 200
