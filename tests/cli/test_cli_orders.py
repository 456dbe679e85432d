"""`holdfast orders` and `holdfast parked`, on each SQL engine."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from cli_running import Here
from sqlalchemy import Connection, insert

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.tables.money import refunds
from holdfast.ledger.tables.sales import orders

pytest_plugins = ("cli_fixtures",)

SALE = Sale(
    sale_id="drop", sku_id="drop", name="Drop", price_amount=4_999, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.EXTERNAL, state=SaleState.READY,
)  # fmt: skip


def an_order(number: int, **more: Any) -> dict[str, Any]:
    return {
        "order_id": f"ord_{number:032}", "reservation_id": f"rsv_{number:032}_drop", "sale_id": "drop",
        "sku_id": "drop", "buyer_id": f"b{number}", "quantity": 1, "amount": 4_999, "currency": "EUR",
        "payment": "external", "status": "confirmed", "created_at": number, "updated_at": number,
        "confirmed_at": number, "units_to_source": 0,
    } | more  # fmt: skip


@pytest.fixture
async def ledger(database_url: str) -> None:
    def work(connection: Connection) -> None:
        insert_sale(connection, SALE)
        connection.execute(insert(orders), [an_order(1), an_order(2, units_to_source=1), an_order(3)])
        parked = {"refund_id": "rfd_1", "payment_key": "pay_1", "sku_id": "drop", "amount": 5, "currency": "EUR"}
        more = {"cause": "paid_too_late", "due_at": 0, "created_at": 0, "state": "parked", "reason": "no such payment"}
        connection.execute(insert(refunds), [parked | more])

    database = open_database(database_url)
    await migrate(database)
    await database.write(work)
    await database.close()


@pytest.mark.usefixtures("ledger")
def test_orders_are_listed_shown_and_refunded(here: Here, database_url: str) -> None:
    listed = here("orders", "list", "--limit", "2", "--json", DATABASE_URL=database_url).json
    assert ([order["buyer_id"] for order in listed["data"]], listed["has_more"]) == (["b3", "b2"], True)
    [waiting] = here("orders", "list", "--to-source", "--json", DATABASE_URL=database_url).json["data"]
    assert waiting["units_to_source"] == 1
    table = here("orders", "list", "--buyer", "b1", DATABASE_URL=database_url)
    [order] = here("orders", "list", "--buyer", "b1", "--json", DATABASE_URL=database_url).json["data"]
    assert (table.code, "49.99 EUR" in table.out, order["number"] in table.out) == (0, True, True)
    assert "to source" not in table.out
    assert order["number"] in here("orders", "show", order["order_id"], DATABASE_URL=database_url).out
    assert "to source" in here("orders", "list", "--to-source", DATABASE_URL=database_url).lines[0]
    first = f"ord_{1:032}"
    for _ in range(2):
        shown = here("orders", "refund", first, "--amount", "1000", "--key", "k", "--json", DATABASE_URL=database_url)
        assert (shown.json["status"], shown.json["amount"]) == ("done", 1_000)
    assert here("orders", "show", first, "--json", DATABASE_URL=database_url).json["refunded_amount"] == 1_000
    assert "39.99 EUR" in here("orders", "refund", first, DATABASE_URL=database_url).out
    again = here("orders", "refund", first, "--json", DATABASE_URL=database_url)
    assert (again.code, "0 of 4999" in again.json["error"]) == (1, True)


@pytest.mark.usefixtures("ledger")
def test_orders_are_exported_in_pages_and_fulfilled_once(
    here: Here, database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("holdfast.cli.commands.orders.PAGE", 2)
    shown = here("orders", "export", "--csv", "--sale", "drop", DATABASE_URL=database_url)
    rows = list(csv.DictReader(shown.lines))
    assert [(row["buyer_id"], row["amount"], row["tracking"]) for row in rows] == [
        ("b3", "4999", ""), ("b2", "4999", ""), ("b1", "4999", ""),
    ]  # fmt: skip
    first = f"ord_{1:032}"
    for _ in range(2):
        sent = here("orders", "fulfil", first, "--tracking", "=JD01", "--json", DATABASE_URL=database_url)
        assert (sent.json["status"], sent.json["tracking"]) == ("fulfilled", "=JD01")
    [row] = csv.DictReader(here("orders", "export", "--status", "fulfilled", DATABASE_URL=database_url).lines)
    assert row["tracking"] == "'=JD01"  # Not a formula.
    other = here("orders", "fulfil", first, "--tracking", "JD02", DATABASE_URL=database_url)
    assert (other.code, "is fulfilled; only confirmed orders" in other.err) == (1, True)
    assert here("orders", "fulfil", "ord_x", DATABASE_URL=database_url).code == 1
    assert here("orders", "fulfil", first, "--tracking", "\x1b[31m", DATABASE_URL=database_url).code == 2
    file = tmp_path / "to-ship.jsonl"
    done = here("orders", "export", "--jsonl", "--status", "fulfilled", "--out", str(file), DATABASE_URL=database_url)
    assert (done.out, "1 order written" in done.err) == ("", True)
    assert [json.loads(line)["order_id"] for line in file.read_text().splitlines()] == [first]


@pytest.mark.usefixtures("ledger")
def test_parked_items_are_listed_retried_and_dropped(here: Here, database_url: str) -> None:
    listed = here("parked", "list", "--json", DATABASE_URL=database_url)
    assert (listed.code, [item["parked_id"] for item in listed.json["data"]]) == (1, ["refund:rfd_1"])
    assert "no such payment" in here("parked", "list", DATABASE_URL=database_url).out
    assert here("parked", "retry", "--all", "settlement", "--json", DATABASE_URL=database_url).json == {"retried": 0}
    assert here("parked", "retry", "refund:rfd_1", DATABASE_URL=database_url).code == 0
    none = here("parked", "drop", "refund:rfd_1", "--json", DATABASE_URL=database_url)
    assert (none.code, "there is no parked item" in none.json["error"]) == (1, True)
    assert here("parked", "list", DATABASE_URL=database_url).out == "No parked items.\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["orders", "show", "ord_1"], 1),
        (["orders", "refund", "ord_1"], 1),
        (["parked", "drop", "refund:x"], 1),
        (["parked", "retry"], 2),
        (["sales", "show", "nothing"], 1),
    ],
)
def test_an_error_with_json_is_one_object_on_stdout(here: Here, tmp_path: Path, words: list[str], code: int) -> None:
    ran = here(*words, "--json")
    assert (ran.code, set(json.loads(ran.out)) <= {"error", "hint"}) == (code, True)
    assert json.loads(ran.out)["error"] in ran.err
    assert not (tmp_path / "data").exists()
