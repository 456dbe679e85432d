"""Who was refused at the door is in the buyer's timeline, next to their places in line."""

from typing import Any

from http_calling import eventually, problem_of
from http_rooms import person
from http_sales import Store, body_of
from http_tokens import buyer_token

pytest_plugins = ("http_fixtures",)

FIFO = {"mode": "fifo", "rate_per_second": 1_000, "pass_seconds": 60}


def story(store: Store, buyer_id: str) -> dict[str, Any]:
    return body_of(store.server.client.get("/v1/ops/audit", params={"buyer_id": buyer_id, "sale_id": store.sale_id}))


def types(store: Store, buyer_id: str) -> list[str]:
    return [one["outcome"] or one["type"] for one in story(store, buyer_id)["data"]]


def test_joins_places_calls_passes_leaves_and_refusals_are_one_timeline(store: Store) -> None:
    store.open(total_units=1, room=FIFO, required_tier=2, payment="external")
    tiers = {"tier": 2}
    with (
        store.server.connect(buyer_token("low")) as low,
        person(store, "ada", **tiers) as ada,
        person(store, "bob", **tiers) as bob,
        person(store, "cid", **tiers) as cid,
    ):
        problem_of(low.post(f"{store.path}/queue", json={}), 403, "tier_required")
        body_of(ada.join())
        given = ada.await_pass()
        body_of(store.act("room", paused=True))
        for late in (bob, cid):
            body_of(late.join())
        problem_of(bob.buy(None), 429, "admission_required")
        cid.leave()
        body_of(ada.buy(given), 201)
        expected = ["room.joined", "room.called", "room.pass_given", "room.pass_used", "reservation.created"]
        eventually(lambda: sorted(types(store, "ada")) == sorted(expected))
        told = story(store, "ada")
        assert told["summary"].startswith("Joined 1st; has in the cart 1 unit at ")
        assert [one["at"] for one in told["data"]] == sorted(one["at"] for one in told["data"])
        eventually(lambda: types(store, "bob") == ["room.joined", "admission_required"])
        assert story(store, "bob")["summary"] == "Joined 2nd; waiting, 0 ahead."
        assert types(store, "cid") == ["room.joined", "room.left"]
        eventually(lambda: types(store, "low") == ["tier_required"])
        assert story(store, "low")["summary"] == "Refused because a higher account tier was required."
        [reservation] = [one["reservation_id"] for one in told["data"] if one["reservation_id"]]
        body_of(store.server.client.post(f"/v1/reservations/{reservation}/confirm"))
        eventually(lambda: story(store, "ada")["summary"].startswith("Joined 1st; bought 1 unit"))
        assert story(store, "bob")["summary"] == "Joined 2nd; units ran out at 1st."
