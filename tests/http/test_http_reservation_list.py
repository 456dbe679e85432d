"""GET /v1/reservations: filters and paging."""

import pytest
from http_calling import Shop, eventually, moment, wrong_fields
from http_serving import on_one_engine

pytest_plugins = ("http_fixtures",)


def _ids(page: dict[str, list[dict[str, str]]]) -> list[str]:
    return [reservation["reservation_id"] for reservation in page["data"]]


def test_a_list_shows_the_newest_first(shop: Shop) -> None:
    shop.provision(9)
    made = [shop.hold() for _ in range(5)]
    page = shop.page()
    assert (sorted(_ids(page)), page["has_more"]) == (sorted(made), False)
    times = [moment(reservation["created_at"]) for reservation in page["data"]]
    assert times == sorted(times, reverse=True)


def test_an_entry_of_a_list_is_the_reservation_itself(shop: Shop) -> None:
    shop.provision(1)
    held = shop.hold()
    assert shop.page()["data"] == [shop.show(held).json()]


def test_a_list_has_twenty_entries_unless_told_otherwise(shop: Shop) -> None:
    shop.provision(30)
    made = {shop.hold() for _ in range(22)}
    page = shop.page()
    assert (len(page["data"]), page["has_more"]) == (20, True)
    assert set(_ids(shop.page(limit=100))) == made


def test_turning_the_pages_shows_everything_once(shop: Shop) -> None:
    shop.provision(9)
    made = {shop.hold() for _ in range(7)}
    page = shop.page(limit=3)
    seen = _ids(page)
    while page["has_more"]:
        page = shop.page(limit=3, starting_after=seen[-1])
        seen += _ids(page)
    assert len(seen) == 7
    assert set(seen) == made


def test_a_full_last_page_has_no_more(shop: Shop) -> None:
    shop.provision(9)
    made = [shop.hold() for _ in range(4)]
    assert shop.page(limit=4)["has_more"] is False
    last = _ids(shop.page(limit=4))[-1]
    assert shop.page(limit=4, starting_after=last) == {"data": [], "has_more": False}
    assert len(made) == 4


def test_a_list_can_be_of_one_owner(shop: Shop) -> None:
    shop.provision(9)
    shop.hold("ada")
    of_bob = shop.hold("bob & son")
    assert _ids(shop.page(owner_id="bob & son")) == [of_bob]
    assert _ids(shop.page(owner_id="nobody")) == []


def test_a_list_can_be_of_one_pool(shop: Shop) -> None:
    shop.provision(1)
    held = shop.hold()
    assert _ids(shop.page()) == [held]
    assert Shop(shop.client, f"{shop.sku_id}-other").page() == {"data": [], "has_more": False}


def test_a_list_can_be_of_one_status(shop: Shop) -> None:
    shop.provision(9)
    by_status = {"active": shop.hold(), "confirmed": shop.hold(), "cancelled": shop.hold()}
    by_status["expired"] = shop.hold(ttl_seconds=1)
    shop.confirm(by_status["confirmed"])
    shop.cancel(by_status["cancelled"])
    eventually(lambda: _ids(shop.page(status="expired")))
    assert {status: _ids(shop.page(status=status)) for status in by_status} == {s: [i] for s, i in by_status.items()}
    assert _ids(shop.page(status="settling")) == _ids(shop.page(status="failed")) == []


@on_one_engine
@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=101", "limit=-1", "limit=x", "limit=", "limit=%EF%BC%91", "limit=99999999999999999999",
        "status=open", "status=", "owner_id=", "owner_id=%00", "owner_id=a%0Ab", "sku_id=%00", "sku_id=a%2Fb",
        "starting_after=%00", "starting_after=" + "x" * 201, "starting_after=", "starting_after=rsv_1", "sku=demo",
        "Limit=1", "page=2", "owner_id=" + "x" * 201,
    ],
)  # fmt: skip
def test_a_filter_that_makes_no_sense_is_refused(shop: Shop, query: str) -> None:
    assert wrong_fields(shop.client.get(f"/v1/reservations?{query}")).keys() == {query.partition("=")[0]}
