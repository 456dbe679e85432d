"""Every refusal is application/problem+json with a stable reason, whatever was wrong."""

import httpx
import pytest
from http_calling import Shop, problem_of
from http_serving import Server, on_one_engine

from holdfast.errors import OutcomeUnknown
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.endpoints import inventory, operate, purchase, reservations, room, sales, webhooks
from holdfast.http.contract.refusals import from_engine

pytest_plugins = ("http_fixtures",)


def test_an_address_that_does_not_exist_is_not_found(embedded: Server) -> None:
    for path in ("/v1", "/v1/inventory", "/v1/nothing", "/index.html", "/v1/inventory/a/b/c", "/admin"):
        problem_of(embedded.client.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("path", "allowed", "refused"),
    [
        ("/v1/inventory/a", {"PUT"}, ["GET", "POST", "DELETE", "PATCH"]),
        ("/v1/inventory/a/available", {"GET"}, ["PUT", "POST", "DELETE", "PATCH"]),
        ("/v1/inventory/a/reserve", {"POST"}, ["GET", "PUT", "DELETE", "PATCH"]),
        ("/v1/reservations", {"GET"}, ["PUT", "POST", "DELETE"]),
        ("/v1/reservations/r", {"GET", "DELETE"}, ["PUT", "POST", "PATCH"]),
        ("/v1/reservations/r/confirm", {"POST"}, ["GET", "DELETE"]),
        ("/v1/reservations/r/extend", {"POST"}, ["GET", "DELETE"]),
        ("/v1/reservations/r/history", {"GET"}, ["POST", "DELETE"]),
        ("/v1/reservations/r/events", {"GET"}, ["POST", "DELETE"]),
        ("/v1/sales", {"GET", "POST"}, ["PUT", "DELETE"]),
        ("/v1/sales/s", {"GET", "PATCH"}, ["PUT", "POST", "DELETE"]),
        ("/v1/sales/s/pause", {"POST"}, ["GET", "DELETE"]),
        ("/v1/sales/s/now", {"GET"}, ["POST", "DELETE"]),
        ("/v1/sales/s/purchase", {"POST"}, ["GET", "DELETE"]),
        ("/v1/orders", {"GET"}, ["POST", "DELETE"]),
        ("/v1/orders/o", {"GET"}, ["POST", "DELETE"]),
        ("/healthz/live", {"GET"}, ["POST"]),
        ("/metrics", {"GET"}, ["POST"]),
        ("/docs", {"GET"}, ["POST", "DELETE"]),
        ("/openapi.json", {"GET"}, ["POST", "DELETE"]),
        ("/assets/docs.css", {"GET"}, ["PUT"]),
        ("/", {"GET"}, ["POST"]),
    ],
)
def test_a_method_an_address_does_not_know_is_refused_with_those_it_knows(
    embedded: Server, path: str, allowed: set[str], refused: list[str]
) -> None:
    for method in refused:
        answer = embedded.client.request(method, path)
        problem_of(answer, 405, "method_not_allowed")
        assert set(answer.headers["allow"].replace(" ", "").split(",")) - {"HEAD", "OPTIONS"} == allowed


@pytest.mark.parametrize("path", ["/healthz/live", "/healthz/ready", "/docs", "/openapi.json"])
def test_what_is_looked_at_by_monitors_knows_head(embedded: Server, path: str) -> None:
    answer = embedded.client.head(path)
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_body_of_16_kib_is_read_and_one_byte_more_is_not(embedded: Server) -> None:
    shop = embedded.shop()
    shop.provision(2)
    wish = b'{"owner_id": "ada", "quantity": 1}'
    fits, too_long = wish.ljust(16 * 1024), wish.ljust(16 * 1024 + 1)
    assert embedded.client.post(f"{shop.path}/reserve", content=fits).status_code == 200
    problem_of(embedded.client.post(f"{shop.path}/reserve", content=too_long), 413, "body_too_large")
    assert shop.counts() == (1, 1, 0, 2)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
def test_a_body_that_is_too_large_is_refused_wherever_it_is_sent(embedded: Server, method: str) -> None:
    body = b"x" * 20_000
    for path in ("/v1/inventory/a/reserve", "/v1/inventory/a", "/v1/reservations/r", "/nowhere", "/healthz/live"):
        problem_of(embedded.client.request(method, path, content=body), 413, "body_too_large")


def test_a_body_that_is_not_json_is_refused(embedded: Server) -> None:
    for body in (
        b"",
        b"{",
        b"nonsense",
        b"{'owner_id': 'ada'}",
        b'{"owner_id": "ada",}',
        b"\xff\xfe{",
        b'"\xff"',
        b"\x00",
    ):
        for method, path in (("PUT", "/v1/inventory/a"), ("POST", "/v1/inventory/a/reserve")):
            answer = embedded.client.request(method, path, content=body)
            assert answer.status_code in (400, 422), (path, body, answer.text)
            problem_of(answer, answer.status_code)


