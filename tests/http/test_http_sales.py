"""Sales, as their operators make, change and end them."""

from typing import Any

import httpx
import pytest
from http_calling import eventually, moment, problem_of, wrong_fields
from http_sales import Store, body_of, in_seconds, store_of
from http_serving import Server, daily_on_one_engine
from http_tokens import buyer_token

pytest_plugins = ("http_fixtures",)


def test_a_new_sale_is_loaded_checked_and_open(store: Store) -> None:
    made = store.open(total_units=7, per_buyer_limit=2, required_tier=None)
    assert (made["state"], made["problem"], made["phase"]) == ("ready", None, "open")
    assert (made["available"], made["held"], made["sold"], made["total_units"]) == (7, 0, 0, 7)
    assert made["price"] == {"amount": 4_999, "currency": "EUR"}
    assert (made["hold_seconds"], made["max_hold_seconds"], made["hold_budget"]) == (300, 1_800, None)
    assert store.show().items() >= {"sale_id": store.sale_id, "per_buyer_limit": 2, "checkout": "cart"}.items()


def test_the_same_sale_again_is_there_already_and_another_by_its_name_is_refused(store: Store) -> None:
    terms = store.terms()
    first = body_of(store.server.client.post("/v1/sales", json=terms), 201)
    again = body_of(store.server.client.post("/v1/sales", json=terms), 200)
    assert again["created_at"] == first["created_at"]
    problem_of(store.create(name="Another"), 409, "sale_exists")


@daily_on_one_engine
def test_a_pool_is_in_one_sale_at_a_time(store: Store) -> None:
    store.open()
    second = Store(store.server, f"{store.sale_id}-2", store.sku_id)
    problem_of(second.create(), 409, "sku_in_sale")
    body_of(store.act("close"))
    problem_of(second.create(), 409, "sku_in_sale")  # Until every server has heard that the first is over.
    assert eventually(lambda: second.create(total_units=4).status_code == 201)
    body_of(store.act("close"))  # Again: it is over, and its pool is another sale's.
    with second.buyer() as ada:
        body_of(ada.purchase(), 201)
    assert second.show()["available"] == 3


def test_a_sale_takes_over_a_pool_that_is_there(store: Store) -> None:
    inventory = store.server.client
    inventory.put(f"/v1/inventory/{store.sku_id}", json={"total_units": 2})
    assert store.open(total_units=9)["available"] == 9


def test_a_sale_of_fewer_units_than_are_promised_already_is_refused_and_leaves_nothing(store: Store) -> None:
    inventory = store.server.client
    inventory.put(f"/v1/inventory/{store.sku_id}", json={"total_units": 2})
    inventory.post(f"/v1/inventory/{store.sku_id}/reserve", json={"owner_id": "bob", "quantity": 2})
    problem_of(store.create(total_units=1), 409, "below_committed")
    problem_of(inventory.get(store.path), 404, "sale_not_found")


@daily_on_one_engine
def test_a_pool_that_buyers_of_the_sale_before_still_hold_waits_for_them(store: Store) -> None:
    store.open()
    held = store.buy()
    body_of(store.act("close"))
    second = Store(store.server, f"{store.sale_id}-2", store.sku_id)
    made = eventually(lambda: _created(second))
    assert made["state"] == "loading"
    assert "still held" in made["problem"]
    with store.buyer() as ada:
        assert ada.client.delete(f"/v1/reservations/{held['reservation_id']}").status_code == 204
    # A repeated request need not wait for the lifecycle.
    assert eventually(lambda: body_of(second.create(starts_at=LATER))["state"] == "ready")


LATER = "2030-01-31T18:00:00Z"


def _created(store: Store) -> dict[str, Any]:
    answer = store.create(starts_at=LATER)
    return body_of(answer, 201) if answer.status_code == 201 else {}


def test_pause_and_resume_work_in_the_gate(store: Store) -> None:
    store.open()
    with store.buyer() as ada:
        assert body_of(store.act("pause"))["phase"] == "paused"
        problem_of(ada.purchase(), 409, "sale_paused")
        assert body_of(store.act("pause"))["paused"] is True
        assert body_of(store.act("resume"))["phase"] == "open"
        body_of(ada.purchase(), 201)


