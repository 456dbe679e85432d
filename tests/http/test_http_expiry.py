"""A deadline that has passed is honoured at once, asked or not."""

from collections.abc import Iterator

import pytest
from http_calling import Shop, body_of, eventually, moment
from http_serving import Server, database_setting, started

from conftest import ENGINES

pytest_plugins = ("http_fixtures",)


def test_an_overdue_unit_returns_without_anybody_asking(shop: Shop) -> None:
    shop.provision(1)
    held = body_of(shop.reserve(ttl_seconds=1))
    history = eventually(lambda: shop.events(held["reservation_id"])[1:])
    assert [event["type"] for event in history] == ["reservation.expired"]
    assert moment(held["expires_at"]) <= moment(history[0]["at"])
    assert shop.counts() == (1, 0, 0, 1)


def test_an_overdue_unit_can_be_reserved_after_its_deadline_and_not_before(shop: Shop) -> None:
    shop.provision(1)
    held = body_of(shop.reserve("ada", ttl_seconds=1))
    asked = eventually(lambda: [r for r in [shop.reserve("bob")] if r.status_code == 200])
    assert moment(held["expires_at"]) <= moment(body_of(asked[0])["created_at"])
    assert body_of(shop.show(held["reservation_id"]))["status"] == "expired"
    assert shop.counts() == (0, 1, 0, 1)


@pytest.fixture(scope="module", params=ENGINES)
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without background work, so that only those who ask can find a unit that is due."""
    setting = database_setting(request.param, request)
    with started(tmp_path_factory.mktemp("alone"), "--no-background", settings=setting) as server:
        yield server


def test_an_overdue_unit_is_available_to_the_next_request(alone: Server) -> None:
    shop = alone.shop()
    shop.provision(1)
    held = body_of(shop.reserve("ada", ttl_seconds=1))
    eventually(lambda: body_of(shop.available())["available"])
    assert [e["type"] for e in shop.events(held["reservation_id"])] == ["reservation.created"]
    assert body_of(shop.show(held["reservation_id"]))["status"] == "expired"
    body_of(shop.reserve("bob"))
    assert [e["type"] for e in shop.events(held["reservation_id"])] == ["reservation.created", "reservation.expired"]
    assert shop.counts() == (0, 1, 0, 1)


def test_overdue_units_make_room_for_a_lower_total(alone: Server) -> None:
    shop = alone.shop()
    shop.provision(2)
    shop.hold(quantity=2, ttl_seconds=1)
    eventually(lambda: body_of(shop.available())["available"] == 2)
    assert body_of(shop.provision(1))["available"] == 1
