"""The waiting room over HTTP: in line, admitted, buying; and everything that is refused on the way."""

import base64
import json
import time
from contextlib import ExitStack

import pytest
from http_calling import eventually, moment, problem_of, wrong_fields
from http_rooms import now_of, person
from http_sales import Store, body_of, in_seconds, store_of
from joserfc import jwt
from joserfc.jwk import KeySet

pytest_plugins = ("http_fixtures",)

FIFO = {"mode": "fifo", "rate_per_second": 1_000, "pass_seconds": 60}


def pause(store: Store, *, paused: bool) -> None:
    """Nobody is called meanwhile, however long it takes to join."""
    body_of(store.act("room", paused=paused))


def test_a_buyer_joins_is_admitted_and_buys(store: Store) -> None:
    store.open(room=FIFO)
    pause(store, paused=True)
    with person(store) as ada, person(store, "bob") as bob:
        told = body_of(ada.join())
        forecast = {"eta_seconds", "odds", "likely_sold_out", "degraded_features", "provisional"}
        assert told.keys() == {"ticket", "position", "serving", "ahead"} | forecast
        assert (told["position"], told["serving"], told["ahead"], told["odds"]) == (1, 0, 0, 1.0)
        assert (body_of(bob.join())["position"], body_of(ada.join())["position"]) == (2, 1)
        waiting = ada.ask()
        assert (waiting.status_code, waiting.json()["position"], waiting.json()["serving"]) == (202, 1, 0)
        assert waiting.json()["retry_after_ms"] >= 500
        problem_of(ada.buy(None), 429, "admission_required")
        pause(store, paused=False)
        given = ada.await_pass()
        shown = body_of(ada.status())
        assert shown["position"] <= shown["serving"]
        assert shown["eta_seconds"] == 0
        problem_of(bob.buy(given), 429, "admission_required")
        bought = body_of(ada.buy(given, key="k"), 201)
        assert body_of(ada.buy(given, key="k"))["reservation_id"] == bought["reservation_id"]
        problem_of(ada.buy(given), 409, "buyer_limit")
    assert eventually(lambda: now_of(store)["joined"] == 2)
    assert store.counts() == (2, 1, 0)


def test_a_pass_can_be_checked_by_anyone_with_the_published_keys(store: Store) -> None:
    store.open(room=FIFO)
    with person(store) as ada, store.server.connect() as anyone:
        ada.join()
        given = ada.await_pass()
        again = body_of(ada.ask())
        published = anyone.get("/.well-known/jwks.json")
        assert published.headers["cache-control"] == "public, max-age=300"
        claims = jwt.decode(given, KeySet.import_key_set(published.json()), algorithms=["Ed25519"]).claims
    assert (claims["sub"], claims["sale"]) == ("ada", store.sale_id)
    assert claims["exp"] - moment(again["expires_at"]).timestamp() < 1
    assert 0 < claims["exp"] - time.time() <= 61


def test_tickets_and_passes_are_good_for_their_sale_their_buyer_and_their_kind_only(quick: Store) -> None:
    other = store_of(quick.server)
    quick.open(room=FIFO)
    other.open(room=FIFO)
    with person(quick) as ada, person(other) as elsewhere, person(quick, "eve") as eve:
        for one in (ada, elsewhere, eve):
            one.join()
        mine, theirs = ada.await_pass(), elsewhere.await_pass()
        for ticket in (elsewhere.ticket, eve.ticket, mine, ada.ticket[:-4] + "AAAA", "nonsense", "a.b.c"):
            problem_of(ada.status(ticket), 403, "ticket_invalid")
            problem_of(ada.ask(ticket), 403, "ticket_invalid")
            problem_of(ada.leave(ticket), 403, "ticket_invalid")
        for given in (theirs, ada.ticket, mine[:-4] + "AAAA", "nonsense", None):
            problem_of(ada.buy(given), 429, "admission_required")
        problem_of(eve.buy(mine), 429, "admission_required")
        problem_of(ada.client.get(f"{quick.path}/queue/status"), 400, "ticket_required")
        assert body_of(ada.buy(mine), 201)


def test_who_may_not_stand_in_line_is_told_why(quick: Store) -> None:
    without = store_of(quick.server)
    without.open()
    quick.open(room=FIFO, required_tier=2)
    with person(quick) as ada, person(without) as there, quick.server.connect() as anyone:
        problem_of(anyone.post(f"{quick.path}/queue"), 401, "unauthorized")
        problem_of(quick.server.client.post(f"{quick.path}/queue"), 403, "forbidden")
        problem_of(ada.client.post("/v1/sales/nothing/queue"), 404, "sale_not_found")
        problem_of(there.join(), 409, "no_waiting_room")
        problem_of(ada.join(), 403, "tier_required")
        assert wrong_fields(ada.join(proof=5)).keys() == {"proof"}
        assert wrong_fields(ada.join(place=1)).keys() == {"place"}
        body_of(quick.change(required_tier=None))
        assert eventually(lambda: ada.join(proof="solved").status_code == 200)
        body_of(quick.act("close"))
        eventually(lambda: ada.join().status_code == 409)
        problem_of(ada.ask(), 409, "sale_ended")


@pytest.mark.slow
def test_who_leaves_or_lets_a_pass_lapse_stands_at_the_end(quick: Store) -> None:
    quick.open(room=FIFO | {"pass_seconds": 10})
    with person(quick) as ada, person(quick, "bob") as bob:
        ada.join()
        bob.join()
        first = ada.await_pass()
        assert body_of(ada.buy(first, key="k"), 201)
        assert bob.leave().status_code == 204
        problem_of(bob.ask(), 409, "place_released")
        assert body_of(bob.join())["position"] == 3
        bob.await_pass()
        eventually(lambda: bob.ask().status_code == 409)
        problem_of(bob.ask(), 409, "pass_expired")
        assert body_of(bob.join())["position"] == 4


