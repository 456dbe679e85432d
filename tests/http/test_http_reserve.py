"""POST /v1/inventory/{sku_id}/reserve, and its idempotency keys."""

import httpx
import pytest
from http_calling import Shop, body_of, moment, problem_of, seconds_between, wrong_fields
from http_serving import on_one_engine

pytest_plugins = ("http_fixtures",)

RESERVATION_FIELDS = {"reservation_id", "sku_id", "owner_id", "quantity", "status", "created_at", "expires_at"}


def test_a_reservation_holds_its_units_for_five_minutes_unless_told_otherwise(shop: Shop) -> None:
    shop.provision(5)
    held = body_of(shop.reserve("ada", 2))
    assert set(held) >= RESERVATION_FIELDS
    assert (held["sku_id"], held["owner_id"], held["quantity"], held["status"]) == (shop.sku_id, "ada", 2, "active")
    assert seconds_between(held["created_at"], held["expires_at"]) == 300
    assert shop.counts() == (3, 2, 0, 5)


@pytest.mark.parametrize("ttl_seconds", [1, 299, 1800])
def test_a_reservation_may_last_from_one_second_to_half_an_hour(shop: Shop, ttl_seconds: int) -> None:
    shop.provision(1)
    held = body_of(shop.reserve(ttl_seconds=ttl_seconds))
    assert seconds_between(held["created_at"], held["expires_at"]) == ttl_seconds


@on_one_engine
@pytest.mark.parametrize("ttl_seconds", [0, -1, 1801, 2**63, "300", 300.0, True, None, [300]])
def test_any_other_time_is_refused(shop: Shop, ttl_seconds: object) -> None:
    shop.provision(1)
    problem_of(shop.reserve(ttl_seconds=ttl_seconds), 422, "invalid_request")
    assert shop.counts() == (1, 0, 0, 1)


@on_one_engine
def test_times_are_rfc_3339_in_utc_with_milliseconds(shop: Shop) -> None:
    shop.provision(1)
    held = body_of(shop.reserve())
    assert moment(held["created_at"]) < moment(held["expires_at"])
    assert moment(body_of(shop.available())["next_return_at"]) == moment(held["expires_at"])


def test_a_million_units_can_be_taken_at_once_and_not_one_more(shop: Shop) -> None:
    shop.provision(2_000_000)
    problem_of(shop.reserve(quantity=1_000_001), 422, "invalid_request")
    assert body_of(shop.reserve(quantity=1_000_000))["quantity"] == 1_000_000


def test_too_large_a_wish_is_told_how_many_units_are_free(shop: Shop) -> None:
    shop.provision(3)
    shop.hold()
    assert problem_of(shop.reserve(quantity=3), 409, "insufficient_inventory")["available"] == 2
    assert shop.counts() == (2, 1, 0, 3)


def test_a_refusal_when_all_is_held_says_when_to_come_back(shop: Shop) -> None:
    shop.provision(1)
    held = body_of(shop.reserve())
    problem = problem_of(shop.reserve("bob"), 409, "insufficient_inventory")
    assert (problem["available"], problem["next_return_at"]) == (0, held["expires_at"])


def test_a_refusal_when_all_is_sold_promises_no_return(shop: Shop) -> None:
    shop.provision(1)
    shop.confirm(shop.hold())
    problem = problem_of(shop.reserve("bob"), 409, "insufficient_inventory")
    assert problem["available"] == 0
    assert "next_return_at" not in problem


def test_a_partial_fill_takes_what_is_there(shop: Shop) -> None:
    shop.provision(3)
    assert body_of(shop.reserve(quantity=5, min_quantity=2))["quantity"] == 3
    assert shop.counts() == (0, 3, 0, 3)


def test_a_partial_fill_takes_all_it_asked_for_if_it_can(shop: Shop) -> None:
    shop.provision(9)
    assert body_of(shop.reserve(quantity=5, min_quantity=2))["quantity"] == 5


def test_a_partial_fill_takes_nothing_below_its_minimum(shop: Shop) -> None:
    shop.provision(3)
    assert problem_of(shop.reserve(quantity=5, min_quantity=4), 409, "insufficient_inventory")["available"] == 3
    assert shop.counts() == (3, 0, 0, 3)


@on_one_engine
def test_a_minimum_above_the_quantity_is_refused(shop: Shop) -> None:
    shop.provision(3)
    wrong = wrong_fields(shop.reserve(quantity=1, min_quantity=2))
    assert wrong == {"min_quantity": "must not be more than quantity"}


@on_one_engine
def test_what_is_not_valid_is_not_valid_in_a_sold_out_pool_either(shop: Shop) -> None:
    """Also while the refusal before it is remembered, which a request with the same mistake must not get."""
    shop.provision(0)
    for _ in range(3):
        problem_of(shop.reserve(), 409, "insufficient_inventory")
        problem_of(shop.reserve(quantity=1, min_quantity=2), 422, "invalid_request")


