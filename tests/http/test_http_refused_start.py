"""A server that cannot be safe or useful does not start: exit status 2, and a text that says what to do."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from pathlib import Path

import pytest
import structlog
from http_serving import Server, run_holdfast, settings_of, started

from holdfast.errors import Unavailable
from holdfast.http.server import worker
from holdfast.http.server.address import resolve, url_of
from holdfast.lab.load.engines import free_port
from holdfast.ledger.engine.opening import open_database
from holdfast.settings import load_settings

pytest_plugins = ("http_fixtures",)


def serve(directory: Path, settings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    port = () if "--port" in arguments else ("--port", str(free_port()))
    environment = settings_of(directory, settings)
    ran = run_holdfast("serve", *port, *arguments, directory=directory, environment=environment)
    assert "Holdfast serves on" not in ran.stderr, "who is refused is not greeted first"
    return ran


WRONG = [
    ("BUYER_SECRET", "x" * 31, ["HOLDFAST_BUYER_SECRET", "32 bytes"]),
    ("SERVICE_KEY", "x" * 40, ["HOLDFAST_SERVICE_KEY", "hf_"]),
    ("SERVICE_KEY", "hf_short", ["HOLDFAST_SERVICE_KEY", "16 characters"]),
    ("DATABASE_URL", "mysql://localhost/x", ["HOLDFAST_DATABASE_URL", "postgresql://"]),
    ("DATABASE_URL", "nonsense", ["HOLDFAST_DATABASE_URL"]),
    ("BATCH_MAX", "many", ["HOLDFAST_BATCH_MAX"]),
    ("BUYER_JWKS_URL", "foo", ["HOLDFAST_BUYER_JWKS_URL", "https://"]),
    ("BUYER_JWKS_URL", "file:///etc/passwd", ["HOLDFAST_BUYER_JWKS_URL", "https://"]),
    ("BUYER_JWKS_URL", "https://", ["HOLDFAST_BUYER_JWKS_URL", "https://"]),
    ("REDIS_URL", "redis://127.0.0.1:1", ["HOLDFAST_REDIS_URL"]),
]
Refusals = dict[tuple[str, str], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """What became of a server with each wrong setting, all started together."""
    wrong = [(setting, value) for setting, value, _ in WRONG]
    # Made one after the other: the factory is not for threads.
    directories = [tmp_path_factory.mktemp("wrong") for _ in wrong]
    with ThreadPoolExecutor() as threads:
        ran = threads.map(lambda place, given: serve(place, {given[0]: given[1]}), directories, wrong)
        return dict(zip(wrong, ran, strict=True))


@pytest.mark.parametrize(("setting", "value", "told"), WRONG)
def test_a_setting_that_is_wrong_is_named(refusals: Refusals, setting: str, value: str, told: list[str]) -> None:
    ran = refusals[setting, value]
    assert ran.returncode == 2, ran.stderr
    assert [text for text in told if text not in ran.stderr] == []
    assert "Traceback" not in ran.stderr
    if setting in ("BUYER_SECRET", "SERVICE_KEY"):
        assert value not in ran.stderr, "a secret that is wrong is a secret all the same"


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_second_server_on_the_same_file_is_told_what_to_do(embedded: Server, workers: str) -> None:
    ran = run_holdfast(
        "serve", "--port", str(free_port()), "--workers", workers,
        directory=embedded.directory, environment=embedded.environment,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "postgresql://" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Holdfast is listening" not in ran.stderr
    assert str(embedded.process.pid) in ran.stderr
    assert embedded.is_ready()


def test_a_port_that_is_taken_is_named(embedded: Server, tmp_path: Path) -> None:
    ran = serve(tmp_path, {}, "--port", str(embedded.port))
    assert ran.returncode == 2
    assert str(embedded.port) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_database_that_cannot_be_reached_is_a_failure_and_not_a_mistake(tmp_path: Path) -> None:
    url = f"postgresql://user:pa55word@127.0.0.1:{free_port()}/nowhere"
    ran = serve(tmp_path, {"DATABASE_URL": url, "START_TIMEOUT_S": "0"})
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "pa55word" not in ran.stderr


@pytest.mark.slow
def test_several_workers_give_up_together_on_a_database_that_cannot_be_reached(tmp_path: Path) -> None:
    url = f"postgresql://user:pa55word@127.0.0.1:{free_port()}/nowhere"
    ran = serve(tmp_path, {"DATABASE_URL": url, "START_TIMEOUT_S": "0"}, "--workers", "2")
    assert ran.returncode == 1
    assert "PostgreSQL is not available" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "pa55word" not in ran.stderr


def test_a_worker_that_cannot_start_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Unavailable("away")

    monkeypatch.setattr(worker, "run_server", refuse)
    with structlog.testing.capture_logs() as logged, pytest.raises(SystemExit, match="3"):
        worker.run_worker(load_settings(), "127.0.0.1", 1, True, Pipe()[0])
    assert [(line["event"], line["error"]) for line in logged] == [("worker_failed", "away")]


def test_a_host_nobody_knows_is_named(tmp_path: Path) -> None:
    ran = serve(tmp_path, {}, "--host", "no-such-host.invalid")
    assert ran.returncode == 2
    assert "no-such-host.invalid" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_host_may_be_given_by_name(tmp_path: Path) -> None:
    with started(tmp_path, "--host", "localhost") as holdfast:
        [serving] = [line for line in holdfast.log_lines if line["event"] == "serving"]
        assert serving["url"] == holdfast.url


def test_an_address_with_colons_stands_in_brackets() -> None:
    assert [url_of(resolve(host, 80), 80) for host in ("::1", "127.0.0.1")] == [
        "http://[::1]:80",
        "http://127.0.0.1:80",
    ]


def test_uvicorn_is_told_that_a_server_could_not_start(tmp_path: Path) -> None:
    """Whatever the reason: here a file stands where a directory should be."""
    (tmp_path / "file").touch()
    environment = settings_of(tmp_path, {"DATA": str(tmp_path / "file" / "data")})
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--factory",
        "holdfast.http.asgi:create_app",
        "--port",
        str(free_port()),
    ]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert ran.returncode != 0
    assert str(tmp_path / "file") in ran.stderr


async def test_a_store_that_does_not_answer_when_a_server_greets_does_not_end_it() -> None:
    database = open_database(f"postgresql://user:secret@127.0.0.1:{free_port()}/away")
    try:
        assert await worker.any_pool(database) is None
    finally:
        await database.close()