def test_a_closed_sale_lets_nobody_in_but_keeps_its_promises(store: Store) -> None:
    store.open(per_buyer_limit=5)
    with store.buyer() as ada:
        held = body_of(ada.purchase(key="k"), 201)
        closed = body_of(store.act("close"))
        assert (closed["state"], closed["phase"]) == ("closed", "ended")
        assert moment(closed["ends_at"]) <= moment(closed["closed_at"])
        assert body_of(store.act("close"))["closed_at"] == closed["closed_at"]
        problem_of(ada.purchase(), 409, "sale_ended")
        assert body_of(ada.purchase(key="k"), 200) == held
        problem_of(ada.purchase(2, key="k"), 422, "idempotency_key_reused")
        assert body_of(ada.client.post(f"/v1/reservations/{held['reservation_id']}/confirm"), 202)
    for refused in (store.act("pause"), store.act("resume"), store.change(name="New")):
        problem_of(refused, 409, "sale_ended")
    problem_of(store.act("restock", units=1), 409, "sale_ended")


def test_a_sale_closed_before_it_began_is_over_and_not_to_come(store: Store) -> None:
    store.open(starts_at=in_seconds(3_600))
    body_of(store.act("close"))
    with store.buyer() as ada:
        problem_of(ada.purchase(), 409, "sale_ended")


def test_restocking_adds_units_and_takes_free_ones_away(store: Store) -> None:
    store.open(total_units=1)
    store.buy()
    assert body_of(store.act("restock", units=2))["available"] == 2
    assert body_of(store.act("restock", units=-1))["total_units"] == 2
    problem_of(store.act("restock", units=-2), 409, "below_committed")
    assert "units" in wrong_fields(store.act("restock", units=1_000_000_000))
    assert store.counts() == (1, 1, 0)


def test_limits_and_times_change_at_any_time(store: Store) -> None:
    store.open()
    with store.buyer() as ada:
        body_of(ada.purchase(), 201)
        problem_of(ada.purchase(), 409, "buyer_limit")
        changed = body_of(store.change(per_buyer_limit=2, name="New", ends_at=in_seconds(3_600), hold_seconds=60))
        assert (changed["per_buyer_limit"], changed["name"], changed["hold_seconds"]) == (2, "New", 60)
        body_of(ada.purchase(), 201)
        body_of(store.change(required_tier=3))
        problem_of(ada.purchase(), 403, "tier_required")
        body_of(store.change(required_tier=None, per_buyer_limit=None))
        body_of(ada.purchase(), 201)


@pytest.mark.parametrize(
    "changes",
    [
        {"price": {"amount": 1, "currency": "EUR"}},
        {"price": {"amount": 4_999, "currency": "USD"}},
        {"checkout": "instant"},
        {"payment": "external"},
        {"starts_at": "2030-01-31T18:00:00Z"},
    ],
)
def test_what_buyers_rely_on_is_fixed_from_the_start_on(quick: Store, changes: dict[str, object]) -> None:
    quick.open()
    problem_of(quick.change(**changes), 409, "sale_started")
    assert quick.show()["price"] == {"amount": 4_999, "currency": "EUR"}


def test_how_the_line_is_ordered_is_fixed_from_the_start_on_or_when_somebody_is_in_it(quick: Store) -> None:
    quick.open(room={"mode": "fifo"})
    problem_of(quick.change(room={"mode": "lottery"}), 409, "order_fixed")
    body_of(quick.change(room={"mode": "off"}))
    problem_of(quick.change(room={"mode": "lottery"}), 409, "order_fixed")
    assert body_of(quick.change(room={"mode": "fifo", "pass_seconds": 60}))["room"]["mode"] == "fifo"

    later = store_of(quick.server)
    later.open(room={"mode": "fifo"}, starts_at=in_seconds(3_600))
    assert body_of(later.change(room={"mode": "lottery"}))["room"]["mode"] == "lottery"
    with later.buyer() as ada:
        body_of(ada.client.post(f"{later.path}/queue"))
    problem_of(later.change(room={"mode": "fifo"}), 409, "order_fixed")
    assert later.show()["room"]["mode"] == "lottery"


def test_before_the_start_everything_may_change(store: Store) -> None:
    store.open(starts_at=in_seconds(3_600))
    starts_at = in_seconds(7_200)
    price = {"amount": 100, "currency": "USD"}
    changed = body_of(store.change(price=price, starts_at=starts_at, checkout="instant", payment="wallet"))
    assert (changed["price"], changed["checkout"]) == (price, "instant")
    with store.buyer() as ada:
        refused = problem_of(ada.purchase(), 409, "sale_not_open")
    assert moment(refused["starts_at"]).timestamp() == pytest.approx(
        moment(changed["starts_at"]).timestamp(), abs=0.002
    )


