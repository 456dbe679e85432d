"""What nginx sends to the server, seen by a server that notes it, and what pages of other origins get through nginx."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import httpx
import pytest
from edge_serving import Edge, edge_of, front
from http_calling import eventually
from http_rooms import person
from http_sales import Store, store_of
from http_serving import Server, started
from test_edge_nginx import FIFO, refused_at_the_edge

pytest_plugins = ("http_fixtures",)
pytestmark = pytest.mark.slow

SHOP, OTHER = "https://shop.example.com", "https://other.example.com"
SALE = "/v1/sales/drop"
SOLD_OUT = "state=sold_out, room=off, time=1790000000"


class Origin(ThreadingHTTPServer):
    """Answers 200 to everything, with the state of a sale that is sold out. `now` waits while it `is_slow`."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, Message]] = []
        self.may_answer = Event()
        self.may_answer.set()

    def count(self, method: str, path: str) -> int:
        return sum(1 for one in list(self.seen) if one[:2] == (method, path))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Origin

    def handle_any(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append((self.command, self.path, self.headers))
        if self.path.endswith("/now"):
            self.server.may_answer.wait(20)
        self.send_response(200)
        self.send_header("Holdfast-Sale", SOLD_OUT)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = handle_any  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def noting() -> Iterator[Origin]:
    with Origin() as origin:
        thread = Thread(target=origin.serve_forever)
        thread.start()
        try:
            yield origin
        finally:
            origin.may_answer.set()
            origin.shutdown()
            thread.join()


@pytest.fixture
def origin() -> Iterator[Origin]:
    with noting() as running:
        yield running


@pytest.fixture
def edge(embedded: Server, origin: Origin) -> Iterator[Edge]:
    with edge_of(embedded, upstream=f"127.0.0.1:{origin.server_address[1]}") as running:
        yield running


def purchase(client: httpx.Client) -> httpx.Response:
    return client.post(f"{SALE}/purchase", json={"quantity": 1})


def test_a_slow_server_decides_itself_instead_of_by_an_old_state(edge: Edge, origin: Origin) -> None:
    with edge.connect() as client, ThreadPoolExecutor(16) as pool:
        refused_at_the_edge(purchase(client), 409, "sold_out")
        origin.may_answer.clear()
        eventually(lambda: purchase(client).status_code == 200)
        answers = list(pool.map(lambda _: purchase(client), range(16)))
        assert {answer.status_code for answer in answers} == {200}


def test_buyers_who_come_together_ask_for_the_state_once(edge: Edge, origin: Origin) -> None:
    with edge.connect() as client, ThreadPoolExecutor(16) as pool:
        # The first of a second fetches the state; this is the burst that others would make meanwhile.
        for _ in range(3):
            before = origin.count("GET", f"{SALE}/now")
            for answer in pool.map(lambda _: purchase(client), range(64)):
                refused_at_the_edge(answer, 409, "sold_out")
            assert origin.count("GET", f"{SALE}/now") - before <= 3
    assert origin.count("POST", f"{SALE}/purchase") == 0


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("GET", "/s/drop", "/s/drop"),
        ("GET", SALE, SALE),
        ("GET", f"{SALE}/now", f"{SALE}/now"),
        ("GET", "/v1/inventory/drop/available", "/v1/inventory/drop/available"),
        ("POST", f"{SALE}/purchase", f"{SALE}/now"),
        ("GET", "/v1/orders", "/v1/orders"),
    ],
)
def test_the_server_learns_the_host_and_the_real_address(
    edge: Edge, origin: Origin, method: str, path: str, asked: str
) -> None:
    written = {"Host": "shop.example.com", "X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https"}
    with edge.connect() as client:
        client.request(method, path, headers=written)
    headers = next(headers for _, path, headers in origin.seen if path == asked)
    assert headers.get_all("host") == ["shop.example.com"]
    assert headers.get_all("x-forwarded-for") == ["127.0.0.1"]
    assert headers.get_all("x-forwarded-proto") == ["http"]
    assert headers.get("connection") is None


@pytest.fixture(scope="module")
def open_to_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Edge]]:
    with (
        started(tmp_path_factory.mktemp("shop"), settings={"ALLOWED_ORIGINS": SHOP}) as server,
        edge_of(server) as edge,
    ):
        sale = store_of(server)
        sale.open(room=FIFO)
        yield sale, edge


def cors_of(answer: httpx.Response) -> list[str]:
    return answer.headers.get_list("access-control-allow-origin")


def test_a_preflight_passes_also_of_what_the_edge_would_refuse(open_to_shop: tuple[Store, Edge]) -> None:
    sale, edge = open_to_shop
    with edge.connect() as client:
        for path, method in (("purchase", "POST"), ("queue", "DELETE"), ("now", "GET")):
            wanted = {"Origin": SHOP, "Access-Control-Request-Method": method}
            answer = client.options(f"{sale.path}/{path}", headers=wanted)
            assert (answer.status_code, cors_of(answer)) == (204, [SHOP])
        assert client.get(f"{sale.path}/purchase").status_code == 405


def test_each_origin_gets_its_own_headers_from_one_cached_copy(open_to_shop: tuple[Store, Edge]) -> None:
    sale, edge = open_to_shop
    with edge.connect() as client:
        for path in (sale.path, f"{sale.path}/now", "/assets/store/main.js", "/v1/features"):
            for origin, allowed in ((OTHER, []), (SHOP, [SHOP]), (None, []), (SHOP, [SHOP])):
                answer = client.get(path, headers={} if origin is None else {"Origin": origin})
                assert (answer.status_code, cors_of(answer)) == (200, allowed), path
                assert "origin" in ", ".join(answer.headers.get_list("vary"))
        assert "date" in client.get(sale.path, headers={"Origin": SHOP}).headers["access-control-expose-headers"]
        refused = client.post(f"{sale.path}/purchase", json={}, headers={"Origin": SHOP})
        refused_at_the_edge(refused, 429, "admission_required")
        assert cors_of(refused) == [SHOP]
        assert cors_of(client.get("/v1/orders", headers={"Origin": SHOP})) == [SHOP]


def test_a_pass_means_nothing_to_a_sale_without_a_room(embedded: Server, quick: Store) -> None:
    quick.open()
    with edge_of(embedded) as edge, person(front(quick, edge)) as ada:
        assert ada.buy("x.y.z").status_code == 201
