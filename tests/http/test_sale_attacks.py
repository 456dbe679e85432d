"""What buyers and careless keys tried on a sale, each on a real server: none of it works."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import altcha
import httpx
import pytest
from http_calling import eventually, problem_of
from http_rooms import Person, now_of, person
from http_sales import Store, body_of, in_seconds, store_of
from http_serving import Server, database_setting, started
from http_tokens import buyer_token

from holdfast.domain.room.room import REJOINS_MAX

pytest_plugins = ("http_fixtures",)

FIFO = {"mode": "fifo", "rate_per_second": 5, "pass_seconds": 60}


def test_one_buyer_who_joins_and_leaves_all_the_time_does_not_halt_the_line(store: Store) -> None:
    store.open(total_units=5, starts_at=in_seconds(600), room=FIFO)
    with person(store, "eve") as eve, person(store, "ada") as ada:
        joined = 0
        while (answer := eve.join()).status_code == 200:
            joined += 1
            assert eve.leave().status_code == 204
        problem_of(answer, 409, "rejoin_limit")
        assert joined == REJOINS_MAX + 1
        assert body_of(ada.join())["ahead"] == 0
        # Before the opening: nobody is called yet, so those who left would still count.
        assert eventually(lambda: body_of(ada.status())["ahead"] == 0)
        store.start_soon()
        body_of(ada.buy(ada.await_pass()), 201)


def test_a_pass_does_not_buy_after_its_holder_left(store: Store) -> None:
    store.open(room=FIFO, per_buyer_limit=3)
    with person(store) as ada:
        ada.join()
        given = ada.await_pass()
        bought = body_of(ada.buy(given, key="before"), 201)
        assert ada.leave().status_code == 204
        problem_of(ada.buy(given), 429, "admission_required")
        # The answer to a purchase that was made in time can still be fetched.
        assert body_of(ada.buy(given, key="before"))["reservation_id"] == bought["reservation_id"]
        ada.join()
        body_of(ada.buy(ada.await_pass()), 201)
        problem_of(ada.buy(given), 429, "admission_required")


@pytest.fixture
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"PLACES_PER_ADDRESS": "2", "LIMIT_LOOPBACK": "1", "RATE_PER_ADDRESS": "0"}
    with started(tmp_path_factory.mktemp("crowded"), settings=settings) as server:
        yield server


def test_leaving_one_place_many_times_frees_one_place_of_the_address(crowded: Server) -> None:
    store = store_of(crowded)
    store.open(room=FIFO, starts_at=in_seconds(600))
    with person(store, "one") as one, person(store, "two") as two, person(store, "more") as more:
        for buyer in (one, two):
            body_of(buyer.join())
        problem_of(more.join(), 429, "too_many_places")
        for _ in range(3):
            assert one.leave().status_code == 204
        body_of(more.join())
        with person(store, "yet another") as another:
            problem_of(another.join(), 429, "too_many_places")


def test_the_inventory_does_not_change_a_pool_while_a_sale_runs_on_it(store: Store) -> None:
    store.open(total_units=5, per_buyer_limit=1)
    pool = f"/v1/inventory/{store.sku_id}"
    for given in ({"total_units": 50}, {"total_units": 5, "per_owner_limit": 5}, {"total_units": 5}):
        problem_of(store.server.client.put(pool, json=given), 409, "pool_in_sale")
    with person(store) as ada:
        body_of(ada.buy(None), 201)
        problem_of(ada.buy(None), 409, "buyer_limit")
    assert body_of(store.act("restock", units=1))["total_units"] == 6
    body_of(store.act("close"))
    assert body_of(store.server.client.put(pool, json={"total_units": 7}))["total_units"] == 7


# Redis may take the pool's rules through the ledger and refuse meanwhile as not ready; tests/sales covers it.
@pytest.mark.parametrize("server", ["sqlite", "postgresql"], indirect=True)
def test_changes_to_a_pool_at_the_moment_it_goes_on_sale_leave_the_sale_as_it_is(store: Store) -> None:
    pool, given = f"/v1/inventory/{store.sku_id}", {"total_units": 50, "per_owner_limit": None}

    def change_until_refused(_: int) -> None:
        while (answer := store.server.client.put(pool, json=given)).status_code == 200:
            pass
        problem_of(answer, 409, "pool_in_sale")

    body_of(store.server.client.put(pool, json=given))
    with ThreadPoolExecutor(4) as threads:
        changing = threads.map(change_until_refused, range(4))
        store.open(total_units=5, per_buyer_limit=1)
        list(changing)
    assert body_of(store.server.client.get(f"{pool}/available"))["total_units"] == 5
    with person(store) as ada:
        body_of(ada.buy(None), 201)
        problem_of(ada.buy(None), 409, "buyer_limit")


def test_a_service_key_does_not_confirm_what_is_paid_here(store: Store) -> None:
    store.open(payment="wallet")
    with person(store) as ada:
        held = body_of(ada.buy(None), 201)["reservation_id"]
    confirm = f"/v1/reservations/{held}/confirm"
    problem_of(store.server.client.post(confirm), 403, "payment_required")
    assert store.counts() == (2, 1, 0)
    store.server.client.delete(f"/v1/reservations/{held}")
    problem_of(store.server.client.post(confirm), 409, "reservation_cancelled")


def test_a_service_key_confirms_what_is_paid_elsewhere(store: Store) -> None:
    store.open(payment="external")
    with person(store) as ada:
        held = body_of(ada.buy(None), 201)["reservation_id"]
    for _ in range(2):
        assert body_of(store.server.client.post(f"/v1/reservations/{held}/confirm"))["status"] == "confirmed"


def solved(store: Store, buyer: Person) -> str:
    challenge = altcha.Challenge.from_dict(body_of(buyer.client.get(f"{store.path}/challenge")))
    solution = altcha.solve_challenge(challenge)
    assert solution is not None
    return altcha.Payload(challenge, solution).to_base64()


def test_a_sale_with_proof_of_work_and_no_room_sells_for_proof_only(store: Store) -> None:
    store.open(proof_of_work={"cost": 10}, per_buyer_limit=3)
    with person(store) as ada, person(store, "eve") as eve:
        problem_of(ada.buy(None), 403, "proof_required")
        problem_of(ada.buy(None, proof="nonsense"), 403, "proof_invalid")
        proof = solved(store, ada)
        problem_of(eve.buy(None, proof=proof), 403, "proof_invalid")
        bought = body_of(ada.buy(None, key="one", proof=proof), 201)
        # A repeat is the same purchase; another purchase needs another proof.
        assert body_of(ada.buy(None, key="one", proof=proof))["reservation_id"] == bought["reservation_id"]
        problem_of(ada.buy(None, key="two", proof=proof), 403, "proof_spent")
        body_of(ada.buy(None, key="two", proof=solved(store, ada)), 201)
    assert store.counts() == (1, 2, 0)


@pytest.mark.parametrize(("joined", "other"), [("lottery", "fifo"), ("fifo", "lottery")])
def test_the_order_people_joined_for_stays_whatever_lies_between(store: Store, joined: str, other: str) -> None:
    store.open(room={"mode": joined}, starts_at=in_seconds(600))
    with person(store) as ada:
        body_of(ada.join())
    problem_of(store.change(room={"mode": other}), 409, "order_fixed")
    body_of(store.change(room={"mode": "off"}))
    problem_of(store.change(room={"mode": other}), 409, "order_fixed")
    assert body_of(store.change(room={"mode": joined}))["room"]["mode"] == joined


@pytest.mark.slow
def test_a_draw_waits_for_the_public_value_that_was_named_and_can_be_verified(quick: Store) -> None:
    quick.open(room={"mode": "lottery", "beacon": "drand round 4321"}, starts_at=in_seconds(600))
    problem_of(quick.act("room", beacon_value="too early"), 409, "beacon_not_due")
    with person(quick, "eve") as eve, person(quick) as ada:
        eve.join()
        ada.join()
        assert eve.leave().status_code == 204
        problem_of(quick.change(room={"mode": "lottery", "beacon": "a die of ours"}), 409, "order_fixed")
        quick.start_soon()
        eventually(lambda: "digest" in now_of(quick)["lottery"])
        closed = now_of(quick)["lottery"]
        assert (closed["beacon_source"], closed["entrants"], "seed" in closed) == ("drand round 4321", 1, False)
        body_of(quick.act("room", beacon_value="9f3c"))
        problem_of(quick.act("room", beacon_value="another"), 409, "beacon_not_due")
        body_of(ada.buy(ada.await_pass()), 201)
        ticket = body_of(ada.status())["ticket"]
    # The public document is rendered once in a while: a pass may be there before it shows the seed.
    eventually(lambda: "seed" in now_of(quick)["lottery"])
    address = f"{quick.server.url}{quick.path}"
    entries = f"{address}/lottery/entries"
    checked = quick.server.command("lottery", "verify", f"{address}/now", "--ticket", ticket, "--entries", entries)
    names = ["seed", "commitment", "beacon_source", "beacon", "sale", "entrants", "digest", "entry", "position"]
    assert {check["name"]: check["ok"] for check in checked["checks"]} == dict.fromkeys(names, True)


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def counted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"RATE_PER_ADDRESS": "0", "TRUSTED_PROXIES": "127.0.0.0/8", "SHARED_ADDRESSES": "198.51.100.0/24"}
    settings |= database_setting(request.param, request)
    with started(tmp_path_factory.mktemp("counted"), settings=settings) as server:
        yield server


def bought_from(store: Store, address: str, buyer_id: str, key: str = "k") -> httpx.Response:
    headers = {"X-Forwarded-For": address, "Idempotency-Key": key}
    with store.server.connect(buyer_token(buyer_id)) as client:
        return client.post(f"{store.path}/purchase", json={"quantity": 1}, headers=headers)


def test_one_address_gets_no_more_units_than_the_sale_allows_whatever_names_it_uses(counted: Server) -> None:
    store = store_of(counted)
    store.open(total_units=50, units_per_address=2)
    with ThreadPoolExecutor(6) as crowd:
        answers = list(crowd.map(lambda n: bought_from(store, "203.0.113.7", f"bot-{n}"), range(6)))
    granted = [answer for answer in answers if answer.status_code == 201]
    assert len(granted) == 2
    for answer in answers:
        if answer not in granted:
            problem_of(answer, 409, "address_limit")
    number = answers.index(granted[0])
    held = body_of(granted[0], 201)["reservation_id"]
    assert body_of(bought_from(store, "203.0.113.7", f"bot-{number}"))["reservation_id"] == held
    # Units that return make room for others, as soon as the ledger has heard of it.
    assert counted.client.delete(f"/v1/reservations/{held}").status_code == 204
    assert eventually(lambda: bought_from(store, "203.0.113.7", "late").status_code == 201)
    problem_of(bought_from(store, "203.0.113.7", "later"), 409, "address_limit")
    for number, host in enumerate(("2001:db8::1", "2001:db8::2", "2001:db8::3")):
        assert bought_from(store, host, f"six-{number}").status_code == (201 if number < 2 else 409)
    for number in range(3):
        body_of(bought_from(store, "198.51.100.9", f"campus-{number}"), 201)
    audit = {"buyer_id": "later"}
    assert eventually(lambda: counted.client.get("/v1/ops/audit", params=audit).json()["refusals"])
