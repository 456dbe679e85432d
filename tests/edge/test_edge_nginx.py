"""nginx as the first gate: what it answers from its cache, what it refuses by itself, and what reaches the server."""

import json
import os
import subprocess
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from edge_serving import Edge, edge_of, front, reached
from host_clock import host_clock
from http_calling import eventually, problem_of, promised
from http_rooms import person
from http_sales import Store, body_of, store_of
from http_serving import SERVICE_KEY, Server, started
from http_tokens import buyer_token, encode, tampered

from holdfast.room.tokens import Pass, Tokens
from holdfast.runtime.signing import SigningKey, parse_signing_keys
from holdfast.settings import load_settings

pytest_plugins = ("http_fixtures",)
pytestmark = pytest.mark.slow

FIFO = {"mode": "fifo", "rate_per_second": 1_000, "pass_seconds": 60}


@pytest.fixture(scope="module")
def edge(embedded: Server) -> Iterator[Edge]:
    with edge_of(embedded) as running:
        yield running


@pytest.fixture
def through(quick: Store, edge: Edge) -> Store:
    """The sale of `quick`, called through the edge."""
    return front(quick, edge)


def signer(server: Server) -> Tokens:
    return Tokens(parse_signing_keys(load_settings(data=Path(server.environment["HOLDFAST_DATA"])).signing_key_text()))


def pass_for(sale_id: str, buyer_id: str = "ada", *, lasts_s: int = 60) -> Pass:
    now = int(time.time())
    return Pass(buyer_id, sale_id, "ticket-1", now - 300, now + lasts_s)


def unencoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def sell_out(store: Store) -> None:
    """Through the server itself: three units, each bought and paid for."""
    for buyer_id in ("x", "y", "z"):
        bought = store.buy(buyer_id)
        confirmed = store.server.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm")
        assert confirmed.status_code == 200, confirmed.text


def refused_at_the_edge(answer: httpx.Response, status: int, reason: str) -> None:
    assert (answer.status_code, answer.json()["reason"]) == (status, reason)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["holdfast-cache"] == "EDGE"


def test_a_crowd_polls_and_one_request_per_second_reaches_the_server(through: Store, quick: Store, edge: Edge) -> None:
    quick.open()
    before, began = reached(edge.origin), time.monotonic()
    with edge.connect() as client, ThreadPoolExecutor(8) as pool:
        while time.monotonic() < began + 3:
            answers = list(pool.map(client.get, [f"{through.path}/now"] * 100))
            assert {answer.status_code for answer in answers} == {200}
            assert answers[0].json()["state"] == "open"
    # One for each second that began, and the scrape before.
    assert reached(edge.origin) - before <= time.monotonic() - began + 3


def test_pages_facts_and_files_come_from_the_cache_the_second_time(quick: Store, edge: Edge) -> None:
    quick.open()
    with edge.connect() as client:
        for path in (f"/s/{quick.sale_id}", "/assets/store/main.js", quick.path, f"{quick.path}/now"):
            first, second = client.get(path), client.get(path)
            assert (first.status_code, second.status_code) == (200, 200)
            assert second.headers["holdfast-cache"] == "HIT", path
            assert second.content == first.content


def test_a_crowd_that_comes_before_there_is_a_sale_does_not_reach_the_server(embedded: Server, edge: Edge) -> None:
    paths = [f"{prefix}/not-yet{end}" for prefix, end in (("/s", ""), ("/v1/sales", ""), ("/v1/sales", "/now"))]
    with edge.connect() as anyone:
        for path in paths:
            before, began = reached(embedded), time.monotonic()
            answers = [anyone.get(path) for _ in range(40)]
            assert {answer.status_code for answer in answers} == {404}
            assert "HIT" in {answer.headers["holdfast-cache"] for answer in answers}
            assert reached(embedded) - before <= time.monotonic() - began + 3


@pytest.mark.parametrize("spelling", ["//s/{sale}", "/assets/../s/{sale}", "/s/%73{rest}"])
def test_another_spelling_of_the_address_of_a_page_has_a_copy_of_its_own(
    embedded: Server, edge: Edge, spelling: str
) -> None:
    store = store_of(embedded)
    store.open()
    assert store.sale_id.startswith("s")
    calling = HTTPConnection("127.0.0.1", edge.port)
    path = spelling.format(sale=store.sale_id, rest=store.sale_id[1:])
    calling.request("GET", path, headers={"Accept-Encoding": "gzip"})
    calling.getresponse()
    calling.close()
    with edge.connect() as client:
        page = client.get(f"/s/{store.sale_id}")
        assert (page.status_code, page.headers["holdfast-cache"]) == (200, "MISS")


