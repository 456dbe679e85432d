"""Buying in a sale, as buyers do it: twice, all at once, too late, and with another's name."""

import asyncio
import json
import sqlite3
from base64 import urlsafe_b64decode
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from http_calling import eventually, moment, problem_of, seconds_between, wrong_fields
from http_sales import Store, body_of, in_seconds, store_of
from http_serving import Server, on_one_engine, started
from http_sockets import line_to, request_bytes
from http_tokens import buyer_token

pytest_plugins = ("http_fixtures",)


def test_a_purchase_holds_units_until_a_deadline_at_a_price(store: Store) -> None:
    store.open(per_buyer_limit=3, hold_seconds=120)
    bought = store.buy(quantity=2)
    assert bought.keys() == {
        "reservation_id", "sale_id", "quantity", "status", "expires_at", "amount", "currency", "receipt",
    }  # fmt: skip
    assert (bought["sale_id"], bought["quantity"], bought["status"]) == (store.sale_id, 2, "active")
    assert (bought["amount"], bought["currency"]) == (9_998, "EUR")
    assert store.counts() == (1, 2, 0)
    with store.buyer() as ada:
        shown = body_of(ada.client.get(f"/v1/reservations/{bought['reservation_id']}"))
    assert shown.items() >= {"sale_id": store.sale_id, "amount": 9_998, "currency": "EUR", "owner_id": "ada"}.items()
    assert seconds_between(shown["created_at"], bought["expires_at"]) == 120


def test_the_receipt_is_signed_by_this_server_and_names_the_reservation(store: Store) -> None:
    store.open()
    bought = store.buy()
    header, claims, signature = bought["receipt"].split(".")
    assert signature
    assert header
    padded = claims + "=" * (-len(claims) % 4)
    told = json.loads(urlsafe_b64decode(padded))
    assert (told["jti"], told["sub"], told["qty"]) == (bought["reservation_id"], "ada", 1)


def test_an_instant_purchase_is_paid_for_at_once(store: Store) -> None:
    store.open(checkout="instant", hold_seconds=1)
    with store.buyer() as ada:
        first = ada.purchase(key="k")
        assert body_of(first, 201)["status"] == "settling"
        again = ada.purchase(key="k")
        assert (again.status_code, again.content) == (200, first.content)
    assert store.counts() in ((2, 1, 0), (3, 0, 0))  # The wallet is empty, so the unit comes back soon.


def test_a_repeat_is_told_the_first_answer_and_says_so(store: Store) -> None:
    store.open()
    with store.buyer() as ada:
        first = ada.purchase(key="k")
        body_of(store.change(hold_seconds=60))  # The time is the sale's: a repeat is the same request.
        again = ada.purchase(key="k")
        assert (again.status_code, again.content) == (200, first.content)
        assert again.headers["idempotency-replayed"] == "true"
        assert "idempotency-replayed" not in first.headers
        problem_of(ada.purchase(2, key="k"), 422, "idempotency_key_reused")
    with store.buyer("bob") as bob:
        assert body_of(bob.purchase(key="k"), 201)["reservation_id"] != first.json()["reservation_id"]


def test_a_repeat_is_told_the_first_answer_while_others_hear_that_nothing_is_left(store: Store) -> None:
    store.open(total_units=1)
    with store.buyer() as ada, store.buyer("bob") as bob:
        first = ada.purchase(key="k")
        for _ in range(3):
            problem_of(bob.purchase(key="k"), 409, "all_held")
            again = ada.purchase(key="k")
            assert (again.status_code, again.content) == (200, first.content)
        assert ada.client.delete(f"/v1/reservations/{first.json()['reservation_id']}").status_code == 204
        bought = bob.purchase(key="k")
        assert bought.status_code == 201
        assert bob.purchase(key="k").content == bought.content
        problem_of(ada.purchase(key="another"), 409, "all_held")


async def test_fifty_requests_at_once_under_one_key_are_one_purchase(store: Store) -> None:
    store.open(total_units=100, per_buyer_limit=None)
    asked = request_bytes(
        "POST", f"{store.path}/purchase", {"quantity": 2}, "Idempotency-Key: same", token=buyer_token("ada")
    )

    async def ask() -> tuple[int, bytes]:
        async with line_to(store.server) as line:
            line._writer.write(asked)
            answer = await line.read()
            return answer.status, answer.body

    answers = await asyncio.gather(*[ask() for _ in range(50)])
    assert sorted({status for status, _ in answers}) == [200, 201]
    assert [status for status, _ in answers].count(201) == 1
    assert len({body for _, body in answers}) == 1
    assert store.counts() == (98, 2, 0)


