"""`holdfast buyers`: everything about one buyer in one document, and erased for good."""

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


def test_an_erased_buyer_is_gone_beside_a_running_server(server: Server) -> None:
    shop = server.shop()
    shop.provision(3)
    kept, held = shop.hold("erase-ada", idempotency_key="k1"), shop.hold("erase-bob")
    code, _, error = server.run("buyers", "erase", "erase-ada", "--yes")
    assert (code, "cannot erase erase-ada yet: 1 live hold" in error) == (1, True)
    server.client.post(f"/v1/reservations/{kept}/confirm").raise_for_status()
    trial = server.command("buyers", "erase", "erase-ada")
    assert (trial["erased"], trial["replaced"]["reservations"]) == (False, 1)
    done = server.command("buyers", "erase", "erase-ada", "--yes")
    assert done["replaced"] == trial["replaced"]
    assert server.run("buyers", "export", "erase-ada")[0] == 1
    assert server.command("buyers", "erase", "erase-ada", "--yes")["replaced"] == {}
    found = server.client.get(f"/v1/reservations/{kept}").json()
    assert (found["owner_id"], found["status"]) == (done["pseudonym"], "confirmed")
    server.client.post(f"/v1/reservations/{held}/confirm").raise_for_status()
    shop.hold("erase-ada", idempotency_key="k1")
    assert server.command("verify")["ok"]
