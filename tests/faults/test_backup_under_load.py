"""A backup of a server that sells meanwhile: everything acknowledged before it began is in it, it is consistent, and an
older one in the same place is noticed."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Self

import httpx
import pytest
from http_serving import Server, database_setting, run_holdfast, started

from databases import empty_postgres_database, sqlite_url

pytest_plugins = ("http_fixtures",)

UNITS = 100_000
CALLERS = 4
# Takes a second; a machine that is busy with other tests gets longer.
MORE_WITHIN_S = 60.0


class Selling:
    """Several callers who reserve and confirm until they are stopped. One that is refused for now tries again."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        self.granted: list[str] = []

    def _call(self) -> None:
        shop = self._server.shop()
        with self._server.connect(self._server.environment["HOLDFAST_SERVICE_KEY"]) as client:
            self._until_ok(lambda: client.put(shop.path, json={"total_units": UNITS}))
            while not self._stop.is_set():
                order = {"owner_id": "ada", "quantity": 1}
                held = self._until_ok(lambda: client.post(f"{shop.path}/reserve", json=order))  # noqa: B023 - called at once
                if held is None:
                    return
                reservation_id = held.json()["reservation_id"]
                path = f"/v1/reservations/{reservation_id}/confirm"
                if self._until_ok(lambda: client.post(path)) is not None:  # noqa: B023 - called at once
                    self.granted.append(reservation_id)

    def _until_ok(self, send: Callable[[], httpx.Response]) -> httpx.Response | None:
        """The answer; None if it was stopped before there was one."""
        while True:
            answer = send()
            if answer.status_code != 503:
                assert answer.status_code == 200, answer.text
                return answer
            if self._stop.wait(0.05):
                return None

    def wait_for_more(self, more: int = 20) -> None:
        wanted, deadline = len(self.granted) + more, monotonic() + MORE_WITHIN_S
        while len(self.granted) < wanted:
            assert any(thread.is_alive() for thread in self._threads), "every caller has ended"
            assert monotonic() < deadline, f"{wanted - len(self.granted)} of {more} are missing"
            self._stop.wait(0.01)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_backup_under_load_has_everything_acknowledged_before_it(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "serving").mkdir()
    setting = database_setting(engine, request)
    with started(tmp_path / "serving", settings=setting) as server, Selling(server) as sales:
        sales.wait_for_more()
        before = list(sales.granted)
        archive = tmp_path / "backup.tar.gz"
        ran = run_holdfast("backup", str(archive), "--json", directory=server.directory, environment=server.environment)
        assert ran.returncode == 0, ran.stderr
        made = json.loads(ran.stdout)
        after = len(sales.granted)
        sales.wait_for_more()
    assert made["verify"]["ok"]
    assert after > len(before), "sales went on during the backup"

    place = {"HOLDFAST_DATA": str(tmp_path / "restored")}
    if engine == "sqlite":
        place["HOLDFAST_DATABASE_URL"] = sqlite_url(tmp_path / "restored" / "holdfast.db")
    else:
        place["HOLDFAST_DATABASE_URL"] = empty_postgres_database(request.getfixturevalue("postgres_url"))
    environment = server.environment | place
    ran = run_holdfast("restore", str(archive), "--json", directory=tmp_path, environment=environment)
    assert ran.returncode == 0, ran.stderr
    restored = json.loads(ran.stdout)
    assert restored["tables"] == made["tables"]
    settings = {name.removeprefix("HOLDFAST_"): value for name, value in place.items()}
    with started(tmp_path / "serving", settings=settings) as again:
        for reservation_id in before:
            shown = again.client.get(f"/v1/reservations/{reservation_id}").json()
            assert shown["status"] == "confirmed"
        shop = again.shop()
        shop.provision(1)
        assert shop.hold()


@pytest.mark.slow
def test_an_older_backup_in_the_same_place_is_noticed_and_nothing_is_written_to_it(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        archive = tmp_path / "old.tar"
        assert server.command("backup", str(archive))["ok"]
        with Selling(server) as sales:
            sales.wait_for_more()
        assert server.stop() == 0
    data = tmp_path / "data"
    for file in data.glob("holdfast.db*"):
        file.rename(tmp_path / file.name)
    restored = server.command("restore", str(archive))
    assert len(restored["went_back"]) == 1
    code, out, _ = server.run("recover", "--json")
    assert (code, json.loads(out)["ok"]) == (1, False)
    assert server.run("pools", "create", "more", "--units", "1")[0] != 0
    assert server.command("recover", "--accept-loss", "--by", "ada")["ok"]
    assert server.run("pools", "create", "more", "--units", "1")[0] == 0
