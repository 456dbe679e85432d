"""Several cells behind one server: each sale is in one of them, and a lost cell takes nothing from the others."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from http_cells import TERMS, Site, cell_settings, open_site
from sqlalchemy import delete, insert, select, update

from databases import new_postgres_database, new_sqlite_database, sqlite_url
from holdfast.bootstrap.cells.webhook_copies import WebhookCopies
from holdfast.errors import SettingsError
from holdfast.http.server.cells import cell
from holdfast.ledger.cells.placement import set_pinned
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.revision import newest_revision
from holdfast.ledger.tables.webhooks import webhooks
from holdfast.settings import load_settings


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    for name in "ab":
        (tmp_path / name).mkdir()
    cells = {name: new_sqlite_database(tmp_path / name / "holdfast.db") for name in "ab"}
    async with open_site(cell_settings(tmp_path, **cells)) as site:
        yield site


async def test_a_sale_is_put_into_the_emptiest_cell_and_is_bought_there(site: Site) -> None:
    cells = [(await site.sell(f"drop-{number}"))["cell"] for number in range(4)]
    assert cells == ["a", "b", "a", "b"]
    assert (await site.sell("named", cell="b"))["cell"] == "b"
    status, granted = await site.buy("drop-1", "ada")
    assert status == 201
    for path in (f"/v1/reservations/{granted['reservation_id']}", "/v1/sales/drop-1/mine"):
        assert (await site.ask("GET", path, buyer="ada"))[0] == 200
    assert (await site.ask("GET", "/v1/sales/drop-1"))[1]["held"] == 1
    assert (await site.ask("GET", "/v1/inventory/drop-1/available"))[1]["available"] == 4
    status, sales = await site.ask("GET", "/v1/sales?limit=3")
    assert [sale["sale_id"] for sale in sales["data"]] == ["drop-0", "drop-1", "drop-2"]
    assert sales["has_more"]


async def test_a_pinned_sku_has_its_cell_to_itself(tmp_path: Path) -> None:
    settings = cell_settings(tmp_path, **{name: new_sqlite_database(tmp_path / f"{name}.db") for name in "ab"})
    control = open_database(settings.database_url)
    await control.write(lambda c: set_pinned(c, "hot", "a", pinned=True))
    await control.close()
    async with open_site(settings) as site:
        assert [(await site.sell(f"cold-{number}"))["cell"] for number in range(3)] == ["b", "b", "b"]
        status, problem = await site.ask("POST", "/v1/sales", TERMS | {"sale_id": "c", "sku_id": "c", "cell": "a"})
        assert (status, problem["reason"]) == (422, "invalid_request")
        assert (await site.sell("hot"))["cell"] == "a"
        assert (await site.buy("hot", "ada"))[0] == 201


async def test_a_sku_stays_in_its_cell_and_another_is_refused(site: Site) -> None:
    first = await site.sell("one")
    other = "b" if first["cell"] == "a" else "a"
    again = TERMS | {"sale_id": "one", "sku_id": "one"}
    assert (await site.ask("POST", "/v1/sales", again))[0] == 200
    status, problem = await site.ask("POST", "/v1/sales", again | {"cell": other})
    assert (status, problem["reason"], problem["cell"]) == (409, "cell_mismatch", first["cell"])
    status, problem = await site.ask("POST", "/v1/sales", again | {"sale_id": "new", "cell": "nowhere"})
    assert (status, problem["reason"]) == (422, "invalid_request")
    assert (await site.ask("GET", "/v1/sales/nothing/now"))[0] == 404
    assert (await site.ask("PUT", "/v1/inventory/plain", {"total_units": 3}))[0] == 200
    assert (await site.ask("GET", "/v1/inventory/plain/available"))[1]["available"] == 3


async def test_nobody_sees_the_wallet_of_another_in_any_cell(site: Site) -> None:
    credit = {"amount": 500, "currency": "EUR", "idempotency_key": "c", "cell": "a"}
    assert (await site.ask("POST", "/v1/wallets/ada/credit", credit))[0] == 200
    assert (await site.ask("GET", "/v1/wallets/ada", buyer="ada"))[1]["balance"] == 500
    status, problem = await site.ask("GET", "/v1/wallets/ada", buyer="bob")
    assert (status, problem["reason"]) == (403, "forbidden")


async def test_what_changes_something_is_not_cut_off_when_a_list_would_be(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refund through a provider takes longer than a list may."""
    await site.sell("one")
    _, granted = await site.buy("one", "ada")
    assert (await site.ask("POST", f"/v1/reservations/{granted['reservation_id']}/confirm"))[0] == 200
    [order] = (await site.ask("GET", "/v1/orders"))[1]["data"]
    monkeypatch.setattr(cell, "DEADLINE_S", 0.0)
    assert (await site.ask("GET", "/v1/orders"))[0] == 503
    status, refund = await site.ask("POST", f"/v1/orders/{order['order_id']}/refund", {})
    assert (status, refund["status"]) == (200, "done")
    assert (await site.ask("POST", "/v1/ops/reconcile"))[0] == 200


