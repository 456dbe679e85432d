"""CORS: pages of the allowed origins may call the API; others get no header that would let them."""

from collections.abc import Iterator

import httpx
import pytest
from http_serving import Server, started

from holdfast.http.contract.endpoints.purchase import PURCHASE

pytest_plugins = ("http_fixtures",)

SHOP, EVIL = "https://shop.example.com", "https://evil.example"


@pytest.fixture(scope="module", params=[(), ("--workers", "2")], ids=["one process", "fronts"])
def open_to_shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"ALLOWED_ORIGINS": f"{SHOP},http://127.0.0.1:8100"}
    with started(tmp_path_factory.mktemp("origins"), *request.param, settings=settings) as server:
        yield server


def ask(server: Server, method: str, path: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.request(method, f"{server.url}{path}", headers=named, verify=False, trust_env=False)


def preflight(server: Server, path: str, method: str, origin: str = SHOP) -> httpx.Response:
    return ask(server, "OPTIONS", path, origin=origin, access_control_request_method=method)


def cors(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-")}


def names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",")}


def test_a_preflight_answers_what_the_endpoint_table_says(open_to_shop: Server) -> None:
    answer = preflight(open_to_shop, "/v1/sales/drop/purchase", "POST")
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == SHOP
    assert answer.headers["access-control-allow-methods"] == "POST"
    allowed = names(answer.headers["access-control-allow-headers"])
    declared = {header.name.lower() for header in PURCHASE.headers}
    assert declared >= {"holdfast-pass", "idempotency-key"}
    assert allowed == {"authorization", "content-type", "holdfast-seen", "x-request-id"} | declared
    assert "access-control-allow-credentials" not in answer.headers
    assert "origin" in names(answer.headers["vary"])
    assert int(answer.headers["access-control-max-age"]) > 60
    queue = preflight(open_to_shop, "/v1/sales/drop/queue", "DELETE")
    assert queue.headers["access-control-allow-methods"] == "DELETE, POST"
    assert "holdfast-ticket" in names(queue.headers["access-control-allow-headers"])


def test_a_page_may_mark_a_retry_of_any_call(open_to_shop: Server) -> None:
    """Our client marks every call that has an idempotency key, not only purchases."""
    answer = preflight(open_to_shop, "/v1/inventory/sku/reserve", "POST")
    assert {"holdfast-retry", "idempotency-key"} <= names(answer.headers["access-control-allow-headers"])


def test_the_consoles_session_stays_out_of_reach(open_to_shop: Server) -> None:
    answer = preflight(open_to_shop, "/v1/sales", "GET")
    assert "holdfast-console" not in answer.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in ask(open_to_shop, "GET", "/v1/sales", origin=SHOP).headers


@pytest.mark.parametrize("origin", [EVIL, "null", f"{SHOP}.evil.example", SHOP.upper(), f"{SHOP}:8443", f"{SHOP}/"])
def test_another_origin_gets_nothing(open_to_shop: Server, origin: str) -> None:
    refused = preflight(open_to_shop, "/v1/sales/drop/purchase", "POST", origin)
    assert (refused.status_code, cors(refused)) == (405, {})
    answer = ask(open_to_shop, "GET", "/v1/sales/drop/now", origin=origin)
    assert cors(answer) == {}
    assert "origin" in names(answer.headers["vary"])


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/sales/nope/now", 404), ("/v1/orders", 401), ("/v1/nothing", 404), ("/assets/holdfast.js", 200)],
)
def test_answers_and_refusals_can_be_read_by_the_shop(open_to_shop: Server, path: str, status: int) -> None:
    answer = ask(open_to_shop, "GET", path, origin=SHOP)
    assert answer.status_code == status
    assert answer.headers["access-control-allow-origin"] == SHOP
    exposed = names(answer.headers["access-control-expose-headers"])
    assert exposed >= {"date", "retry-after", "x-request-id", "idempotency-replayed"}
    assert len(answer.headers.get_list("vary")) == 1
    assert "origin" in names(answer.headers["vary"])


def test_pages_are_for_their_own_origin(open_to_shop: Server) -> None:
    for path in ("/s/drop", "/console", "/healthz/live"):
        assert cors(ask(open_to_shop, "GET", path, origin=SHOP)) == {}


def test_a_path_that_leads_nowhere_has_no_preflight(open_to_shop: Server) -> None:
    assert preflight(open_to_shop, "/v1/nothing", "GET").status_code == 404
    assert ask(open_to_shop, "OPTIONS", "/v1/orders", origin=SHOP).status_code == 405


def test_without_the_setting_nothing_is_sent(embedded: Server) -> None:
    assert preflight(embedded, "/v1/sales/drop/purchase", "POST").status_code == 405
    answer = ask(embedded, "GET", "/v1/sales/nope/now", origin=SHOP)
    assert cors(answer) == {}
    assert "vary" not in answer.headers
