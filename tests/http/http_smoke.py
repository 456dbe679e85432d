"""The contract in one walk, for servers that differ in how they are run."""

from contextlib import suppress

import httpx
from http_calling import body_of, problem_of, seconds_between
from http_serving import Server
from http_tokens import buyer_token


def walk(server: Server) -> None:
    """Everything the inventory API does, once."""
    shop = server.shop()
    assert body_of(shop.provision(3))["available"] == 3
    first = shop.reserve("ada", 2, idempotency_key="k", ttl_seconds=60)
    held = body_of(first)
    again = shop.reserve("ada", 2, idempotency_key="k", ttl_seconds=60)
    assert (again.headers["idempotency-replayed"], again.content) == ("true", first.content)
    problem_of(shop.reserve("ada", 1, idempotency_key="k"), 422, "idempotency_key_reused")
    assert problem_of(shop.reserve("bob", 2), 409, "insufficient_inventory")["available"] == 1
    assert body_of(shop.reserve("bob", 2, min_quantity=1))["quantity"] == 1
    assert body_of(shop.available())["state"] == "all_held"
    extended = body_of(shop.extend(held["reservation_id"], 1800))
    assert seconds_between(held["created_at"], extended["expires_at"]) == 1800
    problem_of(shop.extend(held["reservation_id"], 1800), 409, "extension_limit")
    with server.connect(buyer_token("ada")) as ada:
        assert body_of(ada.get(f"/v1/reservations/{held['reservation_id']}")) == extended
        problem_of(ada.get(f"{shop.path}/available"), 403, "forbidden")
    confirmed = body_of(shop.confirm(held["reservation_id"]))
    assert confirmed == extended | {"status": "confirmed", "confirmed_at": confirmed["confirmed_at"]}
    assert seconds_between(confirmed["created_at"], confirmed["confirmed_at"]) >= 0
    problem_of(shop.cancel(held["reservation_id"]), 409, "reservation_confirmed")
    _, *bobs = reversed(shop.page()["data"])
    assert shop.cancel(bobs[0]["reservation_id"]).status_code == 204
    assert len(shop.events(held["reservation_id"])) == 3
    problem_of(shop.provision(1), 409, "below_committed")
    assert shop.counts() == (1, 0, 2, 3)
    refuse(server)


def refuse(server: Server) -> None:
    """What no server may let through."""
    for method, path, body, status in (
        ("POST", "/v1/inventory/a/reserve", b"{", 400),
        ("POST", "/v1/inventory/a/reserve", b'{"owner_id": "ada", "quantity": "1"}', 422),
        ("POST", "/v1/inventory/a/reserve", b"x" * 20_000, 413),
        ("GET", "/v1/nothing", b"", 404),
        ("PATCH", "/v1/inventory/a", b"", 405),
    ):
        problem_of(server.client.request(method, path, content=body), status)
    problem_of(server.client.post("/v1/inventory/a/reserve", content=iter([b"x" * 9_000] * 2)), 413)
    with suppress(httpx.TransportError):  # The answer may be lost when the server hangs up while we still send.
        assert server.client.get("/healthz/live", headers={"X-Long": "x" * 200_000}).status_code == 431
    with server.connect() as stranger:
        problem_of(stranger.get("/v1/reservations"), 401, "unauthorized")
        assert stranger.get("/healthz/live").json() == {"status": "live"}
