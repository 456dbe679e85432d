"""`holdfast report` and `holdfast sales report`: a page, rows, a summary, JSON, on each SQL engine."""

import asyncio
import csv
import re
from pathlib import Path

import pytest
from cli_running import Here
from sqlalchemy import Connection, func, select, update

from holdfast.audit.engine import open_engine
from holdfast.domain.stock.command import Command, Move, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.events.outages import Outage, write_outages
from holdfast.ledger.sales.sale_lists import update_sale_if
from holdfast.ledger.sales.sales import find_sale
from holdfast.ledger.stock.pool_counts import add_counts
from holdfast.ledger.tables.sales import orders
from holdfast.runtime.times import rfc3339

pytest_plugins = ("cli_fixtures",)

DROP = [
    "drop",
    "--units",
    "3",
    "--price",
    "4999",
    "--currency",
    "EUR",
    "--payment",
    "external",
    "--name",
    "A <b>drop</b>",
]


@pytest.fixture
def sold(here: Here, database_url: str) -> str:
    """A sale of three units: two sold, one returned and held again, and refusals that were counted."""
    assert here("sales", "create", *DROP, DATABASE_URL=database_url).code == 0
    ada, bob, eve, dan = (new_reservation_id("drop", name) for name in ("ada", "bob", "eve", "dan"))

    async def fill() -> None:
        database = open_database(database_url)
        bought: list[Command] = [
            *(Reserve(id_, name, 1, 1) for id_, name in ((ada, "ada"), (bob, "bob"), (eve, "eve"))),
            *(Move(Transition.CONFIRM, id_) for id_ in (ada, bob)),
            Move(Transition.CANCEL, eve),
            Reserve(dan, "dan", 1, 1),
        ]
        await SqlGate(database).apply("drop", bought)
        counts = {("drop", "told.reserved"): 4, ("drop", "told.sold_out"): 40, ("drop", "took.3"): 44}
        await database.write(lambda connection: add_counts(connection, counts))
        await database.close()

    asyncio.run(fill())
    return database_url


def test_a_report_has_what_was_sold_refused_and_proven(here: Here, sold: str) -> None:
    body = here("sales", "report", "drop", "--json", DATABASE_URL=sold).json
    assert {name: body[name] for name in ("total", "available", "held", "sold")} == {
        "total": 3, "available": 0, "held": 1, "sold": 2,
    }  # fmt: skip
    assert body["orders"]["confirmed"] == {"number": 2, "units": 2, "amounts": {"EUR": 9_998}}
    assert {status: each["units"] for status, each in body["reservations"].items()} == {
        "active": 1, "cancelled": 1, "confirmed": 2,
    }  # fmt: skip
    assert body["sale"]["starts_at"].endswith("Z")
    assert body["sale"]["starts_at"] < body["first_sold_at"] <= body["last_sold_at"] <= body["at"]
    assert (body["attempts"], body["refusals"]) == (44, {"sold_out": 40})
    [bar] = [bar for bar in body["timeline"] if bar["reserved"]]
    assert (bar["reserved"], bar["sold"], bar["returned"]) == (4, 2, 1)
    assert body["waits"]["from the reservation to the payment"]["number"] == 2
    assert body["verify"]["ok"]
    shown = here("sales", "report", "drop", DATABASE_URL=sold)
    assert "3 = 0 available + 1 held + 2 sold" in shown.out
    assert re.search(r"PROVEN: (\d+) of \1 checks hold\.$", shown.lines[-1])


def test_the_page_needs_nothing_else_and_is_safe_to_open(here: Here, sold: str, tmp_path: Path) -> None:
    ran = here("report", "drop", "--csv", "r.csv", "--parquet", "r.parquet", DATABASE_URL=sold)
    assert (ran.code, "drop-report.html" in ran.out) == (0, True), ran.err
    page = (tmp_path / "drop-report.html").read_text()
    assert "A &lt;b&gt;drop&lt;/b&gt;" in page
    assert re.findall(r"<script|https?://|<link|<img|url\(", page) == []
    proofs = ("Proof of conservation", "Proof of fairness")
    for title in ("Timeline", "Funnel", "Refusals by reason", "Waits", "Payments", "Incidents", *proofs):
        assert f"<h2>{title}</h2>" in page
    assert "99.98 EUR" in page
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text().splitlines()))
    [refused] = [row for row in rows if row["section"] == "refusals"]
    assert (refused["name"], refused["value"], refused["unit"]) == ("sold_out", "40", "number")
    with open_engine() as engine:
        stored = engine.execute(
            "SELECT count(*), sum(value) FROM read_parquet(?)", [str(tmp_path / "r.parquet")]
        ).fetchall()
    assert stored == [(len(rows), sum(int(row["value"]) for row in rows))]


