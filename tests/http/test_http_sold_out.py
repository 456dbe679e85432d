"""Once a sale is sold out, `now` tells everyone the same: how many, how soon, and how far the line came."""

from contextlib import ExitStack

from http_calling import eventually
from http_rooms import now_of, person
from http_sales import Store, body_of

pytest_plugins = ("http_fixtures",)

FIFO = {"mode": "fifo", "rate_per_second": 1_000, "pass_seconds": 60}


def test_a_sold_out_sale_tells_how_many_went_how_soon_and_to_which_place(store: Store) -> None:
    store.open(room=FIFO, total_units=2, payment="external")
    with ExitStack() as stack:
        ada, bob, eve = (stack.enter_context(person(store, name)) for name in ("ada", "bob", "eve"))
        places = [body_of(one.join())["position"] for one in (ada, bob, eve)]
        assert places == [1, 2, 3]
        for buyer in (ada, eve):
            assert now_of(store)["sold_out"] is None
            held = body_of(buyer.buy(buyer.await_pass()), 201)["reservation_id"]
            assert store.server.client.post(f"/v1/reservations/{held}/confirm").status_code == 200
    # Where Redis decides, the ledger follows.
    eventually(lambda: (now_of(store)["sold_out"] or {}).get("units") == 2)
    told = now_of(store)["sold_out"]
    assert set(told) == {"at", "seconds", "units", "last_position"}
    assert told["last_position"] == 3
    assert told["seconds"] >= 0
    # One bought none: the line was three people long.
    assert now_of(store)["joined"] == 3
    body_of(store.act("restock", units=1))
    eventually(lambda: now_of(store)["state"] == "open")
    assert now_of(store)["sold_out"] is None


def test_without_a_line_there_is_no_last_place(store: Store) -> None:
    store.open(total_units=1, payment="external")
    with store.buyer("ada") as ada:
        held = body_of(ada.purchase(), 201)["reservation_id"]
    assert store.server.client.post(f"/v1/reservations/{held}/confirm").status_code == 200
    eventually(lambda: now_of(store)["sold_out"] is not None)
    assert (now_of(store)["sold_out"]["units"], now_of(store)["sold_out"]["last_position"]) == (1, None)


def test_a_sale_that_has_nothing_left_and_sold_nothing_tells_nothing(store: Store) -> None:
    store.open(total_units=1)
    body_of(store.act("restock", units=-1))
    eventually(lambda: now_of(store)["state"] == "sold_out")
    assert now_of(store)["sold_out"] is None