@pytest.mark.slow
def test_the_same_key_gets_the_same_answer_though_the_pass_is_over(store: Store) -> None:
    """A purchase whose answer was lost is asked for again, whenever that is."""
    store.open(room=FIFO | {"pass_seconds": 10}, per_buyer_limit=1)
    with person(store) as ada:
        ada.join()
        given = ada.await_pass()
        bought = body_of(ada.buy(given, key="k"), 201)
        eventually(lambda: ada.buy(given, key="new").status_code == 429)
        again = ada.buy(given, key="k")
        assert body_of(again)["reservation_id"] == bought["reservation_id"]
        assert again.headers["idempotency-replayed"] == "true"
        problem_of(ada.buy(given, key="new"), 429, "admission_required")


def test_operators_set_the_pace(quick: Store) -> None:
    quick.open(total_units=100, room=FIFO | {"rate_per_second": 1})
    room = f"{quick.path}/room"
    operator = quick.server.client
    assert body_of(operator.post(room, json={"paused": True}))["paused"]
    with ExitStack() as stack:
        people = [stack.enter_context(person(quick, f"b{n}")) for n in range(12)]
        for one in people:
            one.join()
        assert body_of(operator.post(room, json={"admit": 4}))["admitting"] == 4
        eventually(lambda: operator.get(room).json()["serving"] == 4)
        assert people[3].await_pass()
        assert people[4].ask().status_code == 202
        assert body_of(operator.get(room)).items() >= {"serving": 4, "waiting": 8, "passes": 1, "joined": 12}.items()
        body_of(operator.post(room, json={"paused": False, "rate_per_second": 500}))
        eventually(lambda: operator.get(room).json()["serving"] == 12)
        assert people[11].await_pass()
        problem_of(people[0].client.get(room), 403, "forbidden")
        problem_of(people[0].client.post(room, json={"admit": 1}), 403, "forbidden")
    assert wrong_fields(operator.post(room, json={"admit": 0, "rate_per_second": 0})).keys() == {
        "admit",
        "rate_per_second",
    }
    assert wrong_fields(operator.post(room, json={"paused": None})).keys() == {"paused"}
    problem_of(operator.get("/v1/sales/nothing/room"), 404, "sale_not_found")


def test_now_is_one_document_for_all_and_backs_off(quick: Store) -> None:
    quick.open(room=FIFO, starts_at=in_seconds(3_600))
    with person(quick) as ada:
        ada.join()
    eventually(lambda: now_of(quick)["joined"] == 1)
    first = quick.now()
    assert first.headers["cache-control"].startswith("public, max-age=1, s-maxage=1")
    assert (first.json()["serving"], first.json()["lottery"]) == (0, None)
    with quick.server.connect() as anyone:
        again = anyone.get(f"{quick.path}/now", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.slow
def test_a_lottery_can_be_checked_from_now_and_a_ticket(store: Store) -> None:
    store.open(room=FIFO | {"mode": "lottery"}, starts_at=in_seconds(3_600), total_units=50)
    before = now_of(store)["lottery"]
    assert before.keys() == {"seed_hash"}
    with ExitStack() as stack:
        people = [stack.enter_context(person(store, f"b{n}")) for n in range(15)]
        for one in people:
            told = body_of(one.join())
            assert (told["position"], told["ahead"], told["eta_seconds"]) == (None, None, None)
            assert "seed" not in _claims(told["ticket"])
        store.start_soon()
        eventually(lambda: now_of(store)["lottery"].get("seed"))
        drawn = now_of(store)["lottery"]
        assert (drawn["seed_hash"], drawn["entrants"]) == (before["seed_hash"], 15)
        eventually(lambda: all(body_of(one.status())["position"] for one in people))
        late = stack.enter_context(person(store, "late"))
        assert body_of(late.join())["position"] == 16
        positions = [body_of(one.status())["position"] for one in people]
        assert sorted(positions) == list(range(1, 16))
        ada = people[7]
        old, new = ada.ticket, body_of(ada.status())["ticket"]
    now = f"{store.server.url}{store.path}/now"
    # The old ticket says what was promised at joining, the new one which place it became.
    assert store.server.command("lottery", "verify", now, "--ticket", old)["position"] == positions[7]
    verified = store.server.command("lottery", "verify", now, "--ticket", new)
    assert (verified["ok"], {check["name"] for check in verified["checks"]}) == (
        True,
        {"seed", "commitment", "beacon", "sale", "position"},
    )


def _claims(token: str) -> dict[str, object]:
    part = token.split(".")[1]
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


@pytest.mark.slow
def test_nine_of_ten_do_not_come_and_everything_is_sold_all_the_same(store: Store) -> None:
    units, people = 4, 80
    store.open(total_units=units, payment="external", room=FIFO | {"pass_seconds": 3})
    pause(store, paused=True)
    with ExitStack() as stack:
        line = [stack.enter_context(person(store, f"b{n}")) for n in range(people)]
        for one in line:
            one.join()
        pause(store, paused=False)
        sold, keen = 0, set(range(5, people, 10))
        deadline = time.monotonic() + 90
        while sold < units and time.monotonic() < deadline:
            serving = now_of(store)["serving"]
            for number in sorted(n for n in keen if n < serving):
                asked = line[number].ask()
                if asked.status_code == 200:
                    sold += line[number].buy(asked.json()["pass"]).status_code == 201
                # Who was called may have to ask again; whose pass lapsed on a busy machine did not come either.
                if asked.status_code != 202:
                    keen.remove(number)
            time.sleep(0.05)
    assert (sold, store.counts()[1]) == (units, units)
