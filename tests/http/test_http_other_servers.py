"""The same contract under uvicorn, and with several server processes on one PostgreSQL."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from http_calling import body_of, eventually, problem_of
from http_metrics import scrape
from http_rooms import person
from http_sales import store_of
from http_serving import Server, database_setting, started
from http_smoke import walk
from http_sockets import request_bytes, wire_to

from conftest import ENGINES

pytest_plugins = ("http_fixtures",)

UVICORN = (sys.executable, "-m", "uvicorn", "--factory", "holdfast.http.asgi:create_app")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_contract_holds_under_uvicorn(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with started(tmp_path, command=UVICORN, settings=database_setting(engine, request)) as server:
        walk(server)
        _refuses_what_it_cannot_read(server)
        server.stop()


def _refuses_what_it_cannot_read(server: Server) -> None:
    shop = server.shop()
    shop.provision(5)
    body = {"owner_id": "ada", "quantity": 1}
    for key in (b"\xff", "clé".encode()):
        answer = shop.client.post(f"{shop.path}/reserve", json=body, headers={b"Idempotency-Key": key})
        problem_of(answer, 400, "invalid_header")
    problem_of(shop.client.get("/" + "x" * 1_100), 414, "path_too_long")
    assert shop.counts() == (5, 0, 0, 5)


@pytest.mark.slow
def test_huge_headers_are_refused_under_uvicorn_however_often_one_is_repeated(tmp_path: Path) -> None:
    with started(tmp_path, "--h11-max-incomplete-event-size", "200000", command=UVICORN) as server:
        repeated = [f"X-Field: {'x' * 4_000}" for _ in range(20)]
        with wire_to(server) as wire:
            wire.send(request_bytes("GET", "/healthz/live", None, *repeated))
            assert wire.read_answer().status == 431
        with wire_to(server) as wire:
            wire.send(request_bytes("GET", "/healthz/live", None, *repeated[:10]))
            assert wire.read_answer().status == 200


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    setting = database_setting("postgresql", request)
    with started(tmp_path_factory.mktemp("pair"), "--workers", "2", settings=setting) as server:
        eventually(lambda: len(server.listeners()) == 2)
        # A worker that starts later answers that it is not ready yet.
        eventually(lambda: all(server.is_ready() for _ in range(20)))
        yield server


def test_the_contract_holds_with_two_workers(pair: Server) -> None:
    walk(pair)


def test_both_workers_know_a_key_that_was_just_made(pair: Server) -> None:
    """Connections are spread over the workers by the system, so many are made until each worker has had some."""
    key = pair.command("keys", "create", "--name", "n", "--scope", "inventory")["key"]
    request = request_bytes("GET", "/v1/reservations", token=key)
    with ExitStack() as wires:
        for _ in range(40):
            wire = wires.enter_context(wire_to(pair))
            wire.send(request)
            assert wire.read_answer().status == 200
        served = [len(_established(worker, pair.port)) for worker in pair.listeners()]
    assert sum(served) >= 40
    assert min(served) >= 1


def test_a_pass_is_refused_by_both_workers_as_soon_as_its_holder_has_left(pair: Server) -> None:
    store = store_of(pair)
    store.open(room={"mode": "fifo", "rate_per_second": 50, "pass_seconds": 60}, per_buyer_limit=3)
    with person(store) as ada:
        body_of(ada.join())
        given = ada.await_pass()
        assert ada.leave().status_code == 204
    for _ in range(20):
        with person(store) as again:
            problem_of(again.buy(given), 429, "admission_required")
    assert store.counts() == (3, 0, 0)


def _established(worker: psutil.Process, port: int) -> list[object]:
    sockets = worker.net_connections("tcp")
    return [s for s in sockets if s.status == psutil.CONN_ESTABLISHED and s.laddr and s.laddr.port == port]


def test_what_the_workers_count_adds_up(pair: Server) -> None:
    shop = pair.shop()
    shop.provision(100)
    before = scrape(pair)["holdfast_outcomes_total"].get("reserved", 0)
    for number in range(40):
        with pair.connect(pair.environment["HOLDFAST_SERVICE_KEY"]) as client:
            wish = {"owner_id": f"buyer-{number}", "quantity": 1}
            body_of(client.post(f"{shop.path}/reserve", json=wish))
    for _ in range(10):
        samples = scrape(pair)
        assert samples["holdfast_outcomes_total"]["reserved"] - before == 40
        assert samples["holdfast_pool_units"][f"{shop.sku_id},held"] == 40
        assert samples["holdfast_waiting_commands"][""] == 0
    assert shop.counts() == (60, 40, 0, 100)


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_all_stop_together(pair: Server) -> None:
    victim, survivor = pair.listeners()
    victim.kill()
    victim.wait(60)
    eventually(lambda: len({w.pid for w in pair.listeners()} - {victim.pid}) == 2)
    eventually(lambda: all(pair.is_ready() for _ in range(10)))
    workers = pair.listeners()
    assert survivor in workers
    assert pair.stop() == 0
    assert not [worker for worker in workers if worker.is_running()]


@pytest.mark.slow
def test_workers_do_not_outlive_the_one_that_watches_over_them(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2", settings=database_setting("postgresql", request)) as server:
        eventually(lambda: len(server.listeners()) == 2)
        workers = server.listeners()
        server.process.kill()
        server.process.wait(60)
        gone, alive = psutil.wait_procs(workers, timeout=60)
        for worker in alive:
            worker.kill()
        assert len(gone) == 2
