"""Wallets, refunds, parked items and reports over HTTP, on every engine."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from http_calling import body_of, eventually, problem_of, wrong_fields
from http_ledger import in_ledger
from http_serving import Server, run_holdfast, started
from http_tokens import buyer_token
from sqlalchemy import Connection, delete, insert, select

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState, order_id_of
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.ledger.sales.sales import insert_sale, put_pool_in_sale
from holdfast.ledger.tables.money import refunds, settlements
from holdfast.ledger.tables.sales import orders

pytest_plugins = ("http_fixtures",)


def a_sale(server: Server, **changes: Any) -> Sale:
    sku_id = f"sku-{uuid4().hex[:10]}"
    given: dict[str, Any] = {
        "sale_id": f"sale-{sku_id}",
        "sku_id": sku_id,
        "name": "Drop",
        "price_amount": 1_000,
        "currency": "EUR",
        "starts_at": 0,
        "checkout": Checkout.INSTANT,
        "payment": PaymentKind.WALLET,
        "state": SaleState.READY,
    }
    sale = Sale(**given | changes)
    body_of(server.client.put(f"/v1/inventory/{sku_id}", json={"total_units": 5}))

    def work(connection: Connection) -> None:
        insert_sale(connection, sale)
        put_pool_in_sale(connection, sku_id, sale.sale_id, 0)

    in_ledger(server, work)
    return sale


def external_order(server: Server) -> str:
    """An order that somebody else took the money for, which is all this branch of routes can make."""
    sale = a_sale(server, payment=PaymentKind.EXTERNAL, checkout=Checkout.CART)
    asked = {"owner_id": "ada", "quantity": 1}
    held = body_of(server.client.post(f"/v1/inventory/{sale.sku_id}/reserve", json=asked))["reservation_id"]
    body_of(server.client.post(f"/v1/reservations/{held}/confirm"))
    order_id = order_id_of(held)
    known = select(orders.c.order_id).where(orders.c.order_id == order_id)
    eventually(lambda: in_ledger(server, lambda c: c.execute(known).scalar()))
    return order_id


def credit(client: httpx.Client, buyer: str, amount: int, key: str, currency: str = "EUR") -> httpx.Response:
    """Asked again with the same key where a busy machine refuses or cannot tell, as clients are told to."""
    body = {"amount": amount, "currency": currency, "idempotency_key": key}

    def ask() -> httpx.Response | None:
        answer = client.post(f"/v1/wallets/{buyer}/credit", json=body)
        return None if answer.status_code == 503 and answer.json()["retryable"] else answer

    answer = eventually(ask)
    assert answer is not None
    return answer


def test_a_wallet_is_credited_once_per_key(server: Server) -> None:
    buyer = f"b-{uuid4().hex[:8]}"
    first = body_of(credit(server.client, buyer, 500, "k1"))
    assert first == {"buyer_id": buyer, "balance": 500, "currency": "EUR"}
    body_of(credit(server.client, buyer, 300, "k2"))
    assert body_of(credit(server.client, buyer, 500, "k1")) == first
    problem_of(credit(server.client, buyer, 501, "k1"), 422, "idempotency_key_reused")
    problem_of(credit(server.client, buyer, 500, "k1", "USD"), 422, "idempotency_key_reused")
    body_of(credit(server.client, buyer, 7, "k3", "USD"))
    wallet = body_of(server.client.get(f"/v1/wallets/{buyer}"))
    assert [(b["balance"], b["currency"]) for b in wallet["balances"]] == [(800, "EUR"), (7, "USD")]


def test_a_buyer_whose_id_has_a_slash_has_a_wallet(embedded: Server) -> None:
    body_of(credit(embedded.client, "tenant%2Fada", 5, "k"))
    assert body_of(embedded.client.get("/v1/wallets/tenant%2Fada"))["balance"] == 5
    with embedded.connect(buyer_token("tenant/ada")) as ada:
        assert body_of(ada.get("/v1/wallets/tenant/ada"))["buyer_id"] == "tenant/ada"


def test_buyers_and_keys_that_look_alike_when_joined_are_credited_each(server: Server) -> None:
    mark = uuid4().hex[:8]
    named = [(f"{mark}%2Fb", "c"), (mark, "b/c"), (f"{mark}%2Fb%2Fc", "d"), (f"{mark}%2Fb", "c/d"), (mark, "b/c/d")]
    for _ in range(2):
        for amount, (buyer, key) in enumerate(named, start=1):
            assert body_of(credit(server.client, buyer, amount, key))["balance"] >= amount
    balances = {buyer: body_of(server.client.get(f"/v1/wallets/{buyer}"))["balance"] for buyer, _ in named}
    assert balances == {f"{mark}%2Fb": 1 + 4, mark: 2 + 5, f"{mark}%2Fb%2Fc": 3}


def test_fifty_credits_at_once_under_one_key_are_one(server: Server) -> None:
    buyer = f"b-{uuid4().hex[:8]}"
    with ThreadPoolExecutor(16) as crowd:
        answers = list(crowd.map(lambda _: credit(server.client, buyer, 100, "k"), range(50)))
    assert {answer.text for answer in answers} == {answers[0].text}
    assert body_of(server.client.get(f"/v1/wallets/{buyer}"))["balance"] == 100


def test_a_buyer_sees_their_own_wallet_only(server: Server) -> None:
    with server.connect(buyer_token("ada")) as ada:
        assert body_of(ada.get("/v1/wallets/ada"))["buyer_id"] == "ada"
        problem_of(ada.get("/v1/wallets/bob"), 403, "forbidden")
        problem_of(credit(ada, "ada", 1, "k"), 403, "forbidden")
    with server.connect() as stranger:
        problem_of(stranger.get("/v1/wallets/ada"), 401, "unauthorized")


@pytest.mark.parametrize("amount", ["1", 1.0, True, 0, -1, 2**63])
def test_amounts_are_positive_integers(embedded: Server, amount: object) -> None:
    body = {"amount": amount, "currency": "EUR", "idempotency_key": "k"}
    assert "amount" in wrong_fields(embedded.client.post("/v1/wallets/ada/credit", json=body))


def refund(server: Server, order_id: str, key: str | None, **body: object) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return server.client.post(f"/v1/orders/{order_id}/refund", json=body, headers=headers)


def test_an_order_is_refunded_in_parts(server: Server) -> None:
    order_id = external_order(server)
    first = body_of(refund(server, order_id, "k1", amount=400))
    assert (first["amount"], first["status"], first["order_id"]) == (400, "done", order_id)
    assert body_of(refund(server, order_id, "k1", amount=400)) == first
    problem_of(refund(server, order_id, "k1", amount=401), 422, "idempotency_key_reused")
    problem_of(refund(server, order_id, "k1"), 422, "idempotency_key_reused")
    assert problem_of(refund(server, order_id, "k2", amount=601), 409, "refund_exceeds_order")["refundable"] == 600
    last = body_of(refund(server, order_id, "k3", reason="Arrived broken"))
    assert (last["amount"], last["reason"]) == (600, "Arrived broken")
    problem_of(refund(server, order_id, None), 400, "idempotency_key_required")
    problem_of(refund(server, "ord_nobody", "k"), 404, "order_not_found")


def test_what_is_parked_is_shown_and_can_be_retried_or_dropped(server: Server) -> None:
    sale = a_sale(server)
    id_ = new_reservation_id(sale.sku_id, "ada")
    row = {
        "reservation_id": id_, "sale_id": sale.sale_id, "sku_id": sale.sku_id, "buyer_id": "ada", "quantity": 1,
        "state": "waiting", "due_at": 0, "created_at": 0,
    }  # fmt: skip
    in_ledger(server, lambda c: c.execute(insert(settlements), [row]))
    parked_id = f"settlement:{id_}"

    def parked() -> Any:
        data = body_of(server.client.get("/v1/ops/parked", params={"limit": 100}))["data"]
        return next((item for item in data if item["parked_id"] == parked_id), None)

    item = eventually(parked)
    assert item["reason"] == "the reservation is unknown"
    assert server.client.post(f"/v1/ops/parked/{parked_id}/retry").status_code == 204
    eventually(parked)
    assert server.client.post(f"/v1/ops/parked/{parked_id}/drop").status_code == 204
    assert parked() is None
    for unknown in (parked_id, "refund:rfd_nobody", "delivery:nobody"):
        problem_of(server.client.post(f"/v1/ops/parked/{unknown}/drop"), 404, "parked_not_found")
    problem_of(server.client.post("/v1/ops/parked/nonsense/retry"), 404, "parked_not_found")


def test_what_is_parked_is_listed_in_pages_and_retried_by_kind(embedded: Server) -> None:
    now = {"amount": 1, "currency": "EUR", "cause": "requested", "due_at": 0, "created_at": 0, "state": "parked"}
    rows = [now | {"refund_id": f"rfd_{n}", "payment_key": f"pay_{n}", "sku_id": "s"} for n in range(5)]
    in_ledger(embedded, lambda c: c.execute(insert(refunds), rows))
    path, seen, after = "/v1/ops/parked", [], None
    while True:
        more: dict[str, str] = {"starting_after": after} if after else {}
        page = body_of(embedded.client.get(path, params={"kind": "refund", "limit": 2, **more}))
        seen += [item["parked_id"] for item in page["data"]]
        if not page["has_more"]:
            break
        after = seen[-1]
    assert seen == [f"refund:rfd_{n}" for n in range(5)]
    assert body_of(embedded.client.post(f"{path}/retry", json={"kind": "refund"})) == {"retried": 5}
    in_ledger(embedded, lambda c: c.execute(delete(refunds)))
    assert "kind" in wrong_fields(embedded.client.get(path, params={"kind": "hope"}))


def test_a_sale_that_cannot_be_delivered_is_compensated(server: Server) -> None:
    order_id = external_order(server)
    sale_id = in_ledger(
        server, lambda c: c.execute(select(orders.c.sale_id).where(orders.c.order_id == order_id)).scalar()
    )
    short = body_of(server.client.post(f"/v1/ops/sales/{sale_id}/compensate", json={"deliverable_units": 0}))
    assert (short["cancelled"], short["shortfall_units"], short["to_source"]) == ([], 1, {order_id: 1})
    assert body_of(server.client.get(f"/v1/orders/{order_id}"))["units_to_source"] == 1
    [waiting] = body_of(server.client.get("/v1/orders", params={"to_source": True, "sale_id": sale_id}))["data"]
    assert waiting["order_id"] == order_id
    assert body_of(server.client.get(f"/v1/sales/{sale_id}"))["deliverable_units"] == 0
    server.client.patch(f"/v1/sales/{sale_id}", json={"oversell_policy": "cancel_last"})
    path = f"/v1/ops/sales/{sale_id}/compensate"
    unapproved = body_of(server.client.post(path, json={"deliverable_units": 0}))
    assert (unapproved["cancelled"], unapproved["needs_review"]) == ([], True)
    done = body_of(server.client.post(path, json={"deliverable_units": 0, "approved": True}))
    assert (done["cancelled"], done["shortfall_units"], done["to_source"]) == ([order_id], 0, {})
    problem_of(
        server.client.post("/v1/ops/sales/nobody/compensate", json={"deliverable_units": 0}), 404, "sale_not_found"
    )


@pytest.mark.slow
def test_a_report_on_stock_and_money(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        report = body_of(server.client.post("/v1/ops/reconcile"))
        assert (report["ok"], report["payments"]["ok"], report["payments"]["findings"]) == (True, True, [])
        assert server.command("reconcile")["payments"]["ok"]
        row = {
            "order_id": "ord_1", "reservation_id": "rsv_1", "sale_id": "s", "sku_id": "s", "buyer_id": "ada",
            "quantity": 1, "amount": 5, "currency": "EUR", "payment": "wallet", "status": "confirmed", "created_at": 0,
            "updated_at": 0, "confirmed_at": 0,
        }  # fmt: skip
        in_ledger(server, lambda c: c.execute(insert(orders), [row]))
        [finding] = body_of(server.client.post("/v1/ops/reconcile"))["payments"]["findings"]
        assert (finding["finding"], finding["subject"]) == ("order_without_payment", "ord_1")
        assert not finding["repairing"]
        ran = run_holdfast("reconcile", directory=server.directory, environment=server.environment)
        assert (ran.returncode, "needs attention" in ran.stdout) == (1, True)


def test_a_webhook_needs_its_signature(tmp_path: Path) -> None:
    secret = "whsec_" + "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
    with started(tmp_path, settings={"PAYMENT_SANDBOX_WEBHOOK_SECRET": secret}) as server, server.connect() as caller:
        forged = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
        problem_of(caller.post("/v1/payments/sandbox/webhook", json={}, headers=forged), 401, "signature_refused")
        problem_of(caller.post("/v1/payments/sandbox/webhook", json={}), 401, "signature_refused")
        problem_of(caller.post("/v1/payments/stripe/webhook", json={}), 404, "not_found")