def test_a_change_of_the_price_is_seen_within_two_seconds(quick: Store, edge: Edge) -> None:
    quick.open(starts_at="2099-01-01T00:00:00Z")
    page = f"/s/{quick.sale_id}"
    with edge.connect() as client:
        assert client.get(quick.path).json()["price"]["amount"] == 4_999
        assert "49.99" in client.get(page).text
        assert quick.change(price={"amount": 100, "currency": "EUR"}).status_code == 200
        promised(lambda: client.get(quick.path).json()["price"]["amount"] == 100, within_s=2.0)
        promised(lambda: "49.99" not in client.get(page).text, within_s=2.0)


def test_after_a_quiet_time_nobody_is_sent_an_old_copy_while_it_is_fetched_anew(quick: Store, edge: Edge) -> None:
    quick.open(starts_at="2099-01-01T00:00:00Z")
    paths = (f"/s/{quick.sale_id}", quick.path, f"{quick.path}/now")
    with edge.connect() as client:
        for path in paths:
            assert client.get(path).status_code == 200
    eventually(lambda: kept_of(quick, edge) == [])


def kept_of(store: Store, edge: Edge) -> list[Path]:
    files = [file for file in edge.state.rglob("*") if file.is_file() and len(file.name) == 32]
    return [file for file in files if store.sale_id.encode() in file.read_bytes()]


def test_operators_see_more_of_a_sale_and_never_leave_it_in_the_cache(quick: Store, edge: Edge) -> None:
    quick.open()
    with edge.connect(SERVICE_KEY) as operator, edge.connect() as anyone:
        assert "total_units" in operator.get(quick.path).json()
        assert "total_units" not in anyone.get(quick.path).json()
        assert "total_units" in operator.get(quick.path).json()


def test_a_buyer_buys_through_the_edge(through: Store, quick: Store) -> None:
    quick.open(room=FIFO)
    with person(through) as ada:
        assert ada.join().status_code == 200
        given = ada.await_pass()
        bought = body_of(ada.buy(given, key="k"), 201)
        assert body_of(ada.buy(given, key="k"))["reservation_id"] == bought["reservation_id"]
        assert ada.leave().status_code == 204


def test_a_purchase_without_a_pass_is_refused_at_the_edge(through: Store, quick: Store, edge: Edge) -> None:
    quick.open(room=FIFO)
    with person(through) as ada:
        refused_at_the_edge(ada.buy(None), 429, "admission_required")
        before = reached(edge.origin)
        for _ in range(20):
            answer = ada.buy("x.y.z")
            refused_at_the_edge(answer, 429, "admission_required")
            assert 1 <= int(answer.headers["retry-after"]) <= 4
        assert reached(edge.origin) - before <= 4


def test_forged_expired_and_foreign_passes_are_refused_at_the_edge(through: Store, quick: Store, edge: Edge) -> None:
    quick.open(room=FIFO)
    ours = signer(edge.origin)
    key_id = ours.jwks["keys"][0]["kid"].removesuffix("-pass")
    good = ours.sign_pass(pass_for(quick.sale_id))
    head, body, signature = good.split(".")
    header = json.loads(unencoded(head))
    bad = {
        "an object for a tag": tampered(good, edge={"toString": 1}),
        "an object for an ID": tampered(good, jti={"toString": 1}),
        "an object for a sale": tampered(good, sale={"toString": 1}),
        "without a tag at all": f"{head}.{encode({'sub': 'ada', 'sale': quick.sale_id, 'jti': 't', 'exp': 2**31})}.x",
        "our key, written differently": ".".join([encode(header | {"more": 1}), body, signature]),
        "signed with another secret": Tokens([SigningKey(key_id, "f" * 40)]).sign_pass(pass_for(quick.sale_id)),
        "other claims": tampered(good, exp=int(time.time()) + 9_000),
        "no tag": tampered(good, edge=None),
        "an empty tag": tampered(good, edge=""),
        "expired": ours.sign_pass(pass_for(quick.sale_id, lasts_s=-5)),
        "of another sale": ours.sign_pass(pass_for("another-sale")),
        "of another kind": ".".join([encode({"alg": "none", "typ": "JWT"}), *good.split(".")[1:]]),
        "by an unknown key": Tokens([SigningKey("unknown", "f" * 40)]).sign_pass(pass_for(quick.sale_id)),
        "too long": good + "a" * 2_000,
        "not a token": "-",
    }
    with person(through) as ada:
        for name, given in bad.items():
            answer = ada.buy(given)
            assert answer.headers.get("holdfast-cache") == "EDGE", name
            refused_at_the_edge(answer, 429, "admission_required")
        assert ada.buy(good).status_code == 201


