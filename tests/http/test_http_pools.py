"""PUT /v1/inventory/{sku_id} and GET /v1/inventory/{sku_id}/available."""

import asyncio
import json
from pathlib import Path

import pytest
from http_calling import Shop, body_of, problem_of
from http_serving import Server

from asking_inside import ask_inside
from holdfast.bootstrap.services import open_services
from holdfast.domain.stock.command import Provision
from holdfast.domain.stock.pool import Rules
from holdfast.errors import Unavailable
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.stock.queries import PoolView
from holdfast.settings import Settings

pytest_plugins = ("http_fixtures",)

POOL_FIELDS = {"sku_id", "available", "active_reservations", "held", "sold", "total_units", "state", "next_return_at"}


def test_a_new_pool_is_all_available(shop: Shop) -> None:
    pool = body_of(shop.provision(500))
    assert set(pool) >= POOL_FIELDS
    assert {name: pool[name] for name in POOL_FIELDS} == {
        "sku_id": shop.sku_id, "available": 500, "active_reservations": 0, "held": 0, "sold": 0, "total_units": 500,
        "state": "available", "next_return_at": None,
    }  # fmt: skip
    assert body_of(shop.available()) == pool


def test_putting_the_same_total_again_changes_nothing(shop: Shop) -> None:
    shop.provision(5)
    shop.hold()
    assert body_of(shop.provision(5)) == body_of(shop.available())
    assert shop.counts() == (4, 1, 0, 5)


def test_a_total_can_be_raised_and_lowered_around_what_is_committed(shop: Shop) -> None:
    shop.provision(5)
    shop.hold(quantity=2)
    assert body_of(shop.provision(9))["available"] == 7
    assert body_of(shop.provision(2))["available"] == 0
    assert shop.counts() == (0, 2, 0, 2)


def test_a_total_cannot_be_lowered_below_what_is_held_and_sold(shop: Shop) -> None:
    shop.provision(5)
    shop.hold(quantity=2)
    shop.confirm(shop.hold(quantity=1))
    problem = problem_of(shop.provision(2), 409, "below_committed")
    assert (problem["held"], problem["sold"]) == (2, 1)
    assert shop.counts() == (2, 2, 1, 5)


def test_a_raised_total_is_sold_at_once(shop: Shop) -> None:
    shop.provision(1)
    shop.hold()
    problem_of(shop.reserve(), 409, "insufficient_inventory")
    shop.provision(2)
    body_of(shop.reserve())


def test_the_four_numbers_add_up_whatever_happened(shop: Shop) -> None:
    shop.provision(10)
    shop.hold(quantity=3)
    shop.confirm(shop.hold(quantity=2))
    shop.cancel(shop.hold(quantity=4))
    assert shop.counts() == (5, 3, 2, 10)
    assert body_of(shop.available())["active_reservations"] == 1


def test_a_pool_of_which_all_is_held_says_when_the_next_unit_may_return(shop: Shop) -> None:
    shop.provision(2)
    shop.reserve(ttl_seconds=600)
    sooner = body_of(shop.reserve(ttl_seconds=60))
    pool = body_of(shop.available())
    assert (pool["state"], pool["next_return_at"]) == ("all_held", sooner["expires_at"])


def test_a_pool_of_which_all_is_sold_is_sold_out(shop: Shop) -> None:
    shop.provision(1)
    shop.confirm(shop.hold())
    pool = body_of(shop.available())
    assert (pool["state"], pool["next_return_at"], pool["sold"]) == ("sold_out", None, 1)


@pytest.mark.parametrize("sku_id", ["a", "0", "A:b.c~d-e_f", "x" * 100, "available", "reserve", "rsv_1"])
def test_any_sku_id_of_plain_characters_serves_a_whole_life(shop: Shop, sku_id: str) -> None:
    odd = Shop(shop.client, sku_id)
    body_of(odd.provision(1_000_000))
    held = odd.hold()
    assert body_of(odd.extend(held, 1))["sku_id"] == sku_id
    assert body_of(odd.confirm(held))["status"] == "confirmed"
    assert body_of(odd.show(held))["sku_id"] == sku_id


def test_a_pool_nobody_made_is_not_found(shop: Shop) -> None:
    problem_of(shop.available(), 404, "sku_not_found")
    problem_of(shop.reserve(), 404, "sku_not_found")


def test_setting_a_limit_keeps_every_other_rule(server: Server, shop: Shop) -> None:
    """Rules that this API does not set are set by sales: here, through the gate itself."""
    asyncio.run(provision_beside(server, shop.sku_id, Provision(5, Rules(paused=True, hold_budget=3))))
    body_of(shop.provision(5, per_owner_limit=2))
    problem_of(shop.reserve(), 409, "sale_paused")
    assert body_of(shop.provision(5, per_owner_limit=None))["per_owner_limit"] is None
    problem_of(shop.reserve(), 409, "sale_paused")


async def provision_beside(server: Server, sku_id: str, command: Provision) -> None:
    url = server.environment.get("HOLDFAST_DATABASE_URL", f"sqlite:///{server.directory / 'data' / 'holdfast.db'}")
    database = open_database(url)
    try:
        await SqlGate(database).apply(sku_id, [command])
    finally:
        await database.close()


async def test_a_pool_is_told_as_it_was_decided_though_no_look_at_it_is_possible(tmp_path: Path) -> None:
    """The look that failed after the commit said that nothing was changed."""
    async with open_services(Settings(data=tmp_path), background=False) as holdfast:
        holdfast.pool_reads.look = fail  # type: ignore[method-assign]
        answer = await ask_inside(holdfast, "PUT", "/v1/inventory/sku", b'{"total_units": 7}')
    assert (answer.status, json.loads(answer.body)["available"]) == (200, 7)


async def fail(sku_id: str) -> PoolView | None:  # noqa: ARG001 - as it is called
    raise Unavailable("frozen")


def test_a_pool_can_limit_what_one_owner_has(shop: Shop) -> None:
    assert body_of(shop.provision(10, per_owner_limit=2))["per_owner_limit"] == 2
    held = shop.hold("ada", 2)
    problem_of(shop.reserve("ada"), 409, "buyer_limit")
    body_of(shop.reserve("bob"))
    shop.cancel(held)
    body_of(shop.reserve("ada"))
