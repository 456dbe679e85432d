"""Traces: one from the click to the webhook, whatever is between them."""

import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_calling import eventually
from http_sales import Store, body_of, store_of
from http_serving import Server, database_setting, started

from holdfast.http.server.traced_app import TRACES_PER_SECOND_MAX
from otlp import Collector, Received, collecting
from receiver import Receiver, receiving

pytest_plugins = ("http_fixtures",)

PURCHASE_SPAN = "POST /v1/sales/{sale_id}/purchase"
# The first request, and so the first of its batch.
CALLERS_SPAN = "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def tracing(collector: Collector, **more: str) -> dict[str, str]:
    """Nothing but what the callers ask for, who come as through a trusted proxy."""
    trusted = {"TRUSTED_PROXIES": "127.0.0.1/32", "WEBHOOK_PRIVATE": "1"}
    return {"OTEL_ENDPOINT": collector.url, "OTEL_SAMPLE_PERCENT": "0"} | trusted | more


def buy(store: Store, trace_id: str, *, is_sampled: bool = True, buyer_id: str = "ada") -> dict[str, object]:
    """Instantly, with a trace of the caller's."""
    with store.buyer(buyer_id) as buyer:
        buyer.client.headers["traceparent"] = f"00-{trace_id}-{CALLERS_SPAN}-0{int(is_sampled)}"
        return dict(buyer.purchase().json())


def fund(server: Server, buyer_id: str = "ada") -> None:
    credit = {"amount": 100_000, "currency": "EUR", "idempotency_key": secrets.token_hex(8)}
    body_of(server.client.post(f"/v1/wallets/{buyer_id}/credit", json=credit))


def sold_with_trace(server: Server, receiver: Receiver, trace_id: str) -> tuple[Store, str]:
    hook = {"url": receiver.url, "events": ["order.confirmed"]}
    assert server.client.post("/v1/webhooks", json=hook).status_code == 201
    store = store_of(server)
    store.open(checkout="instant", total_units=1)
    fund(server)
    return store, str(buy(store, trace_id)["reservation_id"])


def audit(server: Server, buyer_id: str) -> list[dict[str, object]]:
    data: list[dict[str, object]] = body_of(server.client.get("/v1/ops/audit", params={"buyer_id": buyer_id}))["data"]
    return data


def only(spans: dict[str, list[Received]], name: str) -> Received:
    [span] = spans[name]
    return span


def check_one_trace(collector: Collector, receiver: Receiver, trace_id: str, gate: str) -> dict[str, list[Received]]:
    wanted = {PURCHASE_SPAN, "queue", "batch", gate, "settlement", "order", "webhook order.confirmed"}
    spans = collector.until(lambda found: wanted <= found.keys(), trace_id)
    request, batch = only(spans, PURCHASE_SPAN), only(spans, "batch")
    assert request.parent_id == CALLERS_SPAN
    assert request.attributes["http.response.status_code"] == 201
    assert only(spans, "queue").parent_id == batch.parent_id == request.span_id
    assert batch.links == ((trace_id, request.span_id),)
    assert only(spans, gate).parent_id == batch.span_id
    assert {one.parent_id for one in spans["settlement"]} == {request.span_id}
    assert only(spans, "order").parent_id in {one.span_id for one in spans["settlement"]}
    sent = only(spans, "webhook order.confirmed")
    assert sent.parent_id == request.span_id
    [received] = receiver.accepted
    assert received.headers["traceparent"] == f"00-{trace_id}-{sent.span_id}-01"
    assert received.event["traceparent"] == f"00-{trace_id}-{request.span_id}-01"
    return spans


def test_one_trace_goes_from_the_click_to_the_webhook(tmp_path: Path, collector: Collector, receiver: Receiver) -> None:
    trace_id = secrets.token_hex(16)
    with started(tmp_path, settings=tracing(collector)) as server:
        store, reservation_id = sold_with_trace(server, receiver, trace_id)
        check_one_trace(collector, receiver, trace_id, "gate sqlite")
        # What is refused names its trace: to the caller, in the audit and in the log.
        refused, other = secrets.token_hex(16), secrets.token_hex(16)
        assert buy(store, refused, buyer_id="bob")["trace_id"] == refused
        assert "trace_id" not in buy(store, other, is_sampled=False, buyer_id="bob")
        eventually(lambda: refused in {one["trace_id"] for one in audit(server, "bob")})
        assert {one["trace_id"] for one in audit(server, "bob")} <= {refused, None}
        history = body_of(server.client.get(f"/v1/reservations/{reservation_id}/history"))
        assert history["trace_id"] == trace_id
        looking = {"accept": "application/openmetrics-text", "traceparent": f"00-{other}-{CALLERS_SPAN}-01"}
        shown = server.client.get("/metrics", headers=looking).text
        assert shown.endswith("# EOF\n")
        assert f'# {{trace_id="{refused}"}}' in shown
    assert not collector.of(other).get(PURCHASE_SPAN)
    assert any(line.get("trace_id") == other for line in server.log_lines)