def test_a_pass_by_a_key_that_came_later_is_left_to_the_server(tmp_path: Path) -> None:
    """Keys were rotated after the configuration was made. The published key IDs tell the edge about them."""
    old, new = "old:" + "o" * 40, "new:" + "n" * 40
    with started(tmp_path, settings={"SIGNING_KEY": f"{new},{old}"}) as server:
        before = replace(server, environment=server.environment | {"HOLDFAST_SIGNING_KEY": old})
        sale, tokens = store_of(server), Tokens(parse_signing_keys(f"{new},{old}"))
        sale.open(room=FIFO)
        with edge_of(before) as edge, person(front(sale, edge)) as ada:
            assert ada.buy(tokens.sign_pass(pass_for(sale.sale_id))).status_code == 201
            forged = Tokens([SigningKey("newer", "x" * 40)]).sign_pass(pass_for(sale.sale_id))
            refused_at_the_edge(ada.buy(forged), 429, "admission_required")


def test_sold_out_is_answered_at_the_edge_until_a_restock(through: Store, quick: Store, edge: Edge) -> None:
    quick.open(payment="external")
    sell_out(quick)
    with through.buyer("late") as late:
        eventually(lambda: late.purchase().headers.get("holdfast-cache") == "EDGE")
        before = reached(edge.origin)
        for _ in range(20):
            refused_at_the_edge(late.purchase(), 409, "sold_out")
        assert reached(edge.origin) - before <= 4
        body_of(quick.act("restock", units=1))
        promised(lambda: late.purchase().status_code == 201, within_s=3.0)


def test_a_retry_of_a_lost_answer_finds_it_although_all_is_sold_meanwhile(through: Store, quick: Store) -> None:
    quick.open(payment="external")
    with quick.buyer("x") as buyer:
        first = body_of(buyer.purchase(key="lost"), 201)
        quick.server.client.post(f"/v1/reservations/{first['reservation_id']}/confirm")
    for buyer_id in ("y", "z"):
        bought = quick.buy(buyer_id)
        quick.server.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm")
    with through.buyer("x") as buyer:
        eventually(lambda: buyer.purchase(key="lost").status_code == 409)
        buyer.client.headers["Holdfast-Retry"] = "1"
        assert body_of(buyer.purchase(key="lost"))["reservation_id"] == first["reservation_id"]


def test_available_is_answered_from_the_cache_for_each_caller_alone(quick: Store, edge: Edge) -> None:
    quick.open()
    path = f"/v1/inventory/{quick.sku_id}/available"
    with edge.connect(SERVICE_KEY) as service, edge.connect(buyer_token()) as buyer, edge.connect() as anyone:
        assert service.get(path).headers["holdfast-cache"] == "MISS"
        assert {service.get(path).headers["holdfast-cache"] for _ in range(5)} == {"HIT"}
        assert buyer.get(path).status_code == 403
        assert anyone.get(path).status_code == 401
    kept = b"".join(file.read_bytes() for file in (edge.state / "cache").rglob("*") if file.is_file())
    assert SERVICE_KEY.encode() not in kept


def test_one_address_is_limited_and_told_so(quick: Store, embedded: Server) -> None:
    quick.open()
    with edge_of(embedded, "--limit-loopback", "--buying-rate", "1") as edge, front(quick, edge).buyer() as ada:
        answers = [ada.purchase() for _ in range(8)]
    limited = [answer for answer in answers if answer.status_code == 429]
    assert limited
    refused_at_the_edge(limited[0], 429, "rate_limited")
    assert "retry-after" in limited[0].headers


def test_a_blocked_network_gets_nothing_and_others_are_served(quick: Store, embedded: Server, tmp_path: Path) -> None:
    quick.open()
    listed = tmp_path / "blocked.txt"
    listed.write_text("# Bots\n192.0.2.7\n127.0.0.2/32  # here\n2001:db8::1/64\n127.0.0.2\n\n")
    with edge_of(embedded, "--blocked", str(listed)) as edge:
        for path in (f"{quick.path}/now", f"/s/{quick.sale_id}", "/v1/orders"):
            before = reached(embedded)
            with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), base_url=edge.url) as bot:
                refused_at_the_edge(bot.get(path), 429, "rate_limited")
            assert reached(embedded) == before + 1, "only the question for the metrics"
        with edge.connect() as anyone:
            assert anyone.get(f"{quick.path}/now").status_code == 200


