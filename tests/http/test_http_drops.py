"""Drops: several sales, and a limit per buyer across them that is exact on every engine."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from http_calling import eventually, problem_of, wrong_fields
from http_drops import DropStore, drop_of
from http_rooms import Person, now_of, person
from http_sales import Buyer, Store, body_of, in_seconds, store_of
from http_serving import Server

pytest_plugins = ("http_fixtures",)


@pytest.fixture
def drop(server: Server) -> DropStore:
    return drop_of(server)


def test_the_limit_counts_across_products_and_returns_with_the_hold(drop: DropStore) -> None:
    body_of(drop.create(per_buyer_limit=2), 201)
    shoe, hat, bag = (drop.product(number, total_units=5, per_buyer_limit=2) for number in range(3))
    with shoe.buyer("ada") as ada:
        first = body_of(ada.purchase(key="one"), 201)
        second = body_of(_at(ada, hat).purchase(key="one"), 201)
        told = problem_of(_at(ada, bag).purchase(key="one"), 409, "buyer_limit")
        assert (told["drop_id"], told["limit"]) == (drop.drop_id, 2)
        assert set(told["reservation_ids"]) == {first["reservation_id"], second["reservation_id"]}
        # A repeat gets its first answer, although the limit is reached.
        assert body_of(ada.purchase(key="one"))["reservation_id"] == first["reservation_id"]
        assert ada.client.delete(f"/v1/reservations/{first['reservation_id']}").status_code == 204
        body_of(_at(ada, bag).purchase(key="one"), 201)
        problem_of(_at(ada, shoe).purchase(key="two"), 409, "buyer_limit")
    assert [store.counts() for store in (shoe, hat, bag)] == [(5, 0, 0), (4, 1, 0), (4, 1, 0)]


def test_products_keep_their_own_limits_and_services_the_limit_of_the_drop(drop: DropStore) -> None:
    body_of(drop.create(per_buyer_limit=2), 201)
    shoe, hat = (drop.product(number, total_units=5) for number in range(2))
    with shoe.buyer("bob") as bob:
        body_of(bob.purchase(key="one"), 201)
        assert "limit" not in problem_of(bob.purchase(key="two"), 409, "buyer_limit")
    reserve = f"/v1/inventory/{hat.sku_id}/reserve"
    given = {"owner_id": "bob", "quantity": 1, "idempotency_key": "k"}
    reserved = body_of(drop.server.client.post(reserve, json=given))
    assert body_of(drop.server.client.post(reserve, json=given)) == reserved
    bag = drop.product(2, total_units=5)
    over = drop.server.client.post(f"/v1/inventory/{bag.sku_id}/reserve", json={"owner_id": "bob", "quantity": 1})
    problem_of(over, 409, "buyer_limit")


def test_a_crowd_at_several_products_at_once_never_exceeds_the_limit(drop: DropStore) -> None:
    body_of(drop.create(per_buyer_limit=2), 201)
    stores = [drop.product(number, total_units=40, per_buyer_limit=None) for number in range(4)]

    def buy(task: tuple[str, int]) -> tuple[str, int]:
        name, number = task
        with stores[number % 4].buyer(name) as buyer:
            # The same keys at other products are other purchases.
            return name, _answer(buyer, f"key-{number // 8}").status_code

    with ThreadPoolExecutor(16) as crowd:
        answers = list(crowd.map(buy, [(f"buyer-{n % 4}", n // 4) for n in range(64)]))
    granted = Counter(name for name, status in answers if status == 201)
    assert granted == {f"buyer-{number}": 2 for number in range(4)}
    assert {status for _, status in answers} <= {200, 201, 409}
    assert sum(store.counts()[1] for store in stores) == 8


def test_one_place_and_one_pass_serve_all_sales_of_a_drop(drop: DropStore) -> None:
    body_of(drop.create(per_buyer_limit=2, room={"mode": "fifo", "rate_per_second": 50}), 201)
    shoe, hat = (drop.product(number, total_units=1) for number in range(2))
    other = drop_of(drop.server)
    body_of(other.create(room={"mode": "fifo"}), 201)
    elsewhere = other.product(0)
    with person(shoe, "ada") as ada, person(shoe, "bob") as bob:
        first = body_of(ada.join())
        assert body_of(bob.join())["position"] == 2
        problem_of(ada.buy(None), 429, "admission_required")
        at_hat = Person(ada.client, hat)
        assert body_of(at_hat.join())["position"] == first["position"]
        eventually(lambda: now_of(hat)["joined"] == 2)
        assert body_of(ada.client.get(f"{hat.path}/mine"))["place"]["position"] == 1
        given = ada.await_pass()
        body_of(ada.buy(given), 201)
        body_of(at_hat.buy(given), 201)
        problem_of(Person(ada.client, elsewhere).buy(given), 429, "admission_required")
        # All is held, in both: bob waits, and is called when a unit of either comes back.
        assert bob.ask().status_code == 202
        held = body_of(ada.client.get(f"{hat.path}/mine"))["reservations"]
        ada.client.delete(f"/v1/reservations/{held[0]['reservation_id']}")
        body_of(Person(bob.client, hat).buy(bob.await_pass()), 201)
    room = body_of(drop.server.client.post(f"{shoe.path}/room", json={"rate_per_second": 7}))
    assert (room["sale_id"], room["joined"]) == (shoe.sale_id, 2)
    assert body_of(drop.server.client.get(f"{hat.path}/room"))["rate_per_second"] == 7
    # The room counts what passes bought a moment after the buyer has the answer.
    eventually(lambda: body_of(drop.server.client.get(f"{hat.path}/room"))["units_taken"] == 3)


@pytest.mark.slow
def test_a_second_sale_of_a_sku_starts_counting_at_zero(store: Store) -> None:
    store.open(per_buyer_limit=1, total_units=3, payment="external")
    with store.buyer("eve") as eve:
        bought = body_of(eve.purchase(key="one"), 201)
        problem_of(eve.purchase(key="two"), 409, "buyer_limit")
    body_of(store.server.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm"))
    body_of(store.act("close"))
    again = Store(store.server, f"{store.sale_id}-again", store.sku_id)
    eventually(lambda: again.create(per_buyer_limit=1, total_units=3, payment="external").status_code == 201)
    with again.buyer("eve") as eve:
        body_of(eve.purchase(key="three"), 201)
        problem_of(eve.purchase(key="four"), 409, "buyer_limit")
    assert again.counts() == (1, 1, 1)


def test_a_drop_is_created_shown_listed_and_changed(embedded: Server) -> None:
    drop = drop_of(embedded)
    made = body_of(drop.create(per_buyer_limit=3), 201)
    assert (made["drop_id"], made["per_buyer_limit"], made["sales"]) == (drop.drop_id, 3, [])
    assert body_of(drop.create(per_buyer_limit=3, starts_at=made["starts_at"]))["drop_id"] == drop.drop_id
    problem_of(drop.create(per_buyer_limit=4), 409, "drop_exists")
    shoe = drop.product(0, price={"amount": 500, "currency": "EUR"})
    with embedded.connect() as anyone:
        [sale] = body_of(anyone.get(drop.path))["sales"]
        problem_of(anyone.get("/v1/drops/nope"), 404, "drop_not_found")
    assert (sale["sale_id"], sale["price"]) == (shoe.sale_id, {"amount": 500, "currency": "EUR"})
    assert shoe.show()["drop_id"] == drop.drop_id
    assert body_of(drop.change(name="Spring", per_buyer_limit=1))["per_buyer_limit"] == 1
    assert drop.drop_id in [one["drop_id"] for one in body_of(embedded.client.get("/v1/drops?limit=100"))["data"]]
    assert "per_buyer_limit" in wrong_fields(drop_without_limit(embedded).change(per_buyer_limit=1))


def drop_without_limit(server: Server) -> DropStore:
    drop = drop_of(server)
    body_of(drop.create(), 201)
    drop.product(0)
    return drop


def test_a_sale_that_does_not_fit_its_drop_is_refused(embedded: Server) -> None:
    drop, store = drop_of(embedded), store_of(embedded)
    problem_of(store.create(drop_id=drop.drop_id), 404, "drop_not_found")
    body_of(drop.create(starts_at=in_seconds(60)), 201)
    assert set(wrong_fields(store.create(drop_id=drop.drop_id))) == {"starts_at"}
    later = in_seconds(90)
    own_room = store.create(drop_id=drop.drop_id, starts_at=later, room={"mode": "fifo"})
    assert set(wrong_fields(own_room)) == {"room"}
    store.open(drop_id=drop.drop_id, starts_at=later)
    assert set(wrong_fields(store.change(room={"mode": "fifo"}))) == {"room"}
    assert set(wrong_fields(drop.change(starts_at=in_seconds(120)))) == {"starts_at"}


def _at(buyer: Buyer, store: Store) -> Buyer:
    return Buyer(buyer.client, store)


def _answer(buyer: Buyer, key: str) -> httpx.Response:
    """Asked again under the same key while the server is busy."""
    while (answer := buyer.purchase(key=key)).status_code == 503:
        pass
    return answer