def test_nothing_but_an_object_is_a_request(embedded: Server) -> None:
    for body in (b"[]", b"null", b"1", b'"text"', b"true", b'[{"owner_id": "ada", "quantity": 1}]'):
        for method, path in (("PUT", "/v1/inventory/a"), ("POST", "/v1/inventory/a/reserve")):
            problem_of(embedded.client.request(method, path, content=body), 422, "invalid_request")


def test_an_unknown_field_is_refused_by_name(embedded: Server) -> None:
    shop = embedded.shop()
    problem = problem_of(shop.provision(5, colour="red"), 422, "invalid_request")
    assert "colour" in str(problem)
    shop.provision(5)
    problem = problem_of(shop.reserve(quanttiy=2), 422, "invalid_request")
    assert "quanttiy" in str(problem)
    extension = {"ttl_seconds": 1, "ttl": 1}
    problem_of(embedded.client.post(f"/v1/reservations/{shop.hold()}/extend", json=extension), 422, "invalid_request")


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8", ""]
)
def test_a_json_body_is_read_whatever_the_client_calls_it(embedded: Server, content_type: str) -> None:
    shop = embedded.shop()
    headers = {"Content-Type": content_type}
    assert embedded.client.put(shop.path, content=b'{"total_units": 1}', headers=headers).status_code == 200
    wish = b'{"owner_id": "ada", "quantity": 1}'
    held = embedded.client.post(f"{shop.path}/reserve", content=wish, headers=headers).json()["reservation_id"]
    extend = embedded.client.post(f"/v1/reservations/{held}/extend", content=b'{"ttl_seconds": 1}', headers=headers)
    assert extend.status_code == 200


def test_a_body_where_none_is_expected_does_no_harm(embedded: Server) -> None:
    shop = embedded.shop()
    shop.provision(1)
    answer = embedded.client.request("GET", f"{shop.path}/available", content=b'{"quantity": 1}')
    assert answer.status_code == 200
    path = f"/v1/reservations/{shop.hold()}"
    assert embedded.client.request("GET", path, content=b"{").status_code == 200
    assert embedded.client.request("POST", f"{path}/confirm", content=b'{"any": "thing"}').status_code in (200, 422)


def test_nothing_is_said_to_other_origins(embedded: Server) -> None:
    """A page on another site cannot read our answers, nor be told that it may ask."""
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}
    for method, path in (
        ("OPTIONS", "/v1/inventory/a"),
        ("GET", "/v1/inventory/a/available"),
        ("GET", "/openapi.json"),
    ):
        answer = embedded.client.request(method, path, headers=origin)
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_an_identity_is_asked_for_before_the_body_is_judged(embedded: Server) -> None:
    with embedded.connect() as stranger:
        asked: list[httpx.Response] = [
            stranger.post("/v1/inventory/a/reserve", content=b"{"),
            stranger.put("/v1/inventory/a", content=b"{"),
            stranger.put("/v1/inventory/a", json={"total_units": -1}),
            stranger.get("/v1/reservations?limit=0"),
            stranger.post("/v1/reservations/r/extend", content=b"{"),
        ]
    for answer in asked:
        problem_of(answer, 401, "unauthorized")


@on_one_engine
def test_a_script_in_a_name_comes_back_as_json_text(shop: Shop) -> None:
    script = "<script>alert(1)</script>"
    shop.provision(1)
    held = shop.reserve(script)
    for answer in (held, shop.show(held.json()["reservation_id"])):
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["owner_id"] == script
    refused = shop.client.post(f"{shop.path}/reserve", json={script: script})
    problem_of(refused, 422, "invalid_request")


@pytest.mark.parametrize(
    ("endpoint", "advice"),
    [
        (inventory.RESERVE, "same idempotency key"),
        (purchase.PURCHASE, "same idempotency key"),
        (sales.RESTOCK_SALE, "`total_units`"),
        (reservations.EXTEND, "Safe to retry"),
        (room.CHANGE_ROOM, "`serving`"),
        (operate.CREATE_KEY, "List the keys"),
        (webhooks.CREATE_WEBHOOK, "List the webhooks"),
        (webhooks.ROTATE_SECRET, "rotate again"),
        (webhooks.SEND_TEST, "deliveries"),
        (reservations.CONFIRM, "Safe to retry"),
        (reservations.CANCEL, "Safe to retry"),
        (inventory.PUT_POOL, "Safe to retry"),
    ],
    ids=lambda value: getattr(value, "operation_id", None),
)
def test_what_to_do_about_an_unknown_outcome_is_what_can_be_done(endpoint: Endpoint, advice: str) -> None:
    problem = from_engine(OutcomeUnknown("lost"), endpoint.if_unknown)
    assert (problem.status, problem.reason) == (503, "outcome_unknown")
    assert advice in problem.detail
    checked_first = {"change_room", "create_key", "create_webhook", "rotate_secret", "send_test"}
    assert problem.retryable is (endpoint.operation_id not in checked_first)
