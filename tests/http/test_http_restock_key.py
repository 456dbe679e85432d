"""Restocking under a key: once, on every engine, whatever is repeated."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import pytest
from http_calling import body_of, eventually, problem_of, wrong_fields
from http_sales import Store
from http_serving import Server

pytest_plugins = ("http_fixtures",)


def restock(store: Store, units: int, key: str) -> httpx.Response:
    return store.server.client.post(f"{store.path}/restock", json={"units": units}, headers={"Idempotency-Key": key})


def test_a_key_restocks_once(store: Store) -> None:
    store.open(total_units=1)
    with ThreadPoolExecutor(8) as crowd:
        answers = list(crowd.map(lambda _: restock(store, 2, "more"), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert store.show()["total_units"] == 3
    again = restock(store, 2, "more")
    assert (body_of(again)["total_units"], again.headers["idempotency-replayed"]) == (3, "true")
    problem_of(restock(store, 1, "more"), 422, "idempotency_key_reused")
    for _ in range(2):
        assert body_of(restock(store, -1, "fewer"))["total_units"] == 2
    assert store.counts() == (2, 0, 0)


def test_what_was_refused_may_be_asked_again_under_its_key(store: Store) -> None:
    store.open(total_units=1)
    problem_of(restock(store, -2, "k"), 409, "below_committed")
    assert "units" in wrong_fields(restock(store, 1_000_000_000, "m"))
    body_of(restock(store, 3, "n"))
    assert body_of(restock(store, -2, "k"))["total_units"] == 2


def test_new_units_can_be_delivered_too(store: Store) -> None:
    store.open(total_units=1)
    store.server.client.post(f"/v1/ops/sales/{store.sale_id}/compensate", json={"deliverable_units": 1})
    for _ in range(2):
        body_of(restock(store, 2, "more"))
    assert store.show()["deliverable_units"] == 3
    body_of(store.act("restock", units=-1))
    assert store.show()["deliverable_units"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_sales_and_keys_that_look_alike_when_joined_are_restocked_each(server: Server) -> None:
    mark = uuid4().hex[:8]
    first, second = Store(server, f"{mark}:b", mark), Store(server, mark, mark)
    first.open(total_units=1)
    assert body_of(restock(first, 2, "c"))["total_units"] == 3
    body_of(first.act("close"))
    # Until every server has heard that the first is over.
    assert eventually(lambda: second.create(total_units=3).status_code == 201)
    for _ in range(2):
        assert body_of(restock(second, 2, "b:c"))["total_units"] == 5
    assert second.counts() == (5, 0, 0)