@on_one_engine
def test_a_purchase_needs_a_key_and_a_buyer(store: Store) -> None:
    store.open()
    with store.buyer() as ada:
        problem_of(ada.client.post(f"{store.path}/purchase", json={"quantity": 1}), 400, "idempotency_key_required")
        answer = ada.client.post(f"{store.path}/purchase", json={"quantity": 1}, headers={"Idempotency-Key": "k" * 256})
        assert "Idempotency-Key" in wrong_fields(answer)
    service = store.server.client.post(f"{store.path}/purchase", json={"quantity": 1}, headers={"Idempotency-Key": "k"})
    problem_of(service, 403, "forbidden")


@pytest.mark.parametrize(
    "body",
    [
        {}, {"quantity": 0}, {"quantity": -1}, {"quantity": "1"}, {"quantity": 1.0}, {"quantity": True},
        {"quantity": 2**63}, {"quantity": None}, {"quantity": 1, "min_quantity": 2}, {"quantity": 1, "owner_id": "bob"},
        {"quantity": 1, "ttl_seconds": 1800}, {"quantity": 1, "payment_method": ""}, [], "1",
    ],
)  # fmt: skip
def test_a_purchase_that_is_not_one_is_refused(quick: Store, body: Any) -> None:
    quick.open()
    with quick.buyer() as ada:
        answer = ada.client.post(f"{quick.path}/purchase", json=body, headers={"Idempotency-Key": "k"})
    wrong_fields(answer)
    assert quick.counts() == (3, 0, 0)


def test_refusals_say_what_the_sale_is_like(store: Store) -> None:
    store.open(total_units=2, per_buyer_limit=2, payment="external")
    with store.buyer("ada") as ada, store.buyer("bob") as bob:
        held = body_of(ada.purchase(), 201)
        assert problem_of(bob.purchase(2), 409, "insufficient_inventory")["available"] == 1
        body_of(bob.purchase(), 201)
        refused = problem_of(ada.purchase(), 409, "all_held")
        assert (refused["available"], refused["next_return_at"]) == (0, held["expires_at"])
        for reservation in store.server.client.get("/v1/reservations", params={"sku_id": store.sku_id}).json()["data"]:
            store.server.client.post(f"/v1/reservations/{reservation['reservation_id']}/confirm")
        assert problem_of(ada.purchase(), 409, "sold_out")["available"] == 0


def test_nobody_buys_before_the_start_or_after_the_end(store: Store) -> None:
    store.open(starts_at=in_seconds(3_600))
    with store.buyer() as ada:
        refused = problem_of(ada.purchase(), 409, "sale_not_open")
        assert moment(refused["starts_at"]) == moment(store.show()["starts_at"])
    over = store_of(store.server)
    over.open(starts_at=in_seconds(-60), ends_at=in_seconds(-1))
    with over.buyer() as ada:
        problem_of(ada.purchase(), 409, "sale_ended")
    eventually(lambda: over.show()["state"] == "closed")


def test_tier_limit_and_budget_are_kept(store: Store) -> None:
    store.open(required_tier=2, per_buyer_limit=1, hold_budget=1)
    with store.buyer("ada", tier=1) as ada:
        problem_of(ada.purchase(), 403, "tier_required")
    with store.buyer("bob", tier=2) as bob:
        held = body_of(bob.purchase(), 201)
        problem_of(bob.purchase(), 409, "buyer_limit")
        bob.client.delete(f"/v1/reservations/{held['reservation_id']}")
        problem_of(bob.purchase(), 409, "hold_budget")


def test_a_partial_fill_costs_what_was_granted(store: Store) -> None:
    store.open(total_units=2, per_buyer_limit=None)
    bought = store.buy(quantity=5, min_quantity=1)
    assert (bought["quantity"], bought["amount"]) == (2, 9_998)


def test_a_sale_with_a_room_admits_nobody_without_a_pass(quick: Store) -> None:
    quick.open(room={"mode": "fifo"})
    with quick.buyer() as ada:
        problem_of(ada.purchase(), 429, "admission_required")
        body_of(quick.change(room={"mode": "off"}))
        body_of(ada.purchase(), 201)


def test_a_purchase_dearer_than_any_provider_takes_is_refused(quick: Store) -> None:
    quick.open(per_buyer_limit=None, price={"amount": 10**12, "currency": "EUR"})
    with quick.buyer() as ada:
        assert "quantity" in wrong_fields(ada.purchase(2))
        body_of(ada.purchase(1), 201)


@pytest.mark.parametrize("name", ["nothing", "a%20b", "%00", "x" * 300, "..", "a/b"])
def test_a_sale_that_does_not_exist_sells_nothing(embedded: Server, name: str) -> None:
    with embedded.connect(buyer_token()) as ada:
        answer = ada.post(f"/v1/sales/{name}/purchase", json={"quantity": 1}, headers={"Idempotency-Key": "k"})
    assert problem_of(answer, 404)["reason"] in ("sale_not_found", "not_found")


