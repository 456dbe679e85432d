"""The endpoint table: what is derived from it holds for every endpoint, and nothing is served that is not in it."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from inspect import signature
from uuid import uuid4

import pytest
from http_tokens import buyer_token

from asking_inside import NoConnection
from holdfast.bootstrap.services import Services, open_services
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.domain.stock.command import Move, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.http.contract.endpoint import Endpoint, IfUnknown
from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.http.contract.message import Answer, Request
from holdfast.http.contract.paths_module import paths_module
from holdfast.http.contract.problem import NO_STORE, NOSNIFF
from holdfast.http.contract.problems import CATALOGUE
from holdfast.http.protection.admission import AdmissionControl, build_admission
from holdfast.http.server.app import App
from holdfast.http.server.handlers import handlers_of
from holdfast.http.server.router import Router, TableMismatch
from holdfast.ledger.access.keys import Scope, create_key
from holdfast.runtime.concurrency_limit import Priority
from holdfast.settings import load_settings

BUYER_SECRET = "b0ye45ec" * 4
# Exempt from limits by address.
LOOPBACK = "127.0.0.1:1"
VALUES = {
    "sku_id": "sku", "drop_id": "drop",
    "sale_id": "sale", "reservation_id": "rsv", "order_id": "ord", "buyer_id": "a/b",
    "key_id": "0" * 12, "operator_id": "0" * 12, "session_id": "0" * 16, "parked_id": "p", "webhook_id": "w",
    "approval_id": "a", "path": "docs.css", "message_id": "msg_1", "token": "t", "token_id": "a/b",
}  # fmt: skip


@dataclass(frozen=True)
class Serving:
    services: Services
    admission: AdmissionControl
    app: App

    async def answer(
        self, method: str, path: str, who: str | None = None, body: bytes = b"", query: str = ""
    ) -> Answer:
        request = Request(method, path, query, NoConnection([], LOOPBACK), "id", authorization=who, body=body)
        answer = await self.app.answer(request)
        assert answer is not None
        return answer

    @property
    def service(self) -> str:
        return f"Bearer {self.services.settings.service_key_text()}"


@pytest.fixture(scope="module")
async def serving(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Serving]:
    settings = load_settings(data=tmp_path_factory.mktemp("table"), buyer_secret=BUYER_SECRET)
    async with open_services(settings, background=False) as services:
        admission = build_admission(settings)
        app = App(services, admission)
        yield Serving(services, admission, app)
        await app.finish()


def path_of(endpoint: Endpoint) -> str:
    path = endpoint.template
    for name in endpoint.path_parameters:
        path = path.replace(f"{{{name}}}", VALUES[name])
    return path


def router_of(serving: Serving) -> Router:
    endpoints = [endpoint for endpoint in ENDPOINTS if not endpoint.is_demo]
    return Router(endpoints, handlers_of(serving.services, serving.admission))


def test_each_operation_is_declared_once() -> None:
    assert len({endpoint.operation_id for endpoint in ENDPOINTS}) == len(ENDPOINTS)
    assert len({(method, endpoint.path) for endpoint in ENDPOINTS for method in endpoint.methods}) >= len(ENDPOINTS)


async def test_every_path_leads_to_its_endpoint_and_to_no_other(serving: Serving) -> None:
    router = router_of(serving)
    for endpoint in ENDPOINTS:
        for method in () if endpoint.is_demo else endpoint.methods:
            found = router.find(method, path_of(endpoint))
            assert found is not None, endpoint.path
            assert found.route.endpoint is endpoint
            assert found.values == tuple(VALUES[name] for name in endpoint.path_parameters)
            assert method in router.allowed(path_of(endpoint))


async def test_a_handler_takes_what_its_endpoint_declares(serving: Serving) -> None:
    for endpoint, handler in handlers_of(serving.services, serving.admission).items():
        declared = [kind for kind in (endpoint.body, endpoint.query) if kind is not None]
        parameters = list(signature(handler, eval_str=True).parameters.values())
        assert [one.annotation for one in parameters] == [Request, *[str] * len(endpoint.path_parameters), *declared]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/v1/wallets/a/b/credit", "a/b"),
        ("/v1/wallets/credit/credit", "credit"),
        ("/v1/wallets/ä%/credit", "ä%"),
    ],
)
async def test_a_rest_may_have_slashes(serving: Serving, path: str, value: str) -> None:
    found = router_of(serving).find("POST", path)
    assert found is not None
    assert (found.route.endpoint.operation_id, found.values) == ("credit_wallet", (value,))
    read = router_of(serving).find("GET", path)
    assert read is not None
    assert (read.route.endpoint.operation_id, read.values) == ("get_wallet", (path.removeprefix("/v1/wallets/"),))


async def test_a_literal_goes_before_a_parameter(serving: Serving) -> None:
    router = router_of(serving)
    found = [router.find("POST", path) for path in ("/v1/ops/parked/retry", "/v1/ops/parked/retry/retry")]
    names = [one.route.endpoint.operation_id for one in found if one is not None]
    assert names == ["retry_all_parked", "retry_parked"]


@pytest.mark.parametrize(
    "path", ["", "/v1", "/v1/inventory//available", "/v1/inventory/a/b/available", "/v1/wallets/", "/docs/", "//docs"]
)
async def test_a_path_that_is_not_in_the_table_leads_nowhere(serving: Serving, path: str) -> None:
    assert router_of(serving).find("GET", path) is None
    assert router_of(serving).allowed(path) == []


async def test_a_server_does_not_start_unless_table_and_handlers_agree(serving: Serving) -> None:
    handlers = handlers_of(serving.services, serving.admission)
    endpoints = [endpoint for endpoint in ENDPOINTS if not endpoint.is_demo]
    with pytest.raises(TableMismatch, match="without an endpoint: \\['put_pool'\\]"):
        Router(endpoints[1:], handlers)
    del handlers[endpoints[0]]
    with pytest.raises(TableMismatch, match="without a handler: \\['put_pool'\\]"):
        Router(endpoints, handlers)


async def test_a_caller_without_access_is_refused_before_the_body_is_read(serving: Serving) -> None:
    database = serving.services.database
    _, nothing = await database.write(lambda c: create_key(c, "sales", frozenset({Scope.SALES}), 0))
    for endpoint in ENDPOINTS:
        if not endpoint.access.is_required:
            continue
        path = path_of(endpoint)
        assert (await serving.answer(endpoint.method, path, None, b"{")).status == 401
        assert (await serving.answer(endpoint.method, path, "Bearer hf_made_up", b"{")).status == 401
        others = Scope.SALES if endpoint.access.scope is not Scope.SALES else None
        if others is not None and (endpoint.access.scope is not None or not endpoint.access.services):
            assert (await serving.answer(endpoint.method, path, f"Bearer {nothing}", b"{")).status == 403
        if not endpoint.access.buyers:
            assert (await serving.answer(endpoint.method, path, f"Bearer {buyer_token('ada')}", b"{")).status == 403


async def test_what_only_some_callers_may_read_is_kept_by_no_cache_and_taken_for_nothing_else(serving: Serving) -> None:
    answered = set[str]()
    for endpoint in ENDPOINTS:
        if endpoint.access.is_required and endpoint.method == "GET":
            who = serving.service if endpoint.access.services else f"Bearer {buyer_token('ada')}"
            answer = await serving.answer("GET", path_of(endpoint), who)
            assert {NO_STORE, NOSNIFF} <= set(answer.headers), endpoint.path
            answered |= {endpoint.operation_id} if answer.status == 200 else set()
    assert {"metrics", "get_pools", "list_orders"} <= answered


async def test_an_optional_read_says_that_it_is_off_while_the_host_is_used_up_and_everything_else_goes_on(
    serving: Serving,
) -> None:
    optional = [endpoint for endpoint in ENDPOINTS if endpoint.is_optional]
    assert {endpoint.operation_id for endpoint in optional} == {"get_audit"}
    host = serving.admission.shedder.host
    host.is_high = True
    try:
        for endpoint in optional:
            query = "buyer_id=ada" if endpoint.query is not None else ""
            answer = await serving.answer("GET", path_of(endpoint), serving.service, query=query)
            assert (answer.status, json.loads(answer.body)) == (200, {"disabled": True})
            assert (await serving.answer("GET", path_of(endpoint), None)).status == 401
        assert (await serving.answer("GET", "/v1/orders", f"Bearer {buyer_token('ada')}")).status == 200
        assert (await serving.answer("GET", "/v1/reservations/rsv/history", serving.service)).status == 404
        told = json.loads((await serving.answer("GET", "/v1/features")).body)
        assert told["features"]["optional_reads"] == {"enabled": False, "reason": "host"}
        assert told["degraded_features"][-1] == "optional_reads"
    finally:
        host.is_high = False


async def test_a_malformed_body_is_named_as_such_everywhere(serving: Serving) -> None:
    for endpoint in ENDPOINTS:
        if endpoint.body is None:
            continue
        who = serving.service if endpoint.access.services else f"Bearer {buyer_token('ada')}"
        request = Request(endpoint.method, path_of(endpoint), "", NoConnection([], LOOPBACK), "id", authorization=who)
        request.idempotency_key, request.body = "k", b"{"
        answer = await serving.app.answer(request)
        assert answer is not None
        assert json.loads(answer.body)["reason"] == "invalid_json", endpoint.path


@pytest.mark.parametrize(
    ("method", "path", "priority"),
    [
        ("POST", "/v1/reservations/r/confirm", Priority.FINISH),
        ("DELETE", "/v1/reservations/r", Priority.FINISH),
        ("POST", "/v1/payments/stripe/webhook", Priority.FINISH),
        ("POST", "/v1/sales/s/pause", Priority.FINISH),
        ("POST", "/v1/sales/s/purchase", Priority.PURCHASE),
        ("POST", "/v1/inventory/s/reserve", Priority.PURCHASE),
        ("POST", "/v1/sales/s/queue", Priority.JOIN),
        ("POST", "/v1/sales/s/admission", Priority.JOIN),
        ("GET", "/v1/sales/s/challenge", Priority.JOIN),
        ("GET", "/v1/sales/s/now", Priority.READ),
        ("GET", "/v1/orders", Priority.READ),
        ("GET", "/v1/ops/pools", Priority.CONSOLE),
        ("GET", "/metrics", Priority.CONSOLE),
        ("GET", "/docs", Priority.CONSOLE),
        ("GET", "/healthz/live", None),
        ("GET", "/healthz/ready", None),
    ],
)
async def test_what_is_begun_is_finished_first(
    serving: Serving, method: str, path: str, priority: Priority | None
) -> None:
    found = router_of(serving).find(method, path)
    assert found is not None
    assert found.route.endpoint.priority is priority


async def test_under_load_what_does_not_fit_is_refused_by_priority_and_unknown_paths_first(serving: Serving) -> None:
    services, owner = serving.services, f"Bearer {buyer_token('ada')}"
    sku_id = await sku_in_sale(services, PaymentKind.WALLET)
    held = new_reservation_id(sku_id, "ada")
    await services.batcher.submit(sku_id, Reserve(held, "ada", 1, 1, 600_000))
    path = f"/v1/reservations/{held}"
    looks = [(owner, path), (owner, "/v1/orders"), (serving.service, path)]
    answers = [await serving.answer("GET", where, who) for who, where in looks]
    assert [(answer.status, dict(answer.headers)["x-request-id"]) for answer in answers] == [(200, "id")] * 3
    assert ["ratelimit" in dict(answer.headers) for answer in answers] == [True, True, False]
    limiter, crowd = serving.admission.shedder.limiter, 0
    while limiter.enter(Priority.READ):
        crowd += 1
    assert [(await serving.answer("GET", where, who)).status for who, where in looks] == [503] * 3
    assert (await serving.answer("GET", "/nope/purchase")).status == 503
    assert (await serving.answer("POST", f"{path}/confirm", owner)).status == 202
    for _ in range(crowd):
        limiter.leave(None, 0.0)


async def sku_in_sale(services: Services, payment: PaymentKind) -> str:
    name = f"drop-{uuid4().hex[:8]}"
    sale = Sale(
        sale_id=name, sku_id=name, name="Drop", price_amount=100, currency="EUR", starts_at=0,
        checkout=Checkout.CART, payment=payment, loaded_units=1_000, per_buyer_limit=None,
    )  # fmt: skip
    await services.sale_operations.create(sale)
    await services.catalogue.refresh()
    return name


async def test_a_buyers_orders_are_the_same_with_and_without_a_limit(serving: Serving) -> None:
    services, sku_id = serving.services, await sku_in_sale(serving.services, PaymentKind.EXTERNAL)
    for bought in (0, 2, 20, 24):
        buyer_id = f"buyer-{uuid4().hex[:8]}"
        ids = [new_reservation_id(sku_id, buyer_id) for _ in range(bought)]
        commands = [Reserve(i, buyer_id, 1, 1) for i in ids] + [Move(Transition.CONFIRM, i) for i in ids]
        await asyncio.gather(*[services.batcher.submit(sku_id, command) for command in commands])
        who = f"Bearer {buyer_token(buyer_id)}"
        shared = await serving.answer("GET", "/v1/orders", who)
        filtered = await serving.answer("GET", "/v1/orders", who, query=f"sale_id={sku_id}")
        assert shared.body == filtered.body
        assert shared.body.count(b'"order_id"') == min(bought, 20)


def test_every_problem_says_what_it_is_and_whether_to_retry() -> None:
    assert len(CATALOGUE) > 50
    for reason, kind in CATALOGUE.items():
        assert (kind.reason, kind.document()["type"]) == (reason, f"urn:holdfast:{reason}")
        assert kind.title
        assert kind.detail
        assert not (kind.retryable and kind.status in (401, 404, 405, 413, 422))
    declared = {kind.reason for endpoint in ENDPOINTS for kind in endpoint.problems}
    assert declared <= CATALOGUE.keys()


def test_an_unknown_outcome_is_never_told_to_be_idempotent_where_a_repeat_changes_more() -> None:
    unsafe = {endpoint.operation_id for endpoint in ENDPOINTS if endpoint.if_unknown is not IfUnknown.REPEAT}
    assert unsafe >= {"reserve", "purchase", "restock_sale"}
    assert unsafe >= {"change_room", "create_key", "create_webhook", "rotate_secret", "send_test"}
    assert not unsafe & {"confirm", "cancel", "extend", "put_pool", "join", "pause_sale"}


def test_the_scripts_paths_are_those_of_the_table() -> None:
    module = paths_module(ENDPOINTS)
    for endpoint in ENDPOINTS:
        if endpoint.is_documented:
            assert endpoint.template.partition("{")[0] in module
    assert "export const getReservation = (reservationId) => `/v1/reservations/${part(reservationId)}`;" in module
