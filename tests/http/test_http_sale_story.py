"""From a hold to a paid order and back, over HTTP, with everything that works on it, on every engine."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from http_calling import eventually, problem_of
from http_sales import Store, body_of, in_seconds, store_of
from http_serving import Server

pytest_plugins = ("http_fixtures",)


def credit(server: Server, buyer_id: str, amount: int, currency: str = "EUR") -> None:
    top_up = {"amount": amount, "currency": currency, "idempotency_key": uuid4().hex}
    body_of(server.client.post(f"/v1/wallets/{buyer_id}/credit", json=top_up))


def reservation(store: Store, reservation_id: str) -> dict[str, Any]:
    return body_of(store.server.client.get(f"/v1/reservations/{reservation_id}"))


def ended(store: Store, reservation_id: str) -> dict[str, Any]:
    """The reservation once its payment has come to an end."""
    eventually(lambda: reservation(store, reservation_id)["status"] in ("confirmed", "failed"))
    return reservation(store, reservation_id)


def confirm(store: Store, buyer_id: str, reservation_id: str) -> httpx.Response:
    with store.buyer(buyer_id) as buyer:
        return buyer.client.post(f"/v1/reservations/{reservation_id}/confirm")


def orders_of(store: Store, buyer_id: str) -> list[dict[str, Any]]:
    page = body_of(store.server.client.get("/v1/orders", params={"buyer_id": buyer_id, "sale_id": store.sale_id}))
    return list(page["data"])


def test_a_hold_becomes_a_paid_order_once_and_a_refund_brings_the_unit_back(store: Store) -> None:
    buyer_id = f"ada-{store.sale_id}"
    store.open()
    credit(store.server, buyer_id, 5_000)
    held = store.buy(buyer_id)
    assert body_of(confirm(store, buyer_id, held["reservation_id"]), 202)["status"] == "settling"
    assert ended(store, held["reservation_id"])["status"] == "confirmed"
    [order] = orders_of(store, buyer_id)
    assert (order["amount"], order["status"], order["payment"]) == (4_999, "confirmed", "wallet")
    assert body_of(store.server.client.get(f"/v1/wallets/{buyer_id}"))["balance"] == 1
    assert store.counts() == (2, 0, 1)

    for _ in range(2):
        answer = store.server.client.post(
            f"/v1/orders/{order['order_id']}/refund", json={"restock": True}, headers={"Idempotency-Key": "back"}
        )
        assert answer.is_success, answer.text
    eventually(lambda: body_of(store.server.client.get(f"/v1/wallets/{buyer_id}"))["balance"] == 5_000)
    eventually(lambda: store.counts() == (3, 0, 1))
    assert orders_of(store, buyer_id)[0]["status"] == "refunded"
    assert body_of(store.server.client.post("/v1/ops/reconcile"))["ok"] is True


def test_a_buyer_without_money_keeps_the_unit_and_pays_after_a_top_up(store: Store) -> None:
    buyer_id = f"short-{store.sale_id}"
    store.open(checkout="instant")
    bought = store.buy(buyer_id)
    id_ = bought["reservation_id"]
    eventually(lambda: reservation(store, id_)["status"] == "active")
    declined = reservation(store, id_)
    assert (declined["last_decline"]["code"], declined["attempts_left"]) == ("insufficient_funds", 2)
    assert declined["expires_at"] == bought["expires_at"]
    assert store.counts() == (2, 1, 0)
    credit(store.server, buyer_id, 5_000, "EUR")
    with store.buyer(buyer_id) as buyer:
        assert body_of(buyer.client.post(f"/v1/reservations/{id_}/confirm"), 202)["attempts_left"] == 1
        paid = ended(store, id_)
        assert (paid["status"], paid["last_decline"]) == ("confirmed", None)
        history = [
            (e["type"], e.get("failure_reason"))
            for e in body_of(buyer.client.get(f"/v1/reservations/{id_}/history"))["events"]
        ]
    assert ("payment.declined", "insufficient_funds") in history
    assert ("reservation.reopened", None) in history


def test_a_sale_says_how_often_a_payment_may_be_tried(quick: Store) -> None:
    quick.open()
    assert (quick.show()["payment_attempts_max"], quick.show()["after_attempts"]) == (3, "cancel")
    changed = body_of(quick.change(payment_attempts_max=5, after_attempts="park"))
    assert (changed["payment_attempts_max"], changed["after_attempts"]) == (5, "park")
    for wrong in ({"payment_attempts_max": 0}, {"payment_attempts_max": 21}, {"after_attempts": "retry"}):
        problem_of(quick.change(**wrong), 422, "invalid_request")


def test_a_buyer_without_money_is_told_so_and_the_unit_goes_back(store: Store) -> None:
    buyer_id = f"poor-{store.sale_id}"
    store.open(checkout="instant", payment_attempts_max=1)
    credit(store.server, buyer_id, 5_000, "USD")
    bought = store.buy(buyer_id)
    failed = ended(store, bought["reservation_id"])
    assert (failed["status"], failed["failure_reason"]) == ("failed", "insufficient_funds")
    with store.buyer(buyer_id) as poor:
        path = f"/v1/reservations/{bought['reservation_id']}"
        history = body_of(poor.client.get(f"{path}/history"))["events"]
        assert {e["type"]: e.get("failure_reason") for e in history}["reservation.failed"] == "insufficient_funds"
        assert '"failure_reason":"insufficient_funds"' in poor.client.get(f"{path}/events").text
    eventually(lambda: store.counts() == (3, 0, 0))
    [order] = orders_of(store, buyer_id)
    assert (order["status"], order["confirmed_at"]) == ("cancelled", None)
    refused = store.server.client.post(
        f"/v1/orders/{order['order_id']}/fulfil", json={}, headers={"Idempotency-Key": "f"}
    )
    assert problem_of(refused, 409, "order_not_paid")["state"] == "cancelled"


def test_an_order_is_pending_then_confirmed_then_fulfilled(store: Store) -> None:
    buyer_id = f"olga-{store.sale_id}"
    store.open(checkout="instant")
    bought = store.buy(buyer_id)
    eventually(lambda: len(orders_of(store, buyer_id)) == 1)
    [order] = orders_of(store, buyer_id)
    assert (order["status"], order["unit_price"], len(order["number"])) == ("pending", 4_999, 14)
    eventually(lambda: reservation(store, bought["reservation_id"])["status"] == "active")
    credit(store.server, buyer_id, 5_000, "EUR")
    path, key = f"/v1/orders/{order['order_id']}", {"Idempotency-Key": "sent"}
    with store.buyer(buyer_id) as buyer:
        body_of(buyer.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm"), 202)
        ended(store, bought["reservation_id"])
        assert problem_of(buyer.client.post(f"{path}/fulfil", json={}, headers=key), 403, "forbidden")
        for _ in range(2):
            sent = body_of(store.server.client.post(f"{path}/fulfil", json={"tracking": "1Z999"}, headers=key))
        assert (sent["status"], sent["tracking"], sent["number"]) == ("fulfilled", "1Z999", order["number"])
        assert body_of(buyer.client.get(path)) == sent
    assert sent["updated_at"] >= sent["confirmed_at"] >= sent["created_at"]
    problem_of(store.server.client.post(f"{path}/fulfil", json={}, headers=key), 422, "idempotency_key_reused")
    again = {"Idempotency-Key": "sent again"}
    problem_of(store.server.client.post(f"{path}/fulfil", json={}, headers=again), 409, "order_fulfilled")
    problem_of(store.server.client.post(f"{path}/fulfil", json={}), 400, "idempotency_key_required")
    for status, count in (("fulfilled", 1), ("pending", 0)):
        listed = body_of(store.server.client.get(f"/v1/orders?sale_id={store.sale_id}&status={status}"))
        assert len(listed["data"]) == count


def test_an_order_that_a_service_confirmed_says_that_somebody_else_took_the_money(store: Store) -> None:
    buyer_id = f"ida-{store.sale_id}"
    store.open(payment="external")
    held = store.buy(buyer_id)
    body_of(store.server.client.post(f"/v1/reservations/{held['reservation_id']}/confirm"))
    eventually(lambda: len(orders_of(store, buyer_id)) == 1)
    assert orders_of(store, buyer_id)[0]["payment"] == "external"


def test_a_key_of_one_sale_is_not_the_key_of_the_next_sale_of_the_same_pool(quick: Store) -> None:
    quick.open()
    with quick.buyer() as ada:
        bought = body_of(ada.purchase(key="k"), 201)
        assert ada.client.delete(f"/v1/reservations/{bought['reservation_id']}").status_code == 204
    body_of(quick.act("close"))
    later = replace(quick, sale_id=f"{quick.sale_id}-again")
    eventually(lambda: later.create(price={"amount": 7_777, "currency": "USD"}).is_success)
    eventually(lambda: later.show()["state"] == "ready")
    with later.buyer() as ada:
        problem_of(ada.purchase(key="k"), 422, "idempotency_key_reused")
        assert body_of(ada.purchase(key="k2"), 201)["amount"] == 7_777


def test_units_held_before_a_sale_keep_it_from_opening(quick: Store) -> None:
    body_of(quick.server.client.put(f"/v1/inventory/{quick.sku_id}", json={"total_units": 3}))
    held = {"owner_id": "ada", "quantity": 2}
    reservation_id = body_of(quick.server.client.post(f"/v1/inventory/{quick.sku_id}/reserve", json=held))
    starts_at = in_seconds(-60)
    quick.create(starts_at=starts_at)
    assert "held" in quick.show()["problem"]
    quick.server.client.delete(f"/v1/reservations/{reservation_id['reservation_id']}")
    quick.create(starts_at=starts_at)
    assert quick.show()["state"] == "ready"


def test_a_sale_paused_before_its_start_says_so(quick: Store) -> None:
    quick.open(starts_at=in_seconds(600))
    assert body_of(quick.act("pause"))["phase"] == "paused"
    assert quick.now().json()["state"] == "paused"
    assert body_of(quick.act("resume"))["phase"] == "upcoming"


def test_the_audit_of_a_sale_leaves_out_the_others(quick: Store) -> None:
    quick.open()
    other = store_of(quick.server)
    other.open()
    buyer_id = f"bob-{quick.sale_id}"
    first = quick.buy(buyer_id)
    other.buy(buyer_id)

    def moments(sale_id: str) -> set[str | None]:
        asked = {"buyer_id": buyer_id, "sale_id": sale_id}
        found = body_of(quick.server.client.get("/v1/ops/audit", params=asked))
        return {moment["reservation_id"] for moment in found["data"]}

    assert moments(quick.sale_id) == {first["reservation_id"]}
    assert moments("nope") == set()


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_a_sale_of_a_split_pool_is_paid_for_like_any_other(store: Store) -> None:
    split = {"total_units": 4, "shards": 2}
    body_of(store.server.client.put(f"/v1/inventory/{store.sku_id}", json=split))
    store.open(total_units=4, checkout="instant")
    buyers = [f"{name}-{store.sale_id}" for name in ("ada", "bob", "cid", "dan")]
    for buyer_id in buyers:
        credit(store.server, buyer_id, 5_000)
    bought = [store.buy(buyer_id)["reservation_id"] for buyer_id in buyers]
    assert [ended(store, id_)["status"] for id_ in bought] == ["confirmed"] * 4
    eventually(lambda: store.counts() == (0, 0, 4))
    [order] = orders_of(store, buyers[0])
    refunded = store.server.client.post(
        f"/v1/orders/{order['order_id']}/refund", json={"restock": True}, headers={"Idempotency-Key": "back"}
    )
    assert refunded.is_success, refunded.text
    eventually(lambda: store.counts() == (1, 0, 4))
