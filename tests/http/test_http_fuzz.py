"""Whatever bytes arrive, the answer is JSON, the mistake is the caller's, and the books still balance."""

import json
from typing import Any
from uuid import uuid4

import httpx
from http_calling import Shop, eventually
from http_metrics import scrape
from http_sales import Store
from http_serving import Server, daily_on_one_engine
from http_tokens import buyer_token
from hypothesis import given
from hypothesis import strategies as st

from profiles import FUZZ_REQUESTS, fuzz_examples

pytest_plugins = ("http_fixtures",)
pytestmark = daily_on_one_engine

ANSWERS = {200, 201, 202, 204, 400, 401, 403, 404, 405, 409, 413, 422, 431}
FIELDS = ["owner_id", "quantity", "ttl_seconds", "idempotency_key", "min_quantity", "total_units", "per_owner_limit"]

bounded = fuzz_examples(10, all_=100, requests=20)
numbers = (
    st.integers() | st.integers(-2, 3) | st.floats() | st.booleans() | st.sampled_from([2**31, 2**53, 2**63, 2**64])
)
leaves = st.none() | numbers | st.text(max_size=300) | st.sampled_from(["ada", "1", "", "\x00", "\ud800"])
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
wishes = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=20), values, max_size=6)
nearly_right = wishes.map(lambda odd: {"owner_id": "ada", "quantity": 1} | odd)


def check(server: Server, method: str, path: str, body: bytes, **headers: str) -> None:
    def ask() -> httpx.Response | None:
        """Nothing if it is to be asked again, which a busy machine may say: nothing was done then."""
        answer = server.client.request(method, path, content=body, headers=headers)
        is_busy = answer.status_code == 503 and answer.json()["reason"] in ("not_ready", "busy")
        return None if is_busy else answer

    answer = eventually(ask)
    assert answer is not None
    assert answer.status_code in ANSWERS, answer.text
    if answer.content:
        expected = "application/json" if answer.status_code < 300 else "application/problem+json"
        assert answer.headers["content-type"] == expected
        assert isinstance(answer.json(), dict)
        assert "Traceback" not in answer.text


def fuzzed(server: Server) -> Shop:
    shop = Shop(server.client, "fuzz")
    if shop.available().status_code == 404:
        shop.provision(1_000)
    return shop


@bounded
@given(body=st.binary(max_size=2_000))
def test_any_bytes_are_answered_with_json(server: Server, body: bytes) -> None:
    shop = fuzzed(server)
    for method, path in (("POST", f"{shop.path}/reserve"), ("PUT", shop.path), ("POST", "/v1/reservations/r/extend")):
        check(server, method, path, body)


@bounded
@given(wish=wishes | nearly_right)
def test_any_json_object_is_answered_with_json_and_the_books_balance(server: Server, wish: dict[str, Any]) -> None:
    shop = fuzzed(server)
    body = json.dumps(wish).encode()
    check(server, "POST", f"{shop.path}/reserve", body)
    check(server, "PUT", "/v1/inventory/fuzz-put", body)
    shop.counts()


SALE_FIELDS = [
    "sale_id", "sku_id", "name", "total_units", "price", "starts_at", "ends_at", "per_buyer_limit", "hold_seconds",
    "max_hold_seconds", "hold_budget", "checkout", "payment", "required_tier", "description", "image_url", "room",
    "proof_of_work", "units", "quantity", "min_quantity", "payment_method",
]  # fmt: skip
oddities = st.dictionaries(st.sampled_from(SALE_FIELDS) | st.text(max_size=20), values, max_size=4)


@bounded
@given(odd=oddities, text=st.text(max_size=20))
def test_any_json_object_about_a_sale_is_answered_with_json(server: Server, odd: dict[str, Any], text: str) -> None:
    store = Store(server, "fuzz-sale", "fuzz-sale")
    if server.client.get(store.path).status_code == 404:
        store.open(total_units=1_000, per_buyer_limit=None)
    body = json.dumps(odd).encode()
    check(server, "POST", "/v1/sales", json.dumps(store.terms() | odd).encode())
    check(server, "PATCH", store.path, json.dumps({k: v for k, v in odd.items() if k != "ends_at"}).encode())
    check(server, "POST", f"{store.path}/restock", body)
    # Each time somebody else: one buyer would be told that they ask too often.
    token = f"Bearer {buyer_token(uuid4().hex)}"
    check(server, "POST", f"{store.path}/purchase", body, authorization=token, **{"idempotency-key": "k"})
    wish = json.dumps({"quantity": 1} | odd).encode()
    check(server, "POST", f"{store.path}/purchase", wish, authorization=token, **{"idempotency-key": ascii(text)})
    store.counts()


@bounded
@given(
    text=st.text(max_size=60), query=st.dictionaries(st.sampled_from(["limit", "owner_id", "sku_id", "x"]), st.text())
)
def test_any_text_in_an_address_is_answered_with_json(server: Server, text: str, query: dict[str, str]) -> None:
    from urllib.parse import quote, urlencode

    place = quote(text, safe="", errors="surrogatepass")
    check(server, "GET", f"/v1/inventory/{place}/available", b"")
    check(server, "DELETE", f"/v1/reservations/{place}", b"")
    check(server, "GET", f"/v1/sales/{place}/now", b"")
    check(server, "GET", f"/v1/orders/{place}", b"")
    check(server, "GET", f"/v1/reservations/{place}/events", b"")
    check(server, "GET", f"/v1/reservations?{urlencode(query, errors='surrogatepass')}", b"")


def test_no_request_so_far_was_our_mistake(server: Server) -> None:
    """The log has a line for each answer that failed on our side, whichever test asked."""
    failed = [line for line in server.log_lines if line["level"] in ("error", "critical")]
    # On a busy machine the disk may take seconds to sync, which is the machine's fault.
    assert [line for line in failed if not is_slow_disk(line)] == []
    assert "Traceback" not in server.log
    answered = scrape(server)["holdfast_http_requests_total"]
    print(f"{sum(answered.values()):.0f} requests, by status: {answered}")
    assert sum(answered.values()) >= FUZZ_REQUESTS


def is_slow_disk(line: dict[str, Any]) -> bool:
    return (line["event"], line.get("reason")) == ("store_not_writable", "no_answer")
