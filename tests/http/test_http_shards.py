"""Pools that are split into shards, over HTTP: nobody outside sees that they are."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from http_calling import Shop, body_of, eventually, problem_of, wrong_fields
from http_serving import Server, started

from databases import new_postgres_database
from valkeys import ValkeyProcess

pytest_plugins = ("http_fixtures",)


@pytest.fixture(scope="module")
def splitting(
    postgres_url: str, http_valkey: ValkeyProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Two server processes and their background work, on a Redis."""
    redis_url = http_valkey.url.removesuffix("/0") + "/63"
    setting = {"DATABASE_URL": new_postgres_database(postgres_url), "REDIS_URL": redis_url}
    with started(tmp_path_factory.mktemp("splitting"), "--workers", "2", settings=setting) as server:
        yield server


@pytest.fixture
def shop(splitting: Server) -> Shop:
    return splitting.shop()


def report_of(shop: Shop) -> dict[str, object]:
    reports = body_of(shop.client.post("/v1/ops/reconcile"))["data"]
    assert not [report["sku_id"] for report in reports if "/" in report["sku_id"]]
    [mine] = [report for report in reports if report["sku_id"] == shop.sku_id]
    return dict(mine)


def test_a_pool_is_split_and_shown_as_one(shop: Shop) -> None:
    made = body_of(shop.provision(10, per_owner_limit=3, shards=4))
    assert made == body_of(shop.available())
    assert (made["sku_id"], made["available"], made["per_owner_limit"]) == (shop.sku_id, 10, 3)
    # The ledger reads of the shards' first units a moment later.
    eventually(lambda: report_of(shop)["in_transfer"] == 0)
    report = report_of(shop)
    assert (report["ok"], report["total_units"]) == (True, 10)
    shards = report["shards"]
    assert isinstance(shards, list)
    assert [(shard["shard"], shard["total_units"]) for shard in shards] == [(0, 3), (1, 3), (2, 2), (3, 2)]


def test_the_number_of_shards_cannot_be_changed(shop: Shop, splitting: Server) -> None:
    body_of(shop.provision(10, shards=4))
    for shards in (1, 2, 64):
        problem = problem_of(shop.provision(10, shards=shards), 409, "shards_immutable")
        assert problem["shards"] == 4
    for units, more in ((11, {"shards": 4}), (12, {})):
        assert body_of(shop.provision(units, **more))["total_units"] == units
    whole = splitting.shop()
    body_of(whole.provision(10))
    assert problem_of(whole.provision(10, shards=4), 409, "shards_immutable")["shards"] == 1
    assert body_of(whole.provision(11, shards=1))["total_units"] == 11


def test_an_impossible_number_of_shards_is_refused(shop: Shop) -> None:
    for shards in (0, 65, "4", 2.5):
        assert set(wrong_fields(shop.provision(10, shards=shards))) == {"shards"}
    assert shop.available().status_code == 404


def test_where_the_database_is_the_gate_a_pool_is_not_split(embedded: Server) -> None:
    shop = embedded.shop()
    assert wrong_fields(shop.provision(10, shards=2)) == {
        "shards": "a pool is split into shards only where Redis is the gate"
    }
    assert shop.available().status_code == 404
    assert body_of(shop.provision(10, shards=1))["total_units"] == 10
    code, _, said = embedded.run("pools", "create", "split", "--units", "5", "--shards", "2")
    assert (code, "needs Redis as the gate" in said) == (2, True)


def test_a_crowd_buys_to_the_last_unit_and_then_hears_that_it_is_sold_out(shop: Shop) -> None:
    units = 25
    body_of(shop.provision(units, shards=4))

    def buy(number: int) -> tuple[int, str]:
        while True:
            answer = shop.reserve(f"buyer-{number}", idempotency_key="k")
            if answer.status_code == 200:
                return shop.confirm(answer.json()["reservation_id"]).status_code, "sold"
            problem = problem_of(answer, 409, "insufficient_inventory")
            if problem["detail"] == "Every unit is sold.":
                return 409, "sold out"

    with ThreadPoolExecutor(16) as crowd:
        told = Counter(crowd.map(buy, range(2 * units)))
    assert told == {(200, "sold"): units, (409, "sold out"): units}
    assert shop.counts() == (0, 0, units, units)
    assert body_of(shop.available())["state"] == "sold_out"
    assert eventually(lambda: report_of(shop)["in_transfer"] == 0)
    assert report_of(shop)["ok"]


def test_reservations_lists_and_histories_name_the_pool_and_not_the_shard(shop: Shop, splitting: Server) -> None:
    body_of(shop.provision(20, shards=4))
    held = [body_of(shop.reserve(f"buyer-{number}")) for number in range(8)]
    ids = [each["reservation_id"] for each in held]
    body_of(shop.confirm(ids[0]))
    body_of(shop.extend(ids[1], 5))
    assert shop.cancel(ids[2]).status_code == 204
    assert {each["sku_id"] for each in held} == {shop.sku_id}
    assert all(id_.endswith(f"_{shop.sku_id}") for id_ in ids)
    shown = [body_of(shop.show(id_)) for id_ in ids]
    assert [each["status"] for each in shown[:4]] == ["confirmed", "active", "cancelled", "active"]
    assert {each["sku_id"] for each in shown} == {shop.sku_id}
    page = shop.page(limit=5)
    rest = shop.page(limit=5, starting_after=page["data"][-1]["reservation_id"])
    assert [each["reservation_id"] for each in page["data"] + rest["data"]] == ids[::-1]
    assert {each["sku_id"] for each in page["data"]} == {shop.sku_id}
    assert [event["type"] for event in shop.events(ids[0])] == ["reservation.created", "reservation.confirmed"]
    assert shop.counts() == (13, 6, 1, 20)
    code, said, _ = splitting.run("pools", "show", shop.sku_id, "--json")
    assert (code, json.loads(said)["held"], json.loads(said)["sku_id"]) == (0, 6, shop.sku_id)
    assert "/" not in splitting.run("pools", "list")[1]
    metrics = shop.client.get("/metrics").text
    assert f'holdfast_pool_units{{sku_id="{shop.sku_id}",state="available"}} 13.0' in metrics


def test_a_smaller_total_takes_what_is_free_anywhere(shop: Shop) -> None:
    body_of(shop.provision(12, shards=4))
    for number in range(5):
        shop.hold(f"buyer-{number}")
    problem = problem_of(shop.provision(4), 409, "below_committed")
    assert (problem["held"], problem["sold"]) == (5, 0)
    assert body_of(shop.provision(5))["available"] == 0
    assert shop.counts() == (0, 5, 0, 5)
    assert report_of(shop)["ok"]


def test_an_operator_makes_and_checks_a_split_pool_from_the_command_line(splitting: Server) -> None:
    assert splitting.run("pools", "create", "by-hand", "--units", "9", "--shards", "3")[0] == 0
    code, _, said = splitting.run("pools", "create", "by-hand", "--units", "9", "--shards", "2", "--if-missing")
    assert (code, "3 shards" in said) == (1, True)
    code, said, _ = splitting.run("pools", "restock", "by-hand", "--units", "-4", "--json")
    assert (code, json.loads(said)["total_units"]) == (0, 5)
    code, said, _ = splitting.run("pools", "check", "--json")
    assert code == 0
    [mine] = [report for report in json.loads(said)["data"] if report["sku_id"] == "by-hand"]
    assert sum(shard["total_units"] for shard in mine["shards"]) == 5
    code, said, _ = splitting.run("pools", "check")
    assert (code, "by-hand/2of3" in said, "in transfer" in said) == (0, True, True)
