"""A backup of a server that sells meanwhile: everything acknowledged before it began is in it, it is consistent, and an
older one in the same place is noticed."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from http_serving import Server, database_setting, run_holdfast, started

from databases import empty_postgres_database, sqlite_url

pytest_plugins = ("http_fixtures",)

UNITS = 100_000
CALLERS = 4


@contextmanager
def selling(server: Server, granted: list[str]) -> Iterator[None]:
    """Several callers who reserve and confirm until this ends."""
    stop = threading.Event()

    def caller() -> None:
        shop = server.shop()
        with server.connect(server.environment["HOLDFAST_SERVICE_KEY"]) as client:
            assert client.put(shop.path, json={"total_units": UNITS}).status_code == 200
            while not stop.is_set():
                held = client.post(f"{shop.path}/reserve", json={"owner_id": "ada", "quantity": 1})
                assert held.status_code == 200, held.text
                client.post(f"/v1/reservations/{held.json()['reservation_id']}/confirm").raise_for_status()
                granted.append(held.json()["reservation_id"])

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def wait_for_more(granted: list[str], more: int = 20) -> None:
    wanted = len(granted) + more
    while len(granted) < wanted:
        threading.Event().wait(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_backup_under_load_has_everything_acknowledged_before_it(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "serving").mkdir()
    setting = database_setting(engine, request)
    granted: list[str] = []
    with started(tmp_path / "serving", settings=setting) as server, selling(server, granted):
        wait_for_more(granted)
        before = list(granted)
        archive = tmp_path / "backup.tar.gz"
        ran = run_holdfast("backup", str(archive), "--json", directory=server.directory, environment=server.environment)
        assert ran.returncode == 0, ran.stderr
        made = json.loads(ran.stdout)
        after = len(granted)
        wait_for_more(granted)
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
    granted: list[str] = []
    with started(tmp_path) as server:
        archive = tmp_path / "old.tar"
        assert server.command("backup", str(archive))["ok"]
        with selling(server, granted):
            wait_for_more(granted)
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
