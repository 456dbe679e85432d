"""The worker of `edge/` in Cloudflare's runtime: what nginx promises, with passes verified by published keys."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from edge_serving import Edge, front, reached
from http_calling import eventually, promised
from http_rooms import person
from http_sales import Store, body_of, store_of
from http_serving import SERVICE_KEY, Server, started
from http_tokens import buyer_token, tampered
from test_edge_nginx import FIFO, pass_for, refused_at_the_edge, sell_out, signer

from holdfast.http.contract import problems
from holdfast.http.contract.problem import ProblemKind
from holdfast.room.tokens import Tokens
from holdfast.runtime.signing import SigningKey

pytest_plugins = ("http_fixtures",)
pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "edge"
WORKER = FOLDER / "worker.js"
STOP_S = 20.0
SHOP, OTHER = "https://shop.example.com", "https://other.example.com"


@contextmanager
def worker_of(origin: Server) -> Iterator[Edge]:
    if not (FOLDER / "node_modules" / "miniflare").exists():
        pytest.fail("the worker runtime is missing: make edge-worker")
    script = Path(__file__).with_name("run_worker.mjs")
    command = ["node", str(script), str(WORKER), str(FOLDER / "package.json"), origin.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        yield Edge(int(found[1]), origin, FOLDER)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(STOP_S)


@pytest.fixture(scope="module")
def edge(embedded: Server) -> Iterator[Edge]:
    with worker_of(embedded) as running:
        yield running


@pytest.fixture
def through(quick: Store, edge: Edge) -> Store:
    return front(quick, edge)


def test_the_worker_uses_the_words_of_the_catalogue() -> None:
    inside = WORKER.read_text().partition("PROBLEMS = {")[2].partition("};")[0]
    for reason, fields in re.findall(r"^  (\w+): \{ (.*) \},$", inside, re.MULTILINE):
        kind: ProblemKind = getattr(problems, reason.upper())
        shown = json.loads("{" + re.sub(r"(^|, )(\w+): ", r'\1"\2": ', fields) + "}")
        assert kind.document() == {"type": f"urn:holdfast:{reason}", "reason": reason} | shown


def test_a_crowd_polls_and_a_few_requests_reach_the_server(quick: Store, edge: Edge) -> None:
    quick.open()
    before, began = reached(edge.origin), time.monotonic()
    with edge.connect() as client:
        while time.monotonic() < began + 2:
            answer = client.get(f"{quick.path}/now")
            assert (answer.status_code, answer.json()["state"]) == (200, "open")
            assert answer.headers["cache-control"].startswith("public, max-age=1")
            assert "holdfast-sale" not in answer.headers
        page = [client.get(f"/s/{quick.sale_id}").headers["holdfast-cache"] for _ in range(2)]
    assert page == ["MISS", "HIT"]
    assert reached(edge.origin) - before <= time.monotonic() - began + 4


def test_a_crowd_that_comes_before_there_is_a_sale_does_not_reach_the_server(edge: Edge) -> None:
    with edge.connect() as anyone:
        for path in ("/s/not-yet", "/v1/sales/not-yet", "/v1/sales/not-yet/now"):
            before, began = reached(edge.origin), time.monotonic()
            answers = [anyone.get(path) for _ in range(40)]
            assert {answer.status_code for answer in answers} == {404}
            assert answers[0].headers["cache-control"] == answers[-1].headers["cache-control"]
            assert reached(edge.origin) - before <= time.monotonic() - began + 3


def test_a_buyer_buys_through_the_worker(through: Store, quick: Store) -> None:
    quick.open(room=FIFO)
    with person(through) as ada:
        assert ada.join().status_code == 200
        given = ada.await_pass()
        bought = body_of(ada.buy(given, key="k"), 201)
        assert body_of(ada.buy(given, key="k"))["reservation_id"] == bought["reservation_id"]


def test_forged_expired_and_foreign_passes_are_refused_by_the_worker(through: Store, quick: Store, edge: Edge) -> None:
    quick.open(room=FIFO)
    ours = signer(edge.origin)
    key_id = ours.jwks["keys"][0]["kid"].removesuffix("-pass")
    good = ours.sign_pass(pass_for(quick.sale_id))
    bad = {
        "none": None,
        "signed with another secret": Tokens([SigningKey(key_id, "f" * 40)]).sign_pass(pass_for(quick.sale_id)),
        "by an unknown key": Tokens([SigningKey("unknown", "f" * 40)]).sign_pass(pass_for(quick.sale_id)),
        "other claims": tampered(good, exp=int(time.time()) + 9_000),
        "expired": ours.sign_pass(pass_for(quick.sale_id, lasts_s=-5)),
        "of another sale": ours.sign_pass(pass_for("another-sale")),
        "not a token": "-",
    }
    with person(through) as ada:
        for name, given in bad.items():
            answer = ada.buy(given)
            assert answer.headers.get("holdfast-cache") == "EDGE", name
            refused_at_the_edge(answer, 429, "admission_required")
        assert ada.buy(good).status_code == 201


def test_sold_out_is_answered_by_the_worker_until_a_restock(through: Store, quick: Store, edge: Edge) -> None:
    quick.open(payment="external")
    sell_out(quick)
    with through.buyer("late") as late:
        eventually(lambda: late.purchase().headers.get("holdfast-cache") == "EDGE")
        before = reached(edge.origin)
        for _ in range(10):
            refused_at_the_edge(late.purchase(), 409, "sold_out")
        assert reached(edge.origin) - before <= 5
        body_of(quick.act("restock", units=1))
        promised(lambda: late.purchase().status_code == 201, within_s=4.0)


def test_operators_and_callers_keep_what_is_theirs(quick: Store, edge: Edge) -> None:
    quick.open()
    available = f"/v1/inventory/{quick.sku_id}/available"
    with edge.connect(SERVICE_KEY) as operator, edge.connect() as anyone, edge.connect(buyer_token()) as buyer:
        assert "total_units" in operator.get(quick.path).json()
        assert "total_units" not in anyone.get(quick.path).json()
        assert [operator.get(available).headers["holdfast-cache"] for _ in range(2)] == ["MISS", "HIT"]
        assert (buyer.get(available).status_code, anyone.get(available).status_code) == (403, 401)


def test_while_the_server_is_gone_the_worker_stays_calm(tmp_path: Path) -> None:
    with started(tmp_path) as origin, worker_of(origin) as edge, edge.connect(buyer_token()) as client:
        sale = store_of(origin)
        sale.open()
        assert client.get(f"{sale.path}/now").status_code == 200
        origin.process.kill()
        origin.process.wait()
        page = client.get("/s/anything", headers={"Accept": "text/html"})
        assert (page.status_code, "Your place is safe" in page.text) == (503, True)
        refused_at_the_edge(client.get("/v1/orders"), 503, "busy")
        bought = client.post(f"{sale.path}/purchase", json={"quantity": 1}, headers={"Idempotency-Key": "k"})
        refused_at_the_edge(bought, 503, "outcome_unknown")
        # Those who wait keep the last that was known.
        eventually(lambda: client.get(f"{sale.path}/now").headers.get("holdfast-cache") == "STALE")
        assert client.get(f"{sale.path}/now").json()["state"] == "open"


def test_requests_that_come_together_share_one_answer(quick: Store, edge: Edge) -> None:
    quick.open()
    with ThreadPoolExecutor(16) as pool:
        for path in (f"{quick.path}/now", quick.path, f"/s/{quick.sale_id}"):
            before = reached(edge.origin)
            answers = list(pool.map(lambda path: httpx.get(edge.url + path, trust_env=False), [path] * 16))
            assert {answer.status_code for answer in answers} == {200}, path
            assert len({answer.content for answer in answers}) == 1
            assert reached(edge.origin) - before <= 4


def test_the_worker_lets_pages_of_allowed_origins_read_its_answers(quick: Store, edge: Edge) -> None:
    quick.open(room=FIFO)
    with edge.connect() as client:
        for origin, allowed in ((OTHER, None), (SHOP, SHOP), (OTHER, None)):
            answer = client.get(f"{quick.path}/now", headers={"Origin": origin})
            assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (200, allowed)
            refused = client.post(f"{quick.path}/purchase", json={}, headers={"Origin": origin})
            refused_at_the_edge(refused, 429, "admission_required")
            assert refused.headers.get("access-control-allow-origin") == allowed
