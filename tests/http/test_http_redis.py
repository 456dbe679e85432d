"""What is only so where Redis is the gate: receipts, rebuilt pools, and what an operator sees of it."""

import json
from collections.abc import Iterator

import httpx
import pytest
from http_calling import Shop, body_of, eventually, problem_of
from http_serving import Server, run_holdfast, started
from http_tokens import buyer_token

from databases import new_postgres_database
from valkeys import ValkeyProcess, running_valkey

pytest_plugins = ("http_fixtures",)


@pytest.fixture(scope="module")
def flushed_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    with running_valkey(tmp_path_factory.mktemp("flushed")) as valkey:
        yield valkey


@pytest.fixture(scope="module")
def alone(
    postgres_url: str, flushed_valkey: ValkeyProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server beside which nothing drains the journal and nothing rebuilds."""
    setting = {"DATABASE_URL": new_postgres_database(postgres_url), "REDIS_URL": flushed_valkey.url}
    with started(tmp_path_factory.mktemp("alone"), "--no-background", settings=setting) as server:
        yield server


def check(server: Server) -> tuple[int, dict[str, object]]:
    ran = run_holdfast("pools", "check", "--json", directory=server.directory, environment=server.environment)
    return ran.returncode, json.loads(ran.stdout)


def show(client: httpx.Client, reservation_id: str, receipt: str | None) -> httpx.Response:
    headers = {} if receipt is None else {"Holdfast-Receipt": receipt}
    return client.get(f"/v1/reservations/{reservation_id}", headers=headers)


@pytest.fixture
def lost(alone: Server, flushed_valkey: ValkeyProcess) -> tuple[Shop, str, str]:
    """A hold that was granted and then lost: its pool, its id and its receipt."""
    shop = alone.shop()
    shop.provision(3)
    granted = shop.reserve("ada")
    flushed_valkey.command("FLUSHALL")
    assert problem_of(shop.available(), 503)["reason"] == "not_ready"
    assert problem_of(shop.reserve("bob"), 503)["reason"] == "not_ready"
    code, found = check(alone)
    assert (code, found["ok"]) == (1, False)
    assert check(alone)[0] == 0
    return shop, body_of(granted)["reservation_id"], granted.headers["holdfast-receipt"]


def test_after_a_flush_the_pool_is_rebuilt_with_what_the_ledger_knew(lost: tuple[Shop, str, str]) -> None:
    shop, _, _ = lost
    assert body_of(shop.available())["available"] == 3
    assert [shop.reserve("bob").status_code for _ in range(4)] == [200, 200, 200, 409]


def test_who_has_a_receipt_is_told_that_the_hold_was_lost(lost: tuple[Shop, str, str]) -> None:
    shop, reservation_id, receipt = lost
    client, path = shop.client, f"/v1/reservations/{reservation_id}"
    headers = {"Holdfast-Receipt": receipt}
    asked = [
        client.get(path, headers=headers),
        client.get(f"{path}/history", headers=headers),
        client.post(f"{path}/confirm", headers=headers),
        client.post(f"{path}/extend", json={"ttl_seconds": 5}, headers=headers),
        client.delete(path, headers=headers),
    ]
    assert [problem_of(answer, 410)["reason"] for answer in asked] == ["reservation_lost"] * 5


def test_without_a_good_receipt_a_lost_hold_is_not_known(lost: tuple[Shop, str, str]) -> None:
    shop, reservation_id, receipt = lost
    other = shop.reserve("eve").headers["holdfast-receipt"]
    for given in (None, "", "x", receipt[:-2], other):
        assert problem_of(show(shop.client, reservation_id, given), 404)["reason"] == "reservation_not_found"


def test_a_receipt_is_good_for_its_owner_only(alone: Server, lost: tuple[Shop, str, str]) -> None:
    _, reservation_id, receipt = lost
    for buyer_id, status in (("ada", 410), ("eve", 404)):
        with alone.connect(buyer_token(buyer_id)) as buyer:
            assert show(buyer, reservation_id, receipt).status_code == status


def test_a_hold_that_is_there_is_shown_whatever_the_receipt(alone: Server) -> None:
    shop = alone.shop()
    shop.provision(1)
    granted = shop.reserve()
    held = body_of(granted)
    for given in (None, "x", granted.headers["holdfast-receipt"]):
        assert body_of(show(shop.client, held["reservation_id"], given)) == held


def test_a_repeat_has_the_same_receipt(alone: Server) -> None:
    shop = alone.shop()
    shop.provision(1)
    first, again = (shop.reserve(idempotency_key="k") for _ in range(2))
    assert again.headers["idempotency-replayed"] == "true"
    assert first.headers["holdfast-receipt"] == again.headers["holdfast-receipt"]


def test_a_list_has_what_was_granted_before_it_was_asked_for(alone: Server) -> None:
    shop = alone.shop()
    shop.provision(3)
    held = {shop.hold() for _ in range(3)}
    listed = body_of(shop.client.get("/v1/reservations", params={"sku_id": shop.sku_id}))["data"]
    assert {each["reservation_id"] for each in listed} == held


def test_an_operator_sees_epoch_and_lag_of_every_pool(alone: Server) -> None:
    shop = alone.shop()
    shop.provision(5)
    shop.hold()
    reports = body_of(shop.client.post("/v1/ops/reconcile"))
    [mine] = [report for report in reports["data"] if report["sku_id"] == shop.sku_id]
    assert {name: mine[name] for name in ("ok", "finding", "total_units", "available", "held", "sold", "epoch")} == {
        "ok": True, "finding": None, "total_units": 5, "available": 4, "held": 1, "sold": 0, "epoch": 1,
    }  # fmt: skip
    assert mine["journal_lag"] == 1
    assert body_of(shop.client.get("/v1/ops/pools"))["ok"]


def test_where_the_database_is_the_gate_there_is_no_receipt(embedded: Server) -> None:
    shop = embedded.shop()
    shop.provision(1)
    assert "holdfast-receipt" not in shop.reserve().headers


def test_a_server_whose_redis_is_away_is_not_ready_until_it_is_back(
    alone: Server, flushed_valkey: ValkeyProcess
) -> None:
    flushed_valkey.kill()
    try:
        eventually(lambda: alone.client.get("/healthz/ready").status_code == 503)
        assert alone.client.get("/healthz/live").status_code == 200
    finally:
        flushed_valkey.start()
    eventually(alone.is_ready)
