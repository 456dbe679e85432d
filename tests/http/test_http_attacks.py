"""What an attacker sends: addresses that cannot be read, made-up keys, huge paths and values. Each is bounded."""

import gzip
import json
from collections.abc import Iterator

import pytest
from http_calling import Shop
from http_sales import Store, store_of
from http_serving import SERVICE_KEY, Server, started
from http_sockets import Answer, wire_to
from http_tokens import buyer_token

from holdfast.http.protection.large_answers import LARGE_BYTES
from holdfast.http.protection.limits import PROBE

pytest_plugins = ("http_fixtures",)

PER_ADDRESS = 1
ASKED = 40
# What of these is answered when the rate is 1 per second with a burst of 5, on a machine that takes its time.
PASSED_AT_MOST = 30


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"RATE_PER_ADDRESS": str(PER_ADDRESS), "TRUSTED_PROXIES": "127.0.0.0/8"}
    with started(tmp_path_factory.mktemp("attacked"), settings=settings) as server:
        yield server


@pytest.fixture(scope="module")
def store(attacked: Server) -> Store:
    store = store_of(attacked)
    store.open()
    return store


@pytest.fixture(scope="module")
def queue(attacked: Server) -> Store:
    """With a waiting room."""
    store = store_of(attacked)
    store.open(room={"mode": "fifo", "rate_per_second": 10, "pass_seconds": 60})
    return store


@pytest.fixture
def pool(attacked: Server) -> Shop:
    shop = attacked.shop()
    shop.provision(1_000)
    return shop


def get(path: str, *headers: bytes) -> bytes:
    lines = [f"GET {path} HTTP/1.1".encode(), b"Host: holdfast", *headers, b"", b""]
    return b"\r\n".join(lines)


def answers_to(server: Server, *requests: bytes) -> list[Answer]:
    """One connection, one request after another."""
    answers = []
    with wire_to(server) as wire:
        for request in requests:
            wire.send(request)
            answers.append(wire.read_answer())
    return answers


def reason_of(answer: Answer) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"]
    return answer.status, answer.json()["reason"]


def statuses(server: Server, path: str, *headers: bytes, count: int = ASKED) -> list[int]:
    return [answer.status for answer in answers_to(server, *[get(path, *headers)] * count)]


@pytest.mark.parametrize(
    "forwarded",
    [
        b"unknown",
        b"",
        b"_hidden",
        b"::1%lo",
        b"fe80::1%25eth0",
        b"garbage, 127.0.0.1",
        b"127.0.0.1",
        b"::ffff:127.0.0.1",
    ],
)
def test_a_forwarded_client_without_a_readable_address_is_limited(
    attacked: Server, store: Store, forwarded: bytes
) -> None:
    told = statuses(attacked, f"{store.path}/now", b"X-Forwarded-For: " + forwarded)
    assert told.count(200) <= PASSED_AT_MOST
    assert set(told) == {200, 429} or set(told) == {429}


def test_a_forwarded_address_that_is_not_text_is_refused(attacked: Server, store: Store) -> None:
    [answer] = answers_to(attacked, get(f"{store.path}/now", b"X-Forwarded-For: \xff, 203.0.113.13"))
    assert reason_of(answer) == (400, "invalid_header")


@pytest.mark.parametrize(
    ("host", "credentials"),
    [
        (1, b"Bearer hf_x"),
        (2, b"Session x.y"),
        (3, b"Foo42: hf_"),
        (4, b"Bearer hf_" + b"0" * 64),
        (5, b"Bearer a.b.c"),
    ],
)
def test_a_made_up_key_does_not_lift_the_limit_of_its_address(
    attacked: Server, store: Store, host: int, credentials: bytes
) -> None:
    through = b"X-Forwarded-For: 203.0.113.%d" % host
    told = statuses(attacked, f"{store.path}/now", b"Authorization: " + credentials, through)
    assert told.count(200) <= PASSED_AT_MOST
    assert set(told) == {200, 429}


def test_a_service_key_is_never_limited_by_what_its_address_sent(attacked: Server, store: Store) -> None:
    through = b"X-Forwarded-For: 203.0.113.200"
    assert 429 in statuses(attacked, f"{store.path}/now", through)
    known = (b"Authorization: Bearer " + SERVICE_KEY.encode(), through)
    assert set(statuses(attacked, store.path, *known)) == {200}


def test_probes_and_notices_of_payments_are_limited_on_their_own(attacked: Server) -> None:
    through = b"X-Forwarded-For: 203.0.113.77"
    asked = 3 * PROBE.burst
    assert 429 in statuses(attacked, "/healthz/live", through, count=asked)
    notice = b"\r\n".join([b"POST /v1/payments/stripe/webhook HTTP/1.1", b"Host: h", through, b"Content-Length: 0"])
    told = {answer.status for answer in answers_to(attacked, *[notice + b"\r\n\r\n"] * asked)}
    assert 429 in told
    assert 200 in statuses(attacked, "/healthz/live", b"X-Forwarded-For: 203.0.113.78", count=5)


@pytest.mark.parametrize("path", ["/" + "x" * 1_100, "/v1/sales/" + "%F0%9F%98%80" + "x" * 60_000 + "/now"])
def test_a_path_over_1_kb_is_refused(attacked: Server, path: str) -> None:
    [answer] = answers_to(attacked, get(path))
    assert reason_of(answer) == (414, "path_too_long")
    assert len(answer.body) < 500