def test_strangers_and_buyers_cannot_use_up_what_is_traced_in_a_second(tmp_path: Path, collector: Collector) -> None:
    with started(tmp_path, settings=tracing(collector, TRUSTED_PROXIES="")) as server:
        store, nowhere = store_of(server), f"/v1/sales/{secrets.token_hex(6)}"
        forced = {"traceparent": f"00-{secrets.token_hex(16)}-{CALLERS_SPAN}-01"}
        with server.connect() as stranger, server.connect("hf_made_up") as liar, store.buyer() as buyer:
            for client in (stranger, liar, buyer.client):
                for _ in range(TRACES_PER_SECOND_MAX):
                    assert "trace_id" not in client.get(nowhere, headers=forced).json()
        made = body_of(server.client.post("/v1/ops/keys", json={"name": "shop", "scopes": ["read"]}), 201)
        with server.connect(made["key"]) as shop:
            trace_id = secrets.token_hex(16)
            traced = {"traceparent": f"00-{trace_id}-{CALLERS_SPAN}-01"}
            # Its first request, too, before the server has seen the key.
            assert shop.get(nowhere, headers=traced).json()["trace_id"] == trace_id
    assert not collector.of(forced["traceparent"].split("-")[1])


@pytest.mark.slow
def test_in_redis_mode_the_trace_goes_through_the_journal(
    tmp_path: Path, request: pytest.FixtureRequest, collector: Collector, receiver: Receiver
) -> None:
    trace_id = secrets.token_hex(16)
    settings = tracing(collector) | database_setting("redis", request)
    with started(tmp_path, settings=settings) as server:
        sold_with_trace(server, receiver, trace_id)
        spans = check_one_trace(collector, receiver, trace_id, "gate redis")
        spans = collector.until(lambda found: "journal" in found, trace_id)
        request_span = only(spans, PURCHASE_SPAN).span_id
        assert {one.parent_id for one in spans["journal"]} == {request_span}


@pytest.mark.slow
def test_fronts_pass_the_trace_on_to_the_core(tmp_path: Path, collector: Collector, receiver: Receiver) -> None:
    trace_id, refused = secrets.token_hex(16), secrets.token_hex(16)
    with started(tmp_path, "--workers", "2", settings=tracing(collector)) as server:
        store, _ = sold_with_trace(server, receiver, trace_id)
        check_one_trace(collector, receiver, trace_id, "gate sqlite")
        # By now the front asks the short question, unless the caller traces.
        for _ in range(4):
            buy(store, refused, is_sampled=False, buyer_id="bob")
        assert buy(store, refused, buyer_id="bob")["trace_id"] == refused


def test_a_collector_that_does_not_answer_stops_nothing(tmp_path: Path) -> None:
    settings = {"OTEL_ENDPOINT": "http://127.0.0.1:9", "OTEL_SAMPLE_PERCENT": "100"}
    with started(tmp_path, settings=settings) as server:
        shop = server.shop()
        shop.provision(20)
        for _ in range(20):
            shop.hold()
        eventually(lambda: any(line["event"] == "traces_not_sent" for line in server.log_lines))
        assert server.stop() == 0


def test_opentelemetry_is_not_imported_unless_traces_are_on(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from holdfast.bootstrap.services import open_services
from holdfast.http.server.traced_app import build_app
from holdfast.settings import load_settings

async def main():
    async with open_services(load_settings(data=sys.argv[1]), background=True) as services:
        app = build_app(services)
        print(type(app).__name__, type(services.batcher).__name__, "opentelemetry" in sys.modules)
        await app.finish()

asyncio.run(main())
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split() == ["App", "Batcher", "False"]