def test_a_change_that_makes_no_sense_is_refused(quick: Store) -> None:
    quick.open(starts_at=in_seconds(3_600))
    assert "ends_at" in wrong_fields(quick.change(ends_at=in_seconds(60)))
    assert "ends_at" in wrong_fields(quick.change(ends_at=in_seconds(-60)))
    assert "starts_at" in wrong_fields(quick.change(starts_at=in_seconds(1)))
    assert "max_hold_seconds" in wrong_fields(quick.change(max_hold_seconds=10))
    assert "checkout" in wrong_fields(quick.change(checkout="instant", payment="external"))
    assert "name" in wrong_fields(quick.change(name=None))
    assert "total_units" in wrong_fields(quick.change(total_units=5))
    assert "HOLDFAST_PAYMENT_SANDBOX_URL" in wrong_fields(quick.change(payment="sandbox"))["payment"]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("sale_id", "a/b"),
        ("sale_id", ""),
        ("sku_id", "-"),
        ("name", ""),
        ("name", "a\nb"),
        ("name", 7),
        ("total_units", -1),
        ("total_units", "7"),
        ("total_units", 1.5),
        ("total_units", True),
        ("total_units", 2**63),
        ("price", {"amount": -1, "currency": "EUR"}),
        ("price", {"amount": 1, "currency": "eur"}),
        ("price", {"amount": 1, "currency": "EURO"}),
        ("price", {"amount": 1.0, "currency": "EUR"}),
        ("price", {"amount": 1, "currency": "EUR", "tax": 2}),
        ("price", {"amount": 10**13, "currency": "EUR"}),
        ("price", None),
        ("starts_at", "tomorrow"),
        ("starts_at", "2030-01-31"),
        ("starts_at", "2030-01-31T18:00:00"),
        ("starts_at", "2030-02-31T18:00:00Z"),
        ("starts_at", "1030-01-31T18:00:00Z"),
        ("starts_at", "9999-12-31T23:59:59-14:00"),
        ("starts_at", 1_900_000_000),
        ("ends_at", "2001-01-01T00:00:00Z"),
        ("per_buyer_limit", 0),
        ("per_buyer_limit", 1_000_001),
        ("hold_seconds", 0),
        ("hold_seconds", 1_801),
        ("max_hold_seconds", 299),
        ("max_hold_seconds", 1_801),
        ("hold_budget", 0),
        ("required_tier", "gold"),
        ("checkout", "later"),
        ("payment", "barter"),
        ("payment", "stripe"),
        ("image_url", "javascript:alert(1)"),
        ("room", {"mode": "crowd"}),
        ("room", {"mode": "fifo", "rate_per_second": 0}),
        ("proof_of_work", {"cost": 0}),
        ("oversell_policy", "hope"),
        ("colour", "red"),
    ],
)
def test_terms_that_are_wrong_are_refused_by_name(quick: Store, field: str, wrong: object) -> None:
    named = wrong_fields(quick.create(**{field: wrong}))
    assert any(name.split(".")[0] == field for name in named), named


def test_instant_checkout_needs_somebody_who_starts_the_payment(quick: Store) -> None:
    assert "checkout" in wrong_fields(quick.create(checkout="instant", payment="external"))


def test_script_in_a_name_stays_data(quick: Store) -> None:
    name = "<script>alert('&\"')</script>"
    quick.open(name=name, description=f"{name}\n{name}")
    answer = httpx.get(f"{quick.server.url}{quick.path}", verify=False, trust_env=False)
    assert answer.headers["content-type"] == "application/json"
    assert (answer.json()["name"], answer.json()["description"]) == (name, f"{name}\n{name}")


def test_everyone_may_see_the_facts_and_only_operators_the_rest(store: Store) -> None:
    made = store.open(hold_budget=3)
    url = f"{store.server.url}{store.path}"
    public = httpx.get(url, verify=False, trust_env=False)
    assert public.headers["cache-control"] == "public, max-age=300, stale-while-revalidate=60"
    hidden = {"state", "problem", "paused", "hold_budget", "available", "held", "sold", "oversell_policy"}
    assert hidden <= made.keys()
    assert not hidden & public.json().keys()
    assert public.json().items() <= made.items()
    with store.server.connect(buyer_token()) as ada:
        assert ada.get(store.path).content == public.content
    again = httpx.get(url, headers={"If-None-Match": public.headers["etag"]}, verify=False, trust_env=False)
    assert (again.status_code, again.content) == (304, b"")
    problem_of(httpx.get(f"{store.server.url}/v1/sales/nothing", verify=False, trust_env=False), 404, "sale_not_found")


