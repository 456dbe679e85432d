"""How far background work is behind, and which features are off: true also where nobody does that work."""

from collections.abc import Iterator
from typing import Any

import pytest
from http_calling import body_of, eventually
from http_sales import store_of
from http_serving import Server, database_setting, started
from http_tokens import buyer_token

from conftest import ENGINES

pytest_plugins = ("http_fixtures",)

NOTHING = {"items": 0, "seconds": 0.0}


@pytest.fixture(scope="module", params=[*ENGINES, "redis"])
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that nobody works in the background for."""
    setting = database_setting(request.param, request) | {"WEBHOOK_PRIVATE": "1"}
    with started(tmp_path_factory.mktemp("alone"), "--no-background", settings=setting) as server:
        yield server


def lag_of(server: Server) -> dict[str, Any]:
    return body_of(server.client.get("/v1/ops/lag"))


def bring_up(server: Server, sku_id: str) -> None:
    """Lists bring the ledger up to date with a journal."""
    server.client.get("/v1/reservations", params={"sku_id": sku_id})


def test_overdue_holds_wait_for_a_sweeper_and_are_counted(alone: Server) -> None:
    shop = alone.shop()
    shop.provision(5)
    for _ in range(2):
        shop.hold(ttl_seconds=1)
    bring_up(alone, shop.sku_id)
    eventually(lambda: lag_of(alone)["sweeper"]["items"] == 2)
    first = lag_of(alone)["sweeper"]["seconds"]
    eventually(lambda: lag_of(alone)["sweeper"]["seconds"] > first >= 0)
    # The next buyer gets the units that are due without a sweeper.
    shop.hold(quantity=5)
    bring_up(alone, shop.sku_id)
    eventually(lambda: lag_of(alone)["sweeper"] == NOTHING)


def test_what_is_paid_for_waits_for_a_settler(alone: Server) -> None:
    store = store_of(alone)
    store.open()
    held = store.buy()["reservation_id"]
    before = lag_of(alone)["settlement"]["items"]
    with alone.connect(buyer_token("ada")) as buyer:
        assert buyer.post(f"/v1/reservations/{held}/confirm").status_code == 202
    bring_up(alone, store.sku_id)
    eventually(lambda: lag_of(alone)["settlement"]["items"] == before + 1)
    eventually(lambda: lag_of(alone)["settlement"]["seconds"] > 0)
    assert alone.command("lag")["settlement"]["items"] == before + 1
    _, table, _ = alone.run("lag")
    assert "reservations whose payment is not settled" in table


def test_events_wait_for_a_relay(alone: Server) -> None:
    assert lag_of(alone)["webhooks"] == NOTHING
    hook = {"url": "http://127.0.0.1:9/hook", "events": ["reservation.*"]}
    assert alone.client.post("/v1/webhooks", json=hook).status_code == 201
    shop = alone.shop()
    shop.provision(1)
    shop.hold()
    bring_up(alone, shop.sku_id)
    eventually(lambda: lag_of(alone)["webhooks"]["items"] >= 1)
    eventually(lambda: lag_of(alone)["webhooks"]["seconds"] > 0)


@pytest.mark.parametrize("alone", ["redis"], indirect=True)
def test_decisions_in_redis_wait_for_a_drainer(alone: Server) -> None:
    shop = alone.shop()
    shop.provision(3)
    bring_up(alone, shop.sku_id)
    eventually(lambda: lag_of(alone)["journal"]["items"] == 0)
    for _ in range(2):
        shop.hold()
    eventually(lambda: lag_of(alone)["journal"]["items"] == 2)
    eventually(lambda: lag_of(alone)["journal"]["seconds"] > 0.5)
    bring_up(alone, shop.sku_id)
    eventually(lambda: lag_of(alone)["journal"] == NOTHING)


@pytest.mark.parametrize("alone", ["redis"], indirect=True)
def test_a_buyer_who_names_no_pool_drains_none(alone: Server) -> None:
    store = store_of(alone)
    store.open()
    held = store.buy("eve")["reservation_id"]
    with alone.connect(buyer_token("eve")) as buyer:
        assert body_of(buyer.get("/v1/reservations"))["data"] == []
        (listed,) = body_of(buyer.get("/v1/reservations", params={"sku_id": store.sku_id}))["data"]
        assert listed["reservation_id"] == held
        assert body_of(buyer.get("/v1/reservations"))["data"] == [listed]


def test_features_name_what_nobody_does(alone: Server) -> None:
    with alone.connect() as stranger:
        answer = stranger.get("/v1/features")
        assert answer.headers["cache-control"] == "public, max-age=2, stale-while-revalidate=5"
        told = eventually(lambda: [f for f in [stranger.get("/v1/features").json()] if f["degraded_features"]])[0]
    assert told["features"]["selling"] == {"enabled": True}
    assert told["features"]["settling"] == {"enabled": False, "reason": "no_worker"}
    assert told["features"]["odds"] == {"enabled": True}
    assert set(told["degraded_features"]) == {"settling", "joining"}


def test_with_background_work_nothing_is_behind_for_long_and_everything_is_on(server: Server) -> None:
    shop = server.shop()
    shop.provision(1)
    shop.hold(ttl_seconds=1)
    eventually(lambda: all(lag_of(server)[kind]["items"] == 0 for kind in ("journal", "sweeper")))
    with server.connect() as stranger:
        eventually(lambda: stranger.get("/v1/features").json()["degraded_features"] == [])