def test_while_the_server_is_gone_people_see_a_calm_page_and_programs_a_problem(tmp_path: Path) -> None:
    with started(tmp_path) as origin, edge_of(origin) as edge, edge.connect(buyer_token()) as client:
        sale = store_of(origin)
        sale.open()
        assert client.get(f"{sale.path}/now").status_code == 200
        origin.process.kill()
        origin.process.wait()
        page = client.get(f"/lottery/{sale.sale_id}", headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
        assert "Your place is safe" in page.text
        assert "style-src 'sha256-" in page.headers["content-security-policy"]
        refused_at_the_edge(client.get("/v1/orders"), 503, "busy")
        bought = client.post(f"{sale.path}/purchase", json={"quantity": 1}, headers={"Idempotency-Key": "k"})
        refused_at_the_edge(bought, 503, "outcome_unknown")
        assert bought.json()["retryable"] is True
        assert "retry-after" in bought.headers
        # Those who wait keep the last that was known.
        assert client.get(f"{sale.path}/now").json()["state"] == "open"


def test_a_wrong_clock_at_the_edge_changes_nothing(embedded: Server, quick: Store) -> None:
    """Passes expire by the server's time, which comes with `now`."""
    quick.open(room=FIFO)
    good = signer(embedded).sign_pass(pass_for(quick.sale_id))
    expired = signer(embedded).sign_pass(pass_for(quick.sale_id, lasts_s=-5))
    with host_clock() as clock:
        clock.step(3_600_000)
        with (
            clock.preloaded(),
            edge_of(embedded, environment=dict(os.environ)) as edge,
            person(front(quick, edge)) as ada,
        ):
            refused_at_the_edge(ada.buy(expired), 429, "admission_required")
            assert ada.buy(good, key="k").status_code == 201
            clock.step(-3_600_000)
            assert ada.buy(good, key="k").status_code == 200
            refused_at_the_edge(ada.buy(expired), 429, "admission_required")


def test_input_that_nginx_itself_refuses_gets_a_problem_too(edge: Edge) -> None:
    with edge.connect() as client:
        large = client.post("/v1/inventory/x/reserve", content=b"x" * 20_000)
        problem_of(large, 413, "body_too_large")
        long = client.get("/v1/" + "x" * 9_000)
        problem_of(long, 414, "path_too_long")


def test_the_log_contains_no_key(edge: Edge) -> None:
    keys = [line for line in (edge.state / "edge.conf").read_text().splitlines() if "js_var $edge_keys" in line]
    secret = keys[0].rpartition(" ")[2].strip('";')
    assert len(secret) > 40
    assert secret not in edge.log


def test_the_configuration_in_a_directory_is_private_and_complete(embedded: Server, tmp_path: Path) -> None:
    directory = tmp_path / "holdfast"
    status, out, err = embedded.run(
        "edge", "nginx", "--listen", "127.0.0.1:8080", "--upstream", "127.0.0.1:8000,[::1]:8001",
        "--dir", str(directory), "--state", str(tmp_path / "state"),
    )  # fmt: skip
    assert status == 0, err
    assert "nginx -c" in out
    assert (directory / "nginx.conf").stat().st_mode & 0o777 == 0o600
    checked = subprocess.run(["nginx", "-t", "-c", str(directory / "nginx.conf")], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("options", [("--listen", "nowhere"), ("--upstream", "127.0.0.1:99999"), ("--exempt", "x;y")])
def test_wrong_use_is_named(embedded: Server, tmp_path: Path, options: tuple[str, str]) -> None:
    given = {"--listen": "127.0.0.1:1", "--upstream": "127.0.0.1:2", "--state": str(tmp_path)} | dict([options])
    status, _, err = embedded.run("edge", "nginx", *(part for pair in given.items() for part in pair))
    assert status == 2
    assert options[0] in err


def test_a_block_list_that_cannot_be_read_is_named(embedded: Server, tmp_path: Path) -> None:
    listed = tmp_path / "blocked.txt"
    listed.write_text("10.0.0.0/8\n10.0.0.300\n")
    status, _, err = embedded.run(
        "edge", "nginx", "--listen", "127.0.0.1:1", "--upstream", "127.0.0.1:2", "--blocked", str(listed)
    )
    assert (status, "blocked.txt" in err, "10.0.0.300" in err) == (2, True, True)


def test_the_secrets_of_the_edge_sign_nothing(embedded: Server) -> None:
    """With what stands in the configuration a forgery passes the edge, and is refused by the server."""
    ours = signer(embedded)
    header, claims, signature = ours.sign_pass(pass_for("drop")).split(".")
    forged = json.dumps({"sub": "eve", "sale": "drop", "jti": "t", "iat": 1, "exp": 2}).encode()
    assert ours.read_any_pass(f"{header}.{encode(forged)}.{signature}", time.time()) is None
    assert ours.read_any_pass(f"{header}.{claims}.{signature}", time.time()) is not None
