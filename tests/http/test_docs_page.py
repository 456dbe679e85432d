"""The API reference: complete, true, and safe to look at."""

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from http_calling import eventually
from http_serving import SERVICE_KEY, Server, started
from http_tokens import buyer_token

from holdfast.domain.sale.sale import order_id_of
from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.http.contract.openapi import openapi_document
from holdfast.http.contract.problems import CATALOGUE
from holdfast.http.web.example import Examples
from holdfast.http.web.operation import operations_of
from holdfast.http.web.reference import render

VOID = {"meta", "link"}
# Their examples need something that the purchase of the page does not make.
NEEDS_MORE = (
    "/v1/webhooks", "/v1/ops/parked", "/v1/ops/keys", "/v1/ops/sales", "/v1/ops/audit", "/v1/console", "/v1/payments",
    "/v1/orders/{order_id}/refund", "/v1/ops/operators", "/v1/ops/sessions", "/v1/ops/actions",
    "/v1/drops/{drop_id}", "/v1/ops/approvals", "/v1/ops/messages", "/v1/messages",
)  # fmt: skip


class Parsed(HTMLParser):
    """A page taken apart. Fails on an element that is not closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def attributes(self, name: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(name)) is not None]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document(ENDPOINTS)


@pytest.fixture(scope="module")
def client(serving: Server) -> Iterator[httpx.Client]:
    with serving.connect() as client:
        yield client


@pytest.fixture(scope="module")
def page(client: httpx.Client) -> str:
    return client.get("/docs").text


def test_every_operation_is_described_and_can_be_found_from_the_contents(client: httpx.Client, page: str) -> None:
    parsed, document = Parsed(page), client.get("/openapi.json").json()
    operations = list(operations_of(document))
    assert len(operations) == sum(len(methods) for methods in document["paths"].values()) > 10
    for operation in operations:
        assert operation.anchor in parsed.attributes("id")
        assert f"#{operation.anchor}" in parsed.attributes("href")
        assert operation.path in parsed.text
        assert operation.spec["summary"] in parsed.text


def test_every_field_that_can_be_sent_is_named_with_its_limits(client: httpx.Client, page: str) -> None:
    text = Parsed(page).text
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    sent = [schema for name, schema in schemas.items() if name.endswith("In")]
    assert len(sent) >= 3
    assert [field for schema in sent for field in schema["properties"] if field not in text] == []
    for limits in ("1 to 1,000,000", "0 to 1,000,000,000", "1 to 1,800", "1 to 200 characters", "default 300"):
        assert limits in text


def test_the_page_is_well_formed_and_every_link_leads_somewhere(client: httpx.Client, page: str) -> None:
    parsed = Parsed(page)
    ids = parsed.attributes("id")
    assert len(ids) == len(set(ids))
    for href in parsed.attributes("href"):
        if href.startswith("#"):
            assert href[1:] in ids
        else:
            assert client.get(href).status_code == 200, href


def test_nothing_on_the_page_needs_a_script_or_another_host(client: httpx.Client, page: str) -> None:
    parsed, answer = Parsed(page), client.get("/docs")
    assert {tag for tag, _ in parsed.elements} & {"script", "style", "iframe", "img", "object"} == set()
    assert [name for _, attributes in parsed.elements for name in attributes if name.startswith("on")] == []
    assert parsed.attributes("style") == []
    assert [href for href in parsed.attributes("href") if not href.startswith(("#", "/"))] == []
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; img-src 'self'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("path", "kind"), [("/assets/docs.css", "text/css"), ("/assets/holdfast.svg", "image/svg+xml")]
)
def test_what_the_page_looks_like_comes_from_here(client: httpx.Client, path: str, kind: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"].startswith(kind)
    assert "https://" not in answer.text
    assert client.head(path).status_code == client.head("/docs").status_code == 200


EVIL = "<script>alert(1)</script>\"'&<b>"


def test_every_variable_of_the_examples_is_explained(document: dict[str, Any], page: str) -> None:
    examples = Examples(document)
    shown = [examples.curl(one.method, one.path, one.spec) for one in operations_of(document)]
    used = {name for curl in shown for name in re.findall(r"\$([A-Z_]+)", curl)}
    assert {name for name in used if f"export {name}=" not in page} == set()


def test_the_page_says_who_may_call(page: str) -> None:
    assert "Access: public." in page
    assert "Access: service key with the scope <code>money</code>." in page


def test_every_picture_of_the_style_sheet_is_there(client: httpx.Client) -> None:
    pictures = re.findall(r'url\("(.+?)"\)', client.get("/assets/docs.css").text)
    assert {path: client.get(path).status_code for path in pictures} == {"/assets/holdfast.svg": 200}


def test_whatever_the_document_says_stays_text() -> None:
    field = {"type": "string", "description": EVIL, "pattern": EVIL, "default": EVIL, "title": EVIL}
    schema = {"type": "object", "properties": {EVIL: field, "kind": {"enum": [EVIL]}}, "required": [EVIL]}
    content = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evil"}}}}
    operation = {
        "tags": [EVIL],
        "summary": EVIL,
        "description": f"{EVIL} `{EVIL}`",
        "parameters": [{"name": EVIL, "in": "query", "schema": field, "description": EVIL}],
        "requestBody": content,
        "responses": {"200": content | {"description": EVIL, "headers": {EVIL: {"description": EVIL}}}},
    }
    document = {
        "info": {"title": EVIL, "version": EVIL, "description": EVIL},
        "paths": {f"/{EVIL}": {"post": operation}},
        "components": {"schemas": {"Evil": schema}},
    }
    parsed = Parsed(render(document, []))
    assert {tag for tag, _ in parsed.elements} & {"script", "b"} == set()
    assert parsed.text.count(EVIL) > 10
    assert EVIL in parsed.attributes("id")


def test_every_problem_is_listed_and_can_be_linked_to(page: str) -> None:
    parsed = Parsed(page)
    assert [kind.reason for kind in CATALOGUE.values() if kind.reason not in parsed.text] == []
    assert [kind.anchor for kind in CATALOGUE.values() if kind.anchor not in parsed.attributes("id")] == []


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(tmp_path_factory.mktemp("docs"), settings={"SMTP_URL": "smtp://127.0.0.1:1"}) as server:
        yield server


def call(serving: Server, curl: str, reservation_id: str, ticket: str = "") -> tuple[int, Any]:
    """Run an example as it stands on the page. Gives the status and what was answered."""
    variables = {
        "HOLDFAST_URL": serving.url,
        "HOLDFAST_KEY": SERVICE_KEY,
        "BUYER_TOKEN": buyer_token(),
        "RESERVATION_ID": reservation_id,
        # What is sold in the sale is confirmed by the service, and then an order.
        "ORDER_ID": order_id_of(reservation_id),
        "TICKET": ticket,
    }
    command = curl.replace("curl ", "curl --silent --noproxy '*' --write-out '\\n%{http_code}' ", 1)
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin"} | variables
    ran = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=True)
    body, _, status = ran.stdout.rpartition("\n")
    return int(status), json.loads(body) if body.startswith("{") else body


def test_every_example_on_the_page_works_and_answers_what_the_page_says(
    serving: Server, document: dict[str, Any]
) -> None:
    examples = Examples(document)
    # One purchase from the beginning to the end: the pool first, what ends the reservation last; then one in a sale.
    order = ["put", "reserve", "extend", "confirm", "reservations", "post-v1-sales", "quote", "purchase"]
    # Then people stand in line.
    order += ["pause", "resume", "restock", "patch", "now", "orders", "post-v1-sales-sale_id-queue", "status"]
    order += ["challenge", "admission", "room", "close"]
    # A payment that needs its buyer is shown in tests/settlement/test_bank_asks.py.
    shown = [one for one in operations_of(document) if not one.path.startswith(NEEDS_MORE)]
    shown = [one for one in shown if not one.path.endswith("/payment")]
    operations = sorted(shown, key=lambda o: (o.method == "delete", _place(order, o.anchor)))
    reservation_id = ticket = ""
    for operation in operations:
        if operation.anchor.endswith("-queue") and not ticket:
            serving.client.patch("/v1/sales/drop", json={"room": {"mode": "fifo"}}).raise_for_status()
        if operation.anchor.endswith("admission"):
            eventually(lambda: serving.client.get("/v1/sales/drop/now").json()["serving"])
        asks_for_proof = {"cost": 1_000} if operation.anchor.endswith("challenge") else None
        serving.client.patch("/v1/sales/drop", json={"proof_of_work": asks_for_proof})
        curl = examples.curl(operation.method, operation.path, operation.spec)
        if operation.method == "delete":  # A confirmed reservation cannot be given back, so this one takes another.
            again = next(o for o in operations if o.anchor.endswith("reserve"))
            fresh = examples.curl(again.method, again.path, again.spec).replace("order-1001", "order-1002")
            reservation_id = call(serving, fresh, "")[1]["reservation_id"]
        status, answered = call(serving, curl, reservation_id, ticket)
        if operation.anchor.endswith("purchase"):
            confirm = next(o for o in operations if o.anchor.endswith("confirm"))
            told = examples.curl(confirm.method, confirm.path, confirm.spec)
            assert call(serving, told, answered["reservation_id"])[0] == 200
        if operation.anchor.endswith("entries"):
            assert (status, answered["reason"]) == (409, "lottery_not_drawn")  # It draws no lots.
            continue
        wanted, response = operation.answer
        assert str(status) == wanted, (curl, answered)
        example = examples.answer(operation.spec, response)
        if isinstance(answered, str):
            # Line by line, without the figures, which are those of the moment.
            lines = [line.rpartition(" ")[0] for line in (example or "").removesuffix("…").splitlines()]
            assert [line for line in lines if line not in answered] == []
            continue
        # A quote in the sale's own currency has no rate; where there are no cells, none is away.
        left_out = {"rate", "unavailable_cells"}
        assert answered.keys() == json.loads(example or "{}").keys() - left_out, curl
        reservation_id, ticket = answered.get("reservation_id", reservation_id), answered.get("ticket", ticket)


def test_an_extension_by_five_minutes_ends_five_minutes_later(document: dict[str, Any]) -> None:
    examples = Examples(document)
    shown = {operation.anchor.rpartition("-")[2]: operation for operation in operations_of(document)}
    answers = {name: examples.answer(shown[name].spec, shown[name].answer[1]) or "" for name in ("reserve", "extend")}
    ends = [datetime.fromisoformat(json.loads(answers[name])["expires_at"]) for name in ("reserve", "extend")]
    extend = shown["extend"]
    assert '"ttl_seconds": 300' in examples.curl(extend.method, extend.path, extend.spec)
    assert ends[1] - ends[0] == timedelta(seconds=300)


def _place(order: list[str], anchor: str) -> int:
    words = [anchor, *anchor.split("-")]
    return next((index for index, word in enumerate(order) if word in words), len(order))
