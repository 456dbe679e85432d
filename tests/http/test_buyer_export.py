"""`holdfast buyers export`: everything about one buyer in one document, and nothing about another."""

import json

from http_serving import Server

pytest_plugins = ("http_fixtures",)


def test_an_export_has_everything_about_a_buyer_and_nothing_about_others(embedded: Server) -> None:
    shop = embedded.shop()
    shop.provision(5)
    mine, others = shop.hold("export-ada", idempotency_key="k1"), shop.hold("export-bob")
    credit = {"amount": 500, "currency": "EUR", "idempotency_key": f"export-{shop.sku_id}"}
    embedded.client.post("/v1/wallets/export-ada/credit", json=credit).raise_for_status()
    found = embedded.command("buyers", "export", "export-ada")["data"]
    assert [row["reservation_id"] for row in found["reservations"]] == [mine]
    assert {row["type"] for row in found["events"]} == {"reservation.created"}
    assert [row["balance"] for row in found["wallet_accounts"]] == [500]
    assert [row["amount"] for row in found["wallet_entries"]] == [500]
    text = json.dumps(found)
    assert others not in text
    assert "export-bob" not in text


def test_an_unknown_buyer_is_a_failure(embedded: Server) -> None:
    code, _, error = embedded.run("buyers", "export", "nobody-at-all")
    assert (code, "nothing about this buyer" in error) == (1, True)
