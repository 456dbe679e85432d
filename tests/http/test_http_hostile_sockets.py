"""Clients that are slow, huge, half gone or gone: each is bounded, and others are served meanwhile (FAULTS 19)."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil  # type: ignore[import-untyped]
import pytest
from http_calling import Shop, body_of, eventually
from http_serving import SERVICE_KEY, Server, started
from http_sockets import Answer, Cut, Wire, parse_head, request_bytes, wire_to

pytest_plugins = ("http_fixtures",)

HEAD = f"POST /v1/inventory/a/reserve HTTP/1.1\r\nHost: holdfast\r\nAuthorization: Bearer {SERVICE_KEY}\r\n"


@pytest.fixture(scope="module")
def harassed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(tmp_path_factory.mktemp("harassed")) as server:
        yield server


@pytest.fixture
def pool(harassed: Server) -> Shop:
    shop = harassed.shop()
    shop.provision(1_000)
    return shop


def _silent(_wire: Wire) -> None:
    """Connects, and that is all."""


def _slow_request_line(wire: Wire) -> None:
    _drip(wire, b"POST /v1/inventory/a/reserve HTTP/1.1")


def _slow_headers(wire: Wire) -> None:
    wire.send(HEAD.encode())
    _drip(wire, b"X-Slow: slow slow slow slow slow")


def _stalled_headers(wire: Wire) -> None:
    wire.send(HEAD.encode())


def _stalled_body(wire: Wire) -> None:
    wire.send(f"{HEAD}Content-Length: 100\r\n\r\n{{".encode())


def _slow_body(wire: Wire) -> None:
    wire.send(f"{HEAD}Content-Length: 100\r\n\r\n".encode())
    _drip(wire, b'{"owner_id": "ada", "quantity": 1, "idempotency_key"')


def _slow_chunks(wire: Wire) -> None:
    wire.send(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
    _drip(wire, b"1\r\n{\r\n" * 10)


def _drip(wire: Wire, content: bytes) -> None:
    """A byte every half second, until the server has had enough."""
    with suppress(ConnectionError):
        for byte in content:
            wire.send(bytes([byte]))
            time.sleep(0.5)  # Being slow is the fault; there is nothing to wait for.


def _cut_off(server: Server, misbehave: Callable[[Wire], None]) -> bytes:
    """What a slow client is told when the server hangs up. One that it does not hang up on runs out of time."""
    with wire_to(server) as wire:
        misbehave(wire)
        return wire.read_all()


@pytest.mark.slow
def test_slow_clients_are_cut_off_in_time_and_everybody_else_is_served(harassed: Server, pool: Shop) -> None:
    pool.provision(1_000_000)
    faults = [_silent, _slow_request_line, _slow_headers, _stalled_headers, _stalled_body, _slow_body, _slow_chunks]
    with ThreadPoolExecutor(len(faults) * 3) as threads:
        running = [threads.submit(_cut_off, harassed, fault) for fault in faults for _ in range(3)]
        while not all(fault.done() for fault in running):
            body_of(pool.reserve(ttl_seconds=1))
    told = {fault.__name__: running[3 * index].result() for index, fault in enumerate(faults)}
    _is_told_it_was_too_slow(told["_stalled_body"])


def _is_told_it_was_too_slow(told: bytes) -> None:
    head, _, body = told.partition(b"\r\n\r\n")
    status, headers = parse_head(head)
    assert (status, headers["content-type"]) == (408, "application/problem+json")
    assert json.loads(body)["reason"] == "request_timeout"


def _told(server: Server, *sent: bytes) -> Answer:
    """The answer to what is sent, however much of it the server cares to read."""
    with wire_to(server) as wire:
        with suppress(ConnectionError):
            for part in sent:
                wire.send(part)
        return wire.read_answer()


def test_a_huge_body_is_refused_before_it_is_sent(harassed: Server) -> None:
    answer = _told(harassed, f"{HEAD}Content-Length: {2**40}\r\n\r\n".encode())
    assert (answer.status, answer.json()["reason"]) == (413, "body_too_large")


def test_a_client_that_asks_first_is_not_asked_for_a_huge_body(harassed: Server) -> None:
    answer = _told(harassed, f"{HEAD}Content-Length: {2**30}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert answer.status == 413


def test_a_client_that_asks_first_is_asked_for_a_small_body(harassed: Server, pool: Shop) -> None:
    body = b'{"owner_id": "ada", "quantity": 1}'
    head = HEAD.replace("/a/", f"/{pool.sku_id}/")
    with wire_to(harassed) as wire:
        wire.send(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert wire.read_answer().status == 100
        wire.send(body)
        assert wire.read_answer().status == 200


def test_a_huge_body_of_unknown_length_is_refused_and_not_kept(harassed: Server) -> None:
    before = harassed.resident_bytes()
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with suppress(Cut):  # The refusal may be lost when we go on sending after it.
        assert _told(harassed, f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode(), *[chunk] * 1_000).status == 413
    assert harassed.resident_bytes() - before < 32 * 2**20


def test_a_body_just_too_long_in_chunks_is_told_so(harassed: Server) -> None:
    chunks = b"4000\r\n" + b"x" * 0x4000 + b"\r\n" + b"1\r\nx\r\n"
    answer = _told(harassed, f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks)
    assert (answer.status, answer.json()["reason"]) == (413, "body_too_large")


def test_a_refused_body_is_never_taken_for_a_request(harassed: Server, pool: Shop) -> None:
    smuggled = request_bytes("POST", f"{pool.path}/reserve", {"owner_id": "smuggler", "quantity": 1})
    with wire_to(harassed) as wire:
        wire.send(f"{HEAD}Content-Length: 20000\r\n\r\n".encode())
        assert wire.read_answer().status == 413
        with suppress(OSError):
            wire.send(smuggled)
            wire.send(b"x" * (20_000 - len(smuggled)))
            wire.half_close()
        assert b" 200 " not in wire.read_all()
    assert pool.counts() == (1_000, 0, 0, 1_000)


@pytest.mark.parametrize(
    "fields",
    [
        b"X-Long: " + b"x" * 200_000,
        b"\r\n".join(b"X-%d: x" % n for n in range(2_000)),
        b"\r\n".join(b"X-%d: x" % n for n in range(20_000)),
    ],
    ids=["200 kB", "2,000 fields", "20,000 fields"],
)
def test_huge_headers_are_refused(harassed: Server, fields: bytes) -> None:
    with suppress(Cut):
        assert _told(harassed, b"GET /healthz/live HTTP/1.1\r\nHost: holdfast\r\n" + fields + b"\r\n\r\n").status == 431


@pytest.mark.parametrize(
    "request_",
    [
        b"NONSENSE\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX-Nul: a\x00b\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: h\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_briefly(harassed: Server, request_: bytes) -> None:
    with wire_to(harassed) as wire:
        with suppress(OSError):
            wire.send(request_)
            wire.half_close()
        told = wire.read_all()
    assert len(told) < 2_000
    assert told == b"" or told.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert b"<html" not in told.lower()


def test_a_half_closed_connection_is_answered_or_closed(harassed: Server, pool: Shop) -> None:
    with wire_to(harassed) as wire:
        wire.send(request_bytes("POST", f"{pool.path}/reserve", {"owner_id": "ada", "quantity": 1}))
        wire.half_close()
        told = wire.read_all()
    assert told == b"" or told.startswith(b"HTTP/1.1 200 OK\r\n")
    assert pool.counts() in {(1_000, 0, 0, 1_000), (999, 1, 0, 1_000)}


def test_half_a_request_and_a_half_closed_connection_is_closed(harassed: Server) -> None:
    for sent in (b"", b"GET /", HEAD.encode(), f"{HEAD}Content-Length: 100\r\n\r\n{{".encode()):
        with wire_to(harassed) as wire:
            wire.send(sent)
            wire.half_close()
            assert len(wire.read_all()) < 2_000


def test_clients_that_hang_up_in_the_middle_leave_nothing_behind(harassed: Server, pool: Shop) -> None:
    process = psutil.Process(harassed.process.pid)
    open_before = process.num_fds()
    whole = request_bytes("POST", f"{pool.path}/reserve", {"owner_id": "gone", "quantity": 1, "ttl_seconds": 1800})

    def hang_up(number: int) -> None:
        wire = Wire(harassed.port)
        wire.send(whole[: len(whole) * (number % 11) // 10])
        wire.reset()

    with ThreadPoolExecutor(16) as threads:
        leaving = [threads.submit(hang_up, number) for number in range(600)]
        answers = [pool.reserve("here", ttl_seconds=1800) for _ in range(100)]
        for left in leaving:
            left.result()
    assert {answer.status_code for answer in answers} == {200}
    eventually(lambda: process.num_fds() <= open_before + 2)
    available, held, sold, total = pool.counts()
    assert (available + held + sold, total) == (1_000, 1_000)
    assert 100 <= held <= 100 + 600 // 11, "only whole requests can have been granted"


def test_requests_may_follow_one_another_without_waiting(harassed: Server, pool: Shop) -> None:
    ask = ("GET", f"{pool.path}/available", None)
    with wire_to(harassed) as wire:
        wire.send(request_bytes(*ask) * 19 + request_bytes(*ask, "Connection: close"))
        assert wire.read_all().count(b"HTTP/1.1 200 OK") == 20