def test_long_paths_leave_nothing_in_memory(attacked: Server) -> None:
    token = f"Authorization: Bearer {buyer_token('memory')}".encode()
    before = attacked.resident_bytes()
    paths = [f"/v1/sales/{n}%F0%9F%98%80{'x' * 60_000}" for n in range(200)]
    answers_to(attacked, *(get(path, token) for path in paths))
    assert attacked.resident_bytes() - before < 20 * 2**20


KEY = b"Authorization: Bearer " + SERVICE_KEY.encode()


@pytest.mark.parametrize("value", [b"\xff", "clé".encode()])
@pytest.mark.parametrize("header", ["Idempotency-Key", "Authorization", "Holdfast-Pass", "Holdfast-Ticket"])
def test_a_header_that_cannot_be_read_is_refused(attacked: Server, queue: Store, header: str, value: bytes) -> None:
    path = f"{queue.path}/admission" if header == "Holdfast-Ticket" else f"{queue.path}/purchase"
    lines = [f"POST {path} HTTP/1.1".encode(), b"Host: h", header.encode() + b": " + value]
    if header != "Authorization":
        lines.append(f"Authorization: Bearer {buyer_token('odd')}".encode())
    if header == "Holdfast-Pass":
        lines.append(b"Idempotency-Key: k")
    request = b"\r\n".join([*lines, b"Content-Length: 14", b"", b'{"quantity":1}'])
    assert reason_of(answers_to(attacked, request)[0]) == (400, "invalid_header")
    assert queue.counts()[1:] == (0, 0)


SESSION = "/v1/console/session"


@pytest.mark.parametrize(
    ("header", "method", "path"),
    [
        ("Accept-Encoding", "GET", "/openapi.json"),
        ("If-None-Match", "GET", "{sale}/now"),
        ("Holdfast-Console", "GET", SESSION),
        ("Cookie", "GET", SESSION),
        ("Origin", "GET", SESSION),
        ("Sec-Fetch-Site", "DELETE", SESSION),
    ],
)
def test_no_header_that_is_used_is_passed_over_because_it_cannot_be_read(
    attacked: Server, store: Store, header: str, method: str, path: str
) -> None:
    sent = {"Cookie": "holdfast_session=a.b", "Holdfast-Console": "1"} if path == SESSION else {}
    lines = [f"{name}: {value}".encode() for name, value in sent.items() if name != header]
    request = get(path.format(sale=store.path), *lines, header.encode() + b": \xff").replace(b"GET", method.encode(), 1)
    assert reason_of(answers_to(attacked, request)[0]) == (400, "invalid_header")


def test_a_hold_with_a_key_that_cannot_be_read_is_not_granted(attacked: Server, pool: Shop) -> None:
    body = json.dumps({"owner_id": "ada", "quantity": 1}).encode()
    head = b"POST %s/reserve HTTP/1.1\r\nHost: h\r\n%s\r\n" % (pool.path.encode(), KEY)
    request = head + b"Idempotency-Key: cl\xc3\xa9\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    assert [reason_of(answer) for answer in answers_to(attacked, request, request)] == [(400, "invalid_header")] * 2
    assert pool.counts() == (1_000, 0, 0, 1_000)


def test_a_restock_with_a_key_that_cannot_be_read_is_not_carried_out(attacked: Server, store: Store) -> None:
    before = store.show()["total_units"]
    body = json.dumps({"units": 5}).encode()
    head = b"POST %s/restock HTTP/1.1\r\nHost: h\r\n%s\r\n" % (store.path.encode(), KEY)
    request = head + b"Idempotency-Key: cl\xc3\xa9\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    assert [reason_of(answer) for answer in answers_to(attacked, request, request)] == [(400, "invalid_header")] * 2
    assert store.show()["total_units"] == before


def test_a_content_length_of_5000_digits_is_refused(attacked: Server) -> None:
    request = b"POST /v1/sales HTTP/1.1\r\nHost: h\r\nContent-Length: " + b"0" * 5_000 + b"1\r\n\r\n1"
    assert reason_of(answers_to(attacked, request)[0]) == (400, "invalid_header")


def test_a_logged_path_is_cut_and_has_no_control_characters(attacked: Server) -> None:
    marker = "logged-once"
    answers_to(attacked, get(f"/{marker}{'%1b%5B31m%0a' * 60}"))
    [line] = [line for line in attacked.log_lines if marker in line.get("path", "")]
    assert len(line["path"]) <= 210
    assert line["path"].isprintable()


def test_large_documents_are_compressed_or_sent_only_so_often(attacked: Server) -> None:
    small = answers_to(attacked, *[get("/openapi.json", b"Accept-Encoding: gzip")] * 60)
    assert {(answer.status, answer.headers["content-encoding"]) for answer in small} == {(200, "gzip")}
    assert all(len(answer.body) < LARGE_BYTES for answer in small)
    whole = answers_to(attacked, *[get("/openapi.json")] * 100)
    assert json.loads(gzip.decompress(small[0].body)) == next(one for one in whole if one.status == 200).json()
    assert {answer.status for answer in whole} == {200, 503}
    # The burst of 8 MiB, and what comes back while a busy machine reads it.
    assert sum(len(answer.body) for answer in whole) < 24 * 2**20