def test_only_the_scope_sales_may_change_anything(quick: Store) -> None:
    quick.open()
    key = quick.server.command("keys", "create", "--name", "stock", "--scope", "inventory")["key"]
    for token in (key, buyer_token("ada")):
        with quick.server.connect(token) as client:
            problem_of(client.post("/v1/sales", json=quick.terms()), 403, "forbidden")
            problem_of(client.get("/v1/sales"), 403, "forbidden")
            problem_of(client.patch(quick.path, json={"name": "Mine"}), 403, "forbidden")
            for action in ("pause", "resume", "close", "restock"):
                problem_of(client.post(f"{quick.path}/{action}", json={"units": 1}), 403, "forbidden")
    with quick.server.connect() as stranger:
        problem_of(stranger.post("/v1/sales", json=quick.terms()), 401, "unauthorized")
        problem_of(stranger.post(f"{quick.path}/purchase", json={"quantity": 1}), 401, "unauthorized")


def test_sales_are_listed_page_by_page_with_their_counts(quick: Store) -> None:
    stores = [Store(quick.server, f"{quick.sale_id}-{n}", f"{quick.sku_id}-{n}") for n in range(3)]
    for store in stores:
        store.open(total_units=2)
    stores[0].buy()
    after = f"{quick.sale_id}"
    page = body_of(quick.server.client.get("/v1/sales", params={"limit": 2, "starting_after": after}))
    assert [(s["sale_id"], s["available"], s["held"]) for s in page["data"]] == [
        (stores[0].sale_id, 1, 1),
        (stores[1].sale_id, 2, 0),
    ]
    after = page["data"][-1]["sale_id"]
    rest = body_of(quick.server.client.get("/v1/sales", params={"limit": 1, "starting_after": after}))
    assert rest["data"][0]["sale_id"] == stores[2].sale_id


@pytest.mark.parametrize("action", ["pause", "resume", "close", "restock"])
def test_nothing_happens_to_a_sale_that_does_not_exist(embedded: Server, action: str) -> None:
    client = embedded.client
    problem_of(client.post(f"/v1/sales/nothing/{action}", json={"units": 1}), 404, "sale_not_found")
    problem_of(client.patch("/v1/sales/nothing", json={"name": "x"}), 404, "sale_not_found")


def test_now_tells_everyone_how_the_sale_stands(store: Store) -> None:
    store.open(total_units=1, starts_at=in_seconds(3_600))
    answer = store.now()
    kept = "public, max-age=1, s-maxage=1, stale-while-revalidate=5"
    assert (answer.headers["cache-control"], answer.json()["state"]) == (kept, "upcoming")
    assert answer.headers["cache-tag"] == answer.headers["surrogate-key"] == f"sale-{store.sale_id}"
    unchanged = httpx.get(answer.url, headers={"If-None-Match": answer.headers["etag"]}, verify=False, trust_env=False)
    assert unchanged.status_code == 304
    assert answer.json().keys() == {
        "sale_id", "state", "available_hint", "opens_at", "next_poll_ms", "serving", "joined", "rate_per_second",
        "lottery", "next_return_at", "sold_out",
    }  # fmt: skip
    problem_of(
        httpx.get(f"{store.server.url}/v1/sales/nothing/now", verify=False, trust_env=False), 404, "sale_not_found"
    )


@daily_on_one_engine
def test_now_follows_the_sale_within_moments(store: Store) -> None:
    store.open(total_units=1, payment="external", per_buyer_limit=None)
    assert (store.now().json()["state"], store.now().json()["available_hint"]) == ("open", 1)
    held = store.buy()
    eventually(lambda: store.now().json()["state"] == "all_held")
    store.server.client.post(f"/v1/reservations/{held['reservation_id']}/confirm")
    eventually(lambda: store.now().json()["state"] == "sold_out")
    store.act("pause")
    eventually(lambda: store.now().json()["state"] == "paused")
    store.act("close")
    ended = eventually(lambda: [b for b in [store.now().json()] if b["state"] == "ended"])
    assert ended[0]["next_poll_ms"] >= 10_000