def test_a_unit_given_back_is_there_for_the_next_caller_at_once(shop: Shop) -> None:
    shop.provision(1)
    held = shop.hold()
    problem_of(shop.reserve("bob"), 409)
    shop.cancel(held)
    body_of(shop.reserve("bob"))


def test_a_repeat_with_the_same_key_gets_the_first_answer_and_takes_nothing(shop: Shop) -> None:
    shop.provision(5)
    first = shop.reserve(quantity=2, idempotency_key="k")
    again = shop.reserve(quantity=2, idempotency_key="k")
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.status_code, again.content) == (200, first.content)
    assert shop.counts() == (3, 2, 0, 5)


def test_the_first_answer_is_repeated_whatever_became_of_the_reservation(shop: Shop) -> None:
    shop.provision(1)
    first = shop.reserve(idempotency_key="k")
    shop.confirm(first.json()["reservation_id"])
    again = shop.reserve(idempotency_key="k")
    assert (again.headers["idempotency-replayed"], again.content) == ("true", first.content)


@pytest.mark.parametrize("change", [{"quantity": 2}, {"ttl_seconds": 299}, {"min_quantity": 1, "quantity": 3}])
def test_a_key_used_for_another_request_is_refused(shop: Shop, change: dict[str, int]) -> None:
    shop.provision(5)
    shop.reserve(idempotency_key="k")
    request: dict[str, object] = {"owner_id": "ada", "quantity": 1, "idempotency_key": "k"}
    problem_of(shop.client.post(f"{shop.path}/reserve", json=request | change), 422, "idempotency_key_reused")
    assert shop.counts() == (4, 1, 0, 5)


def test_two_owners_may_use_the_same_key(shop: Shop) -> None:
    shop.provision(5)
    ada, bob = (shop.reserve(owner, idempotency_key="k") for owner in ("ada", "bob"))
    assert body_of(ada)["reservation_id"] != body_of(bob)["reservation_id"]
    assert "idempotency-replayed" not in bob.headers


def test_a_refusal_is_not_remembered(shop: Shop) -> None:
    shop.provision(1)
    held = shop.hold("bob")
    problem_of(shop.reserve(idempotency_key="k"), 409, "insufficient_inventory")
    shop.cancel(held)
    assert "idempotency-replayed" not in shop.reserve(idempotency_key="k").headers
    assert shop.counts() == (0, 1, 0, 1)


def reserve_with_header(shop: Shop, key: str | bytes, **fields: object) -> httpx.Response:
    headers = {b"Idempotency-Key": key.encode() if isinstance(key, str) else key}
    return shop.client.post(f"{shop.path}/reserve", json={"owner_id": "ada", "quantity": 2} | fields, headers=headers)


def test_a_key_may_be_given_in_the_header_the_body_or_both(shop: Shop) -> None:
    shop.provision(5)
    first = reserve_with_header(shop, "k")
    assert "idempotency-replayed" not in first.headers
    repeats = [
        reserve_with_header(shop, "k"),
        reserve_with_header(shop, "k", idempotency_key="k"),
        reserve_with_header(shop, "k", idempotency_key=None),
        shop.reserve(quantity=2, idempotency_key="k"),
    ]
    for again in repeats:
        assert (again.headers["idempotency-replayed"], again.content) == ("true", first.content)
    assert shop.counts() == (3, 2, 0, 5)


@on_one_engine
def test_a_header_and_a_body_that_differ_are_refused(shop: Shop) -> None:
    shop.provision(5)
    wrong = wrong_fields(reserve_with_header(shop, "k", idempotency_key="other"))
    assert wrong == {"Idempotency-Key": "must be the same as idempotency_key in the body, or left out"}
    assert shop.counts() == (5, 0, 0, 5)


@on_one_engine
@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
def test_a_key_in_the_header_has_the_limits_of_the_field(shop: Shop, key: str) -> None:
    shop.provision(5)
    assert wrong_fields(reserve_with_header(shop, key)).keys() == {"Idempotency-Key"}
    assert shop.counts() == (5, 0, 0, 5)
    body_of(reserve_with_header(shop, "x" * 255))


@on_one_engine
@pytest.mark.parametrize("key", [b"\xff", b"caf\xe9", "é".encode()])
def test_a_key_in_the_header_that_is_not_ascii_is_refused(shop: Shop, key: bytes) -> None:
    shop.provision(5)
    problem_of(reserve_with_header(shop, key), 400, "invalid_header")
    assert shop.counts() == (5, 0, 0, 5)


@pytest.mark.parametrize("owner_id", ["<script>alert(1)</script>", '"\\\u2028', "' OR 1=1 --", "é" * 200, "🦀" * 200])
def test_an_owner_id_is_text_and_comes_back_as_it_was(shop: Shop, owner_id: str) -> None:
    shop.provision(2)
    held = body_of(shop.reserve(owner_id, idempotency_key="🔑" * 255))
    assert held["owner_id"] == owner_id
    assert body_of(shop.show(held["reservation_id"])) == held
    assert [r["owner_id"] for r in shop.page(owner_id=owner_id)["data"]] == [owner_id]
