"""Orders: buyers see their own, services all."""

import httpx
from http_calling import problem_of, wrong_fields
from http_sales import Store, body_of
from http_serving import Server
from http_tokens import buyer_token

pytest_plugins = ("http_fixtures",)


def sold_to(store: Store, buyer_id: str, quantity: int = 1) -> str:
    """The id of an order of a sale that is paid elsewhere."""
    bought = store.buy(buyer_id, quantity)
    body_of(store.server.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm"))
    # A list of all orders brings the ledger up to date first.
    page = body_of(store.server.client.get("/v1/orders", params={"sale_id": store.sale_id}))
    return str(page["data"][0]["order_id"])


def test_an_order_says_what_was_sold_to_whom_for_how_much(store: Store) -> None:
    store.open(payment="external", per_buyer_limit=2)
    order_id = sold_to(store, "ada", 2)
    order = body_of(store.server.client.get(f"/v1/orders/{order_id}"))
    assert order.keys() >= {"order_id", "reservation_id", "created_at"}
    assert order.items() >= {
        "sale_id": store.sale_id, "buyer_id": "ada", "quantity": 2, "amount": 9_998, "currency": "EUR",
        "status": "confirmed", "refunded_amount": 0,
    }.items()  # fmt: skip
    assert order_id[4:] == order["reservation_id"][4:36]


def test_buyers_see_their_own_orders_and_nobody_elses(store: Store) -> None:
    store.open(payment="external", total_units=5)
    ada_id, bob_id = f"ada-{store.sale_id}", f"bob-{store.sale_id}"
    of_ada, of_bob = sold_to(store, ada_id), sold_to(store, bob_id)
    with store.server.connect(buyer_token(ada_id)) as ada:
        assert [order["order_id"] for order in body_of(ada.get("/v1/orders"))["data"]] == [of_ada]
        assert body_of(ada.get(f"/v1/orders/{of_ada}"))["buyer_id"] == ada_id
        problem_of(ada.get(f"/v1/orders/{of_bob}"), 404, "order_not_found")
        problem_of(ada.get("/v1/orders", params={"buyer_id": bob_id}), 403, "forbidden")
    with store.server.connect() as stranger:
        problem_of(stranger.get("/v1/orders"), 401, "unauthorized")
        problem_of(stranger.get(f"/v1/orders/{of_ada}"), 401, "unauthorized")


def test_services_list_orders_page_by_page_and_by_sale_and_buyer(store: Store) -> None:
    store.open(payment="external", total_units=5)
    ids = [sold_to(store, buyer) for buyer in ("ada", "bob", "cem")]
    client, of_sale = store.server.client, {"sale_id": store.sale_id}
    first = body_of(client.get("/v1/orders", params=of_sale | {"limit": "2"}))
    assert ([o["order_id"] for o in first["data"]], first["has_more"]) == (ids[:0:-1], True)
    rest = body_of(client.get("/v1/orders", params=of_sale | {"starting_after": ids[1]}))
    assert ([o["order_id"] for o in rest["data"]], rest["has_more"]) == (ids[:1], False)
    by_buyer = body_of(client.get("/v1/orders", params=of_sale | {"buyer_id": "bob"}))
    assert [o["order_id"] for o in by_buyer["data"]] == [ids[1]]
    assert "starting_after" in wrong_fields(client.get("/v1/orders", params={"starting_after": "x"}))
    assert "colour" in wrong_fields(client.get("/v1/orders", params={"colour": "red"}))


def test_an_order_is_found_by_its_number_as_people_type_it(store: Store) -> None:
    store.open(payment="external", total_units=5)
    ids, client = [sold_to(store, buyer) for buyer in ("ada", "bob")], store.server.client
    number = body_of(client.get(f"/v1/orders/{ids[0]}"))["number"]
    for typed in (number, number.lower().replace("-", ""), number.replace("0", "o").replace("1", "l")):
        assert [one["order_id"] for one in body_of(client.get("/v1/orders", params={"number": typed}))["data"]] == ids[
            :1
        ]
    assert body_of(client.get("/v1/orders", params={"number": "none"}))["data"] == []
    assert [one["order_id"] for one in store.server.command("orders", "list", "--number", number)["data"]] == ids[:1]


def test_a_fulfilment_with_the_same_key_and_another_tracking_number_is_refused(store: Store) -> None:
    store.open(payment="external", total_units=5)
    path, client = f"/v1/orders/{sold_to(store, 'ada')}/fulfil", store.server.client

    def fulfil(key: str, tracking: str) -> httpx.Response:
        return client.post(path, json={"tracking": tracking}, headers={"Idempotency-Key": key})

    assert body_of(fulfil("k", "t1"))["tracking"] == "t1"
    assert body_of(fulfil("k", "t1")) == body_of(fulfil("other", "t1"))
    problem_of(fulfil("k", "t2"), 422, "idempotency_key_reused")
    problem_of(fulfil("other", "t2"), 409, "order_fulfilled")
    assert store.server.command("verify")["ok"]


def test_only_the_scope_sales_sees_all_orders(embedded: Server) -> None:
    key = embedded.command("keys", "create", "--name", "stock", "--scope", "inventory")["key"]
    with embedded.connect(key) as client:
        problem_of(client.get("/v1/orders"), 403, "forbidden")
        problem_of(client.get("/v1/orders/ord_1"), 403, "forbidden")
    problem_of(embedded.client.get("/v1/orders/ord_1"), 404, "order_not_found")
