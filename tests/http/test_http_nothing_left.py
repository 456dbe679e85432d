"""When nothing can come back, nobody waits for it; and when too much is unfinished, nothing new begins."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from http_calling import eventually, problem_of, promised
from http_rooms import now_of, person
from http_sales import Store, body_of, store_of
from http_serving import Server, database_setting, started

from conftest import ENGINES

pytest_plugins = ("http_fixtures",)

FIFO = {"mode": "fifo", "rate_per_second": 1_000, "pass_seconds": 60}


def sold_out(store: Store, given: str | None = None) -> None:
    with person(store, "winner") as winner:
        winner.join()
        bought = body_of(winner.buy(given or winner.await_pass()), 201)
    assert store.server.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm").status_code == 200


def test_joining_a_sold_out_sale_is_refused_until_a_restock(store: Store) -> None:
    store.open(room=FIFO, total_units=1, payment="external")
    sold_out(store)
    with person(store, "late") as late:
        promised(lambda: late.join().status_code == 409, within_s=2.0)
        joined = now_of(store)["joined"]
        for _ in range(3):
            problem_of(late.join(), 409, "sold_out")
        assert now_of(store)["joined"] <= joined <= 2
        body_of(store.act("restock", units=1))
        promised(lambda: late.join().status_code == 200, within_s=3.0)
        assert late.await_pass()


def test_while_units_are_held_people_may_join_because_they_can_come_back(store: Store) -> None:
    store.open(room=FIFO, total_units=1, payment="external")
    with person(store, "holder") as holder, person(store, "next") as follower:
        holder.join()
        held = body_of(holder.buy(holder.await_pass()), 201)["reservation_id"]
        eventually(lambda: now_of(store)["state"] == "all_held")
        assert follower.join().status_code == 200
        assert follower.ask().status_code == 202
        assert holder.client.delete(f"/v1/reservations/{held}").status_code == 204
        assert follower.await_pass()


def test_everyone_who_waits_is_told_within_two_seconds_and_nobody_is_called_for_nothing(store: Store) -> None:
    store.open(room=FIFO, total_units=1, payment="external")
    with ExitStack() as people:
        winner = people.enter_context(person(store, "winner"))
        winner.join()
        given = winner.await_pass()
        crowd = [people.enter_context(person(store, f"b{n}")) for n in range(5)]
        assert {one.join().status_code for one in crowd} == {200}
        held = body_of(winner.buy(given), 201)["reservation_id"]
        serving = now_of(store)["serving"]
        assert store.server.client.post(f"/v1/reservations/{held}/confirm").status_code == 200
        promised(lambda: now_of(store)["state"] == "sold_out", within_s=2.0)
        for one in crowd:
            promised(lambda one=one: one.ask().status_code == 409, within_s=2.0)  # type: ignore[misc]
            problem_of(one.ask(), 409, "sold_out")
        assert now_of(store)["serving"] <= serving + 1


@pytest.fixture(scope="module", params=[*ENGINES, "redis"])
def lagging(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that nobody settles for, and that allows six unfinished items."""
    setting = database_setting(request.param, request) | {"SHED_LAG_MAX": "6"}
    with started(tmp_path_factory.mktemp("lagging"), "--no-background", settings=setting) as server:
        yield server


def test_too_much_unfinished_sheds_what_is_new_and_finishes_what_was_begun(lagging: Server) -> None:
    """No worker runs. Each pool has a few decisions of its own, because one with six is closed by the gate itself."""
    store, roomy = store_of(lagging), store_of(lagging)
    store.open(total_units=50)
    roomy.open(room=FIFO)
    with store.buyer("early") as early, store.buyer("late") as late, person(roomy) as ada:
        begun = body_of(early.purchase(key="k"), 201)
        others = [store_of(lagging) for _ in range(8)]
        for other in others:
            other.open()
            with other.buyer() as buyer:
                bought = buyer.purchase()
                if bought.status_code == 201:
                    buyer.client.post(f"/v1/reservations/{bought.json()['reservation_id']}/confirm")
        eventually(lambda: "selling" in _off(lagging))
        busy = late.purchase()
        problem_of(busy, 503, "busy")
        assert "retry-after" in busy.headers
        problem_of(ada.join(), 503, "busy")
        assert store.now().headers["holdfast-sale"].endswith(", shed")
        # What was begun is found again and can be paid for.
        early.client.headers["Holdfast-Retry"] = "1"
        assert body_of(early.purchase(key="k"))["reservation_id"] == begun["reservation_id"]
        problem_of(early.purchase(key="other"), 503, "busy")
        assert early.client.post(f"/v1/reservations/{begun['reservation_id']}/confirm").status_code == 202


def _off(server: Server) -> list[str]:
    with server.connect() as client:
        return list(client.get("/v1/features").json()["degraded_features"])
