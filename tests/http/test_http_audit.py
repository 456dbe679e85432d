"""`GET /v1/ops/audit` and `holdfast audit`: why did I not get one?"""

from typing import Any
from urllib.parse import quote

import pytest
from http_calling import Shop, body_of, eventually, problem_of, wrong_fields
from http_metrics import scrape
from http_serving import Server, run_holdfast
from http_tokens import buyer_token

pytest_plugins = ("http_fixtures",)


@pytest.fixture
def pool(embedded: Server) -> Shop:
    pool = embedded.shop()
    pool.provision(2)
    return pool


def story(server: Server, **asked: Any) -> dict[str, Any]:
    return body_of(server.client.get("/v1/ops/audit", params=asked))


def types(server: Server, **asked: Any) -> list[str]:
    return [moment["type"] for moment in story(server, **asked)["data"]]


def test_a_buyer_who_got_nothing_can_be_told_why(embedded: Server, pool: Shop) -> None:
    pool.confirm(pool.hold("bob"))
    held = pool.hold("cid")
    problem_of(pool.reserve("ada"), 409)
    problem_of(pool.reserve("ada", idempotency_key="k"), 409)
    eventually(lambda: len(types(embedded, buyer_id="ada", sku_id=pool.sku_id)) == 2)
    body = story(embedded, buyer_id="ada", sku_id=pool.sku_id)
    assert body["buyer_id"] == "ada"
    assert body["refusals"] == {"all_held": 2}
    assert body["unreadable_segments"] == []
    for moment in body["data"]:
        deadline = body_of(pool.show(held))["expires_at"]
        assert moment["next_return_at"] == deadline
        assert moment["request_id"]
        at = deadline[11:19] if deadline[:10] == moment["at"][:10] else f"{deadline[:10]} {deadline[11:19]}"
        assert moment["what"] == f"refused: all 2 units were sold or in carts, next return at {at}"


@pytest.mark.slow
def test_refusals_and_reservations_are_one_timeline_and_expired_ones_stay_in_it(embedded: Server, pool: Shop) -> None:
    problem_of(pool.reserve("ada", 3), 409)
    pool.hold("ada", 2, ttl_seconds=4)
    problem_of(pool.reserve("ada"), 409)
    expected = ["refused", "reservation.created", "refused", "reservation.expired"]
    eventually(lambda: types(embedded, buyer_id="ada", sku_id=pool.sku_id) == expected)
    told = [moment["what"] for moment in story(embedded, buyer_id="ada", sku_id=pool.sku_id)["data"]]
    assert told[0] == "refused: 3 units requested, 2 available"
    assert told[-1] == "expired: not paid in time, 2 units returned"
    said = run_holdfast(
        "audit", "--buyer", "ada", "--sku", pool.sku_id, directory=embedded.directory, environment=embedded.environment
    )
    assert said.returncode == 0
    assert [line in said.stdout for line in told] == [True] * 4
    assert said.stdout.splitlines()[-1] == "Refused: 1 all_held, 1 insufficient."


def test_refusals_from_memory_are_in_it_too(embedded: Server, pool: Shop) -> None:
    pool.hold(quantity=2)
    for _ in range(30):
        problem_of(pool.reserve("eve"), 409)
    eventually(lambda: story(embedded, buyer_id="eve", sku_id=pool.sku_id)["refusals"] == {"all_held": 30})
    assert scrape(embedded)["holdfast_refusals_recorded_total"][""] >= 30
    assert scrape(embedded)["holdfast_refusals_dropped_total"][""] == 0


def test_the_command_line_says_the_same(embedded: Server, pool: Shop) -> None:
    owner = "Zoë 'quote\" 🎟"
    pool.hold(quantity=2)
    problem_of(pool.reserve(owner), 409)
    eventually(lambda: types(embedded, buyer_id=owner, sku_id=pool.sku_id))
    asked = embedded.command("audit", "--buyer", owner, "--sku", pool.sku_id, "--since", "1h")
    told = story(embedded, buyer_id=owner, sku_id=pool.sku_id)
    # What the server shed goes on being counted between the two.
    assert {**asked, "shed": None} == {**told, "shed": None}
    assert embedded.command("audit", "--buyer", "nobody at all")["data"] == []


def test_time_and_number_can_be_limited(embedded: Server, pool: Shop) -> None:
    for _ in range(3):
        pool.cancel(pool.hold("ada"))
    whole = story(embedded, buyer_id="ada", sku_id=pool.sku_id)["data"]
    assert len(whole) == 6
    assert story(embedded, buyer_id="ada", sku_id=pool.sku_id, limit=2)["data"] == whole[-2:]
    since = whole[2]["at"]
    assert story(embedded, buyer_id="ada", sku_id=pool.sku_id, since=since)["data"] == [
        moment for moment in whole if moment["at"] >= since
    ]
    assert story(embedded, buyer_id="ada", sku_id=pool.sku_id, until=whole[0]["at"])["data"] == []


def test_wrong_questions_are_refused(embedded: Server) -> None:
    get = embedded.client.get
    assert "buyer_id" in wrong_fields(get("/v1/ops/audit"))
    wrong = (("since", "yesterday"), ("until", "99999999999999"), ("limit", "0"), ("sku_id", "a b"), ("sale_id", "a\0"))
    for field, value in wrong:
        assert field in wrong_fields(get(f"/v1/ops/audit?buyer_id=ada&{field}={quote(value)}"))
    ran = run_holdfast(
        "audit", "--buyer", "a", "--since", "soon", directory=embedded.directory, environment=embedded.environment
    )
    assert ran.returncode == 2
    assert "15m, 2h, 7d" in ran.stderr


def test_only_operators_may_ask(embedded: Server) -> None:
    key = embedded.command("keys", "create", "--name", "n", "--scope", "inventory")["key"]
    for token, status in ((key, 403), (buyer_token("ada"), 403), (None, 401)):
        with embedded.connect(token) as client:
            problem_of(client.get("/v1/ops/audit?buyer_id=ada"), status)