async def test_own_orders_are_gathered_from_all_cells(site: Site) -> None:
    for sale_id in ("one", "two"):
        await site.sell(sale_id)
        _, granted = await site.buy(sale_id, "ada")
        path = f"/v1/reservations/{granted['reservation_id']}/confirm"
        assert (await site.ask("POST", path))[0] == 200
    status, orders = await site.ask("GET", "/v1/orders", buyer="ada")
    assert status == 200
    assert [order["sale_id"] for order in orders["data"]] == ["two", "one"]
    assert "unavailable_cells" not in orders
    for order in orders["data"]:
        assert (await site.ask("GET", f"/v1/orders/{order['order_id']}", buyer="ada"))[1] == order
    assert (await site.ask("GET", "/v1/orders", buyer="bob"))[1]["data"] == []
    held = (await site.ask("GET", "/v1/reservations", buyer="ada"))[1]["data"]
    assert {each["sku_id"] for each in held} == {"one", "two"}
    assert {pool["sku_id"] for pool in (await site.ask("GET", "/v1/ops/pools"))[1]["data"]} == {"one", "two"}


async def test_a_cell_that_cannot_be_opened_is_named_and_the_others_sell(tmp_path: Path, postgres_url: str) -> None:
    """One cell on PostgreSQL. The other cannot be reached from the start."""
    here, gone = new_postgres_database(postgres_url), "postgresql://nobody@127.0.0.1:1/gone"
    settings = cell_settings(tmp_path, a=here, b=gone)
    async with open_site(settings) as site:
        assert (await site.sell("one"))["cell"] == "a"
        assert (await site.sell("two"))["cell"] == "a"
        assert (await site.buy("one", "ada"))[0] == 201
        status, problem = await site.ask("POST", "/v1/sales", TERMS | {"sale_id": "c", "sku_id": "c", "cell": "b"})
        assert (status, problem["reason"], problem["cell"]) == (503, "cell_unavailable", "b")
        status, problem = await site.buy("c", "ada")
        assert (status, problem["reason"], problem["cell"]) == (503, "cell_unavailable", "b")
        status, orders = await site.ask("GET", "/v1/orders", buyer="ada")
        assert (status, orders["unavailable_cells"]) == (200, ["b"])
        status, ready = await site.ask("GET", "/healthz/ready")
        assert (status, ready["status"], ready["checks"]["cell b"]["ok"]) == (200, "degraded", False)


async def test_a_map_that_was_lost_is_made_again_from_the_cells(tmp_path: Path) -> None:
    cells = {name: new_sqlite_database(tmp_path / f"{name}.db") for name in "ab"}
    async with open_site(cell_settings(tmp_path, **cells)) as site:
        cell = (await site.sell("one"))["cell"]
    other = tmp_path / "other-control"
    other.mkdir()
    async with open_site(cell_settings(other, **cells)) as site:
        status, sale = await site.ask("GET", "/v1/sales/one")
        assert (status, sale["cell"]) == (200, cell)


async def test_a_webhook_is_copied_into_every_cell_and_removed_there(tmp_path: Path) -> None:
    control, cell = (open_database(new_sqlite_database(tmp_path / f"{name}.db")) for name in ("control", "cell"))
    row = {"webhook_id": "wh_1", "url": "https://one.example", "events": "[]", "secret": "s", "created_at": 1}
    await control.write(lambda c: c.execute(insert(webhooks).values(row | {"relayed_seq": 7})))
    copies = WebhookCopies(control, cell)
    await copies.pass_once()
    await control.write(lambda c: c.execute(update(webhooks).values(url="https://two.example")))
    await copies.pass_once()
    urls = select(webhooks.c.url, webhooks.c.relayed_seq)
    assert await cell.read(lambda c: c.execute(urls).all()) == [("https://two.example", 0)]
    await control.write(lambda c: c.execute(delete(webhooks)))
    await copies.pass_once()
    assert await cell.read(lambda c: c.execute(urls).all()) == []
    for database in (control, cell):
        await database.close()


async def test_new_cells_get_their_tables_one_after_the_other(tmp_path: Path) -> None:
    databases = [open_database(sqlite_url(tmp_path / f"{name}.db")) for name in "ab"]
    for _, after in await asyncio.gather(*map(migrate, databases)):
        assert after == newest_revision()
    for database in databases:
        await database.close()


async def test_the_sales_of_a_drop_are_in_one_cell(site: Site) -> None:
    drop = {"drop_id": "spring", "name": "Spring", "starts_at": TERMS["starts_at"]}
    status, made = await site.ask("POST", "/v1/drops", drop)
    assert status == 201, made
    cells = {(await site.sell(f"part-{number}", drop_id="spring"))["cell"] for number in range(3)}
    assert len(cells) == 1
    assert (await site.ask("GET", "/v1/drops/spring"))[0] == 200
    assert [found["drop_id"] for found in (await site.ask("GET", "/v1/drops"))[1]["data"]] == ["spring"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"cells": "a"}, "write it as"),
        ({"cells": "a=postgresql://h/a;b=postgresql://h/a"}, "each needs its own"),
        ({"cells": "a=postgresql://h/a", "approvals": True}, "HOLDFAST_APPROVALS does not go with HOLDFAST_CELLS"),
        ({"cells": "a=postgresql://h/a", "smtp_url": "smtp://h"}, "HOLDFAST_SMTP_URL does not go with HOLDFAST_CELLS"),
        ({"cells": "a=postgresql://h/a", "push_contact": "mailto:a@b.example"}, "HOLDFAST_PUSH_CONTACT does not go"),
        ({"cells": "a=postgresql://h/a", "database_url": "postgresql://h/a"}, "no cell may be in the control database"),
    ],
)
def test_wrong_cells_are_refused_at_the_start(given: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        load_settings(**given)
