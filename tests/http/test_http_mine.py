"""A buyer finds what is theirs on any device: GET /v1/sales/{id}/mine, their own list, and their holds in a refusal."""

import pytest
from http_calling import eventually, problem_of
from http_rooms import person
from http_sales import Store, body_of
from http_serving import on_one_engine

pytest_plugins = ("http_fixtures",)

LINE = {"mode": "fifo", "rate_per_second": 100, "pass_seconds": 60}


@pytest.mark.parametrize("limit", [2, None])
def test_another_device_finds_the_cart(store: Store, limit: int | None) -> None:
    store.open(per_buyer_limit=limit)
    held = store.buy("ada")
    store.buy("bob")
    with store.buyer("ada") as ada:
        mine = body_of(ada.client.get(f"{store.path}/mine"))
        shown = body_of(ada.client.get(f"/v1/reservations/{held['reservation_id']}"))
        assert shown.pop("last_decline") is None
        assert mine == {"reservations": [shown], "orders": []}
        assert (shown["status"], shown["sale_id"], shown["amount"]) == ("active", store.sale_id, 4_999)
        listed = body_of(ada.client.get("/v1/reservations", params={"sku_id": store.sku_id}))
        assert listed == {"data": [shown], "has_more": False}


def test_an_order_is_found_with_its_reservation(store: Store) -> None:
    store.open(payment="external")
    held = store.buy("ada")
    body_of(store.server.client.post(f"/v1/reservations/{held['reservation_id']}/confirm"))
    with store.buyer("ada") as ada:
        eventually(lambda: body_of(ada.client.get(f"{store.path}/mine"))["orders"])
        mine = body_of(ada.client.get(f"{store.path}/mine"))
        assert [one["status"] for one in mine["reservations"]] == ["confirmed"]
        assert mine["reservations"][0]["confirmed_at"] is not None
        assert [order["reservation_id"] for order in mine["orders"]] == [held["reservation_id"]]


def test_a_place_and_a_pass_are_found_by_their_buyer(store: Store) -> None:
    store.open(room=LINE)
    with person(store) as ada:
        joined = body_of(ada.join())
        mine = body_of(ada.client.get(f"{store.path}/mine"))
        assert mine["place"]["position"] == joined["position"] == 1
        given = ada.await_pass()
        mine = body_of(ada.client.get(f"{store.path}/mine"))
        assert mine["pass"]["pass"] == given
    with person(store) as elsewhere:
        elsewhere.ticket = mine["place"]["ticket"]
        assert body_of(elsewhere.status())["position"] == 1
        held = body_of(elsewhere.buy(mine["pass"]["pass"]), 201)
        mine = body_of(elsewhere.client.get(f"{store.path}/mine"))
        assert [one["reservation_id"] for one in mine["reservations"]] == [held["reservation_id"]]


def test_a_tier_is_checked_at_the_purchase_again_at_the_payment_and_for_a_service(store: Store) -> None:
    store.open(required_tier=2)
    path = f"/v1/inventory/{store.sku_id}/reserve"
    wanted = {"owner_id": "eve", "quantity": 1}
    problem_of(store.server.client.post(path, json=wanted | {"tier": 1}), 403, "tier_required")
    assert body_of(store.server.client.post(path, json=wanted | {"tier": 2}))["status"] == "active"
    with store.buyer("ada", tier=2) as ada, store.buyer("ada", tier=1) as demoted:
        problem_of(demoted.purchase(), 403, "tier_required")
        confirm = f"/v1/reservations/{body_of(ada.purchase(), 201)['reservation_id']}/confirm"
        problem_of(demoted.client.post(confirm), 403, "tier_required")
        assert body_of(ada.client.post(confirm), 202)["status"] == "settling"


def test_without_a_key_a_pass_buys_once(store: Store) -> None:
    store.open(room=LINE, per_buyer_limit=None)
    with person(store) as ada, person(store, "bob") as bob:
        ada.join()
        headers = {"Holdfast-Pass": ada.await_pass()}
        answers = [ada.client.post(f"{store.path}/purchase", json={"quantity": 1}, headers=headers) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [201, 200, 200]
        assert len({answer.content for answer in answers}) == 1
        assert answers[1].headers["idempotency-replayed"] == "true"
        more = ada.client.post(f"{store.path}/purchase", json={"quantity": 2}, headers=headers)
        problem_of(more, 422, "idempotency_key_reused")
        assert body_of(ada.buy(headers["Holdfast-Pass"]), 201)["quantity"] == 1
        stolen = bob.client.post(f"{store.path}/purchase", json={"quantity": 1}, headers=headers)
        problem_of(stolen, 400, "idempotency_key_required")
        problem_of(ada.client.post(f"{store.path}/purchase", json={"quantity": 1}), 400, "idempotency_key_required")
    assert store.counts() == (1, 2, 0)


def test_a_refusal_for_the_limit_names_the_buyers_own_holds(store: Store) -> None:
    store.open(per_buyer_limit=2)
    with store.buyer("ada") as ada, store.buyer("bob") as bob:
        body_of(bob.purchase(), 201)
        mine = [body_of(ada.purchase(), 201)["reservation_id"] for _ in range(2)]
        refused = problem_of(ada.purchase(), 409, "buyer_limit")
        assert sorted(refused["reservation_ids"]) == sorted(mine)
        assert ada.client.delete(f"/v1/reservations/{mine[0]}").status_code == 204
        refused = problem_of(ada.purchase(2), 409, "buyer_limit")
        assert refused["reservation_ids"] == mine[1:]


def test_nobody_finds_what_is_anothers(store: Store) -> None:
    store.open()
    store.buy("ada")
    with store.buyer("bob") as bob:
        assert body_of(bob.client.get(f"{store.path}/mine")) == {"reservations": [], "orders": []}
        assert body_of(bob.client.get("/v1/reservations", params={"sku_id": store.sku_id}))["data"] == []
        problem_of(bob.client.get("/v1/reservations", params={"owner_id": "ada"}), 403, "forbidden")


@on_one_engine
def test_only_a_buyer_asks_for_what_is_theirs(store: Store) -> None:
    store.open()
    problem_of(store.server.client.get(f"{store.path}/mine"), 403, "forbidden")
    with store.server.connect() as stranger:
        problem_of(stranger.get(f"{store.path}/mine"), 401, "unauthorized")
        problem_of(stranger.get("/v1/reservations"), 401, "unauthorized")
    with store.buyer("ada") as ada:
        problem_of(ada.client.get("/v1/sales/nope/mine"), 404, "sale_not_found")


def test_a_list_without_a_pool_shows_the_buyers_own_of_every_sale(store: Store) -> None:
    store.open(per_buyer_limit=None)
    buyer_id = f"ada-{store.sale_id}"
    held = [store.buy(buyer_id)["reservation_id"] for _ in range(3)]
    with store.buyer(buyer_id) as ada:
        # Without a pool, no journal is read for a buyer: the list may be slightly behind.
        eventually(lambda: len(body_of(ada.client.get("/v1/reservations"))["data"]) == 3)
        page = body_of(ada.client.get("/v1/reservations", params={"limit": 2}))
        rest = body_of(
            ada.client.get("/v1/reservations", params={"starting_after": page["data"][-1]["reservation_id"]})
        )
        assert (page["has_more"], rest["has_more"]) == (True, False)
        assert sorted(one["reservation_id"] for one in page["data"] + rest["data"]) == sorted(held)