def test_amounts_of_different_currencies_are_not_added_up(here: Here, sold: str, tmp_path: Path) -> None:
    async def pay_in_yen() -> None:
        database = open_database(sold)
        one = orders.c.order_id == select(func.min(orders.c.order_id)).scalar_subquery()
        in_yen = update(orders).where(one).values(currency="JPY", amount=800, refunded_amount=300)
        await database.write(lambda connection: connection.execute(in_yen))
        await database.close()

    asyncio.run(pay_in_yen())
    body = here("report", "drop", "--json", DATABASE_URL=sold).json
    assert body["orders"]["confirmed"] == {"number": 2, "units": 2, "amounts": {"EUR": 4_999, "JPY": 800}}
    assert body["refunded_amounts"] == {"JPY": 300}
    shown = here("sales", "report", "drop", DATABASE_URL=sold).out
    assert "49.99 EUR, 800 JPY" in shown
    here("report", "drop", "--csv", "r.csv", DATABASE_URL=sold)
    assert "49.99 EUR, 800 JPY" in (tmp_path / "drop-report.html").read_text()
    rows = csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
    ordered = [(row["value"], row["unit"]) for row in rows if row["section"] == "orders"]
    assert ordered == [("2", "number"), ("4999", "EUR"), ("800", "JPY")]


def test_pauses_are_incidents(here: Here, sold: str) -> None:
    for word in ("pause", "resume"):
        assert here("sales", word, "drop", DATABASE_URL=sold).code == 0
    body = here("report", "drop", "--json", DATABASE_URL=sold).json
    assert [incident["kind"] for incident in body["incidents"]] == ["paused", "resumed"]


def test_a_pool_that_was_closed_and_what_did_not_answer_are_incidents(here: Here, sold: str, tmp_path: Path) -> None:
    async def fail() -> tuple[int, int]:
        database = open_database(sold)

        def work(connection: Connection) -> tuple[int, int]:
            at = database.now_ms(connection)
            for change in ({"name": "problem"}, {"problem": "held differs"}, {"problem": None}):
                sale = find_sale(connection, "drop")
                assert sale is not None
                assert update_sale_if(connection, sale, {**change}, now=at)
            seen = [
                Outage("redis", at - 3_000, at + 4_000, "no_answer"),
                Outage("postgresql", at - 2_000, at, "no_answer"),
                Outage("store_growth", at - 1_000, at, "log_too_large"),
                Outage("overload", at, at, "busy", 7),
            ]
            before = Outage("redis", at - 200_000, at - 100_000, "no_answer")
            write_outages(connection, "api-1", [*seen, before])
            return at - 3_000, at + 4_000

        times = await database.write(work)
        await database.close()
        return times

    began_at, ended_at = asyncio.run(fail())
    found = here("report", "drop", "--json", DATABASE_URL=sold).json["incidents"]
    assert {one["kind"] for one in found} == {"changed", "closed", "outage"}
    [closed] = [one for one in found if one["kind"] == "closed"]
    assert closed["what"].startswith("The pool was closed: held differs.")
    assert closed["at"] <= closed["ended_at"]
    redis, ledger, growth, overload = [one for one in found if one["kind"] == "outage"]
    assert (redis["at"], redis["ended_at"]) == (rfc3339(began_at), rfc3339(ended_at))
    assert redis["what"] == "redis did not work (no_answer): buyers were answered 503 and tried again."
    assert "In Redis mode buyers could reserve" in ledger["what"]
    assert growth["what"] == "The write-ahead log grew too large (log_too_large). Buyers saw nothing of it."
    assert overload["what"].startswith("7 requests were refused under load")
    here("report", "drop", "--csv", "r.csv", DATABASE_URL=sold)
    assert redis["what"] in (tmp_path / "drop-report.html").read_text()
    rows = csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
    assert ("outage: how long it lasted", "7000", "ms") in {(row["name"], row["value"], row["unit"]) for row in rows}


def test_a_report_of_no_sale_is_refused(here: Here, tmp_path: Path) -> None:
    assert here("report", "drop").code == 1
    assert here("sales", "create", *DROP).code == 0
    ran = here("report", "other", "--json")
    assert (ran.code, "there is no sale" in ran.json["error"]) == (1, True)
    assert list(tmp_path.glob("*.html")) == []
