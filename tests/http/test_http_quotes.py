"""Quotes: what a purchase will cost is fixed before, also in another currency, and is what is paid."""

import httpx
from http_calling import eventually, problem_of, wrong_fields
from http_ledger import in_ledger
from http_sales import Buyer, Store, body_of, in_seconds
from sqlalchemy import update

from holdfast.ledger.tables.sales import quotes

pytest_plugins = ("http_fixtures",)


def quote_of(buyer: Buyer, **given: object) -> httpx.Response:
    return buyer.client.post(f"{buyer.store.path}/quote", json=given)


def confirmed_order(buyer: Buyer, reservation_id: str) -> dict[str, object]:
    def paid() -> dict[str, object] | None:
        found = body_of(buyer.client.get("/v1/orders"))["data"]
        return next((o for o in found if o["reservation_id"] == reservation_id and o["status"] == "confirmed"), None)

    order = eventually(paid)
    assert order is not None
    return order


def test_a_purchase_in_another_currency_is_settled_at_the_rate_of_its_quote(store: Store) -> None:
    store.open(per_buyer_limit=2)
    wallet = {"amount": 20_000, "currency": "USD", "idempotency_key": "usd"}
    with store.buyer(f"ada-{store.sale_id}") as ada:
        buyer_id = f"ada-{store.sale_id}"
        body_of(store.server.client.post(f"/v1/wallets/{buyer_id}/credit", json=wallet))
        quote = body_of(quote_of(ada, quantity=2, currency="USD"), 201)
        assert quote.items() >= {
            "sale_id": store.sale_id, "quantity": 2, "amount": 10_840, "currency": "USD", "rate": "1.0842",
        }.items()  # fmt: skip
        bought = body_of(ada.purchase(2, key="k", quote_id=quote["quote_id"]), 201)
        assert (bought["amount"], bought["currency"]) == (10_840, "USD")
        # The same request again finds the same reservation, at the same price.
        again = body_of(ada.purchase(2, key="k", quote_id=quote["quote_id"]))
        assert (again["reservation_id"], again["amount"]) == (bought["reservation_id"], 10_840)
        held = body_of(ada.client.get(f"/v1/reservations/{bought['reservation_id']}"))
        snapshot = held["quote"]
        assert (held["amount"], held["currency"], snapshot["base_amount"]) == (10_840, "USD", 9_998)
        body_of(ada.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm", json={}), 202)
        order = confirmed_order(ada, bought["reservation_id"])
        assert (order["amount"], order["currency"], order["quote"]) == (10_840, "USD", snapshot)
        left = body_of(store.server.client.get(f"/v1/wallets/{buyer_id}"))
        assert {"currency": "USD", "balance": 9_160}.items() <= _balance_in(left, "USD").items()
        # A refund gives back what was paid, and not what it would be today.
        refund = f"/v1/orders/{order['order_id']}/refund"
        assert store.server.client.post(refund, json={}, headers={"Idempotency-Key": "r"}).is_success

        def returned() -> bool:
            wallet = body_of(store.server.client.get(f"/v1/wallets/{buyer_id}"))
            return _balance_in(wallet, "USD")["balance"] == 20_000

        eventually(returned)


def _balance_in(wallet: dict[str, object], currency: str) -> dict[str, object]:
    balances = wallet.get("balances", [wallet])
    assert isinstance(balances, list)
    return next(each for each in balances if each["currency"] == currency)


def test_a_quote_is_for_one_purchase_of_one_buyer_in_one_sale(store: Store) -> None:
    store.open(per_buyer_limit=3)
    with store.buyer("ada") as ada, store.buyer("bob") as bob:
        quote_id = body_of(quote_of(ada), 201)["quote_id"]
        problem_of(bob.purchase(quote_id=quote_id), 409, "quote_mismatch")
        problem_of(ada.purchase(2, quote_id=quote_id), 409, "quote_mismatch")
        problem_of(ada.purchase(quote_id="quo_unknown"), 409, "quote_mismatch")
        assert "min_quantity" in wrong_fields(ada.purchase(2, min_quantity=1, quote_id=quote_id))
        first = body_of(ada.purchase(key="one", quote_id=quote_id), 201)
        assert (first["amount"], first["currency"]) == (4_999, "EUR")
        problem_of(ada.purchase(key="two", quote_id=quote_id), 409, "quote_mismatch")
        problem_of(ada.purchase(key="one"), 422, "idempotency_key_reused")
    assert store.counts() == (2, 1, 0)


def test_an_expired_quote_buys_nothing_but_finds_what_it_bought(store: Store) -> None:
    store.open(per_buyer_limit=2)
    with store.buyer("ada") as ada:
        used, unused = (body_of(quote_of(ada), 201)["quote_id"] for _ in range(2))
        bought = body_of(ada.purchase(key="used", quote_id=used), 201)
        of_sale = update(quotes).where(quotes.c.sale_id == store.sale_id)
        in_ledger(store.server, lambda c: c.execute(of_sale.values(expires_at=1)))
        problem_of(ada.purchase(key="unused", quote_id=unused), 409, "quote_expired")
        again = body_of(ada.purchase(key="used", quote_id=used))
        assert again["reservation_id"] == bought["reservation_id"]
    assert store.counts() == (2, 1, 0)


def test_a_quote_that_was_refused_stock_may_be_tried_again(quick: Store) -> None:
    quick.open(starts_at=in_seconds(600))
    with quick.buyer("ada") as ada:
        quote_id = body_of(quote_of(ada), 201)["quote_id"]
        problem_of(ada.purchase(key="k", quote_id=quote_id), 409, "sale_not_open")
        quick.start_soon()
        eventually(lambda: ada.purchase(key="k", quote_id=quote_id).status_code == 201)


def test_quotes_are_in_whole_units_of_their_currency_and_only_where_there_is_a_rate(quick: Store) -> None:
    quick.open()
    with quick.buyer("ada") as ada:
        yen = body_of(quote_of(ada, currency="JPY"), 201)
        assert (yen["amount"], yen["rate"]) == (8_123, "162.5")
        own = body_of(quote_of(ada, currency="EUR"), 201)
        assert (own["amount"], "rate" in own) == (4_999, False)
        assert "currency" in wrong_fields(quote_of(ada, currency="CHF"))
        assert "quantity" in wrong_fields(quote_of(ada, quantity=0))
        problem_of(ada.client.post("/v1/sales/none/quote", json={}), 404, "sale_not_found")
        body_of(quick.act("close"))
        problem_of(quote_of(ada), 409, "sale_ended")
