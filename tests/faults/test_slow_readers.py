"""Clients that do not read what they asked for: others are served meanwhile, and they are gone soon (FAULTS 29)."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event

import psutil  # type: ignore[import-untyped]
import pytest
from http_calling import eventually, promised
from http_serving import Server, started

from holdfast.http.server.granian_server import HEADER_TIMEOUT_MS, WRITE_TIMEOUT_MS
from quiet_time import QuietTime

pytestmark = pytest.mark.slow

# Of a hundred, all but one; and every one of them.
OTHERS_WAIT_S, OTHERS_WAIT_AT_MOST_S = 1.0, 5.0
GROWTH_AT_MOST = 96 * 2**20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(tmp_path_factory.mktemp("slow-readers")) as server:
        yield server


def asking(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: holdfast\r\n\r\n".encode()


@contextmanager
def deaf(server: Server, sent: bytes) -> Iterator[socket.socket]:
    """A connection that asks and takes no answer."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", server.port))
        connection.setblocking(False)
        connection.send(sent)
        yield connection


@contextmanager
def watched(server: Server) -> Iterator[list[float]]:
    """How long somebody else waits for an answer, again and again meanwhile."""
    took: list[float] = []
    ended = Event()

    def ask() -> None:
        with server.connect() as client:
            while not ended.is_set():
                asking = QuietTime()
                assert client.get("/healthz/live").status_code == 200
                took.append(asking.seconds)

    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(ask)
        try:
            yield took
        finally:
            ended.set()
            asked.result()


def check(took: list[float]) -> None:
    assert sorted(took)[len(took) * 99 // 100] < OTHERS_WAIT_S
    assert max(took) < OTHERS_WAIT_AT_MOST_S


def clients_of(server: Server) -> int:
    connections = psutil.Process(server.process.pid).net_connections("tcp")
    return sum(one.status == psutil.CONN_ESTABLISHED and one.laddr.port == server.port for one in connections)


def test_clients_that_ask_for_much_and_read_nothing_are_cut_off(server: Server) -> None:
    before = server.resident_bytes()
    asked = asking("/assets/store/locales/de.js") * 900
    with ExitStack() as crowd, watched(server) as took:
        for _ in range(200):
            crowd.enter_context(deaf(server, asked))
        eventually(lambda: clients_of(server) >= 200, within_s=30)
        # The others who stay are the one who watches.
        promised(lambda: clients_of(server) <= 1, within_s=3 * WRITE_TIMEOUT_MS / 1000)
    check(took)
    assert server.resident_bytes() - before < GROWTH_AT_MOST


def test_a_crowd_that_asks_for_the_largest_documents_silences_nobody(server: Server) -> None:
    before = server.resident_bytes()
    with ExitStack() as crowd, watched(server) as took:
        for path in ["/openapi.json"] * 480 + ["/docs"] * 120:
            crowd.enter_context(deaf(server, asking(path)))
        time.sleep(2.0)  # Being asked by all of them at once is the fault; there is nothing to wait for.
    check(took)
    assert server.resident_bytes() - before < GROWTH_AT_MOST


def test_thousands_of_connections_that_only_stay_open_hinder_nobody(server: Server) -> None:
    """A third of them say nothing, a third begin a request, and a third have had an answer."""
    before = server.resident_bytes()
    with ExitStack() as crowd, watched(server) as took:
        for sent in (b"", b"GET /healthz/live HTTP/1.1\r\nHost: h", asking("/healthz/live")) * 1_000:
            crowd.enter_context(deaf(server, sent))
        # Before the last has come, the first may have been cut off.
        eventually(lambda: clients_of(server) >= 2_000, within_s=30)
        promised(lambda: clients_of(server) <= 1, within_s=4 * HEADER_TIMEOUT_MS / 1000)
    check(took)
    assert server.resident_bytes() - before < GROWTH_AT_MOST
