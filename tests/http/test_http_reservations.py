"""What becomes of a reservation: confirm, extend, cancel, look at, history."""

import asyncio
from collections.abc import Callable

import httpx
import pytest
from http_calling import Shop, body_of, eventually, problem_of, seconds_between
from http_serving import Server, on_one_engine

from holdfast.bootstrap.stores import open_engine, open_ledger
from holdfast.domain.stock.command import Move, Transition
from holdfast.settings import load_settings

pytest_plugins = ("http_fixtures",)


def test_a_reservation_can_be_looked_at(shop: Shop) -> None:
    shop.provision(1)
    held = body_of(shop.reserve())
    assert body_of(shop.show(held["reservation_id"])) == held


def test_confirming_sells_the_units_once_however_often_it_is_asked(shop: Shop) -> None:
    shop.provision(3)
    held = body_of(shop.reserve(quantity=2))
    first, again = (body_of(shop.confirm(held["reservation_id"])) for _ in range(2))
    assert first == again == held | {"status": "confirmed", "confirmed_at": first["confirmed_at"]}
    assert shop.counts() == (1, 0, 2, 3)


def test_cancelling_returns_the_units_once_however_often_it_is_asked(shop: Shop) -> None:
    shop.provision(3)
    held = shop.hold(quantity=2)
    for _ in range(2):
        answer = shop.cancel(held)
        assert (answer.status_code, answer.content) == (204, b"")
    assert body_of(shop.show(held))["status"] == "cancelled"
    assert shop.counts() == (3, 0, 0, 3)


def test_an_extension_counts_from_now_and_never_brings_the_deadline_forward(shop: Shop) -> None:
    shop.provision(1)
    held = body_of(shop.reserve(ttl_seconds=60))
    extended = body_of(shop.extend(held["reservation_id"], 90))
    assert 90 <= seconds_between(held["created_at"], extended["expires_at"]) < 120
    assert body_of(shop.extend(held["reservation_id"], 30)) == extended
    assert body_of(shop.show(held["reservation_id"])) == extended
    assert body_of(shop.available())["next_return_at"] == extended["expires_at"]


def test_nothing_is_held_longer_than_half_an_hour_in_all(shop: Shop) -> None:
    shop.provision(1)
    held = body_of(shop.reserve(ttl_seconds=300))
    last = body_of(shop.extend(held["reservation_id"], 1800))
    assert seconds_between(held["created_at"], last["expires_at"]) == 1800
    problem_of(shop.extend(held["reservation_id"], 1), 409, "extension_limit")
    assert body_of(shop.show(held["reservation_id"])) == last


@on_one_engine
@pytest.mark.parametrize("ttl_seconds", [0, -1, 1801, 2**63, "30", 30.0, True, None])
def test_an_extension_is_from_one_second_to_half_an_hour(shop: Shop, ttl_seconds: object) -> None:
    shop.provision(1)
    held = body_of(shop.reserve())
    path = f"/v1/reservations/{held['reservation_id']}/extend"
    problem_of(shop.client.post(path, json={"ttl_seconds": ttl_seconds}), 422, "invalid_request")
    assert body_of(shop.show(held["reservation_id"])) == held


def test_the_history_tells_everything_that_happened_in_order(shop: Shop) -> None:
    shop.provision(2)
    held = body_of(shop.reserve(quantity=2))
    extended = body_of(shop.extend(held["reservation_id"], 600))
    shop.confirm(held["reservation_id"])
    shop.confirm(held["reservation_id"])
    events = shop.events(held["reservation_id"])
    assert [e["type"] for e in events] == ["reservation.created", "reservation.extended", "reservation.confirmed"]
    assert [e["expires_at"] for e in events[:2]] == [held["expires_at"], extended["expires_at"]]
    assert all(seconds_between(held["created_at"], e["at"]) >= 0 for e in events)
    assert (held["confirmed_at"], body_of(shop.show(held["reservation_id"]))["confirmed_at"]) == (None, events[2]["at"])


def _cancelled(shop: Shop, _server: Server) -> str:
    held = shop.hold()
    shop.cancel(held)
    return held


def _confirmed(shop: Shop, _server: Server) -> str:
    held = shop.hold()
    shop.confirm(held)
    return held


def _expired(shop: Shop, _server: Server) -> str:
    held = shop.hold(ttl_seconds=1)
    eventually(lambda: body_of(shop.show(held))["status"] == "expired")
    return held


def _settling(shop: Shop, server: Server) -> str:
    held = shop.hold()
    _move(shop, server, Move(Transition.SETTLE, held))
    return held


def _failed(shop: Shop, server: Server) -> str:
    held = _settling(shop, server)
    _move(shop, server, Move(Transition.FAIL, held))
    return held


def _move(shop: Shop, server: Server, move: Move) -> None:
    """Payment moves reservations from behind, as another process; no route of the inventory API does."""

    async def apply() -> None:
        settings = load_settings(
            data=server.directory / "data",
            database_url=server.environment.get("HOLDFAST_DATABASE_URL"),
            redis_url=server.environment.get("HOLDFAST_REDIS_URL"),
        )
        async with open_ledger(settings) as database, open_engine(settings, database) as engine:
            [verdict] = await engine.gate.apply(shop.sku_id, [move])
            assert verdict.outcome.is_success

    asyncio.run(apply())


End = Callable[[Shop, Server], str]
Ask = Callable[[Shop, str], httpx.Response]


def _extend(shop: Shop, held: str) -> httpx.Response:
    return shop.extend(held, 1)


@pytest.mark.parametrize(
    ("end", "state", "refused"),
    [
        (_cancelled, "cancelled", [Shop.confirm, _extend]),
        (_confirmed, "confirmed", [Shop.cancel, _extend]),
        (_expired, "expired", [Shop.confirm, Shop.cancel, _extend]),
        (_settling, "settling", [Shop.cancel, _extend]),
        (_failed, "failed", [Shop.confirm, Shop.cancel, _extend]),
    ],
)
def test_what_is_no_longer_possible_is_refused_with_the_state_it_is_in(
    shop: Shop, server: Server, end: End, state: str, refused: list[Ask]
) -> None:
    shop.provision(3)
    held = end(shop, server)
    before = shop.counts()
    for ask in refused:
        assert problem_of(ask(shop, held), 409, f"reservation_{state}")["state"] == state
    assert body_of(shop.show(held))["status"] == state
    assert shop.counts() == before


def test_a_settling_reservation_can_be_confirmed(shop: Shop, server: Server) -> None:
    shop.provision(1)
    assert body_of(shop.confirm(_settling(shop, server)))["status"] == "confirmed"
    assert shop.counts() == (0, 0, 1, 1)


@pytest.mark.parametrize(
    "reservation_id",
    ["x", "rsv_", "rsv_" + "0" * 32, "rsv_" + "0" * 32 + "_", "rsv_" + "0" * 32 + "_nowhere", "é"],
)
def test_a_reservation_that_never_was_is_not_found(shop: Shop, reservation_id: str) -> None:
    shop.provision(1)
    for ask in (Shop.show, Shop.confirm, Shop.cancel, _extend):
        problem_of(ask(shop, reservation_id), 404)


def test_a_reservation_of_this_pool_that_never_was_is_not_found(shop: Shop) -> None:
    shop.provision(1)
    for ask in (Shop.show, Shop.confirm, Shop.cancel, _extend):
        problem_of(ask(shop, f"rsv_{'0' * 32}_{shop.sku_id}"), 404, "reservation_not_found")
