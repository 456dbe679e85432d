"""Health, metrics, request ids and logs."""

import re
from collections.abc import Iterator

import jsonschema_rs
import pytest
from http_calling import Shop, body_of, eventually, problem_of
from http_metrics import Samples, scrape
from http_serving import BUYER_SECRET, SERVICE_KEY, Server, on_one_engine, started
from http_tokens import buyer_token

from holdfast.lab.log_fields import log_schema

pytest_plugins = ("http_fixtures",)

METRICS = {
    "holdfast_batch_commands", "holdfast_waiting_commands", "holdfast_decide_seconds", "holdfast_commit_seconds",
    "holdfast_outcomes", "holdfast_dropped", "holdfast_engine_failures", "holdfast_pool_units",
    "holdfast_expired_units", "holdfast_agent_last_success_timestamp_seconds", "holdfast_agent_failures",
    "holdfast_pool_active_reservations", "holdfast_expirer_lag_seconds", "holdfast_http_requests",
    "holdfast_check_passes",
}  # fmt: skip


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own: what other tests left to the background work of theirs would be counted, too."""
    with started(tmp_path_factory.mktemp("operating")) as server:
        yield server


@pytest.fixture
def pool(embedded: Server) -> Shop:
    return embedded.shop()


@on_one_engine
def test_health_needs_no_token(server: Server) -> None:
    with server.connect() as stranger:
        assert body_of(stranger.get("/healthz/live")) == {"status": "live"}
        # On a busy machine a heartbeat may be late.
        ready = eventually(lambda: [r for r in [stranger.get("/healthz/ready").json()] if r["status"] == "ready"])[0]
        assert ready | {"checks": {}} == {
            "status": "ready", "checks": {}, "degraded_features": [], "unavailable_dependencies": [],
        }  # fmt: skip
        assert ready["checks"].keys() >= {"selling", "settling", "joining", "settler", "expirer", "pools"}
        assert all(check.keys() == {"ok", "age_ms"} and check["age_ms"] < 3_000 for check in ready["checks"].values())


def test_every_metric_is_there(embedded: Server) -> None:
    assert scrape(embedded).keys() >= METRICS


def test_outcomes_are_counted(embedded: Server, pool: Shop) -> None:
    before = scrape(embedded)
    pool.provision(3)
    held = pool.hold(quantity=2, idempotency_key="k")
    pool.reserve(quantity=2, idempotency_key="k")
    pool.confirm(held)
    pool.confirm(held)
    problem_of(pool.reserve(quantity=2), 409)
    pool.cancel(pool.hold())

    def counted() -> dict[str, float]:
        return _grown(before, scrape(embedded), "holdfast_outcomes_total")

    expected = {"reserved": 2, "replayed": 1, "insufficient": 1, "already": 1, "moved": 3}
    eventually(lambda: counted() == expected)


def test_refusals_from_memory_are_counted_though_no_batch_follows(embedded: Server, pool: Shop) -> None:
    pool.provision(0)
    before = scrape(embedded)
    for _ in range(20):
        problem_of(pool.reserve(), 409)

    def counted() -> bool:
        return _grown(before, scrape(embedded), "holdfast_outcomes_total") == {"sold_out": 20}

    eventually(counted)


def test_units_that_expire_are_counted_as_units_and_not_as_commands(embedded: Server, pool: Shop) -> None:
    pool.provision(100_000)
    before = scrape(embedded)
    pool.hold(quantity=100_000, ttl_seconds=1)

    def counted() -> bool:
        after = scrape(embedded)
        # The server is shared: a few holds of other tests may expire in the same second.
        return after["holdfast_expired_units_total"][""] - before["holdfast_expired_units_total"][""] >= 100_000

    eventually(counted)
    assert "expired" not in scrape(embedded)["holdfast_outcomes_total"]


def test_requests_are_counted_by_status(embedded: Server, pool: Shop) -> None:
    before = scrape(embedded)
    pool.provision(1)
    for _ in range(5):
        body_of(pool.available())
    problem_of(pool.reserve(quantity=2), 409)
    problem_of(pool.client.get("/nowhere"), 404)

    def counted() -> bool:
        grown = _grown(before, scrape(embedded), "holdfast_http_requests_total")
        return grown["404"] == grown["409"] == 1 and grown["200"] >= 6

    eventually(counted)


def test_units_are_shown_by_state_and_add_up(embedded: Server, pool: Shop) -> None:
    pool.provision(10)
    pool.hold(quantity=3)
    pool.confirm(pool.hold(quantity=2))
    samples = scrape(embedded)
    units = {s: samples["holdfast_pool_units"][f"{pool.sku_id},{s}"] for s in ("available", "held", "sold")}
    assert units == {"available": 5, "held": 3, "sold": 2}
    assert samples["holdfast_pool_active_reservations"][pool.sku_id] == 1


def test_batches_are_measured(embedded: Server, pool: Shop) -> None:
    before = scrape(embedded)
    pool.provision(5)
    pool.hold()
    after = scrape(embedded)
    for name in ("holdfast_batch_commands", "holdfast_decide_seconds", "holdfast_commit_seconds"):
        assert _grown(before, after, f"{name}_count")[""] == 2
    assert _grown(before, after, "holdfast_batch_commands_sum")[""] == 2
    assert 0 < _grown(before, after, "holdfast_decide_seconds_sum")[""] < 30
    assert 0 < _grown(before, after, "holdfast_commit_seconds_sum")[""] < 30
    assert after["holdfast_waiting_commands"][""] == 0
    assert 0 <= after["holdfast_expirer_lag_seconds"][""] < 60


def _grown(before: Samples, after: Samples, name: str) -> dict[str, float]:
    earlier, later = before.get(name, {}), after.get(name, {})
    grown = {labels: value - earlier.get(labels, 0) for labels, value in later.items()}
    return {labels: growth for labels, growth in grown.items() if growth}


@pytest.mark.parametrize("path", ["/healthz/live", "/v1/inventory/nowhere/available", "/v1/nothing"])
def test_a_request_id_comes_back(embedded: Server, path: str) -> None:
    for request_id in ("abc-123", "A.b_C-9", "x" * 64):
        assert embedded.client.get(path, headers={"X-Request-Id": request_id}).headers["x-request-id"] == request_id


@pytest.mark.parametrize("path", ["/healthz/live", "/v1/inventory/nowhere/available"])
def test_a_request_id_that_could_do_harm_is_replaced(embedded: Server, path: str) -> None:
    for request_id in ("", "x" * 65, "a b", "<script>", 'a"b', "a\tb", "é"):
        headers = {b"X-Request-Id": request_id.encode()}
        given = embedded.client.get(path, headers=headers).headers["x-request-id"]
        assert re.fullmatch(r"[A-Za-z0-9._-]{8,64}", given)


def test_every_request_without_an_id_gets_one_of_its_own(embedded: Server, pool: Shop) -> None:
    ids = {pool.available().headers["x-request-id"] for _ in range(20)}
    ids |= {embedded.client.get("/healthz/live").headers["x-request-id"] for _ in range(20)}
    assert len(ids) == 40


def test_the_log_is_json_by_line_and_names_the_request(embedded: Server, pool: Shop) -> None:
    pool.client.put(pool.path, json={"total_units": 1}, headers={"X-Request-Id": "find-me"})
    lines = eventually(lambda: [x for x in embedded.log_lines if x.get("request_id") == "find-me"])
    assert [(x["event"], x["method"], x["path"], x["status"]) for x in lines] == [("request", "PUT", pool.path, 200)]
    check = jsonschema_rs.Draft202012Validator(log_schema(), validate_formats=True)
    for line in embedded.log_lines:
        check.validate(line)


def test_no_line_of_the_log_can_be_forged(embedded: Server) -> None:
    embedded.client.get('/v1/nothing%0A{"event": "forged", "level": "error"}')
    eventually(lambda: [x for x in embedded.log_lines if "forged" in x.get("path", "")])
    assert not [line for line in embedded.log_lines if line["event"] == "forged"]


def test_no_secret_is_ever_logged(embedded: Server, pool: Shop) -> None:
    key, token = embedded.command("keys", "create", "--name", "n", "--scope", "inventory")["key"], buyer_token("ada")
    secrets = [SERVICE_KEY, BUYER_SECRET, key, token, token.rpartition(".")[2], "hf_unknown_secret-of-somebody"]
    pool.provision(1)
    for secret in secrets:
        with embedded.connect(secret) as client:
            client.get(f"/v1/reservations/{pool.sku_id}")
            client.put(pool.path, content=b"{")
            client.get(f"{pool.path}/available")
    eventually(lambda: [x for x in embedded.log_lines if x.get("status") == 401])
    assert [secret for secret in secrets if secret in embedded.log] == []