def test_a_buyer_begins_to_pay_by_confirming(store: Store) -> None:
    store.open()
    with store.buyer() as ada, store.buyer("bob") as bob:
        path = f"/v1/reservations/{body_of(ada.purchase(), 201)['reservation_id']}"
        problem_of(bob.client.post(f"{path}/confirm"), 404, "reservation_not_found")
        assert "colour" in wrong_fields(ada.client.post(f"{path}/confirm", json={"colour": "red"}))
        told = body_of(ada.client.post(f"{path}/confirm"), 202)
        assert (told["status"], told["amount"], told["sale_id"]) == ("settling", 4_999, store.sale_id)
        # The wallet is empty: while the payment is decided it cannot be given back, and once it is declined it can.
        given_back = ada.client.delete(path)
        assert given_back.status_code == 204 or given_back.json()["reason"] == "reservation_settling"


def test_what_is_paid_elsewhere_is_confirmed_by_the_service_that_took_the_money(store: Store) -> None:
    store.open(payment="external")
    with store.buyer() as ada:
        path = f"/v1/reservations/{body_of(ada.purchase(), 201)['reservation_id']}"
        problem_of(ada.client.post(f"{path}/confirm"), 409, "external_payment")
        confirmed = body_of(store.server.client.post(f"{path}/confirm"))
        assert (confirmed["status"], confirmed["amount"]) == ("confirmed", 4_999)
        problem_of(ada.client.post(f"{path}/confirm"), 409, "external_payment")


def test_an_extension_ends_where_the_sale_says(store: Store) -> None:
    store.open(hold_seconds=60, max_hold_seconds=90)
    with store.buyer() as ada, store.buyer("bob") as bob:
        path = f"/v1/reservations/{body_of(ada.purchase(), 201)['reservation_id']}"
        problem_of(bob.client.post(f"{path}/extend", json={"ttl_seconds": 1}), 404, "reservation_not_found")
        body_of(ada.client.post(f"{path}/extend", json={"ttl_seconds": 1800}))
        refused = problem_of(ada.client.post(f"{path}/extend", json={"ttl_seconds": 1}), 409, "extension_limit")
        shown = body_of(ada.client.get(path))
        assert refused["latest_expires_at"] == shown["expires_at"]
        assert "90 s in all" in refused["detail"]
        problem_of(bob.client.get(path), 404, "reservation_not_found")
        problem_of(bob.client.get(f"{path}/history"), 404, "reservation_not_found")
        problem_of(bob.client.delete(path), 404, "reservation_not_found")
        assert ada.client.delete(path).status_code == 204


def test_a_payment_method_is_noted_before_anything_is_charged(tmp_path: Path) -> None:
    setting = {"PAYMENT_SANDBOX_URL": "http://127.0.0.1:9"}
    with started(tmp_path, settings=setting) as server:
        store = store_of(server)
        store.open(payment="sandbox", total_units=1)
        with store.buyer() as ada, store.buyer("bob") as bob:
            bought = body_of(ada.purchase(key="k", payment_method="card_1"), 201)
            body_of(ada.purchase(key="k", payment_method="card_1"), 200)
            problem_of(ada.purchase(key="k", payment_method="card_2"), 422, "idempotency_key_reused")
            problem_of(ada.purchase(key="k"), 422, "idempotency_key_reused")
            problem_of(bob.purchase(payment_method="card_2"), 409, "all_held")
            path = f"/v1/reservations/{bought['reservation_id']}"
            assert notes(server) == [(bought["reservation_id"], "card_1", 4_999, "new")]
            body_of(ada.client.post(f"{path}/confirm", json={"payment_method": "card_3"}), 202)
            assert [note[:2] for note in notes(server)] == [(bought["reservation_id"], "card_3")]


def notes(server: Server) -> list[Any]:
    with closing(sqlite3.connect(server.directory / "data" / "holdfast.db")) as connection:
        return connection.execute("SELECT reservation_id, method, amount, state FROM payments").fetchall()


def test_a_crowd_of_made_up_sales_does_not_become_one_of_queries(embedded: Server) -> None:
    async def crowd() -> list[int]:
        async def ask(number: int) -> int:
            async with line_to(embedded) as line:
                return (await line.ask("GET", f"/v1/sales/made-up-{number}/now")).status

        return list(await asyncio.gather(*[ask(n) for n in range(200)]))

    assert set(asyncio.run(crowd())) == {404}


def test_a_refused_purchase_is_on_record_with_its_sale(store: Store) -> None:
    store.open(starts_at=in_seconds(3_600))
    buyer_id = f"refused-{store.sale_id}"
    with store.buyer(buyer_id) as buyer:
        problem_of(buyer.purchase(), 409, "sale_not_open")

    def told() -> list[Any]:
        asked = {"buyer_id": buyer_id, "sale_id": store.sale_id}
        return list(body_of(store.server.client.get("/v1/ops/audit", params=asked))["data"])

    [refused] = eventually(told)
    assert refused["sale_id"] == store.sale_id
