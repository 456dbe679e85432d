"""Several processes on one SQLite file: fronts that speak HTTP and a core that decides answer as one process does."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import httpx
import psutil  # type: ignore[import-untyped]
import pytest
import test_http_events as events
from http_calling import eventually
from http_metrics import scrape
from http_sales import body_of, store_of
from http_serving import SERVICE_KEY, Server, started
from http_smoke import walk
from http_sockets import request_bytes, wire_to
from http_tokens import buyer_token
from test_endpoint_table import path_of

from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.endpoints import ENDPOINTS

pytest_plugins = ("http_fixtures",)

# Per second, and five times as much at once.
BUYER_RATE = 2
CALLERS = {"nobody": None, "a service": SERVICE_KEY, "a buyer": buyer_token("endpoint-walker"), "a forger": "a.b.c"}


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("fronts")
    with started(directory, "--workers", "2", settings={"RATE_PER_BUYER": str(BUYER_RATE)}) as server:
        eventually(lambda: len(server.listeners()) == 2)
        yield server


def test_the_contract_holds_through_fronts(fronts: Server) -> None:
    walk(fronts)


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """As new as the other, so that what both say can be compared."""
    directory = tmp_path_factory.mktemp("one-process")
    with started(directory, settings={"RATE_PER_BUYER": "0"}) as server:
        yield server


@pytest.fixture(scope="module")
def unlimited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("unlimited")
    with started(directory, "--workers", "2", settings={"RATE_PER_BUYER": "0"}) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("caller", CALLERS)
def test_every_endpoint_answers_through_a_front_as_in_one_process(
    unlimited: Server, one_process: Server, caller: str
) -> None:
    # Whether a server is ready is its own affair on a busy machine.
    endpoints = [endpoint for endpoint in ENDPOINTS if not endpoint.is_demo and endpoint.path != "/healthz/ready"]
    assert len(endpoints) > 60
    with unlimited.connect(CALLERS[caller]) as through_a_front, one_process.connect(CALLERS[caller]) as direct:
        for endpoint in endpoints:
            for body in (None, b"{", b"{}"):
                expected, given = _told(direct, endpoint, body), _told(through_a_front, endpoint, body)
                assert (endpoint.operation_id, given) == (endpoint.operation_id, expected)


def _told(client: httpx.Client, endpoint: Endpoint, body: bytes | None) -> tuple[int, str | None, list[str]]:
    """What is the same whenever it is asked: status, reason, and which headers there are."""
    headers = {"Idempotency-Key": "k", "Holdfast-Ticket": "t", "Accept-Encoding": "gzip"}
    answer = client.request(endpoint.method, path_of(endpoint), content=body, headers=headers)
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    names = sorted(set(answer.headers) - {"content-length", "transfer-encoding", "retry-after"})
    return answer.status_code, answer.json()["reason"] if is_problem else None, names


def test_a_stream_comes_through_a_front_as_it_is_told(fronts: Server) -> None:
    events.test_a_stream_tells_what_happened_and_then_what_happens_until_it_ends(store_of(fronts))


def test_a_header_that_cannot_be_read_is_refused_through_a_front(fronts: Server) -> None:
    store = store_of(fronts)
    store.open()
    with wire_to(fronts) as wire:
        head = request_bytes(
            "POST", f"{store.path}/purchase", {"quantity": 1}, "Idempotency-Key: k", token=buyer_token("x")
        )
        wire.send(head.replace(b"\r\n", b"\r\nHoldfast-Pass: \xff\r\n", 1))
        assert wire.read_answer().status == 400


def test_a_buyers_limit_is_one_for_all_fronts(fronts: Server) -> None:
    """Each caller has a connection of its own, which the system gives to either front."""
    token = buyer_token("in a hurry")
    request = request_bytes("GET", "/v1/reservations/rsv_none", token=token)
    began = monotonic()
    with ExitStack() as stack:
        wires = [stack.enter_context(wire_to(fronts)) for _ in range(60)]
        for wire in wires:
            wire.send(request)
        statuses = [wire.read_answer().status for wire in wires]
        assert all(_established(front, fronts.port) for front in fronts.listeners())
    allowed = sum(status != 429 for status in statuses)
    assert 5 * BUYER_RATE <= allowed <= 5 * BUYER_RATE + BUYER_RATE * (monotonic() - began) + 1


def _established(process: psutil.Process, port: int) -> list[object]:
    sockets = process.net_connections("tcp")
    return [s for s in sockets if s.status == psutil.CONN_ESTABLISHED and s.laddr and s.laddr.port == port]


def test_only_their_user_can_reach_the_core(fronts: Server) -> None:
    paths = {
        Path(s.laddr)
        for child in fronts.children()
        for s in child.net_connections("unix")
        if isinstance(s.laddr, str) and s.laddr.endswith("/core")
    }
    [path] = paths
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.stat().st_uid == os.getuid()


def test_one_scrape_tells_of_the_whole_server(fronts: Server) -> None:
    shop = fronts.shop()
    shop.provision(100)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: shop.reserve(f"buyer-{n}", 1), range(40)))
    assert {answer.status_code for answer in answers} == {200}
    assert shop.counts() == (60, 40, 0, 100)
    samples = scrape(fronts)
    assert samples["holdfast_fronts"][""] == 2
    assert samples["holdfast_pool_units"][f"{shop.sku_id},held"] == 40


@pytest.mark.slow
def test_fronts_and_core_do_not_outlive_the_one_that_watches_over_them(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as server:
        eventually(lambda: len(server.listeners()) == 2)
        children = server.children()
        server.process.kill()
        server.process.wait(60)
        gone, alive = psutil.wait_procs(children, timeout=60)
        for child in alive:
            child.kill()
        assert len(gone) == len(children)


@pytest.mark.slow
def test_a_stop_ends_streams_and_every_process(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as server:
        store = store_of(server)
        store.open(payment="external")
        with store.buyer() as ada:
            held = body_of(ada.purchase(), 201)["reservation_id"]
            with events.listening(ada, held) as listener:
                assert listener.next()["event"] == "reservation.created"
                children = server.children()
                assert server.stop() == 0
                listener.wait_for_end()
        _, alive = psutil.wait_procs(children, timeout=60)  # Python's resource tracker goes after the others.
        assert not alive


def test_a_token_with_a_number_too_large_to_send_stops_nobody(fronts: Server) -> None:
    store = store_of(fronts)
    store.open()
    with fronts.connect(buyer_token("climber", tier=2**64)) as climber:
        key = {"Idempotency-Key": "up"}
        bought = climber.post(f"{store.path}/purchase", json={"quantity": 1}, headers=key)
    assert bought.status_code == 201, bought.text
    body_of(fronts.client.get(store.path))


def test_the_process_that_a_second_server_names_is_the_one_to_stop(fronts: Server) -> None:
    [lock] = fronts.directory.glob("**/*.server.lock")
    assert int(lock.read_text()) == fronts.process.pid
