"""What Prometheus is told: how long each endpoint takes, how each sale stands, and what is read from the stores."""

import pytest
from http_calling import body_of, eventually
from http_metrics import Samples, scrape
from http_sales import Store
from http_serving import Server

from holdfast.http.endpoints.ops.store_metrics import DESCRIBED
from holdfast.runtime import metrics

pytest_plugins = ("http_fixtures",)


def test_every_endpoint_has_a_histogram_by_class_of_status(server: Server) -> None:
    before = scrape(server).get("holdfast_http_request_seconds_count", {})
    shop = server.shop()
    shop.provision(1)
    shop.hold()
    assert shop.reserve().status_code == 409
    after = scrape(server)
    counts = after["holdfast_http_request_seconds_count"]
    for labels in ("2xx,put_pool", "2xx,reserve", "4xx,reserve"):
        assert counts[labels] == before.get(labels, 0) + 1
    buckets = after["holdfast_http_request_seconds_bucket"]
    assert buckets["2xx,reserve,+Inf"] == counts["2xx,reserve"] >= buckets["2xx,reserve,0.005"]
    assert 0 < after["holdfast_http_request_seconds_sum"]["2xx,reserve"] < 60 * counts["2xx,reserve"]


def test_a_request_is_counted_once_by_its_status(server: Server) -> None:
    shop = server.shop()
    shop.provision(1)
    before = scrape(server)["holdfast_http_requests_total"]
    for _ in range(3):
        body_of(shop.available())
    assert server.client.get("/v1/nowhere").status_code == 404
    after = scrape(server)["holdfast_http_requests_total"]
    assert after["404"] - before.get("404", 0) == 1
    # One of them is the scrape before. Other tests leave nobody who asks.
    assert after["200"] - before["200"] == 4


def test_a_sale_is_shown_by_units_attempts_and_its_line(store: Store) -> None:
    store.open(room={"mode": "fifo"}, total_units=5)
    with store.buyer() as buyer:
        assert buyer.client.post(f"{store.path}/queue", json={}).status_code == 200

    def shown() -> Samples | None:
        found = scrape(store.server)
        people = found.get("holdfast_room_people", {})
        return found if people.get(f"{store.sale_id},called") or people.get(f"{store.sale_id},waiting") else None

    found = eventually(shown)
    assert found is not None
    assert found["holdfast_sale_units"][f"{store.sale_id},available"] == 5
    assert f"{store.sale_id},no_answer" in found["holdfast_room_no_shows_total"]
    assert store.sale_id in found["holdfast_room_called_total"]


def test_attempts_of_a_sale_are_counted_by_outcome(store: Store) -> None:
    store.open(total_units=1)
    store.buy()
    with store.buyer("bob") as bob:
        assert bob.purchase().status_code == 409

    def attempts() -> dict[str, float]:
        found = scrape(store.server).get("holdfast_sale_attempts_total", {})
        return {name.partition(",")[0]: n for name, n in found.items() if name.endswith(f",{store.sale_id}")}

    eventually(lambda: attempts() == {"reserved": 1, "all_held": 1})


def test_what_is_read_from_the_stores_is_there_and_nothing_is_wrong(server: Server) -> None:
    found = scrape(server)
    assert found["holdfast_lag_items"].keys() >= {"journal", "settlement", "webhooks", "sweeper"}
    assert found["holdfast_oversold_units"] == {"": 0}
    assert found["holdfast_unbalanced_pools"] == {"": 0}
    eventually(lambda: scrape(server)["holdfast_drifting_pools"] == {"": 0})
    if "HOLDFAST_REDIS_URL" in server.environment:
        assert 0 < found["holdfast_redis_memory_headroom_ratio"][""] <= 1
    else:
        assert "holdfast_redis_memory_headroom_ratio" not in found


def test_each_metric_is_described_once() -> None:
    names = [one.name for one in DESCRIBED]
    assert len(set(names)) == len(names)
    assert all(one.help.endswith(".") for one in DESCRIBED)


def test_timings_are_put_into_the_right_bucket() -> None:
    timings = metrics.timings_of("a_test")
    for seconds in (0.0001, 0.0005, 0.3, 9.0):
        metrics.time_request(timings, 200, seconds)
    metrics.flush()
    assert timings == {}
    [family] = metrics.HTTP_SECONDS.collect()
    cumulated = {
        sample.labels["le"]: sample.value
        for sample in family.samples
        if sample.name.endswith("_bucket") and sample.labels["endpoint"] == "a_test"
    }
    assert (cumulated["0.0005"], cumulated["0.25"], cumulated["0.5"], cumulated["+Inf"]) == (2, 2, 3, 4)
    [total] = [s.value for s in family.samples if s.name.endswith("_sum") and s.labels["endpoint"] == "a_test"]
    assert total == pytest.approx(9.3006)
