"""What the console asks for: keys, health, and a sale while it sells."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from http_calling import body_of, eventually, problem_of
from http_rooms import person
from http_sales import Store
from http_sales import body_of as sale_body
from http_serving import SERVICE_KEY, Server

pytest_plugins = ("http_fixtures",)


def live(store: Store) -> dict[str, Any]:
    return body_of(store.server.client.get(f"/v1/ops/sales/{store.sale_id}/live"))


def test_the_figures_of_a_sale_follow_what_is_bought(store: Store) -> None:
    store.open(total_units=3, per_buyer_limit=1)
    store.buy("ada")
    with store.buyer("ada") as ada, store.buyer("bob") as bob:
        assert ada.purchase().status_code == 409
        assert bob.purchase(2).status_code == 409
    store.buy("cyd", key="once")
    with store.buyer("cyd") as cyd:
        assert cyd.purchase(key="once").status_code == 200

    def seen() -> dict[str, Any]:
        shown = live(store)
        return shown if shown["attempts"]["total"] == 5 else {}

    shown = eventually(seen)
    assert shown["attempts"] == {"total": 5, "granted": 2, "repeated": 1, "refused": {"buyer_limit": 2}}
    assert shown["stock"] == {"total": 3, "available": 1, "held": 2, "settling": 0, "sold": 0}
    assert shown["sale"]["sale_id"] == store.sale_id
    assert shown["room"] is None
    assert set(shown["parked"]) == {"settlement", "refund", "delivery", "journal", "message"}
    assert shown["health"]["unavailable_dependencies"] == []


def test_what_is_paid_for_and_what_returns_is_told_apart(quick: Store) -> None:
    quick.open(total_units=3, hold_seconds=60, payment="wallet")
    quick.server.client.post(
        "/v1/wallets/rich/credit", json={"amount": 9_999, "currency": "EUR", "idempotency_key": quick.sale_id}
    )
    with quick.buyer("rich") as rich:
        bought = sale_body(rich.purchase(), 201)
        assert rich.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm").status_code == 202
    assert quick.change(hold_seconds=1).status_code == 200
    quick.buy("late")

    def ended() -> dict[str, Any]:
        shown = live(quick)
        return shown if shown["stock"]["sold"] == 1 and shown["returned_units"]["expired"] == 1 else {}

    shown = eventually(ended)
    assert shown["stock"] == {"total": 3, "available": 2, "held": 0, "settling": 0, "sold": 1}
    assert shown["returned_units"] == {"expired": 1, "cancelled": 0, "failed": 0}
    assert shown["settlement"]["open"] == 0


def test_answer_times_are_those_of_the_last_moments(quick: Store) -> None:
    quick.open(total_units=100, per_buyer_limit=None)
    live(quick)

    def timed() -> dict[str, Any]:
        quick.buy("ada")
        told = live(quick)["answer_ms"]
        return told if told["answers"] else {}

    told = eventually(timed)
    assert 0 < told["p50"] <= told["p99"]


def test_a_sale_with_a_room_shows_its_line_and_why_it_moves(quick: Store) -> None:
    quick.open(room={"mode": "fifo", "rate_per_second": 5})
    quick.server.client.post(f"{quick.path}/room", json={"paused": True})
    with quick.buyer("ada") as ada:
        assert ada.client.post(f"{quick.path}/queue", json={}).status_code == 200
    shown = eventually(lambda: (room := live(quick)["room"])["why"] == "paused" and room)
    assert (shown["joined"], shown["serving"], shown["inside"]) == (1, 0, 0)
    quick.server.client.post(f"{quick.path}/room", json={"admit": 1})
    eventually(lambda: live(quick)["room"]["inside"] == 1)


def test_many_watchers_share_one_look(quick: Store) -> None:
    quick.open()
    with ThreadPoolExecutor(16) as watchers:
        seen = list(watchers.map(lambda _: live(quick)["as_of"], range(64)))
    assert len(set(seen)) < len(seen) / 2


def test_a_sale_that_is_not_there_is_not_shown(embedded: Server) -> None:
    problem_of(embedded.client.get("/v1/ops/sales/nothing/live"), 404, "sale_not_found")


@pytest.mark.parametrize("path", ["/v1/ops/sales/x/live", "/v1/ops/health", "/v1/ops/keys"])
def test_only_operators_may_look(embedded: Server, path: str) -> None:
    made = embedded.command("keys", "create", "--name", "seller", "--scope", "sales")
    with embedded.connect(made["key"]) as seller, embedded.connect() as stranger:
        problem_of(seller.get(path), 403, "forbidden")
        problem_of(stranger.get(path), 401, "unauthorized")


def test_health_names_everything_the_server_depends_on(server: Server) -> None:
    health = body_of(server.client.get("/v1/ops/health"))
    assert health["ok"] is True
    kinds = {one["name"]: one["kind"] for one in health["data"]}
    assert "store" in kinds.values()
    agents = {name for name, kind in kinds.items() if kind == "agent"}
    assert agents >= {"expirer", "settler", "reconciler", "line_advancer", "counter_flusher"}
    assert ("redis" in kinds) is ("HOLDFAST_REDIS_URL" in server.environment)


def test_a_key_is_made_shown_once_used_and_revoked(embedded: Server) -> None:
    answer = embedded.client.post("/v1/ops/keys", json={"name": "till", "scopes": ["inventory", "sales"]})
    assert answer.status_code == 201
    made = answer.json()
    assert made["scopes"] == ["inventory", "sales"]
    with embedded.connect(made["key"]) as till:
        assert till.get("/v1/sales").status_code == 200
        keys = body_of(embedded.client.get("/v1/ops/keys"))["data"]
        [listed] = [key for key in keys if key["key_id"] == made["key_id"]]
        assert listed == {name: made[name] for name in listed}
        assert made["key"] not in embedded.client.get("/v1/ops/keys").text
        assert embedded.client.delete(f"/v1/ops/keys/{made['key_id']}").status_code == 204
        assert embedded.client.delete(f"/v1/ops/keys/{made['key_id']}").status_code == 204
        problem_of(till.get("/v1/sales"), 401, "unauthorized")
    problem_of(embedded.client.delete("/v1/ops/keys/000000000000"), 404, "key_not_found")


def test_nobody_gives_a_scope_they_do_not_have(embedded: Server) -> None:
    maker = embedded.command("keys", "create", "--name", "maker", "--scope", "operate", "--scope", "admin")
    with embedded.connect(maker["key"]) as client:
        wanted = {"name": "more", "scopes": ["operate", "sales"]}
        problem_of(client.post("/v1/ops/keys", json=wanted), 403, "forbidden")
        made = client.post("/v1/ops/keys", json={"name": "same", "scopes": ["operate"]}).json()
        assert made["created_by"] == maker["key_id"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "", "scopes": ["sales"]}, "name"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": ["everything"]}, "scopes.0"),
        ({"name": "x", "scopes": ["sales"], "key": SERVICE_KEY}, "key"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(embedded: Server, given: dict[str, Any], field: str) -> None:
    answer = embedded.client.post("/v1/ops/keys", json=given)
    assert [error["field"] for error in problem_of(answer, 422, "invalid_request")["errors"]] == [field]


def test_the_console_is_a_page_like_the_others(embedded: Server) -> None:
    with embedded.connect() as stranger:
        page = stranger.get("/console")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "<style" not in page.text
    assert "style=" not in page.text


def test_the_history_has_counts_by_the_second_and_what_operators_did(quick: Store) -> None:
    quick.open(total_units=4, room={"mode": "fifo", "rate_per_second": 5})
    for name in ("ada", "bob"):
        with person(quick, name) as buyer:
            body_of(buyer.join())
            sale_body(buyer.buy(buyer.await_pass()), 201)
    body_of(quick.act("pause"))
    body_of(quick.server.client.post(f"{quick.path}/room", json={"rate_per_second": 9}))
    path = f"/v1/ops/sales/{quick.sale_id}/history"

    def counted() -> bool:
        points = body_of(quick.server.client.get(path))["points"]
        joined = max([point["room"]["joined"] for point in points if point["room"]], default=0)
        return (sum(point["attempts"]["granted"] for point in points), joined) == (2, 2)

    eventually(counted)
    history = body_of(quick.server.client.get(path, params={"window_seconds": 60}))
    assert history["seconds"] == 1
    assert {(mark["kind"], mark["by"], mark["detail"]) for mark in history["marks"]} == {
        ("opened", None, None), ("paused", "the admin key", None), ("rate_changed", "the admin key", "9 per second")
    }  # fmt: skip
    problem_of(quick.server.client.get("/v1/ops/sales/nothing/history"), 404, "sale_not_found")
